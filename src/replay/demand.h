/* demand.h: how large a limit must be to allow the requests of one key. Pure: no clock, no memory, no rounding.
 *
 * Rows are of one key, in order of arrival. Rows within `skip` are left out, as if they had not arrived. */
#ifndef WEIR_REPLAY_DEMAND_H
#define WEIR_REPLAY_DEMAND_H

#include <weir/step.h>

#include "replay/arrivals.h"
#include "replay/sizing.h"

/* From `from` to before `until`. Empty if they are equal. */
struct weir__interval {
	weir_ns from, until;
};

static inline bool weir__interval_has(const struct weir__interval *interval, weir_ns at)
{
	return at >= interval->from && at < interval->until;
}

/* The smallest burst with which a bucket of this rate denies none of the rows: the highest level of a queue that they
 * flow into and that drains at this rate. Saturates. */
uint64_t weir__demand_burst(const struct weir__arrival *rows, size_t n, struct weir__rate rate,
			    const struct weir__interval *skip);

/* The smallest count with which a sliding log of this period denies none of the rows: the most that arrives in any
 * such period. Saturates. */
uint64_t weir__demand_count(const struct weir__arrival *rows, size_t n, weir_ns period,
			    const struct weir__interval *skip);

struct weir__demand_tried {
	uint64_t requests, denied;      /* outside of the marked interval */
	uint64_t marked, marked_denied; /* within it */
	uint64_t late;                  /* allowed anywhere, with a delay above `wait` */
	weir_ns longest_delay;
};

/* Decides all rows by the plan, beginning with a state of zeros, and adds to the counts. */
void weir__demand_try(const struct weir__arrival *rows, size_t n, const struct weir_plan *plan, void *state,
		      const struct weir__interval *marked, weir_ns wait, struct weir__demand_tried *counts);

#endif
