/* interval.c: all operations of an interval bucket except the decision, which is inline in interval.h. */
#include "core/interval.h"

#include "core/algorithm.h"

static void notice(const struct weir_plan *plan, void *state_, weir_ns now)
{
	struct weir_state *state = state_;

	if (plan->flags & WEIR_PLAN_RESERVED || state->lo <= now || state->lo - now <= WEIR__STEP_BACK_MAX)
		return;
	state->lo = now;
	state->hi = weir__min(state->hi, plan->most);
}

static struct weir_state settled(const struct weir_plan *plan, const struct weir_state *state, weir_ns now)
{
	struct weir_state copy = *state;

	weir__interval_settle(plan, &copy, now);
	return copy;
}

/* Returns the time until this many of the missing tokens are refilled. */
static weir_ns until_refilled(const struct weir_plan *plan, const struct weir_state *state, weir_ns now,
			      uint64_t tokens)
{
	const uint64_t intervals = (uint64_t)weir__div_up(tokens, plan->count);

	return weir__until(weir__mul(intervals, plan->period) + state->lo, now);
}

static bool allow(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	notice(plan, state, now);
	return weir__interval_decide(plan, state, now, cost, true) == WEIR__ALLOWED;
}

static weir_ns retry_after(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost)
{
	const struct weir_state at_now = settled(plan, state, now);

	return until_refilled(plan, &at_now, now, at_now.hi - (plan->most - cost));
}

static void level(const struct weir_plan *plan, const void *state, weir_ns now, struct weir_verdict *verdict)
{
	const struct weir_state at_now = settled(plan, state, now);

	verdict->remaining = plan->most - weir__min(plan->most, at_now.hi);
	verdict->reset_after = until_refilled(plan, &at_now, now, at_now.hi);
}

static void refund(const struct weir_plan *plan, void *state_, weir_ns now, uint64_t n)
{
	struct weir_state *state = state_;

	weir__interval_settle(plan, state, now);
	if (state->hi <= n)
		*state = (struct weir_state){ 0, 0 };
	else
		state->hi -= n;
}

/* As for a smooth bucket, with the refills after the charge. The bucket may have been full since, and its intervals
 * have started again. Counted back from the current interval, there are at least as many starts as there were
 * refills. */
static uint64_t undo(const struct weir_plan *plan, void *state, weir_ns now, const struct weir__charge *charge,
		     uint64_t n)
{
	const struct weir_state at_now = settled(plan, state, now);
	const uint64_t refills = at_now.lo > charge->at ? (at_now.lo - charge->at - 1) / plan->period + 1 : 0;
	const uint64_t refilled = weir__saturate(weir__mul(refills, plan->count));

	n = weir__min(n, charge->cost - weir__min(charge->cost, refilled));
	n = weir__min(n, at_now.hi);
	if (n > 0)
		refund(plan, state, now, n);
	return n;
}

/* As in bucket.c: keeps what is used, cut to the new burst, and all usage beyond the old burst, which reservations
 * caused. */
static void convert(const struct weir_plan *from, const struct weir_plan *to, void *state_, weir_ns now)
{
	const uint64_t missing_max = to->flags & WEIR_PLAN_SLIM ? WEIR__SLIM_HI_MAX : UINT64_MAX;
	struct weir_state *state = state_;
	uint64_t beyond;

	notice(from, state, now);
	weir__interval_settle(from, state, now);
	if (state->hi == 0) {
		state->lo = 0;
		return;
	}
	if (from->period != to->period)
		state->lo = now;
	beyond = state->hi > from->most ? state->hi - from->most : 0;
	state->hi = weir__min(weir__min(state->hi, from->most), to->most);
	state->hi = weir__min(weir__add_saturating(state->hi, beyond), missing_max);
}

const struct weir__algorithm weir__interval_algorithm = {
	.notice = notice,
	.allow = allow,
	.retry_after = retry_after,
	.level = level,
	.refund = refund,
	.undo = undo,
	.convert = convert,
};
