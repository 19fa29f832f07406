/* forwarded.h: finds the client of a request that came through proxies. Pure: addresses in, an address out.
 *
 * Each proxy appends the address of its peer at the right end of X-Forwarded-For. The addresses before that came with
 * the request, and the client may have invented them. So the chain is read from the right: an address is trusted only
 * if the one to its right is a trusted proxy. */
#ifndef WEIR_SERVER_FORWARDED_H
#define WEIR_SERVER_FORWARDED_H

#include "policy/address.h"

enum {
	WEIR__PROXIES_MAX = 32,
	WEIR__PROXY_SHOWN = 52, /* bytes of one as text, including a comma */
};

/* The proxies whose X-Forwarded-For is trusted. */
struct weir__proxies {
	struct weir__network networks[WEIR__PROXIES_MAX];
	size_t n;
	bool has_unix; /* also trust clients of Unix sockets */
};

/* Adds a network, an address or the word unix. Returns false if the text is anything else, or the list is full. */
bool weir__proxies_add(struct weir__proxies *proxies, const char *text, size_t length);

bool weir__proxies_have(const struct weir__proxies *proxies, const struct weir__address *address);

/* Writes all, separated by commas. Returns the length. */
size_t weir__proxies_show(const struct weir__proxies *proxies, char *ret_text, size_t size);

/* The peer of a connection. */
struct weir__caller {
	bool is_unix;
	bool has_address; /* false: a Unix socket, or the address is unknown */
	struct weir__address address;
};

/* Finds the right-most address that is not a proxy, or the left-most if all are proxies. The chain ends at its
 * beginning, at text that is not an address, and at once if the caller is not a proxy. `lines` are the values of
 * X-Forwarded-For, in order. Returns false if the client is unknown: the caller has no address and no address follows
 * it. */
bool weir__forwarded_client(const struct weir__proxies *proxies, const struct weir__caller *caller,
			    const struct weir__slice *lines, size_t n, struct weir__address *ret_client);

#endif
