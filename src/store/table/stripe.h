/* stripe.h: counters that cost next to nothing.
 *
 * A locked addition would take as long as the compare-and-swap of the decision before it. So each thread owns a stripe,
 * in which it counts by relaxed loads and stores, without a locked instruction. When a thread ends, another thread
 * takes over its stripe with the counts in it. Threads that find no stripe left share some common ones and add
 * atomically. A reader sums all stripes. */
#ifndef WEIR_STORE_TABLE_STRIPE_H
#define WEIR_STORE_TABLE_STRIPE_H

#include "os/thread.h"
#include "store/table/region.h"

/* The stripe that this thread last counted in. It is valid for the table with this serial number and the thread with
 * this number. */
struct weir__stripe_in_use {
	uint64_t serial;
	struct weir__stripe *stripe;
	uint32_t thread;
	bool is_own;
};

extern __thread struct weir__stripe_in_use weir__stripe_in_use_ __attribute__((tls_model("initial-exec")));

void weir__stripe_find(const struct weir__region *region);

/* Returns a copy, since the address of thread-local data should not be passed around. */
static inline struct weir__stripe_in_use weir__stripe_of(const struct weir__region *region)
{
	/* A fork gives the thread a new number. */
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
