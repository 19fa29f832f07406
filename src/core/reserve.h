/* reserve.h: token buckets whose usage may exceed the burst, by reservations.
 *
 * A bucket with more usage than its burst looks like one whose clock went back. A store that reserves therefore keeps a
 * struct weir__debt beside the state, and passes plans with WEIR_PLAN_RESERVED while that debt explains the usage. */
#ifndef WEIR_CORE_RESERVE_H
#define WEIR_CORE_RESERVE_H

#include <weir/verdict.h>

#include "core/wide.h"

/* All zero: nothing is reserved. */
struct weir__debt {
	weir_ns at;    /* when the newest reservation was made; one at the epoch itself is stored as 1 ns */
	weir_ns until; /* when the bucket would be full after that reservation, rounded up */
};

static inline bool weir__reserve_has(const struct weir_plan *plan)
{
	return (plan->kind == WEIR_KIND_BUCKET && !(plan->flags & WEIR_PLAN_SHAPE)) || plan->kind == WEIR_KIND_INTERVAL;
}

/* Returns whether the state has usage, and reservations on the present clock explain all of it. */
bool weir__reserve_explains(const struct weir_plan *plan, const struct weir_state *state, const struct weir__debt *debt,
			    weir_ns now);

/* Returns the debt to store after a reservation, or the conversion of a state with reservations, has changed the state
 * to this. */
struct weir__debt weir__reserve_debt(const struct weir_plan *plan, const struct weir_state *state,
				     const struct weir__debt *before, weir_ns now);

/* Takes from a bucket that shapes. If the departure would be more than max_wait away, the request is denied, nothing is
 * charged, and retry_after is how much more. The reservation that it returns can be cancelled until it departs. */
struct weir_verdict weir__reserve_departure(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
					    uint64_t cost, weir_ns max_wait, struct weir_reservation *ret_reservation);

/* These functions need a plan for which weir__reserve_has is true. Otherwise they behave as weir_limiter_reserve and
 * weir_limiter_cancel. A denial changes the state only if there is a new clock. `never`: the cost exceeds the burst, or
 * the state cannot hold that much usage. */
struct weir_verdict weir__reserve_take(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
				       uint64_t cost, weir_ns max_wait, struct weir_reservation *ret_reservation);

uint64_t weir__reserve_cancel(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
			      const struct weir_reservation *reservation);

/* Cancels a departure, identified by its verdict: full_at is when the bucket was to be full after it, in ns, rounded
 * up. Gives back the tokens that no later departure was built upon, and returns their number. 0: the departure has
 * passed, or the bucket has been given back more since. If part of a token was given back since, the result may exceed
 * what was built upon by less than 1 ns. */
uint64_t weir__reserve_cancel_departure(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
					uint64_t cost, weir_ns full_at);

#endif
