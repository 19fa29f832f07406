/* counter_test.c: sliding counters with one window, in 16 bytes. */
#include "rows.h"

/* clang-format off */
static void the_edge_of_the_window_weighted(void)
{
	CHECK_ROWS("10/min sliding_counter",
		{ "ten in the middle of a minute", S(30),      TAKE, 10, { true,  0,  0,          S(84) + 1, 0 } },
		{ "leave in the next one",         S(30),      TAKE, 1,  { false, 0,  S(30) + 1,  S(84) + 1, 0 } },
		{ "one by one",                    S(30),      TAKE, 5,  { false, 0,  S(54) + 1,  S(84) + 1, 0 } },
		{ "whole at its first instant",    S(60),      TAKE, 1,  { false, 0,  1,          S(54) + 1, 0 } },
		{ "a nanosecond later nine",       S(60) + 1,  TAKE, 1,  { true,  0,  0,          NS(59999999999) + 1, 0 } },
		{ "within this window",            S(60) + 1,  TAKE, 1,  { false, 0,  S(6),       NS(59999999999) + 1, 0 } },
		{ "more than the count never",     S(60) + 1,  TAKE, 11, { false, 0,  WEIR_NEVER, NS(59999999999) + 1, 0 } },
		{ "nought always",                 S(60) + 1,  TAKE, 0,  { true,  0,  0,          NS(59999999999) + 1, 0 } },
		{ "two windows later it is new",   S(180),     TAKE, 10, { true,  0,  0,          S(114) + 1, 0 } },
	);
}

static void eighty_eight_before_and_twelve_now(void)
{
	CHECK_ROWS("100/min sliding_counter",
		{ "88 before",                S(10), TAKE, 88, { true, 12, 0, NS(109318181819), 0 } },
		{ "12 now",                   S(60), TAKE, 12, { true, 0,  0, NS(115000000001), 0 } },
		{ "78 at a quarter",          S(75), PEEK, 1,  { true, 22, 0, NS(100000000001), 0 } },
	);
}

static void refunds(void)
{
	CHECK_ROWS("10/min sliding_counter",
		{ "before",                              S(30),  TAKE,   6, { true, 4,  0, S(80) + 1,  0 } },
		{ "now",                                 S(60),  TAKE,   3, { true, 1,  0, S(100) + 1, 0 } },
		{ "first of the current window",         S(60),  REFUND, 2, { true, 3,  0, S(60) + 1,  0 } },
		{ "then of the previous",                S(60),  REFUND, 2, { true, 5,  0, S(48) + 1,  0 } },
		{ "one that has left is not touched",    S(120), REFUND, 1, { true, 10, 0, 0,          0 } },
		{ "given back to the previous one only", S(60),  TAKE,   1, { true, 4,  0, S(60) + 1,  0 } },
		{ "in the window after it",              S(120), REFUND, 5, { true, 10, 0, 0,          0 } },
		{ "long after",                          S(600), REFUND, 1, { true, 10, 0, 0,          0 } },
		{ "all of it",                           S(600), TAKE,   1, { true, 9,  0, S(60) + 1,  0 } },
		{ "makes it fresh",                      S(600), REFUND, 9, { true, 10, 0, 0,          0 } },
	);
}

static void clocks_that_step_back(void)
{
	CHECK_ROWS("5/min sliding_counter",
		{ "some before",                    S(1010),     TAKE, 2, { true,  3, 0,      S(40) + 1,  0 } },
		{ "some now",                       S(1020),     TAKE, 1, { true,  2, 0,      S(60) + 1,  0 } },
		{ "60 s back, the window stands",   S(960),      TAKE, 3, { false, 2, S(60) + 1, S(120) + 1, 0 } },
		{ "and counts on",                  S(960),      TAKE, 1, { true,  1, 0,      S(150) + 1, 0 } },
		{ "more: all count in this window", S(600),      TAKE, 2, { false, 1, S(60) + 1, S(105) + 1, 0 } },
		{ "a third clock",                  S(300),      TAKE, 1, { true,  0, 0,      S(108) + 1, 0 } },
		{ "used up is used up",             S(60),       TAKE, 1, { false, 0, S(60) + 1, S(108) + 1, 0 } },
		{ "for two windows at most",        S(180),      TAKE, 5, { true,  0, 0,      S(108) + 1, 0 } },
	);
}
/* clang-format on */

static void a_count_that_outgrows_32_bits_widens_the_state(void)
{
	struct weir_plan plan = plan_of("100/min sliding_counter");
	uint64_t state[8] = { 0 };

	weir_step_allow(&plan, state, S(30), 60);
	weir_step_allow(&plan, state, S(90), 20);
	change(&plan, state, S(90), "200/min sliding_counter");
	CHECK_EQ(weir_step_peek(&plan, state, S(90), 0).remaining, 150);
	change(&plan, state, S(90), "5000000000/min sliding_counter");
	CHECK_EQ(plan.kind, WEIR_KIND_SEGMENTS);
	CHECK_EQ(weir_step_peek(&plan, state, S(90), 0).remaining, UINT64_C(5000000000) - 50);
	CHECK(weir_step_allow(&plan, state, S(90), UINT64_C(4999999950)));
	CHECK(!weir_step_allow(&plan, state, S(90), 1));
}

static void periods_too_short_for_a_slim_state(void)
{
	CHECK(plan_of("10/65536ns sliding_counter").flags & WEIR_PLAN_SLIM);
	CHECK(!(plan_of("10/65535ns sliding_counter").flags & WEIR_PLAN_SLIM));
}

TESTS(TEST(the_edge_of_the_window_weighted), TEST(eighty_eight_before_and_twelve_now), TEST(refunds),
      TEST(clocks_that_step_back), TEST(a_count_that_outgrows_32_bits_widens_the_state),
      TEST(periods_too_short_for_a_slim_state))
