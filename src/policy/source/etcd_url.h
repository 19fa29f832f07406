/* etcd_url.h: parses the URL of a policy in etcd. Pure: does no input or output. */
#ifndef WEIR_POLICY_SOURCE_ETCD_URL_H
#define WEIR_POLICY_SOURCE_ETCD_URL_H

#include <weir/types.h>

enum {
	WEIR__ETCD_PLACES_MAX = 8,
	WEIR__ETCD_PLACE_SIZE = 272, /* HOST:PORT, with the NUL; IPv6 in brackets */
	WEIR__ETCD_WORD_SIZE = 512,  /* a key, user, password or path, with the NUL */
	WEIR__ETCD_PORT = 2379,
};

/* etcd://[user:password@]host[:port][,host[:port]...]/key[?option=value&...], or etcds:// for TLS. The key follows the
 * first slash after the hosts: in etcd://host//a it is /a. An IPv6 address is in brackets. Users, passwords, keys and
 * values may contain any byte except NUL as %XX. */
struct weir__etcd_url {
	bool is_tls;
	char places[WEIR__ETCD_PLACES_MAX][WEIR__ETCD_PLACE_SIZE]; /* members of one cluster */
	uint32_t n_places;
	char user[WEIR__ETCD_WORD_SIZE], password[WEIR__ETCD_WORD_SIZE]; /* empty: not set */
	char key[WEIR__ETCD_WORD_SIZE];
	/* For TLS. Options ca, cert and key are files. verify=none accepts any certificate. */
	char ca[WEIR__ETCD_WORD_SIZE], certificate[WEIR__ETCD_WORD_SIZE], private_key[WEIR__ETCD_WORD_SIZE];
	bool verifies;
};

/* WEIR_ERR_SYNTAX: ret_message says what is wrong, where, and what would be right. A message never contains a
 * password. */
int weir__etcd_url_read(const char *text, struct weir__etcd_url *ret_url, struct weir_message *ret_message);

#endif
