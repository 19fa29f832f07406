/* table_wait.h: departures from buckets that shape, for whoever waits without a thread that sleeps. */
#ifndef WEIR_STORE_TABLE_TABLE_WAIT_H
#define WEIR_STORE_TABLE_TABLE_WAIT_H

#include "core/reserve.h"
#include "store/table/table.h"

/* One that was taken. */
struct weir__departure {
	struct weir_reservation reservation; /* act_at: when it is */
	struct weir_state taken;             /* the state right after it was taken, */
	uint64_t taken_by;                   /* and the number of the limit's plan then */
};

/* Takes, unless the departure would be more than max_wait away: then nothing is charged, and verdict.delay is how far. The
 * limit must be one that shapes. */
struct weir_verdict weir__table_depart(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				       weir_ns now, uint64_t cost, weir_ns max_wait,
				       struct weir__departure *ret_departure);

/* Gives back what was taken, less what later departures were built upon: they keep their instants. */
void weir__table_depart_not(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash, weir_ns now,
			    struct weir__departure *departure);

#endif
