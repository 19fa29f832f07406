/* small_test.c: the inline functions for stores decide as the steps do. */
#include "core/small.h"

#include "rows.h"

static void every_small_kind_decides_as_its_step_does(void)
{
	static const char *const limits[] = { "10/s burst 3", "3/s refill interval", "3/s fixed_window",
					      "3/s fixed_window count all", "3/s sliding_counter" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct weir_plan plan = plan_of(limits[i]);
		struct weir_state state = { 0, 0 }, by_step = { 0, 0 };

		CHECK(weir__small_has(&plan));
		for (weir_ns now = S(100); now < S(130); now += MS(37)) {
			const uint64_t cost = now % 5;
			const bool allowed = weir_step_allow(&plan, &by_step, now, cost);

			CHECK_EQ(weir__small_decide(&plan, &state, now, cost), allowed ? WEIR__ALLOWED : WEIR__DENIED);
			CHECK(state.lo == by_step.lo && state.hi == by_step.hi);
		}
	}
}

static void a_clock_that_is_behind_changes_nothing(void)
{
	static const char *const limits[] = { "10/s burst 3", "3/s refill interval", "3/s fixed_window",
					      "3/s sliding_counter" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct weir_plan plan = plan_of(limits[i]);
		struct weir_state state = { 0, 0 }, before;

		CHECK_EQ(weir__small_decide(&plan, &state, S(1000), 3), WEIR__ALLOWED);
		before = state;
		CHECK_EQ(weir__small_decide(&plan, &state, S(900), 1), WEIR__BEHIND);
		CHECK(state.lo == before.lo && state.hi == before.hi);
	}
}

static void others_are_not_small(void)
{
	const struct weir_plan log = plan_of("3/s sliding_log"), segments = plan_of("3/s sliding_counter segments 2");

	CHECK(!weir__small_has(&log));
	CHECK(!weir__small_has(&segments));
}

TESTS(TEST(every_small_kind_decides_as_its_step_does), TEST(a_clock_that_is_behind_changes_nothing),
      TEST(others_are_not_small))
