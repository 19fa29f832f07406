/* bucket.c: all operations of a smooth bucket except the decision, which is inline in bucket.h. */
#include "core/bucket.h"

#include "core/algorithm.h"

static void notice(const struct weir_plan *plan, void *state, weir_ns now)
{
	const weir__u128 duration = weir__bucket_duration(plan);

	if (plan->flags & WEIR_PLAN_RESERVED)
		return;
	if (weir__bucket_used(plan, state, now) > duration + weir__mul(WEIR__STEP_BACK_MAX, plan->count))
		weir__state_set_wide(state, weir__mul(now, plan->count) + duration);
}

static bool allow(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	notice(plan, state, now);
	return weir__bucket_decide(plan, state, now, cost, true) == WEIR__ALLOWED;
}

static weir_ns retry_after(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost)
{
	return weir__bucket_retry_after(plan, state, now, cost);
}

static void level(const struct weir_plan *plan, const void *state, weir_ns now, struct weir_verdict *verdict)
{
	weir__bucket_level(plan, state, now, verdict);
}

static void refund(const struct weir_plan *plan, void *state, weir_ns now, uint64_t n)
{
	const weir__u128 given = weir__mul(n, plan->period);
	weir__u128 full_at = 0;

	if (weir__bucket_used(plan, state, now) > given)
		full_at = weir__state_wide(state) - given;
	weir__state_set_wide(state, full_at);
}

/* Without the charge, the bucket might have been full meanwhile, and tokens that have refilled since would have been
 * lost. So those tokens are not given back. Then the bucket is exactly as if the charge had been that much smaller. The
 * amount need not be a whole number of units: the rest of the last unit has refilled, so that unit counts as given
 * back. */
static uint64_t undo(const struct weir_plan *plan, void *state, weir_ns now, const struct weir__charge *charge,
		     uint64_t n)
{
	const weir__u128 price = weir__mul(charge->cost, plan->period);
	const weir__u128 refilled = weir__mul(now > charge->at ? now - charge->at : 0, plan->count);
	const weir__u128 used = weir__bucket_used(plan, state, now), asked = weir__mul(n, plan->period);
	weir__u128 given = price > refilled ? price - refilled : 0;

	if (given > used) /* the usage was refunded or reset meanwhile */
		given = used;
	if (given > asked)
		given = asked;
	if (given > 0)
		weir__state_set_wide(state, given == used ? 0 : weir__state_wide(state) - given);
	return (uint64_t)weir__div_up(given, plan->period);
}

/* In tokens, used' = min(used, burst, burst') + max(0, used - burst). The result is rounded up to the new unit of
 * 1/count ns. A bucket with more usage than its burst, and without reservations, is empty, and its clock is behind the
 * state. It stays behind by as much. */
static void convert(const struct weir_plan *from, const struct weir_plan *to, void *state, weir_ns now)
{
	const weir__u128 duration = weir__bucket_duration(from);
	weir__u128 used, beyond = 0, full_at;

	notice(from, state, now);
	used = weir__bucket_used(from, state, now);
	if (used == 0) {
		weir__state_set_wide(state, 0);
		return;
	}
	if (used > duration) {
		const bool is_reserved = from->flags & WEIR_PLAN_RESERVED;

		beyond = weir__mul_div_up(used - duration, is_reserved ? to->period : to->count,
					  is_reserved ? from->period : from->count);
		used = duration;
	}
	used = weir__mul_div_up(used, to->period, from->period);
	if (used > weir__bucket_duration(to))
		used = weir__bucket_duration(to);
	/* Only reservations can make these sums overflow the state. The usage is then the most that the state can
	 * hold. */
	if (__builtin_add_overflow(used, beyond, &used) ||
	    __builtin_add_overflow(used, weir__mul(now, to->count), &full_at))
		full_at = WEIR__U128_MAX;
	if (to->flags & WEIR_PLAN_SLIM && full_at >> WEIR__SLIM_BITS)
		full_at = ((weir__u128)1 << WEIR__SLIM_BITS) - 1;
	weir__state_set_wide(state, full_at);
}

const struct weir__algorithm weir__bucket_algorithm = {
	.notice = notice,
	.allow = allow,
	.retry_after = retry_after,
	.level = level,
	.refund = refund,
	.undo = undo,
	.convert = convert,
};
