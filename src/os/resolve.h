/* resolve.h: resolves host names without blocking.
 *
 * The system's own lookup may take many seconds, and cannot be interrupted. So a separate thread looks up each name,
 * and is abandoned when its result is not wanted any more. Numeric addresses need no thread: they are resolved at
 * once. */
#ifndef WEIR_OS_RESOLVE_H
#define WEIR_OS_RESOLVE_H

#include "os/loop.h"
#include "os/net.h"

enum {
	WEIR__RESOLVE_ADDRESSES = 8, /* of one name; further ones are dropped */
	WEIR__RESOLVE_THREADS = 32,  /* of this process, including abandoned ones */
};

struct weir__resolve;

/* Begins a lookup. The loop is woken when it is over. A numeric address is over at once, without a wake-up. EAGAIN: too
 * many lookups are under way. ENOMEM, or the errno of starting a thread. */
int weir__resolve_new(const char *host, uint16_t port, struct weir__loop *loop, struct weir__resolve **ret_resolve);

/* Returns whether the lookup is over. If so, *ret_n is the number of addresses. If that is 0, *ret_why is the reason,
 * valid until weir__resolve_free. */
bool weir__resolve_is_over(struct weir__resolve *resolve,
			   struct weir__net_address ret_addresses[WEIR__RESOLVE_ADDRESSES], unsigned *ret_n,
			   const char **ret_why);

/* May be called before the lookup is over. The loop is then not woken any more. NULL is allowed. */
void weir__resolve_free(struct weir__resolve *resolve);

#endif
