/* reserve_test.c: reservations of token buckets. tests/vectors/reserve.vec has their verdicts in order. */
#include "core/reserve.h"

#include "rows.h"

static void a_wait_that_is_too_long_changes_nothing(void)
{
	const struct weir_plan plan = plan_of("10/s burst 2");
	struct weir_state state = { 0, 0 }, before;
	struct weir_reservation reservation;
	struct weir_verdict v;

	v = weir__reserve_take(&plan, &state, S(1), 2, 0, &reservation);
	CHECK(v.allowed && v.delay == 0 && v.granted == 2 && reservation.act_at == S(1));
	before = state;
	v = weir__reserve_take(&plan, &state, S(1), 1, MS(99), &reservation);
	CHECK(!v.allowed && !v.never);
	CHECK_EQ(v.retry_after, MS(1));
	CHECK_EQ(reservation.cost, 0);
	CHECK(memcmp(&state, &before, sizeof(state)) == 0);
	v = weir__reserve_take(&plan, &state, S(1), 1, MS(100), &reservation);
	CHECK(v.allowed && v.delay == MS(100));
	v = weir__reserve_take(&plan, &state, S(1), 3, UINT64_MAX, &reservation);
	CHECK(v.never && !v.allowed && v.retry_after == WEIR_NEVER);
}

static void cancelling_gives_back_what_nobody_built_upon(void)
{
	const struct weir_plan plan = plan_of("10/s burst 2");
	struct weir_state state = { 0, 0 };
	struct weir_reservation first, second, third;

	weir__reserve_take(&plan, &state, 0, 2, UINT64_MAX, &first);
	weir__reserve_take(&plan, &state, 0, 2, UINT64_MAX, &second);
	weir__reserve_take(&plan, &state, 0, 1, UINT64_MAX, &third);
	CHECK_EQ(third.act_at, MS(300));
	CHECK_EQ(weir__reserve_cancel(&plan, &state, 0, &first), 0);
	CHECK_EQ(weir__reserve_cancel(&plan, &state, 0, &second), 1);
	CHECK_EQ(weir__reserve_cancel(&plan, &state, MS(300) + 1, &third), 0);
	CHECK_EQ(weir__reserve_cancel(&plan, &state, MS(300), &third), 1);
	third.cost = 0;
	CHECK_EQ(weir__reserve_cancel(&plan, &state, 0, &third), 0);
	weir__reserve_take(&plan, &state, S(9), 2, UINT64_MAX, &first);
	weir_step_refund(&plan, &state, S(9), 1);
	CHECK_EQ(weir__reserve_cancel(&plan, &state, S(9), &first), 1); /* no more than is used */
	CHECK_EQ(state.lo | state.hi, 0);
}

static void cancelling_after_the_rate_has_changed(void)
{
	struct weir_plan plan = plan_of("10/s burst 1");
	struct weir_state state = { 0, 0 };
	struct weir_reservation first, second;

	weir__reserve_take(&plan, &state, S(1), 1, UINT64_MAX, &first);
	weir__reserve_take(&plan, &state, S(1), 1, UINT64_MAX, &second);
	plan.flags |= WEIR_PLAN_RESERVED;
	change(&plan, &state, S(1), "3/s burst 1");
	CHECK_EQ(weir__reserve_cancel(&plan, &state, S(1), &second), 0); /* 0.3: the newest acts 0.7 tokens later */
	CHECK_EQ(weir_step_peek(&plan, &state, S(1), 1).retry_after, NS(566666667)); /* 1.7 tokens are owed */
}

static void interval_buckets_reserve_whole_refills(void)
{
	const struct weir_plan plan = plan_of("2/s refill interval burst 4");
	struct weir_state state = { 0, 0 };
	struct weir_reservation first, second, third;

	weir__reserve_take(&plan, &state, S(1), 4, UINT64_MAX, &first);
	CHECK_EQ(first.act_at, S(1));
	weir__reserve_take(&plan, &state, S(1), 3, UINT64_MAX, &second);
	CHECK_EQ(second.act_at, S(3));
	weir__reserve_take(&plan, &state, S(1), 2, UINT64_MAX, &third);
	CHECK_EQ(third.act_at, S(4));
	CHECK_EQ(weir__reserve_cancel(&plan, &state, S(1), &first), 0);
	CHECK_EQ(weir__reserve_cancel(&plan, &state, S(1), &second), 1);
	CHECK_EQ(weir__reserve_cancel(&plan, &state, S(1), &third), 2);
	CHECK_EQ(weir__reserve_take(&plan, &state, S(9), 4, UINT64_MAX, &third).delay, 0);
	CHECK_EQ(weir__reserve_cancel(&plan, &state, S(9), &third), 4);
	CHECK_EQ(state.lo | state.hi, 0);
}

