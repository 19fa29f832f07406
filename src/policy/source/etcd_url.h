/* etcd_url.h: where etcd is, as a URL says it, and which key is meant. Pure. */
#ifndef WEIR_POLICY_SOURCE_ETCD_URL_H
#define WEIR_POLICY_SOURCE_ETCD_URL_H

#include <weir/types.h>

enum {
	WEIR__ETCD_PLACES_MAX = 8,
	WEIR__ETCD_PLACE_SIZE = 272, /* HOST:PORT, with the NUL; of IPv6 with brackets */
	WEIR__ETCD_WORD_SIZE = 512,  /* of a key, a user, a password, a path, with the NUL */
	WEIR__ETCD_PORT = 2379,
};

/* etcd://[user:password@]host[:port][,host[:port]...]/key[?option=value&...], etcds:// the same with TLS. The key is what
 * follows the first slash behind the hosts: that of etcd://host//a begins with one. An IPv6 address stands in brackets.
 * Users, passwords, keys and values may have any byte but NUL as %XX. */
struct weir__etcd_url {
	bool is_tls;
	char places[WEIR__ETCD_PLACES_MAX][WEIR__ETCD_PLACE_SIZE]; /* of one cluster */
	uint32_t n_places;
	char user[WEIR__ETCD_WORD_SIZE], password[WEIR__ETCD_WORD_SIZE]; /* empty: none */
	char key[WEIR__ETCD_WORD_SIZE];
	/* With TLS: options ca, cert and key are files; verify=none believes any certificate. */
	char ca[WEIR__ETCD_WORD_SIZE], certificate[WEIR__ETCD_WORD_SIZE], private_key[WEIR__ETCD_WORD_SIZE];
	bool verifies;
};

/* WEIR_ERR_SYNTAX: ret_message says what is wrong, where, and what would be right. No password is ever in a message. */
int weir__etcd_url_read(const char *text, struct weir__etcd_url *ret_url, struct weir_message *ret_message);

#endif
