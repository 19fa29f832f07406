/* segments_test.c: sliding counters with several sub-windows. */
#include "rows.h"

/* clang-format off */
static void two_halves(void)
{
	CHECK_ROWS("10/10s sliding_counter segments 2",
		{ "four in the first half",     0,          TAKE, 4,  { true,  6,  0,          MS(13750) + 1, 0 } },
		{ "six in the second",          S(5),       TAKE, 6,  { true,  0,  0,          NS(14166666667), 0 } },
		{ "only the older is weighted", S(9),       TAKE, 1,  { false, 0,  S(1) + 1,   NS(10166666667), 0 } },
		{ "a nanosecond into it",       S(10) + 1,  TAKE, 1,  { true,  0,  0,          S(10), 0 } },
		{ "nought always",              S(10) + 1,  TAKE, 0,  { true,  0,  0,          S(10), 0 } },
		{ "eleven never",               S(10) + 1,  TAKE, 11, { false, 0,  WEIR_NEVER, S(10), 0 } },
		{ "up to",                      S(15) + 1,  UPTO, 9,  { true,  0,  0,          MS(13750), 0 } },
		{ "long after it is new",       S(99),      PEEK, 9,  { true,  10, 0,          0,     0 } },
		{ "and takes all",              S(99),      TAKE, 10, { true,  0,  0,          MS(10500) + 1, 0 } },
	);
}

static void refunds(void)
{
	CHECK_ROWS("10/10s sliding_counter segments 2",
		{ "some",                       0,     TAKE,   4, { true, 6,  0, MS(13750) + 1, 0 } },
		{ "and some",                   S(5),  TAKE,   3, { true, 3,  0, NS(13333333334), 0 } },
		{ "newest first",               S(5),  REFUND, 4, { true, 7,  0, NS(8333333334), 0 } },
		{ "not what has left",          S(16), REFUND, 9, { true, 10, 0, 0,      0 } },
		{ "which counts on a step back", S(5), PEEK,   1, { true, 7,  0, NS(8333333334), 0 } },
		{ "all of it",                  S(5),  REFUND, 9, { true, 10, 0, 0,      0 } },
		{ "far from the epoch",         S(90), TAKE,   4, { true, 6,  0, MS(13750) + 1, 0 } },
		{ "a part of it",               S(90), REFUND, 1, { true, 7,  0, NS(13333333334), 0 } },
	);
}

static void counting_denied_requests_too(void)
{
	CHECK_ROWS("10/min sliding_counter count all",
		{ "admitted",                      0,          TAKE, 6,          { true,  4,  0,          S(110) + 1, 0 } },
		{ "a denial is counted",           0,          TAKE, 5,          { false, 0,  NS(87272727273), NS(114545454546), 0 } },
		{ "also what never fits",          0,          TAKE, UINT64_MAX, { false, 0,  WEIR_NEVER, S(120),     0 } },
		{ "and does not wrap",             0,          TAKE, UINT64_MAX, { false, 0,  WEIR_NEVER, S(120),     0 } },
		{ "up to, when none is there",     0,          UPTO, 4,          { false, 0,  S(120),     S(120),     0 } },
		{ "for two windows",               S(120) - 1, TAKE, 1,          { false, 0,  1,          2,          0 } },
	);
}

static void clocks_that_step_back(void)
{
	CHECK_ROWS("10/10s sliding_counter segments 2",
		{ "some",                            S(100),  TAKE, 4, { true,  6, 0,         MS(13750) + 1, 0 } },
		{ "and some",                        S(105),  TAKE, 4, { true,  2, 0,         MS(13750) + 1, 0 } },
		{ "60 s back they stand",            S(45),   TAKE, 3, { false, 2, S(65) + 1, MS(73750) + 1, 0 } },
		{ "and count on",                    S(45),   TAKE, 1, { true,  1, 0,         S(74) + 1,     0 } },
		{ "more: all count now",             S(12),   TAKE, 2, { false, 1, S(8) + 1, NS(12444444445), 0 } },
		{ "from the first sub-window, too",  S(12),   PEEK, 1, { true,  1, 0,        NS(12444444445), 0 } },
	);
}
/* clang-format on */

static void a_count_near_the_epoch_looks_at_no_earlier_ones(void)
{
	const struct weir_plan plan = plan_of("10/100s sliding_counter segments 100");
	void *const state = fresh_state(&plan);

	CHECK(weir_step_allow(&plan, state, S(3), 4));
	CHECK_EQ(weir_step_peek(&plan, state, S(3), 7).retry_after, S(100) + 1);
	CHECK_EQ(weir_step_refund(&plan, state, S(3), 9).remaining, 10);
	free(state);
}

static void a_changed_counter_keeps_what_it_counted(void)
{
	struct weir_plan plan = plan_of("10/10s sliding_counter segments 2");
	void *const state = fresh_state(&plan);

	weir_step_allow(&plan, state, S(3), 8);
	change(&plan, state, S(3), "6/10s sliding_counter segments 2");
	CHECK_EQ(weir_step_peek(&plan, state, S(3), 1).retry_after, MS(8250) + 1);
	free(state);
}

TESTS(TEST(two_halves), TEST(refunds), TEST(counting_denied_requests_too), TEST(clocks_that_step_back),
      TEST(a_count_near_the_epoch_looks_at_no_earlier_ones), TEST(a_changed_counter_keeps_what_it_counted))
