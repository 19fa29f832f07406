/* step_test.c: which changes of a limit in use are possible. What steps answer is tested by kind. */
#include "rows.h"

static void check_change(const char *from, const char *to, int error, const char *message)
{
	const struct weir_plan before = plan_of(from), after = plan_of(to);
	struct weir_message why = { 1, "" };

	if (!CHECK_EQ(weir_step_convertible(&before, &after, &why), error))
		printf("# %s -> %s\n", from, to);
	CHECK_TEXT(why.text, message);
	CHECK_EQ(weir_step_convertible(&before, &after, NULL), error);
}

static void only_rate_and_burst_may_change(void)
{
	static const char *const options =
		"a limit in use keeps its algorithm and options; only the rate and burst of a bucket, or the count of a window, may change";
	static const char *const period = "a window in use keeps its period; only its count may change";

	check_change("1/s", "7/min burst 3", WEIR_OK, "");
	check_change("1/s leaky queue 2", "7/min leaky queue 3", WEIR_OK, "");
	check_change("1/s refill interval", "7/min refill interval", WEIR_OK, "");
	check_change("1/s fixed_window", "2/s fixed_window", WEIR_OK, "");
	check_change("9/s sliding_log", "2/s sliding_log", WEIR_OK, "");
	check_change("9/s sliding_counter segments 2", "2/s sliding_counter segments 2", WEIR_OK, "");
	check_change("9/s sliding_counter", "9999999999/s sliding_counter", WEIR_OK, "");
	check_change("1/s", "1/s refill interval", WEIR_ERR_CHANGE, options);
	check_change("1/s leaky", "1/s leaky queue 1", WEIR_ERR_CHANGE, options);
	check_change("1/s fixed_window", "1/s fixed_window align first", WEIR_ERR_CHANGE, options);
	check_change("1/s fixed_window", "1/s fixed_window count all", WEIR_ERR_CHANGE, options);
	check_change("1/s fixed_window", "1/s sliding_log", WEIR_ERR_CHANGE, options);
	check_change("1/s sliding_counter", "1/s sliding_counter segments 2", WEIR_ERR_CHANGE, options);
	check_change("1/s sliding_counter segments 4", "1/s sliding_counter segments 2", WEIR_ERR_CHANGE, options);
	check_change("1/s sliding_counter", "1/s sliding_log", WEIR_ERR_CHANGE, options);
	check_change("1/s fixed_window", "1/min fixed_window", WEIR_ERR_CHANGE, period);
	check_change("1/s sliding_log", "1/min sliding_log", WEIR_ERR_CHANGE, period);
}

static void a_take_says_what_was_granted(void)
{
	const struct weir_plan plan = plan_of("10/s burst 3");
	struct weir_state state = { 0, 0 };

	CHECK_EQ(weir_step_take(&plan, &state, 0, 2).granted, 2);
	CHECK_EQ(weir_step_take(&plan, &state, 0, 2).granted, 0);
	CHECK_EQ(weir_step_upto(&plan, &state, 0, 2).granted, 1);
	CHECK_EQ(weir_step_upto(&plan, &state, 0, 2).granted, 0);
	CHECK(weir_step_upto(&plan, &state, 0, 0).allowed);
	CHECK_EQ(weir_step_peek(&plan, &state, 0, 0).granted, 0);
}

static void a_yes_or_no_counts_denials_too(void)
{
	static const char *const limits[] = { "3/s fixed_window count all", "3/s sliding_counter count all",
					      "3/s sliding_log count all" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct weir_plan plan = plan_of(limits[i]);
		void *const state = fresh_state(&plan);

		CHECK(weir_step_allow(&plan, state, 0, 1));
		CHECK(!weir_step_allow(&plan, state, 0, 3));
		CHECK_EQ(weir_step_peek(&plan, state, 0, 0).remaining, 0);
		free(state);
	}
}

TESTS(TEST(only_rate_and_burst_may_change), TEST(a_take_says_what_was_granted), TEST(a_yes_or_no_counts_denials_too))
