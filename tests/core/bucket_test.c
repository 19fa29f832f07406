/* bucket_test.c: token and leaky buckets with continuous refill. */
#include "rows.h"

/* clang-format off */
static void a_story_of_ten_a_second(void)
{
	CHECK_ROWS("10/s burst 3",
		{ "a new key has its whole burst",       MS(1000), TAKE, 1, { true,  2, 0,          MS(100), 0 } },
		{ "a denial costs nothing",              MS(1000), TAKE, 3, { false, 2, MS(100),    MS(100), 0 } },
		{ "looking costs nothing",               MS(1000), PEEK, 2, { true,  2, 0,          MS(100), 0 } },
		{ "exactly one interval buys one token", MS(1100), TAKE, 3, { true,  0, 0,          MS(300), 0 } },
		{ "a clock that steps back admits none", MS(900),  TAKE, 1, { false, 0, MS(300),    MS(500), 0 } },
		{ "one nanosecond early is too early",   MS(1200) - 1, TAKE, 1, { false, 0, 1, MS(200) + 1, 0 } },
		{ "at its time it is admitted",          MS(1200), TAKE, 1, { true,  0, 0,          MS(300), 0 } },
		{ "nought is always admitted",           MS(1200), TAKE, 0, { true,  0, 0,          MS(300), 0 } },
		{ "more than the burst never fits",      MS(9000), TAKE, 4, { false, 3, WEIR_NEVER, 0,       0 } },
		{ "as many as there are",                MS(9000), UPTO, 9, { true,  0, 0,          MS(300), 0 } },
		{ "none there: until there is one",      MS(9000), UPTO, 9, { false, 0, MS(100),    MS(300), 0 } },
		{ "given back",                          MS(9000), REFUND, 2, { true, 2, 0,         MS(100), 0 } },
		{ "never above full",                    MS(9000), REFUND, 9, { true, 3, 0,         0,       0 } },
	);
}

static void seven_a_minute_drifts_by_nothing(void)
{
	CHECK_ROWS("7/min",
		{ "all seven",                     0,             TAKE, 7, { true,  0, 0, S(60),          0 } },
		{ "a seventh of a minute, early",  NS(8571428571), TAKE, 1, { false, 0, 1, NS(51428571429), 0 } },
		{ "a seventh of a minute",         NS(8571428572), TAKE, 1, { true,  0, 0, S(60),         0 } },
		{ "six more by the minute",        S(60),         TAKE, 6, { true,  0, 0, S(60),          0 } },
	);
}

static void a_leaky_bucket_tells_departures(void)
{
	CHECK_ROWS("10/s leaky queue 5",
		{ "the first departs at once",     0,      TAKE, 1, { true,  4, 0,       MS(100), 0       } },
		{ "the next one after it",         0,      TAKE, 1, { true,  3, 0,       MS(200), MS(100) } },
		{ "peek tells it too",             MS(50), PEEK, 1, { true,  3, 0,       MS(150), MS(150) } },
		{ "up to fills the queue",         MS(50), UPTO, 9, { true,  0, 0,       MS(450), MS(150) } },
		{ "full: no delay, a retry",       MS(50), TAKE, 1, { false, 0, MS(50),  MS(450), 0       } },
	);
	CHECK_ROWS("10/s leaky burst 5",
		{ "policing knows no delay",       0,      TAKE, 5, { true,  0, 0,       MS(500), 0       } },
		{ "and the same decisions",        MS(99), TAKE, 1, { false, 0, MS(1),   MS(401), 0       } },
	);
}

static void clocks_that_step_back(void)
{
	CHECK_ROWS("2/s burst 2",
		{ "empty",                          S(100),     TAKE, 2, { true,  0, 0,             S(1),      0 } },
		{ "60 s is still the same clock",   S(40),      TAKE, 1, { false, 0, MS(60500),     S(61),     0 } },
		{ "1 ns more is a new one",         S(40) - 1,  TAKE, 1, { false, 0, MS(500),       S(1),      0 } },
		{ "on which time goes on",          MS(40500) - 1, TAKE, 1, { true, 0, 0,           S(1),      0 } },
	);
	CHECK_ROWS("2/s burst 2",
		{ "empty",                          S(1000),    TAKE, 2, { true,  0, 0,             S(1),      0 } },
		{ "looking notices a new clock",    S(10),      PEEK, 1, { false, 0, MS(500),       S(1),      0 } },
		{ "which counts from then",         MS(10500),  TAKE, 1, { true,  0, 0,             S(1),      0 } },
	);
}

static void the_ends_of_64_bits(void)
{
	CHECK_ROWS("1/ns burst 18446744073709551615",
		{ "the largest burst",   0,          TAKE, UINT64_MAX, { true,  0, 0, UINT64_MAX, 0 } },
		{ "one at a time",       1,          TAKE, 1,          { true,  0, 0, UINT64_MAX, 0 } },
		{ "the last instant",    UINT64_MAX, TAKE, UINT64_MAX, { false, UINT64_MAX - 1, 1, 1, 0 } },
		{ "all of it back",      UINT64_MAX, REFUND, UINT64_MAX, { true, UINT64_MAX, 0, 0, 0 } },
	);
	CHECK_ROWS("1/18446744073709551615ns burst 18446744073709551615",
		{ "waits beyond 584 years saturate", 0, TAKE, UINT64_MAX, { true, 0, 0, UINT64_MAX, 0 } },
		{ "but are waits, not never",        0, TAKE, 2,          { false, 0, UINT64_MAX, UINT64_MAX, 0 } },
	);
}
/* clang-format on */

