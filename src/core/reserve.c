/* reserve.c: reservations of token buckets, and cancelling them. */
#include "core/reserve.h"

#include "core/algorithm.h"
#include "core/bucket.h"
#include "core/interval.h"

/* Indexes into private_ of a reservation. A smooth bucket stores the instant at which it may act in units of 1/count
 * ns, and that count. An interval bucket acts on whole nanoseconds and stores nothing here. */
enum { ACT_LO, ACT_HI, ACT_COUNT };

/* Returns the instant at which the bucket is full again, in ns, rounded up. */
static weir_ns full_at_ns(const struct weir_plan *plan, const struct weir_state *state)
{
	if (plan->kind == WEIR_KIND_INTERVAL)
		return weir__saturate(weir__mul((uint64_t)weir__div_up(state->hi, plan->count), plan->period) +
				      state->lo);
	return weir__saturate(weir__div_up(weir__state_wide(state), plan->count));
}

bool weir__reserve_explains(const struct weir_plan *plan, const struct weir_state *state, const struct weir__debt *debt,
			    weir_ns now)
{
	const weir_ns full_at = full_at_ns(plan, state);

	return debt->at != 0 && weir__add_saturating(now, WEIR__STEP_BACK_MAX) >= debt->at && full_at > now &&
	       full_at <= debt->until;
}

struct weir__debt weir__reserve_debt(const struct weir_plan *plan, const struct weir_state *state,
				     const struct weir__debt *before, weir_ns now)
{
	struct weir__debt debt = { .at = now, .until = full_at_ns(plan, state) };

	if (before->at > now && before->at - now <= WEIR__STEP_BACK_MAX)
		debt.at = before->at;
	if (debt.at == 0)
		debt.at = 1;
	return debt;
}

static weir__u128 largest_state(const struct weir_plan *plan)
{
	return plan->flags & WEIR_PLAN_SLIM ? ((weir__u128)1 << WEIR__SLIM_BITS) - 1 : WEIR__U128_MAX;
}

/* Charges cost to the state, and fills in when it may act. Returns false if the state cannot hold it. */
static bool bucket_charge(const struct weir_plan *plan, struct weir_state *state, weir_ns now, uint64_t cost,
			  struct weir_reservation *reservation)
{
	const weir__u128 present = weir__mul(now, plan->count);
	const weir__u128 duration = weir__bucket_duration(plan);
	weir__u128 full_at = present + weir__bucket_used(plan, state, now), act = present;

	if (weir__mul(cost, plan->period) > largest_state(plan) - full_at)
		return false;
	full_at += weir__mul(cost, plan->period);
	if (full_at > present + duration)
		act = full_at - duration;
	weir__state_set_wide(state, full_at);
	reservation->act_at = weir__saturate(weir__div_up(act, plan->count));
	reservation->private_[ACT_LO] = (uint64_t)act;
	reservation->private_[ACT_HI] = (uint64_t)(act >> 64);
	reservation->private_[ACT_COUNT] = plan->count;
	return true;
}

/* Returns the instant at which an interval bucket with more usage than its burst is back at empty. */
static weir__u128 interval_act(const struct weir_plan *plan, const struct weir_state *state)
{
	return weir__mul((uint64_t)weir__div_up(state->hi - plan->most, plan->count), plan->period) + state->lo;
}

static bool interval_charge(const struct weir_plan *plan, struct weir_state *state, weir_ns now, uint64_t cost,
			    struct weir_reservation *reservation)
{
	const uint64_t missing_max = plan->flags & WEIR_PLAN_SLIM ? WEIR__SLIM_HI_MAX : UINT64_MAX;
	weir__u128 act;

	weir__interval_settle(plan, state, now);
	if (cost > missing_max - state->hi)
		return false;
	if (state->hi == 0)
		state->lo = now;
	state->hi += cost;
	act = state->hi > plan->most ? interval_act(plan, state) : now;
	reservation->act_at = weir__saturate(act > now ? act : now);
	return true;
}

struct weir_verdict weir__reserve_take(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
				       uint64_t cost, weir_ns max_wait, struct weir_reservation *ret_reservation)
{
	struct weir_verdict verdict = weir_step_peek(plan, state, now, cost);
	struct weir_reservation reservation = { .cost = cost };
	struct weir_plan in_debt = *plan;
	struct weir_state after = *state;

	verdict.allowed = false;
	verdict.retry_after = WEIR_NEVER;
	*ret_reservation = (struct weir_reservation){ 0 };
	verdict.never = cost > plan->most || !(plan->kind == WEIR_KIND_INTERVAL ? interval_charge : bucket_charge)(
						     plan, &after, now, cost, &reservation);
	if (verdict.never)
		return verdict;
	if (cost > 0 && reservation.act_at - now > max_wait) {
		verdict.retry_after = reservation.act_at - now - max_wait;
		return verdict;
	}
	in_debt.flags |= WEIR_PLAN_RESERVED;
	verdict = weir_step_peek(&in_debt, &after, now, 0);
	verdict.granted = cost;
	verdict.delay = reservation.act_at - now;
	if (cost > 0)
		*state = after;
	*ret_reservation = reservation;
	return verdict;
}

