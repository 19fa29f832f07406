/* forwarded.h: who a request is from that came through proxies. Pure: addresses in, an address out.
 *
 * Each proxy adds whom it was asked by at the right end of X-Forwarded-For; what is left of that was there before, and may
 * be the client's own invention. So the chain is read from the right, and each address in it is believed because the one
 * right of it is a proxy that is known. */
#ifndef WEIR_SERVER_FORWARDED_H
#define WEIR_SERVER_FORWARDED_H

#include "policy/address.h"

enum {
	WEIR__PROXIES_MAX = 32,
	WEIR__PROXY_SHOWN = 52, /* bytes of one as text, with a comma */
};

/* Whose X-Forwarded-For is believed. */
struct weir__proxies {
	struct weir__network networks[WEIR__PROXIES_MAX];
	size_t n;
	bool has_unix; /* also whoever connects by the path of a socket */
};

/* Adds a network, an address or the word unix. False: it is none of them, or does not fit. */
bool weir__proxies_add(struct weir__proxies *proxies, const char *text, size_t length);

/* All, with commas. Returns the length. */
size_t weir__proxies_show(const struct weir__proxies *proxies, char *ret_text, size_t size);

/* Who is connected. */
struct weir__caller {
	bool is_unix;
	bool has_address; /* false: of a socket with a path, or nobody knows */
	struct weir__address address;
};

/* The right-most address that is no proxy; if all are proxies, the left-most. What is no address ends the chain, and so do
 * its beginning and a caller that is no proxy. `lines` are the values of X-Forwarded-For, in their order. False: nobody
 * knows, since the caller has no address and nothing follows it. */
bool weir__forwarded_client(const struct weir__proxies *proxies, const struct weir__caller *caller,
			    const struct weir__slice *lines, size_t n, struct weir__address *ret_client);

#endif