static uint64_t tokens(const struct weir_plan *plan, void *state, weir_ns now)
{
	return weir_step_peek(plan, state, now, 0).remaining;
}

static void a_changed_bucket_keeps_what_was_used(void)
{
	struct weir_plan plan = plan_of("10/s burst 10");
	struct weir_state state = { 0, 0 };

	weir_step_allow(&plan, &state, S(1), 4);
	change(&plan, &state, S(1), "10/s burst 8");
	CHECK_EQ(tokens(&plan, &state, S(1)), 4);
	change(&plan, &state, S(1), "1/s burst 20");
	CHECK_EQ(tokens(&plan, &state, S(1)), 16);
	CHECK_EQ(weir_step_peek(&plan, &state, S(1), 0).reset_after, S(4));
	change(&plan, &state, S(1), "1/s burst 3"); /* cut to the burst */
	CHECK_EQ(tokens(&plan, &state, S(1)), 0);
	CHECK_EQ(weir_step_peek(&plan, &state, S(1), 0).reset_after, S(3));
	change(&plan, &state, S(1), "1/s burst 9");
	CHECK_EQ(tokens(&plan, &state, S(1)), 6);
	change(&plan, &state, S(4), "1/s burst 90"); /* a full bucket stays full */
	CHECK_EQ(tokens(&plan, &state, S(4)), 90);
	CHECK_EQ(state.lo | state.hi, 0);
}

static void a_change_while_the_clock_is_behind_wins_nothing(void)
{
	struct weir_plan plan = plan_of("10/s burst 10");
	struct weir_state state = { 0, 0 };

	weir_step_allow(&plan, &state, S(100), 10);
	change(&plan, &state, S(70), "3/7s burst 3");
	CHECK_EQ(tokens(&plan, &state, S(70)), 0);
	CHECK_EQ(weir_step_peek(&plan, &state, S(70), 0).reset_after, S(37));
}

static void a_debt_too_large_for_the_new_rate_saturates(void)
{
	struct weir_plan plan = plan_of("1000000000/s burst 1");
	struct weir_plan slow = plan_of("1/18446744073709551615ns burst 140737488355328");
	struct weir_plan slower = plan_of("1/18446744073709551615ns burst 18446744073709551615");
	struct weir_state state = { 0, UINT64_C(1) << 40 };

	plan.flags |= WEIR_PLAN_RESERVED;
	CHECK(slow.flags & WEIR_PLAN_SLIM);
	weir_step_convert(&plan, &slow, &state, 0);
	CHECK_EQ(state.hi, (UINT64_C(1) << 48) - 1);
	CHECK_EQ(state.lo, UINT64_MAX);
	state = (struct weir_state){ 0, UINT64_MAX };
	weir_step_convert(&plan, &slower, &state, 0);
	CHECK_EQ(state.hi, UINT64_MAX);
	CHECK_EQ(state.lo, UINT64_MAX);
	/* the sum with the time overflows */
	state = (struct weir_state){ 0, 2 };
	slower.most = 1;
	weir_step_convert(&plan, &slower, &state, UINT64_MAX);
	CHECK_EQ(state.hi, UINT64_MAX);
	CHECK_EQ(state.lo, UINT64_MAX);
	/* a sum that fits */
	state = (struct weir_state){ 2, 0 };
	weir_step_convert(&plan, &slower, &state, 1);
	CHECK_EQ(state.hi, 1);
	CHECK_EQ(state.lo, 0);
}

static void an_emptied_bucket_of_ten_years(void)
{
	const struct weir_plan plan = plan_of("7/min burst 7");
	const weir_ns year = S(31536000);
	struct weir_state state = { 0, 0 };
	uint64_t admitted = 0;

	/* Ten requests a second on the first and last day of ten years, one a minute in between. */
	for (weir_ns now = 0; now <= 10 * year; now += now < S(86400) || now > 10 * year - S(86400) ? MS(100) : S(60))
		while (weir_step_allow(&plan, &state, now, 1))
			admitted++;
	CHECK_EQ(admitted, 7 + 7 * (10 * year / S(60)));
}

TESTS(TEST(a_story_of_ten_a_second), TEST(seven_a_minute_drifts_by_nothing), TEST(a_leaky_bucket_tells_departures),
      TEST(clocks_that_step_back), TEST(the_ends_of_64_bits), TEST(a_changed_bucket_keeps_what_was_used),
      TEST(a_change_while_the_clock_is_behind_wins_nothing), TEST(a_debt_too_large_for_the_new_rate_saturates),
      TEST(an_emptied_bucket_of_ten_years))
