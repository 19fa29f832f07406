/* lease_store.h: a store that draws units of some limits ahead from the store behind it, and spends them here.
 *
 * The store behind counts what it lent as used until the lease ends, spent or not. So whatever servers do, all of them
 * together never allow more than the limit. This store spends what it holds for a key. A request that costs more goes
 * to the store behind, for the rest. Units are drawn and given back in the background: no request waits for that.
 *
 * What is held is in slots of the table (table/held.h), which workers and processes of the table share. The reasons are
 * in docs/internals/leases.md. */
#ifndef WEIR_STORE_LEASE_STORE_H
#define WEIR_STORE_LEASE_STORE_H

#include "store/eventual.h"
#include "store/lease.h"
#include "store/store.h"

struct weir__lease_background;

/* What the stores of all workers of a process count. Starts as all zero. */
struct weir__lease_shared {
	_Atomic uint64_t counts[WEIR__LEASE_COUNTS];
	/* Requests that were under way when their store was freed. The thread that sends them may still read them. */
	_Atomic(struct weir__lease_background *) abandoned;
	_Atomic weir_ns
		latest; /* the latest instant of which a worker has handled a reply, and how many of that instant */
};

struct weir__lease_options {
	struct weir__store *store; /* decides what is not held here; freed with this store */
	struct weir_table *table;
	/* How much of a limit may be stranded, in percent; 0: the limit is exact. And whether any limit is leased. Called
	 * again when the version changes. Inline limits are never leased. */
	uint32_t (*stranded)(void *context, const struct weir_table_limit *limit);
	/* Whether a limit is eventual, and how. It stays all zero if it is not. NULL: none is. */
	void (*eventual)(void *context, const struct weir_table_limit *limit, struct weir__eventual *eventual);
	weir_ns budget; /* of eventual limits that have none */
	bool (*has_any)(void *context);
	uint64_t (*version)(void *context);
	void *context;
	struct weir__lease_shared *shared;
	weir_ns (*boot_clock)(void *context); /* NULL: CLOCK_BOOTTIME */
	weir_ns (*now)(void *context);        /* NULL: the table's clock */
};

/* Frees what the stores have abandoned. Call it when nothing can read that any more. */
WEIR__BETWEEN_LIBRARIES void weir__lease_shared_fini(struct weir__lease_shared *shared);

/* Begins leases of a table. Call it before any store is made, unless this process goes on for another: what the table
 * still holds is then spent by this process, and otherwise forgotten. */
WEIR__BETWEEN_LIBRARIES void weir__lease_begin(struct weir_table *table, bool goes_on, weir_ns boot_now);

/* NULL: no memory; the store behind it is then not freed. */
WEIR__BETWEEN_LIBRARIES struct weir__store *weir__lease_store_new(const struct weir__lease_options *options);

#endif
