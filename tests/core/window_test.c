/* window_test.c: fixed windows, aligned to the clock or to the first request. */
#include "rows.h"

/* clang-format off */
static void windows_on_the_clock(void)
{
	CHECK_ROWS("3/min fixed_window",
		{ "nothing counted: nothing to reset", S(30),      PEEK, 1, { true,  3, 0,          0,     0 } },
		{ "the window is the clock's minute",  S(59),      TAKE, 3, { true,  0, 0,          S(1),  0 } },
		{ "used up until it ends",             S(60) - 1,  TAKE, 1, { false, 0, 1,          1,     0 } },
		{ "and then whole again",              S(60),      TAKE, 2, { true,  1, 0,          S(60), 0 } },
		{ "a denial counts nothing",           S(61),      TAKE, 2, { false, 1, S(59),      S(59), 0 } },
		{ "nought is always admitted",         S(61),      TAKE, 0, { true,  1, 0,          S(59), 0 } },
		{ "more than the count never fits",    S(61),      TAKE, 4, { false, 1, WEIR_NEVER, S(59), 0 } },
		{ "up to",                             S(61),      UPTO, 9, { true,  0, 0,          S(59), 0 } },
		{ "given back",                        S(61),      REFUND, 1, { true, 1, 0,         S(59), 0 } },
		{ "never above the count",             S(61),      REFUND, 9, { true, 3, 0,         0,     0 } },
	);
}

static void windows_from_the_first_request(void)
{
	CHECK_ROWS("2/10s fixed_window align first",
		{ "begins with it",                     S(3),      TAKE, 1, { true,  1, 0, S(10), 0 } },
		{ "ends a period later",                S(13) - 1, TAKE, 2, { false, 1, 1, 1,     0 } },
		{ "and begins with the next",           S(20),     TAKE, 2, { true,  0, 0, S(10), 0 } },
	);
}

static void counting_denied_requests_too(void)
{
	CHECK_ROWS("10/min fixed_window count all",
		{ "admitted",                      0,     TAKE, 6,          { true,  4,  0,          S(60), 0 } },
		{ "a denial is counted",           0,     TAKE, 5,          { false, 0,  S(60),      S(60), 0 } },
		{ "so nothing more fits",          0,     TAKE, 1,          { false, 0,  S(60),      S(60), 0 } },
		{ "looking is free",               0,     PEEK, 1,          { false, 0,  S(60),      S(60), 0 } },
		{ "until the window ends",         S(60), PEEK, 10,         { true,  10, 0,          0,     0 } },
		{ "also what never fits",          S(60), TAKE, UINT64_MAX, { false, 0,  WEIR_NEVER, S(60), 0 } },
		{ "and does not wrap",             S(60), TAKE, UINT64_MAX, { false, 0,  WEIR_NEVER, S(60), 0 } },
		{ "up to, when none is there",     S(60), UPTO, 4,          { false, 0,  S(60),      S(60), 0 } },
		{ "with the clock behind, too",    S(30), TAKE, 4,          { false, 0,  S(90),      S(90), 0 } },
	);
	CHECK_ROWS("281474976710656/min fixed_window count all",
		{ "counts of more than 48 bits",   0,     TAKE, UINT64_MAX, { false, 0,  WEIR_NEVER, S(60), 0 } },
		{ "do not wrap either",            0,     TAKE, 1,          { false, 0,  S(60),      S(60), 0 } },
	);
}

static void clocks_that_step_back(void)
{
	CHECK_ROWS("3/min fixed_window",
		{ "a window is used",                S(1020),    TAKE, 2, { true,  1, 0,      S(60),  0 } },
		{ "60 s back it stands",             S(960),     TAKE, 2, { false, 1, S(120), S(120), 0 } },
		{ "with what is left of it",         S(960),     TAKE, 1, { true,  0, 0,      S(120), 0 } },
		{ "more: the one that now falls in", S(930),     TAKE, 1, { false, 0, S(30),  S(30),  0 } },
		{ "is used up until it ends",        S(960),     TAKE, 3, { true,  0, 0,      S(60),  0 } },
	);
	CHECK_ROWS("2/10s fixed_window align first",
		{ "a window is used",                S(1000),    TAKE, 1, { true,  1, 0,      S(10),  0 } },
		{ "on a new clock it begins now",    S(500),     TAKE, 1, { true,  0, 0,      S(10),  0 } },
		{ "denied, too",                     S(100),     TAKE, 1, { false, 0, S(10),  S(10),  0 } },
		{ "and time goes on",                S(109),     TAKE, 1, { false, 0, S(1),   S(1),   0 } },
	);
}
/* clang-format on */

static void a_changed_window_keeps_what_it_counted(void)
{
	struct weir_plan plan = plan_of("281474976710656/min fixed_window count all");
	struct weir_state state = { 0, 0 };

	weir_step_take(&plan, &state, S(1), 100);
	change(&plan, &state, S(1), "120/min fixed_window count all");
	CHECK_EQ(weir_step_peek(&plan, &state, S(1), 0).remaining, 20);
	change(&plan, &state, S(1), "90/min fixed_window count all");
	CHECK_EQ(weir_step_peek(&plan, &state, S(1), 0).remaining, 0);
	CHECK(!weir_step_allow(&plan, &state, S(1), 1));
	change(&plan, &state, S(1), "281474976710656/min fixed_window count all");
	weir_step_take(&plan, &state, S(1), UINT64_MAX);
	CHECK_EQ(state.hi, UINT64_MAX);
	change(&plan, &state, S(1), "90/min fixed_window count all");
	CHECK_EQ(state.hi, (UINT64_C(1) << 48) - 1);
}

TESTS(TEST(windows_on_the_clock), TEST(windows_from_the_first_request), TEST(counting_denied_requests_too),
      TEST(clocks_that_step_back), TEST(a_changed_window_keeps_what_it_counted))
