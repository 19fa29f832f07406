/* bucket.h: token and leaky buckets that flow smoothly.
 *
 * The state is one 128-bit number: the instant at which the bucket is full again, in units of 1/count ns, where
 * count/period is the rate in lowest terms. In these units a token takes exactly `period`, so no step rounds and no
 * decision divides. Only a change of the rate rounds, because a new count is a new unit: the usage is rounded up by
 * less than one of the new units. If the instant has passed, the bucket is full. 0 means that nothing is used. The
 * reasons are in docs/internals/core.md. */
#ifndef WEIR_CORE_BUCKET_H
#define WEIR_CORE_BUCKET_H

#include "core/wide.h"

/* The time from empty to full, in units of 1/count ns. */
static inline weir__u128 weir__bucket_duration(const struct weir_plan *plan)
{
	return weir__mul(plan->most, plan->period);
}

/* What is missing from a full bucket, in units of 1/count ns. */
static inline weir__u128 weir__bucket_used(const struct weir_plan *plan, const struct weir_state *state, weir_ns now)
{
	const weir__u128 present = weir__mul(now, plan->count);
	const weir__u128 full_at = weir__state_wide(state);

	return full_at > present ? full_at - present : 0;
}

/* Fills in remaining and reset_after. */
static inline void weir__bucket_level(const struct weir_plan *plan, const struct weir_state *state, weir_ns now,
				      struct weir_verdict *verdict)
{
	const weir__u128 duration = weir__bucket_duration(plan);
	const weir__u128 used = weir__bucket_used(plan, state, now);

	verdict->remaining = used >= duration ? 0 : (uint64_t)weir__div(duration - used, plan->period);
	verdict->reset_after = weir__saturate(weir__div_up(used, plan->count));
}

/* What is left, with the part of a unit that has refilled. */
static inline struct weir_tokens weir__bucket_tokens(const struct weir_plan *plan, const struct weir_state *state,
						     weir_ns now)
{
	const weir__u128 duration = weir__bucket_duration(plan);
	const weir__u128 used = weir__bucket_used(plan, state, now);
	const weir__u128 left = used >= duration ? 0 : duration - used;
	const uint64_t units = (uint64_t)weir__div(left, plan->period);
	const uint64_t parts = (uint64_t)(left - weir__mul(units, plan->period));
	const uint64_t divisor = weir__common_divisor(parts, plan->period);

	return (struct weir_tokens){ units, parts / divisor, plan->period / divisor };
}

/* Call it only for a cost that was denied and is at most the burst. */
static inline weir_ns weir__bucket_retry_after(const struct weir_plan *plan, const struct weir_state *state,
					       weir_ns now, uint64_t cost)
{
	const weir__u128 may_be_used = weir__mul(plan->most - cost, plan->period);

	return weir__saturate(weir__div_up(weir__bucket_used(plan, state, now) - may_be_used, plan->count));
}

/* Decides, and charges the state if allowed. */
static inline enum weir__answer weir__bucket_decide(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
						    uint64_t cost, bool noticed)
{
	const weir__u128 present = weir__mul(now, plan->count);
	weir__u128 full_at = weir__state_wide(state);

	if (WEIR__UNLIKELY(cost - 1 >= plan->most)) /* 0 wraps and is always allowed; more than the burst never is */
		return cost == 0 ? WEIR__ALLOWED : WEIR__DENIED;
	if (full_at > present) {
		const weir__u128 used = full_at - present;

		/* Usage exceeds the burst only by reservations, or if the clock went back. */
		if (used > weir__mul(plan->most - cost, plan->period))
			return !noticed && WEIR__UNLIKELY(used > weir__bucket_duration(plan)) ? WEIR__BEHIND :
												WEIR__DENIED;
	} else {
		full_at = present;
	}
	weir__state_set_wide(state, full_at + weir__mul(cost, plan->period));
	return WEIR__ALLOWED;
}

#endif
