/* interval_test.c: token buckets that refill once per period. */
#include "rows.h"

/* clang-format off */
static void three_a_minute_all_at_once(void)
{
	CHECK_ROWS("3/min refill interval",
		{ "the first use starts the minute",    S(7),      TAKE, 1, { true,  2, 0,          S(60), 0 } },
		{ "a later one does not move it",       S(17),     TAKE, 2, { true,  0, 0,          S(50), 0 } },
		{ "nothing until it is whole",          S(67) - 1, TAKE, 1, { false, 0, 1,          1,     0 } },
		{ "then all three",                     S(67),     TAKE, 3, { true,  0, 0,          S(60), 0 } },
		{ "nought is admitted all the same",    S(67),     TAKE, 0, { true,  0, 0,          S(60), 0 } },
		{ "four never fit",                     S(67),     TAKE, 4, { false, 0, WEIR_NEVER, S(60), 0 } },
		{ "full again, a use begins anew",      S(200),    TAKE, 3, { true,  0, 0,          S(60), 0 } },
		{ "some given back",                    S(201),    REFUND, 2, { true, 2, 0,         S(59), 0 } },
		{ "all given back",                     S(201),    REFUND, 2, { true, 3, 0,         0,     0 } },
	);
}

static void a_bucket_of_several_refills(void)
{
	CHECK_ROWS("2/s refill interval burst 10",
		{ "emptied",                     0,        TAKE, 10, { true,  0, 0,        S(5),     0 } },
		{ "waits for several",           MS(300),  TAKE, 5,  { false, 0, MS(2700), MS(4700), 0 } },
		{ "as many as there are",        MS(2500), UPTO, 9,  { true,  0, 0,        MS(4500), 0 } },
		{ "none there",                  MS(2500), UPTO, 9,  { false, 0, MS(500),  MS(4500), 0 } },
	);
	CHECK_ROWS("18446744073709551615/ns refill interval burst 100",
		{ "refills without number",      0,        TAKE, 100, { true, 0,   0, 1, 0 } },
		{ "do not wrap",                 S(9),     PEEK, 100, { true, 100, 0, 0, 0 } },
	);
}

static void clocks_that_step_back(void)
{
	CHECK_ROWS("2/10s refill interval burst 4",
		{ "two left",                      S(1000),    TAKE, 2, { true,  2, 0,     S(10), 0 } },
		{ "60 s back: what was left",      S(940),     TAKE, 1, { true,  1, 0,     S(80), 0 } },
		{ "and no more",                   S(940),     TAKE, 2, { false, 1, S(70), S(80), 0 } },
		{ "more: an interval begins now",  S(500),     TAKE, 1, { true,  0, 0,     S(20), 0 } },
		{ "denied, too",                   S(100),     TAKE, 1, { false, 0, S(10), S(20), 0 } },
	);
}
/* clang-format on */

static void a_changed_bucket_keeps_what_was_used(void)
{
	struct weir_plan plan = plan_of("3/min refill interval burst 9");
	struct weir_state state = { 0, 0 };
	struct weir_verdict v;

	weir_step_allow(&plan, &state, S(10), 4);
	change(&plan, &state, S(20), "4/min refill interval burst 12");
	v = weir_step_peek(&plan, &state, S(20), 12);
	CHECK_EQ(v.remaining, 8);
	CHECK_EQ(v.retry_after, S(50)); /* the running minute goes on */
	change(&plan, &state, S(20), "4/s refill interval burst 12");
	v = weir_step_peek(&plan, &state, S(20), 12);
	CHECK_EQ(v.remaining, 8);
	CHECK_EQ(v.retry_after, S(1));                               /* a new period starts at the change */
	change(&plan, &state, S(20), "4/s refill interval burst 3"); /* cut to the burst */
	CHECK_EQ(weir_step_peek(&plan, &state, S(20), 0).remaining, 0);
	CHECK_EQ(state.hi, 3);
	change(&plan, &state, S(20), "4/s refill interval burst 6");
	v = weir_step_peek(&plan, &state, S(20), 6);
	CHECK_EQ(v.remaining, 3);
	CHECK_EQ(v.retry_after, S(1));
	change(&plan, &state, S(21), "4/s refill interval burst 60"); /* a full bucket stays full */
	CHECK_EQ(weir_step_peek(&plan, &state, S(21), 0).remaining, 60);
	CHECK_EQ(state.hi | state.lo, 0);
}

static void debt_too_large_for_the_state_saturates(void)
{
	struct weir_plan plan = plan_of("1/s refill interval burst 1000");
	struct weir_plan slim = plan_of("1/s refill interval burst 281474976710655");
	struct weir_plan wide = plan_of("1/s refill interval burst 18446744073709551615");
	struct weir_state state = { S(1), UINT64_MAX };

	plan.flags |= WEIR_PLAN_RESERVED;
	weir_step_convert(&plan, &slim, &state, S(1));
	CHECK_EQ(state.hi, (UINT64_C(1) << 48) - 1);
	state.hi = UINT64_MAX;
	weir_step_convert(&plan, &wide, &state, S(1));
	CHECK_EQ(state.hi, UINT64_MAX);
	state.hi = 2000;
	plan.most = 1000;
	wide.most = 300;
	weir_step_convert(&plan, &wide, &state, S(1)); /* usage beyond the burst stays */
	CHECK_EQ(state.hi, 1300);
}

TESTS(TEST(three_a_minute_all_at_once), TEST(a_bucket_of_several_refills), TEST(clocks_that_step_back),
      TEST(a_changed_bucket_keeps_what_was_used), TEST(debt_too_large_for_the_state_saturates))