static void more_than_the_state_can_hold_is_never(void)
{
	const struct weir_plan slim = plan_of("1/day burst 18446744073709551615");
	const struct weir_plan wide = plan_of("1/18446744073709551615ns burst 18446744073709551615");
	const struct weir_plan interval = plan_of("1/day refill interval burst 281474976710655");
	const struct weir_plan wide_interval = plan_of("1/day refill interval burst 18446744073709551615");
	const struct weir_plan *const plans[] = { &slim, &wide, &interval, &wide_interval };

	for (size_t i = 0; i < 4; i++) {
		struct weir_plan plan = *plans[i];
		struct weir_state state = { 0, 0 }, before;
		struct weir_reservation reservation;
		struct weir_verdict v;
		int tries = 0;

		plan.flags |= WEIR_PLAN_RESERVED;
		do {
			before = state;
			v = weir__reserve_take(&plan, &state, S(1), plan.most, UINT64_MAX, &reservation);
		} while (v.allowed && ++tries < 1 << 17);
		CHECK(v.never);
		CHECK(tries > 0 && tries < 1 << 17);
		CHECK(memcmp(&state, &before, sizeof(state)) == 0);
	}
}

static void debt_explains_only_what_was_reserved(void)
{
	struct weir_plan plan = plan_of("1/s burst 1");
	struct weir_state state = { 0, 0 };
	struct weir_reservation reservation;
	struct weir__debt debt = { 0, 0 };

	CHECK(!weir__reserve_explains(&plan, &state, &debt, S(1000)));
	plan.flags |= WEIR_PLAN_RESERVED;
	for (int i = 0; i < 100; i++)
		weir__reserve_take(&plan, &state, S(1000), 1, UINT64_MAX, &reservation);
	debt = weir__reserve_debt(&plan, &state, &debt, S(1000));
	CHECK_EQ(debt.at, S(1000));
	CHECK_EQ(debt.until, S(1100));
	CHECK(weir__reserve_explains(&plan, &state, &debt, S(940)));
	CHECK(!weir__reserve_explains(&plan, &state, &debt, S(940) - 1)); /* a new clock */
	CHECK_EQ(weir__reserve_debt(&plan, &state, &debt, S(940)).at, S(1000));
	CHECK_EQ(weir__reserve_debt(&plan, &state, &debt, S(940) - 1).at, S(940) - 1);
	weir_step_allow(&plan, &state, S(999999), 1); /* a request by a clock that is ahead */
	CHECK(!weir__reserve_explains(&plan, &state, &debt, S(1000)));
	debt = (struct weir__debt){ 0, 0 };
	CHECK_EQ(weir__reserve_debt(&plan, &state, &debt, 0).at, 1); /* 0 is reserved for "none" */
	plan = plan_of("2/s refill interval burst 4");
	state = (struct weir_state){ S(10), 7 };
	CHECK_EQ(weir__reserve_debt(&plan, &state, &debt, S(10)).until, S(14));
}

static void departures_can_be_cancelled(void)
{
	const struct weir_plan plan = plan_of("1/s leaky queue 10");
	struct weir_state state = { 0, 0 }, before;
	struct weir_reservation first, second, third;
	struct weir_verdict v;

	weir__reserve_departure(&plan, &state, S(1), 1, 0, &first);
	weir__reserve_departure(&plan, &state, S(1), 1, S(1), &second);
	CHECK_EQ(second.act_at, S(2));
	before = state;
	v = weir__reserve_departure(&plan, &state, S(1), 1, S(1), &third);
	CHECK(!v.allowed && v.retry_after == S(1) && third.cost == 0);
	CHECK(memcmp(&state, &before, sizeof(state)) == 0);
	weir__reserve_departure(&plan, &state, S(1), 1, S(2), &third);
	CHECK_EQ(weir__reserve_cancel(&plan, &state, S(1), &second), 0); /* the third stands behind it */
	CHECK_EQ(weir__reserve_cancel(&plan, &state, S(1), &third), 1);
	v = weir__reserve_departure(&plan, &state, S(1), 9, UINT64_MAX, &third);
	CHECK(!v.allowed && v.retry_after == S(1) && v.delay == 0); /* full */
	CHECK(weir__reserve_departure(&plan, &state, S(1), 11, UINT64_MAX, &third).never);
}

