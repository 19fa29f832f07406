/* window.h: at most count in a fixed window.
 *
 * State: lo is the start of the window, hi its count. If the count is 0, nothing is used. */
#ifndef WEIR_CORE_WINDOW_H
#define WEIR_CORE_WINDOW_H

#include "core/wide.h"

static inline weir_ns weir__window_start(const struct weir_plan *plan, weir_ns now)
{
	return plan->flags & WEIR_PLAN_FIRST ? now : now - now % plan->period;
}

static inline bool weir__window_is_new_clock(const struct weir_state *state, weir_ns now)
{
	return now < state->lo && state->lo - now > WEIR__STEP_BACK_MAX;
}

/* Returns the window in which a request at now counts: the window in the state, or a new one. */
static inline struct weir_state weir__window_at(const struct weir_plan *plan, const struct weir_state *state,
						weir_ns now)
{
	struct weir_state window = *state;

	if (WEIR__UNLIKELY(now < window.lo)) {
		if (weir__window_is_new_clock(state, now))
			window.lo = weir__window_start(plan, now);
	} else if (now - window.lo >= plan->period) {
		window.lo = weir__window_start(plan, now);
		window.hi = 0;
	}
	if (window.hi == 0 && plan->flags & WEIR_PLAN_FIRST)
		window.lo = now;
	return window;
}

/* Returns the count with a denied cost added, at most what the state can hold. */
static inline uint64_t weir__window_count_denied(const struct weir_plan *plan, uint64_t counted, uint64_t cost)
{
	const uint64_t most = plan->flags & WEIR_PLAN_SLIM ? WEIR__SLIM_HI_MAX : UINT64_MAX;

	return weir__min(weir__add_saturating(counted, cost), most);
}

/* Decides. Counts cost if it is allowed, or if denied requests count, too. */
static inline enum weir__answer weir__window_decide(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
						    uint64_t cost, bool noticed)
{
	struct weir_state window;

	if (!noticed && WEIR__UNLIKELY(now < state->lo))
		return WEIR__BEHIND;
	if (cost == 0)
		return WEIR__ALLOWED;
	window = weir__window_at(plan, state, now);
	if (window.hi > plan->most || cost > plan->most - window.hi) {
		if (plan->flags & WEIR_PLAN_COUNT_ALL) {
			state->lo = window.lo;
			state->hi = weir__window_count_denied(plan, window.hi, cost);
		}
		return WEIR__DENIED;
	}
	state->lo = window.lo;
	state->hi = window.hi + cost;
	return WEIR__ALLOWED;
}

#endif
