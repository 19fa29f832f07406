/* stripe.h: counters that cost next to nothing.
 *
 * A locked addition would take as long again as the swap before it. So a thread has a stripe of its own, in which it
 * counts by plain loads and stores; the stripe of one that is gone is taken over, with what it has counted. Threads for
 * which none is left share some, and add atomically. Whoever reads sums all up. */
#ifndef WEIR_STORE_TABLE_STRIPE_H
#define WEIR_STORE_TABLE_STRIPE_H

#include "os/thread.h"
#include "store/table/region.h"

/* The stripe that this thread last counted in: of the table with this serial number, by the thread with this number. */
struct weir__stripe_in_use {
	uint64_t serial;
	struct weir__stripe *stripe;
	uint32_t thread;
	bool is_own;
};

extern __thread struct weir__stripe_in_use weir__stripe_in_use_ __attribute__((tls_model("initial-exec")));

void weir__stripe_find(const struct weir__region *region);

/* By value: the address of what belongs to a thread is nothing to carry about. */
static inline struct weir__stripe_in_use weir__stripe_of(const struct weir__region *region)
{
	/* After a fork the thread has another number. */
	if (__builtin_expect(weir__stripe_in_use_.serial != region->serial ||
				     weir__stripe_in_use_.thread != weir__thread_number(),
			     0))
		weir__stripe_find(region);
	return weir__stripe_in_use_;
}

static inline void weir__stripe_add(bool is_own, _Atomic uint64_t *counter, uint64_t n)
{
	if (__builtin_expect(is_own, 1))
		atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
				      memory_order_relaxed);
	else
		atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#define WEIR__COUNT(region, member, n)                                                                                 \
	do {                                                                                                           \
		const struct weir__stripe_in_use in_use_ = weir__stripe_of(region);                                    \
		weir__stripe_add(in_use_.is_own, &in_use_.stripe->member, n);                                          \
	} while (0)

#endif
