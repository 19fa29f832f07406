/* log_test.c: sliding logs. */
#include "rows.h"

/* clang-format off */
static void an_event_leaves_exactly_one_period_after_it_came(void)
{
	CHECK_ROWS("3/10s sliding_log",
		{ "one",                         0,          TAKE, 1, { true,  2, 0,          S(10), 0 } },
		{ "two more",                    S(6),       TAKE, 2, { true,  0, 0,          S(10), 0 } },
		{ "the oldest frees one",        S(9),       TAKE, 1, { false, 0, S(1),       S(7),  0 } },
		{ "the next the others",         S(9),       TAKE, 2, { false, 0, S(7),       S(7),  0 } },
		{ "early by a nanosecond",       S(10) - 1,  TAKE, 1, { false, 0, 1,          S(6) + 1, 0 } },
		{ "exactly then",                S(10),      TAKE, 1, { true,  0, 0,          S(10), 0 } },
		{ "nought always",               S(10),      TAKE, 0, { true,  0, 0,          S(10), 0 } },
		{ "four never",                  S(10),      TAKE, 4, { false, 0, WEIR_NEVER, S(10), 0 } },
		{ "up to",                       S(16),      UPTO, 9, { true,  0, 0,          S(10), 0 } },
		{ "none there",                  S(16),      UPTO, 9, { false, 0, S(4),       S(10), 0 } },
		{ "long after it is new",        S(99),      TAKE, 3, { true,  0, 0,          S(10), 0 } },
	);
}

static void refunds_take_back_the_newest(void)
{
	CHECK_ROWS("9/10s sliding_log",
		{ "old",                         0,          TAKE,   3, { true, 6, 0, S(10), 0 } },
		{ "newer",                       S(1),       TAKE,   3, { true, 3, 0, S(10), 0 } },
		{ "newest",                      S(2),       TAKE,   1, { true, 2, 0, S(10), 0 } },
		{ "one entry and part of one",   S(3),       REFUND, 2, { true, 4, 0, S(8),  0 } },
		{ "all",                         S(3),       REFUND, 9, { true, 9, 0, 0,     0 } },
		{ "of nothing",                  S(3),       REFUND, 1, { true, 9, 0, 0,     0 } },
	);
}

static void counting_denied_requests_too(void)
{
	CHECK_ROWS("4/10s sliding_log count all",
		{ "admitted",                    0,     TAKE, 3,          { true,  1, 0,          S(10), 0 } },
		{ "a denial is an event",        S(1),  TAKE, 2,          { false, 0, S(9),       S(10), 0 } },
		{ "the newest four count",       S(9),  TAKE, 1,          { false, 0, S(1),       S(10), 0 } },
		{ "a denial pushes out a whole", S(9),  TAKE, 1,          { false, 0, S(2),       S(10), 0 } },
		{ "more than all: the count",    S(9),  TAKE, UINT64_MAX, { false, 0, WEIR_NEVER, S(10), 0 } },
		{ "up to, when none is there",   S(10), UPTO, 1,          { false, 0, S(9),       S(10), 0 } },
		{ "long after, nothing counts",  S(50), PEEK, 4,          { true,  4, 0,          0,     0 } },
		{ "but what never fits",         S(50), TAKE, 5,          { false, 0, WEIR_NEVER, S(10), 0 } },
		{ "then it is new",              S(60), TAKE, 4,          { true,  0, 0,          S(10), 0 } },
	);
}

static void clocks_that_step_back(void)
{
	CHECK_ROWS("3/10s sliding_log",
		{ "an event",                        S(95),      TAKE, 1, { true,  2, 0,     S(10), 0 } },
		{ "and one",                         S(100),     TAKE, 1, { true,  1, 0,     S(10), 0 } },
		{ "60 s back they stand",            S(40),      TAKE, 2, { false, 1, S(65), S(70), 0 } },
		{ "one that comes is with them",     S(40),      TAKE, 1, { true,  0, 0,     S(70), 0 } },
		{ "more: what lies ahead is of now", S(40) - 1,  TAKE, 1, { false, 0, S(10), S(10), 0 } },
		{ "and leaves together",             S(50) - 1,  TAKE, 3, { true,  0, 0,     S(10), 0 } },
	);
	CHECK_ROWS("3/100s sliding_log",
		{ "an event",                        S(10),      TAKE, 1, { true,  2, 0,     S(100), 0 } },
		{ "and two ahead",                   S(90),      TAKE, 2, { true,  0, 0,     S(100), 0 } },
		{ "one stands, two are of now",      S(20),      TAKE, 2, { false, 0, S(100), S(100), 0 } },
	);
}
/* clang-format on */

static void a_changed_log_keeps_its_events(void)
{
	struct weir_plan plan = plan_of("4/10s sliding_log"), larger = plan_of("5/10s sliding_log");
	void *const state = fresh_state(&plan);
	struct weir_message why;

	weir_step_allow(&plan, state, S(1), 2);
	weir_step_allow(&plan, state, S(2), 2);
	change(&plan, state, S(3), "2/10s sliding_log");
	CHECK_EQ(weir_step_peek(&plan, state, S(3), 1).retry_after, S(9));
	CHECK_EQ(plan.room, 4);
	CHECK_EQ(weir_step_convertible(&plan, &larger, &why), WEIR_ERR_ROOM);
	CHECK_TEXT(why.text, "the log has room for 4 events; a count above that needs one with more memory");
	free(state);
}

static void the_ring_goes_round(void)
{
	const struct weir_plan plan = plan_of("5/10us sliding_log");
	void *const state = fresh_state(&plan);
	uint64_t admitted = 0;

	for (weir_ns now = 0; now < MS(1); now += 700)
		admitted += weir_step_allow(&plan, state, now, 1);
	CHECK_EQ(admitted, 479); /* five, then one whenever one leaves: five every 10.5 us */
	free(state);
}

TESTS(TEST(an_event_leaves_exactly_one_period_after_it_came), TEST(refunds_take_back_the_newest),
      TEST(counting_denied_requests_too), TEST(clocks_that_step_back), TEST(a_changed_log_keeps_its_events),
      TEST(the_ring_goes_round))
