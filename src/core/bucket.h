/* bucket.h: token and leaky buckets that flow smoothly.
 *
 * The state is one 128-bit number: the instant at which the bucket is whole again, in units of 1/count ns, where
 * count/period is the rate in lowest terms. In these units a token takes exactly `period`, so nothing is ever rounded
 * and no step divides. An instant that has passed is a whole bucket; 0 is fresh. */
#ifndef WEIR_CORE_BUCKET_H
#define WEIR_CORE_BUCKET_H

#include "core/wide.h"

/* From empty to whole. */
static inline weir__u128 weir__bucket_span(const struct weir_plan *plan)
{
	return weir__mul(plan->most, plan->period);
}

/* What is missing from a whole bucket, in units of 1/count ns. */
static inline weir__u128 weir__bucket_owed(const struct weir_plan *plan, const struct weir_state *state, weir_ns now)
{
	const weir__u128 present = weir__mul(now, plan->count);
	const weir__u128 whole_at = weir__state_wide(state);

	return whole_at > present ? whole_at - present : 0;
}

/* Nothing can owe more than a burst unless the clock went back, or it was reserved (WEIR_PLAN_DEBT). */
void weir__bucket_notice(const struct weir_plan *plan, void *state, weir_ns now);

static inline bool weir__bucket_allow(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
				      uint64_t cost)
{
	const weir__u128 present = weir__mul(now, plan->count);
	weir__u128 whole_at = weir__state_wide(state);

	if (WEIR__UNLIKELY(cost - 1 >= plan->most)) /* 0 wraps: always admitted; more than the burst never is */
		return cost == 0;
	if (whole_at > present) {
		if (whole_at - present > weir__mul(plan->most - cost, plan->period)) {
			if (WEIR__UNLIKELY(whole_at - present > weir__bucket_span(plan)))
				weir__bucket_notice(plan, state, now);
			return false; /* a new clock finds the bucket empty, which is too little for any cost */
		}
	} else {
		whole_at = present;
	}
	weir__state_set_wide(state, whole_at + weir__mul(cost, plan->period));
	return true;
}

#endif
