/* lease_store.h: a store that draws units of some limits in advance from the store behind it, and spends them here.
 *
 * The store behind counts lent units as used until the lease ends, spent or not. So all servers together never allow
 * more than the limit. This store spends the units that it holds for a key. If a request costs more, the store behind
 * decides the rest. Units are drawn and returned in the background: no request waits for that.
 *
 * Held units are in slots of the table (table/held.h), which all workers and processes that use the table share. The
 * same store decides eventual limits (lease_eventual.c). The reasons are in docs/internals/leases.md and
 * eventual.md. */
#ifndef WEIR_STORE_LEASE_STORE_H
#define WEIR_STORE_LEASE_STORE_H

#include "store/eventual.h"
#include "store/lease.h"
#include "store/store.h"

struct weir__lease_background;

/* What the stores of all workers of a process count. Starts as all zero. */
struct weir__lease_shared {
	_Atomic uint64_t counts[WEIR__LEASE_COUNTS];
	/* Requests that were under way when their store was freed: the thread that sends them may still read them. */
	_Atomic(struct weir__lease_background *) abandoned;
	_Atomic weir_ns
		latest; /* the store's time of the latest reply that a worker has handled: whole us, plus a number in ns
			 * for each further reply of the same us */
};

struct weir__lease_options {
	struct weir__store *store; /* the store behind: decides what this one cannot; freed with this store */
	struct weir_table *table;
	/* How much of a limit may be stranded, in percent; 0: the limit is not leased. This and has_any (whether any
	 * limit is leased or eventual) are called again when the version changes. Inline limits are never leased. */
	uint32_t (*stranded)(void *context, const struct weir_table_limit *limit);
	/* Fills in `eventual`, or leaves it all zero if the limit is not eventual. NULL: no limit is. */
	void (*eventual)(void *context, const struct weir_table_limit *limit, struct weir__eventual *eventual);
	weir_ns budget; /* for eventual limits without a budget of their own */
	bool (*has_any)(void *context);
	uint64_t (*version)(void *context);
	void *context;
	struct weir__lease_shared *shared;
	weir_ns (*boot_clock)(void *context); /* NULL: CLOCK_BOOTTIME */
	weir_ns (*now)(void *context);        /* NULL: the table's clock */
};

/* Frees the requests that stores have abandoned. Call it when no thread can read them any more. */
WEIR__BETWEEN_LIBRARIES void weir__lease_shared_fini(struct weir__lease_shared *shared);

/* Begins leases of a table. Call it before any store is made. goes_on: this process takes over from another, and spends
 * the units that the table still holds. Otherwise they are forgotten. */
WEIR__BETWEEN_LIBRARIES void weir__lease_begin(struct weir_table *table, bool goes_on, weir_ns boot_now);

/* NULL: no memory; the store behind it is then not freed. */
WEIR__BETWEEN_LIBRARIES struct weir__store *weir__lease_store_new(const struct weir__lease_options *options);

#endif
