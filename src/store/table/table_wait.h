/* table_wait.h: departures from buckets that shape, for callers that wait without blocking a thread. */
#ifndef WEIR_STORE_TABLE_TABLE_WAIT_H
#define WEIR_STORE_TABLE_TABLE_WAIT_H

#include "store/table/table.h"

/* Takes, unless the departure would be more than max_delay away: then nothing is charged, and retry_after is how far
 * away it is. A limit that does not shape takes now or denies. The limit's statistics do not count it. */
struct weir_verdict weir__table_depart(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				       weir_ns now, uint64_t cost, weir_ns max_delay);

/* Gives back what a departure took, minus what later departures have built upon: they keep their instants. full_at is
 * when the key was to be full after it, rounded up. verdict.granted is how much. The limit must be one that shapes, and
 * may not have been changed since. */
struct weir_verdict weir__table_cancel(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				       weir_ns now, uint64_t cost, weir_ns full_at);

#endif
