/* window.h: at most count in a fixed window.
 *
 * State: lo is the window's start, hi what it has counted. Nothing counted is fresh. */
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

/* The window that a request at now counts in: the state's own, or a new one. */
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

void weir__window_notice(const struct weir_plan *plan, void *state, weir_ns now);
void weir__window_count_denied(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

static inline bool weir__window_allow(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
				      uint64_t cost)
{
	struct weir_state window;

	if (cost == 0)
		return true;
	window = weir__window_at(plan, state, now);
	if (window.hi > plan->most || cost > plan->most - window.hi) {
		if (WEIR__UNLIKELY(now < state->lo))
			weir__window_notice(plan, state, now);
		return false;
	}
	window.hi += cost;
	*state = window;
	return true;
}

#endif
