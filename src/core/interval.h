/* interval.h: a token bucket that gets `count` tokens at once, each period from its first charge.
 *
 * State: lo is the start of an interval, hi the number of tokens missing in it. A charge, a refund and a change of the
 * limit first move both on to the interval of their own time. Everything else moves on a copy. If no token is missing,
 * nothing is used, and the next charge starts the first interval again. */
#ifndef WEIR_CORE_INTERVAL_H
#define WEIR_CORE_INTERVAL_H

#include "core/wide.h"

/* Applies the refills up to now to the state. Changes no decision. */
static inline void weir__interval_settle(const struct weir_plan *plan, struct weir_state *state, weir_ns now)
{
	uint64_t intervals, refill;

	if (now < state->lo || now - state->lo < plan->period)
		return;
	WEIR__HOLDS(plan->period > 0);
	intervals = (now - state->lo) / plan->period;
	if (__builtin_mul_overflow(intervals, plan->count, &refill) || refill >= state->hi) {
		*state = (struct weir_state){ 0, 0 };
	} else {
		state->lo += intervals * plan->period;
		state->hi -= refill;
	}
}

/* Decides, and charges the state if allowed. */
static inline enum weir__answer weir__interval_decide(const struct weir_plan *plan, struct weir_state *state,
						      weir_ns now, uint64_t cost, bool noticed)
{
	struct weir_state settled = *state;

	if (WEIR__UNLIKELY(cost - 1 >= plan->most)) /* 0 wraps and is always allowed; more than the burst never is */
		return cost == 0 ? WEIR__ALLOWED : WEIR__DENIED;
	if (settled.hi > 0) {
		if (!noticed && WEIR__UNLIKELY(now < settled.lo))
			return WEIR__BEHIND;
		weir__interval_settle(plan, &settled, now);
	}
	if (settled.hi == 0)
		settled.lo = now;
	else if (settled.hi > plan->most - cost)
		return WEIR__DENIED;
	state->lo = settled.lo;
	state->hi = settled.hi + cost;
	return WEIR__ALLOWED;
}

#endif
