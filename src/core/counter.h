/* counter.h: a sliding counter in 16 bytes.
 *
 * State: hi is the number of the current window, counted from the epoch. lo holds the count of the previous window in
 * its upper 32 bits, and the count of the current window in its lower 32 bits. If both counts are 0, nothing is
 * used. */
#ifndef WEIR_CORE_COUNTER_H
#define WEIR_CORE_COUNTER_H

#include "core/sliding.h"

struct weir__counter {
	uint64_t number; /* number of the current window */
	uint64_t previous, current;
	weir_ns elapsed; /* time since the start of the current window; 0 while the clock is behind it */
};

static inline uint64_t weir__counter_pack(uint64_t previous, uint64_t current)
{
	return previous << 32 | current;
}

/* Returns the state as of now. Does not check for a new clock. */
static inline struct weir__counter weir__counter_at(const struct weir_plan *plan, const struct weir_state *state,
						    weir_ns now)
{
	struct weir__counter counter = { .number = state->hi,
					 .previous = state->lo >> 32,
					 .current = state->lo & UINT32_MAX };
	const weir_ns start = state->hi * plan->period;

	if (WEIR__UNLIKELY(now < start))
		return counter;
	counter.elapsed = now - start;
	if (counter.elapsed < plan->period)
		return counter;
	counter.number++;
	counter.elapsed -= plan->period;
	counter.previous = counter.current;
	counter.current = 0;
	if (counter.elapsed >= plan->period) {
		counter.number = now / plan->period;
		counter.elapsed = now - counter.number * plan->period;
		counter.previous = 0;
	}
	return counter;
}

/* Decides, and counts cost if allowed. */
static inline enum weir__answer weir__counter_decide(const struct weir_plan *plan, struct weir_state *state,
						     weir_ns now, uint64_t cost, bool noticed)
{
	struct weir__counter counter;
	uint64_t wanted;

	if (WEIR__UNLIKELY(cost - 1 >= plan->most)) /* 0 wraps and is always allowed; more than the count never is */
		return cost == 0 ? WEIR__ALLOWED : WEIR__DENIED;
	if (!noticed && WEIR__UNLIKELY(now < state->hi * plan->period))
		return WEIR__BEHIND;
	counter = weir__counter_at(plan, state, now);
	wanted = counter.current + cost;
	if (wanted > plan->most ||
	    !weir__sliding_fits(counter.previous, plan->period, counter.elapsed, plan->most - wanted))
		return WEIR__DENIED;
	state->hi = counter.number;
	state->lo = weir__counter_pack(counter.previous, wanted);
	return WEIR__ALLOWED;
}

#endif
