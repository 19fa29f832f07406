/* reserve.h: token buckets that may go into debt.
 *
 * A bucket that owes more than its burst looks like one whose clock went back. A store that reserves therefore keeps a
 * struct weir__debt beside the state, and passes plans with WEIR_PLAN_DEBT while that explains what is owed. */
#ifndef WEIR_CORE_RESERVE_H
#define WEIR_CORE_RESERVE_H

#include <weir/verdict.h>

#include "core/wide.h"

/* All zero: nothing was reserved. */
struct weir__debt {
	weir_ns at;    /* the newest reservation was made then; one at the epoch itself counts as 1 ns later */
	weir_ns until; /* the bucket was to be whole then, rounded up, when it was made */
};

static inline bool weir__reserve_has(const struct weir_plan *plan)
{
	return (plan->kind == WEIR_KIND_BUCKET && !(plan->flags & WEIR_PLAN_SHAPE)) || plan->kind == WEIR_KIND_INTERVAL;
}

/* Whether the state owes something, and reservations of the present clock explain it all. */
bool weir__reserve_explains(const struct weir_plan *plan, const struct weir_state *state, const struct weir__debt *debt,
			    weir_ns now);

/* The debt to keep when the state has just been changed to this by a reservation, or by converting a real debt. */
struct weir__debt weir__reserve_debt(const struct weir_plan *plan, const struct weir_state *state,
				     const struct weir__debt *before, weir_ns now);

/* Takes from a bucket that shapes, unless the departure would be more than max_wait away; then nothing is charged and
 * retry_after is how much more. What it returns can be cancelled until it departs. */
struct weir_verdict weir__reserve_departure(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
					    uint64_t cost, weir_ns max_wait, struct weir_reservation *ret_reservation);

/* These need a plan that weir__reserve_has; otherwise as the limiter's functions of that name. Denied, nothing but a
 * new clock changes the state. Never: more than the burst, or more debt than the state can hold. */
struct weir_verdict weir__reserve_take(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
				       uint64_t cost, weir_ns max_wait, struct weir_reservation *ret_reservation);

uint64_t weir__reserve_cancel(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
			      const struct weir_reservation *reservation);

#endif
