/* resolve.h: what the name of a machine stands for, without waiting for it.
 *
 * The system's own lookup may take many seconds, and cannot be cut short. So each name is looked up by a thread of its own,
 * which is left alone when nobody wants the answer any more. Addresses need no thread: they are known at once. */
#ifndef WEIR_OS_RESOLVE_H
#define WEIR_OS_RESOLVE_H

#include "os/loop.h"
#include "os/net.h"

enum {
	WEIR__RESOLVE_ADDRESSES = 8, /* of a name; others are not told */
	WEIR__RESOLVE_THREADS = 32,  /* of this process, with those that were left alone */
};

struct weir__resolve;

/* Begins; the loop is woken when it is over. EAGAIN: too many are under way. ENOMEM, and what else threads fail with. */
int weir__resolve_new(const char *host, uint16_t port, struct weir__loop *loop, struct weir__resolve **ret_resolve);

/* Is it over? Then *ret_n says how many addresses there are, and *ret_why, if there is none, why; it is good until the
 * free. */
bool weir__resolve_is_over(struct weir__resolve *resolve,
			   struct weir__net_address ret_addresses[WEIR__RESOLVE_ADDRESSES], unsigned *ret_n,
			   const char **ret_why);

/* Over or not. The loop is not woken any more. NULL is allowed. */
void weir__resolve_free(struct weir__resolve *resolve);

#endif
