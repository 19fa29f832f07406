/* step_test.c: which changes of a limit in use are possible. What steps answer is tested by kind. */
#include "core/step.h"

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

/* Of two that are charged the same, one is charged something more for a while. */
static void check_as_if_never_charged(const struct weir_plan *plan, uint64_t *random)
{
	void *const state = fresh_state(plan), *const other = fresh_state(plan);
	const uint64_t held = 1 + *random % 7;
	weir_ns now = S(1000), held_at = 0;

	for (unsigned i = 0; i < 40; i++) {
		struct weir_verdict a, b;

		*random = *random * 6364136223846793005 + 1442695040888963407;
		now += *random >> 33 & 1 ? 0 : MS(2) + (*random >> 34) % S(1);
		if (i == 10) {
			held_at = now;
			CHECK(weir_step_take(plan, state, now, held).allowed);
		}
		if (i == 25)
			CHECK_EQ(weir__step_refund_of(plan, state, held_at, held).granted, held);
		if (*random >> 40 & 1) {
			CHECK(weir_step_take(plan, state, now, *random >> 60).allowed);
			CHECK(weir_step_take(plan, other, now, *random >> 60).allowed);
		}
		a = weir_step_peek(plan, state, now, 700);
		b = weir_step_peek(plan, other, now, 700);
		CHECK(is_same_verdict(&a, &b) == (i < 10 || i >= 25));
	}
	free(state);
	free(other);
}

static void what_was_charged_at_an_instant_can_be_given_back(void)
{
	static const char *const limits[] = { "1000/60s sliding_log", "1000/20s sliding_counter",
					      "1000/60s sliding_counter segments 20" };
	uint64_t random = 1;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct weir_plan plan = plan_of(limits[i]);

		for (int round = 0; round < 100; round++)
			check_as_if_never_charged(&plan, &random);
	}
}

static void but_no_more_than_is_still_there(void)
{
	static const struct {
		const char *what, *limit;
		weir_ns first, second; /* one is charged at each */
		weir_ns charged_at;
		uint64_t n, granted, left;
	} rows[] = {
		{ "a bucket does not know", "9/10s", S(50), S(51), S(50), 1, 0, 7 },
		{ "an event", "9/10s sliding_log", S(50), S(51), S(50), 1, 1, 8 },
		{ "it alone", "9/10s sliding_log", S(50), S(51), S(50), 9, 1, 8 },
		{ "and one of a clock just ahead", "9/10s sliding_log", S(51) - MS(1), S(51), S(51) - MS(1), 9, 2, 9 },
		{ "but not later", "9/10s sliding_log", S(51) - MS(1), S(51), S(51) - MS(1) - 1, 9, 1, 8 },
		{ "nor earlier", "9/10s sliding_log", S(50), S(51), S(50) + 1, 9, 0, 7 },
		{ "from the first instant on", "9/10s sliding_log", 0, S(1), 0, 1, 1, 8 },
		{ "this window", "9/10s sliding_counter", S(50), S(51), S(52), 9, 2, 9 },
		{ "the one before", "9/10s sliding_counter", S(45), S(50), S(41), 9, 1, 8 },
		{ "long ago", "9/10s sliding_counter", S(45), S(50), S(39), 9, 0, 7 },
		{ "not yet", "9/10s sliding_counter", S(45), S(50), S(60), 9, 0, 7 },
		{ "all of it", "9/10s sliding_counter segments 2", S(50), S(51), S(52), 9, 2, 9 },
		{ "a sub-window", "9/10s sliding_counter segments 2", S(40), S(50), S(44), 9, 1, 8 },
		{ "long ago", "9/10s sliding_counter segments 2", S(40), S(50), S(39), 9, 0, 7 },
		{ "not yet", "9/10s sliding_counter segments 2", S(40), S(50), S(55), 9, 0, 7 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir_plan plan = plan_of(rows[i].limit);
		void *const state = fresh_state(&plan);

		CHECK(weir_step_take(&plan, state, rows[i].first, 1).allowed);
		CHECK(weir_step_take(&plan, state, rows[i].second, 1).allowed);
		if (!CHECK_EQ(weir__step_refund_of(&plan, state, rows[i].charged_at, rows[i].n).granted,
			      rows[i].granted) ||
		    !CHECK_EQ(weir_step_peek(&plan, state, rows[i].second, 0).remaining, rows[i].left))
			printf("# %s\n", rows[i].what);
		if (rows[i].left == 9)
			CHECK_EQ(weir_step_peek(&plan, state, rows[i].second, 0).reset_after, 0);
		free(state);
	}
}

TESTS(TEST(only_rate_and_burst_may_change), TEST(a_take_says_what_was_granted), TEST(a_yes_or_no_counts_denials_too),
      TEST(what_was_charged_at_an_instant_can_be_given_back), TEST(but_no_more_than_is_still_there))