static void which_plans_reserve(void)
{
	const struct weir_plan yes[] = { plan_of("1/s"), plan_of("1/s refill interval"), plan_of("1/s leaky") };
	const struct weir_plan no[] = { plan_of("1/s leaky queue 1"), plan_of("1/s fixed_window") };

	CHECK(weir__reserve_has(&yes[0]) && weir__reserve_has(&yes[1]) && weir__reserve_has(&yes[2]));
	CHECK(!weir__reserve_has(&no[0]) && !weir__reserve_has(&no[1]));
}

/* Cancels a departure by the instant that its verdict gave, to the nanosecond. */
static uint64_t cancelled(const struct weir_plan *plan, struct weir_state *state, weir_ns now, uint64_t cost,
			  weir_ns full_at)
{
	return weir__reserve_cancel_departure(plan, state, now, cost, full_at);
}

static void a_departure_is_cancelled_by_its_verdict(void)
{
	const struct weir_plan plan = plan_of("7/min leaky queue 9"); /* one token does not take a whole number of ns */
	struct weir_state state = { 0, 0 };
	weir_ns full_at[3];

	for (int i = 0; i < 3; i++)
		full_at[i] = S(1) + weir_step_take(&plan, &state, S(1), 2).reset_after;
	CHECK_EQ(cancelled(&plan, &state, S(1), 2, full_at[0]), 0); /* four tokens were reserved after it */
	CHECK_EQ(cancelled(&plan, &state, S(1), 2, full_at[1]), 0);
	CHECK_EQ(cancelled(&plan, &state, full_at[1] + 1, 2, full_at[2]), 0); /* it has departed */
	CHECK_EQ(cancelled(&plan, &state, S(1), 2, full_at[2]), 2);
	CHECK_EQ(weir_step_peek(&plan, &state, S(1), 1).delay, full_at[1] - S(1));
	CHECK_EQ(cancelled(&plan, &state, S(1), 2, full_at[2]), 0); /* already given back */
	(void)weir_step_take(&plan, &state, S(1), 1);
	CHECK_EQ(cancelled(&plan, &state, S(1), 2, full_at[1]), 1); /* one token was reserved after it */
	CHECK_EQ(cancelled(&plan, &state, S(1), 0, full_at[1]), 0);
	weir_step_refund(&plan, &state, S(1), 9);
	full_at[0] = S(1) + weir_step_take(&plan, &state, S(1), 3).reset_after;
	CHECK_EQ(cancelled(&plan, &state, S(1), 3, full_at[0]), 3); /* all that is used */
	CHECK_EQ(state.lo | state.hi, 0);
}

/* Cancelling by the instant agrees with cancelling by the state right after the charge, which is exact. */
static void both_ways_of_cancelling_agree(void)
{
	static const char *const texts[] = { "10/s leaky queue 50", "7/min leaky queue 50", "999983/s leaky queue 50",
					     "3/700us leaky queue 50" };
	uint64_t chance = 1;

	for (int run = 0; run < 4000; run++) {
		const struct weir_plan plan = plan_of(texts[run % 4]);
		struct weir_state exact = { 0, 0 }, state;
		struct weir_reservation reservations[8];
		weir_ns now = S(1), full_at[8];
		int which;

		for (int i = 0; i < 8; i++) {
			struct weir_verdict verdict;

			chance = chance * UINT64_C(6364136223846793005) + 1;
			now += (chance >> 33) % (plan.period / plan.count + 1) / 4;
			verdict = weir__reserve_departure(&plan, &exact, now, 1 + (chance >> 60) % 3, UINT64_MAX,
							  &reservations[i]);
			CHECK(verdict.allowed);
			full_at[i] = now + verdict.reset_after;
		}
		state = exact;
		which = (int)(chance >> 40) % 8;
		now = weir__min(now + (chance >> 20) % 1000, reservations[which].act_at);
		CHECK_EQ(weir__reserve_cancel_departure(&plan, &state, now, reservations[which].cost, full_at[which]),
			 weir__reserve_cancel(&plan, &exact, now, &reservations[which]));
		CHECK(memcmp(&state, &exact, sizeof(state)) == 0);
	}
}

TESTS(TEST(a_wait_that_is_too_long_changes_nothing), TEST(cancelling_gives_back_what_nobody_built_upon),
      TEST(cancelling_after_the_rate_has_changed), TEST(interval_buckets_reserve_whole_refills),
      TEST(more_than_the_state_can_hold_is_never), TEST(debt_explains_only_what_was_reserved),
      TEST(departures_can_be_cancelled), TEST(a_departure_is_cancelled_by_its_verdict),
      TEST(both_ways_of_cancelling_agree), TEST(which_plans_reserve))
