/* auth_limit.h: limits wrong passwords and tokens per address, by a small table of its own.
 *
 * Check the limit before you check a secret, and report a wrong secret afterwards. Successes count nothing. While an
 * address has used up its attempts, secrets from it are not checked at all, not even right ones: otherwise guessing
 * could go on. Only the first 64 bits of an IPv6 address count, since one host may use all the others. All clients of
 * Unix sockets count as one. The memory is fixed. When the table is full, the address with the fewest wrong attempts is
 * evicted first.
 *
 * A client may invent addresses: behind a trusted proxy by X-Forwarded-For, and on this machine by any address of
 * 127.0.0.0/8. So attempts also count for the peer of the connection, by WEIR__AUTH_LIMIT_PEER times the limit, and all
 * loopback addresses and Unix sockets are one peer. A single visitor behind a proxy reaches its own limit long before
 * the proxy does. */
#ifndef WEIR_ENGINE_AUTH_LIMIT_H
#define WEIR_ENGINE_AUTH_LIMIT_H

#include <weir/types.h>

#include <stdbool.h>

#include "policy/address.h"

enum { WEIR__AUTH_LIMIT_ADDRESSES = 16384, WEIR__AUTH_LIMIT_PEER = 100 };

struct weir__auth_limit;

/* `text` is the limit of one address. NULL: it is invalid, or memory is short; ret_message says which. */
struct weir__auth_limit *weir__auth_limit_new(const char *text, struct weir_message *ret_message);
void weir__auth_limit_free(struct weir__auth_limit *auth_limit); /* NULL is allowed */

/* Where an attempt comes from. An address is NULL for clients of Unix sockets. */
struct weir__auth_source {
	const struct weir__address *client, *peer; /* equal without a proxy */
};

/* Both may be called from any thread. */
bool weir__auth_limit_may_try(struct weir__auth_limit *auth_limit, struct weir__auth_source source, weir_ns now,
			      weir_ns *ret_retry_after);
void weir__auth_limit_failed(struct weir__auth_limit *auth_limit, struct weir__auth_source source, weir_ns now);

#endif
