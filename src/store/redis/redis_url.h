/* redis_url.h: the URL of a Redis server: where it is, and how to connect to it. Pure. */
#ifndef WEIR_STORE_REDIS_REDIS_URL_H
#define WEIR_STORE_REDIS_REDIS_URL_H

#include <weir/types.h>

enum {
	WEIR__REDIS_HOST_SIZE = 256,
	WEIR__REDIS_WORD_SIZE = 256, /* of a user, password, path or name, with the NUL */
	WEIR__REDIS_PLACES_MAX = 8,
	WEIR__REDIS_POOL_MAX = 16,
	WEIR__REDIS_SHOWN_SIZE = 2048, /* enough for any URL in its displayed form */
};

/* One server. */
struct weir__redis_place {
	bool is_path, is_tls;
	char host[WEIR__REDIS_HOST_SIZE]; /* or the path of a Unix socket */
	uint16_t port;
};

/* redis://[user:password@]host[:port][/database][?option=value&...], rediss:// for TLS,
 * redis+sentinel://[user:password@]host[:port][,host[:port]...]/primary-name[/database][?...], rediss+sentinel://,
 * redis+unix://[user:password@]/path/to/socket[?...], also unix://. An IPv6 address is in brackets. Users, passwords,
 * names, paths and values may contain any byte but NUL as %XX, and must write / ? # & and @ that way. */
struct weir__redis_url {
	bool is_sentinel;
	struct weir__redis_place places[WEIR__REDIS_PLACES_MAX]; /* the server, or the sentinels */
	uint32_t n_places;
	char primary[WEIR__REDIS_WORD_SIZE]; /* name of the primary, as configured in the sentinels */
	char user[WEIR__REDIS_WORD_SIZE], password[WEIR__REDIS_WORD_SIZE]; /* empty: none; without a user: "default" */
	char sentinel_user[WEIR__REDIS_WORD_SIZE],
		sentinel_password[WEIR__REDIS_WORD_SIZE]; /* options of the same names */
	uint32_t database;                                /* also option database */
	char prefix[WEIR__REDIS_WORD_SIZE];               /* option prefix; "weir:" if unset */
	uint32_t pool;                                    /* option pool: connections, 1 to 16; 2 if unset */
	weir_ns connect_timeout;                          /* option connect_timeout; 500ms if unset */
	weir_ns budget; /* option timeout: how long a decision waits at most; 100ms if unset */
	/* For TLS: options ca, cert and key are files. tls_name is the name that the certificate must have, instead of
	 * the host. verify=none accepts any certificate. */
	char ca[WEIR__REDIS_WORD_SIZE], certificate[WEIR__REDIS_WORD_SIZE], key[WEIR__REDIS_WORD_SIZE];
	char tls_name[WEIR__REDIS_WORD_SIZE];
	bool verifies;
	const weir_ns *test_now; /* NULL, except in tests: see struct weir__redis_call */
};

/* WEIR_ERR_SYNTAX: ret_message says what is wrong, where, and what would be right. A message never contains a
 * password. */
int weir__redis_url_read(const char *text, size_t length, struct weir__redis_url *ret_url,
			 struct weir_message *ret_message);

/* The URL for display, without passwords and options. */
void weir__redis_url_show(const struct weir__redis_url *url, char *ret_text, size_t size);

/* host:port, [host]:port or the path. */
void weir__redis_place_show(const struct weir__redis_place *place, char *ret_text, size_t size);

#endif
