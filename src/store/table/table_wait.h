/* table_wait.h: departures from buckets that shape, for callers that wait without blocking a thread. */
#ifndef WEIR_STORE_TABLE_TABLE_WAIT_H
#define WEIR_STORE_TABLE_TABLE_WAIT_H

#include "core/reserve.h"
#include "store/table/table.h"

/* A departure that was taken. */
struct weir__departure {
	struct weir_reservation reservation; /* act_at: the instant of the departure */
	struct weir_state taken;             /* the state right after the departure was taken */
	uint64_t taken_by;                   /* the number of the limit's plan at that time */
};

/* Takes a departure, unless it would be more than max_wait away. In that case nothing is charged, and verdict.delay is
 * how far away it is. The limit must be one that shapes. */
struct weir_verdict weir__table_depart(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				       weir_ns now, uint64_t cost, weir_ns max_wait,
				       struct weir__departure *ret_departure);

/* Gives back what the departure took, minus what later departures have built upon: they keep their instants. */
void weir__table_depart_not(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash, weir_ns now,
			    struct weir__departure *departure);

#endif