struct weir_verdict weir__reserve_departure(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
					    uint64_t cost, weir_ns max_wait, struct weir_reservation *ret_reservation)
{
	struct weir_state after = *state;
	struct weir_verdict verdict = weir_step_take(plan, &after, now, cost);

	*ret_reservation = (struct weir_reservation){ 0 };
	if (verdict.allowed && verdict.delay > max_wait) {
		verdict.allowed = false;
		verdict.granted = 0;
		verdict.retry_after = verdict.delay - max_wait;
		return verdict;
	}
	*state = after;
	if (verdict.allowed) {
		ret_reservation->cost = cost;
		ret_reservation->act_at = weir__add_saturating(now, verdict.delay);
		ret_reservation->private_[ACT_LO] = after.lo;
		ret_reservation->private_[ACT_HI] = after.hi;
		ret_reservation->private_[ACT_COUNT] = plan->count;
	}
	return verdict;
}

static uint64_t bucket_cancel(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
			      const struct weir_reservation *reservation)
{
	const weir__u128 price = weir__mul(reservation->cost, plan->period);
	const weir__u128 used = weir__bucket_used(plan, state, now), duration = weir__bucket_duration(plan);
	const weir__u128 full_at = weir__state_wide(state);
	/* A departure stores the state right after its charge, so all later charges were built upon it. */
	const weir__u128 held_back = plan->flags & WEIR_PLAN_SHAPE ? 0 : duration;
	const weir__u128 newest_act = full_at > held_back ? full_at - held_back : 0;
	weir__u128 act = (weir__u128)reservation->private_[ACT_HI] << 64 | reservation->private_[ACT_LO];
	weir__u128 built_upon, given;

	if (reservation->private_[ACT_COUNT] != plan->count)
		act = weir__mul_div_up(act, plan->count, reservation->private_[ACT_COUNT]);
	built_upon = newest_act > act ? newest_act - act : 0;
	given = price > built_upon ? price - built_upon : 0;
	if (given == 0)
		return 0;
	if (given > used)
		given = used;
	weir__state_set_wide(state, given == used ? 0 : full_at - given);
	return (uint64_t)weir__div(given, plan->period);
}

static uint64_t interval_cancel(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
				const struct weir_reservation *reservation)
{
	struct weir_state settled = *state;
	weir__u128 newest_act = 0, built_upon = 0;
	uint64_t given;

	weir__interval_settle(plan, &settled, now);
	if (settled.hi > plan->most)
		newest_act = interval_act(plan, &settled);
	if (newest_act > reservation->act_at)
		built_upon = weir__div(newest_act - reservation->act_at, plan->period) * plan->count;
	if (reservation->cost <= built_upon)
		return 0;
	given = weir__min(reservation->cost - (uint64_t)built_upon, settled.hi);
	settled.hi -= given;
	if (settled.hi == 0)
		settled.lo = 0;
	*state = settled;
	return given;
}

uint64_t weir__reserve_cancel(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
			      const struct weir_reservation *reservation)
{
	weir_step_peek(plan, state, now, 0); /* detects a new clock */
	if (reservation->cost == 0 || now > reservation->act_at)
		return 0;
	return (plan->kind == WEIR_KIND_INTERVAL ? interval_cancel : bucket_cancel)(plan, state, now, reservation);
}

uint64_t weir__reserve_cancel_departure(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
					uint64_t cost, weir_ns full_at)
{
	const weir__u128 present = weir__mul(now, plan->count), then = weir__mul(full_at, plan->count);
	weir__u128 is_full_at, built_upon = 0, given, used;

	weir_step_peek(plan, state, now, 0); /* detects a new clock */
	is_full_at = weir__state_wide(state);
	used = weir__bucket_used(plan, state, now);
	if (then < present + weir__mul(cost, plan->period) || is_full_at + plan->count <= then)
		return 0;
	/* Later departures took whole tokens, and a token takes at least 1 ns. So rounding up undoes the rounding. */
	if (is_full_at > then)
		built_upon = weir__div_up(is_full_at - then, plan->period);
	if (built_upon >= cost)
		return 0;
	given = weir__mul(cost - (uint64_t)built_upon, plan->period);
	weir__state_set_wide(state, given >= used ? 0 : is_full_at - given);
	return cost - (uint64_t)built_upon;
}
