/* step_test.c: which changes of a limit in use are allowed, and undo. Files named by algorithm test the verdicts. */
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

/* Charges two states alike, except that one is charged `undone` more at first. After the undo they must be equal. */
static void check_as_if_charged_less(const struct weir_plan *plan, uint64_t *random)
{
	void *const state = fresh_state(plan), *const other = fresh_state(plan);
	const uint64_t undone = 1 + *random % 7, used = 200;
	struct weir__charge charge = { 0, undone + used };
	weir_ns now = S(1000);

	for (unsigned i = 0; i < 40; i++) {
		struct weir_verdict a, b;

		*random = *random * 6364136223846793005 + 1442695040888963407;
		now += *random >> 33 & 1 ? 0 : MS(2) + (*random >> 34) % S(1);
		if (i == 10) {
			charge.at = now;
			CHECK(weir_step_take(plan, state, now, charge.cost).allowed);
			CHECK(weir_step_take(plan, other, now, used).allowed);
		}
		if (i == 25) {
			a = weir__step_undo(plan, state, now, &charge, undone);
			b = weir_step_peek(plan, other, now, 0);
			CHECK(a.allowed && a.granted == undone && a.limit == b.limit && a.remaining == b.remaining &&
			      a.reset_after == b.reset_after);
		}
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

static void after_an_undo_all_is_as_if_less_had_been_charged(void)
{
	static const char *const limits[] = {
		"10/s burst 1000",          "10/s leaky_bucket burst 1000",        "10/s burst 1000 refill interval",
		"1000/100s fixed_window",   "1000/50s fixed_window align first",   "1000/60s sliding_log",
		"1000/20s sliding_counter", "1000/60s sliding_counter segments 20"
	};
	uint64_t random = 1;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct weir_plan plan = plan_of(limits[i]);

		for (int round = 0; round < 100; round++)
			check_as_if_charged_less(&plan, &random);
	}
}

static void an_undo_finds_its_own_charge_only(void)
{
	static const struct {
		const char *what, *limit;
		weir_ns first, second; /* a unit is charged at each; at the second the first is undone */
		weir_ns charged_at;
		uint64_t cost, n, granted, left;
	} rows[] = {
		{ "an event", "9/10s sliding_log", S(50), S(51), S(50), 1, 1, 1, 8 },
		{ "it alone", "9/10s sliding_log", S(50), S(51), S(50), 9, 9, 1, 8 },
		{ "and one of a clock just ahead", "9/10s sliding_log", S(51) - MS(1), S(51), S(51) - MS(1), 9, 9, 2,
		  9 },
		{ "but not later", "9/10s sliding_log", S(51) - MS(1), S(51), S(51) - MS(1) - 1, 9, 9, 1, 8 },
		{ "nor earlier", "9/10s sliding_log", S(50), S(51), S(50) + 1, 9, 9, 0, 7 },
		{ "nor more than it was", "9/10s sliding_log", S(50), S(50), S(50), 1, 9, 1, 8 },
		{ "from the first instant on", "9/10s sliding_log", 0, S(1), 0, 1, 1, 1, 8 },
		{ "an event that is still there", "9/1us sliding_log", S(50), S(50) + 999, S(50), 1, 1, 1, 8 },
		{ "not the next after it is gone", "9/1us sliding_log", S(50), S(50) + 1000, S(50), 1, 1, 0, 8 },
		{ "one of a clock behind", "9/10s sliding_log", S(51), S(50), S(51), 9, 9, 2, 9 },
		{ "this window", "9/10s sliding_counter", S(50), S(51), S(52), 9, 9, 2, 9 },
		{ "the one before", "9/10s sliding_counter", S(45), S(50), S(41), 9, 9, 1, 8 },
		{ "long ago", "9/10s sliding_counter", S(45), S(50), S(39), 9, 9, 0, 7 },
		{ "not yet", "9/10s sliding_counter", S(45), S(50), S(60), 9, 9, 0, 7 },
		{ "all of it", "9/10s sliding_counter segments 2", S(50), S(51), S(52), 9, 9, 2, 9 },
		{ "a sub-window", "9/10s sliding_counter segments 2", S(40), S(50), S(44), 9, 9, 1, 8 },
		{ "long ago", "9/10s sliding_counter segments 2", S(40), S(50), S(39), 9, 9, 0, 7 },
		{ "not yet", "9/10s sliding_counter segments 2", S(40), S(50), S(55), 9, 9, 0, 7 },
		{ "this window", "9/10s fixed_window", S(50), S(51), S(50), 9, 9, 2, 9 },
		{ "no more than it was", "9/10s fixed_window", S(50), S(51), S(50), 1, 9, 1, 8 },
		{ "until its end", "9/10s fixed_window", S(50), S(60) - 1, S(60) - 1, 1, 1, 1, 8 },
		{ "not the next", "9/10s fixed_window", S(50), S(60), S(60) - 1, 1, 1, 0, 8 },
		{ "not the one before", "9/10s fixed_window", S(50), S(51), S(60), 1, 1, 0, 7 },
		{ "a window from the first", "9/10s fixed_window align first", S(55), S(64), S(64), 9, 1, 1, 8 },
		{ "another from the first", "9/10s fixed_window align first", S(55), S(65), S(64), 9, 9, 0, 8 },
		{ "all are counted", "9/10s fixed_window count all", S(50), S(51), S(50), 1, 1, 0, 7 },
		{ "all are counted", "9/10s sliding_log count all", S(50), S(51), S(50), 1, 1, 0, 7 },
		{ "all are counted", "9/10s sliding_counter count all", S(50), S(51), S(50), 1, 1, 0, 7 },
		{ "all of a bucket", "1/s burst 9", S(50), S(50), S(50), 2, 2, 2, 9 },
		{ "no more than is used", "1/s burst 9", S(50), S(50), S(50), 5, 5, 2, 9 },
		{ "no more than it was", "1/s burst 9", S(50), S(50), S(50), 1, 2, 1, 8 },
		{ "no more than is asked", "1/s burst 9", S(50), S(50), S(50), 2, 1, 1, 8 },
		{ "a part of a token counts as one", "1/s burst 9", S(50), S(50), S(50) - 1, 2, 2, 2, 8 },
		{ "after its time", "1/s burst 9", S(50), S(50), S(49), 1, 1, 0, 7 },
		{ "long after its time", "1/s burst 9", S(50), S(50), 0, 1, 1, 0, 7 },
		{ "a clock behind the charge", "1/s burst 9", S(50), S(50), UINT64_MAX, 1, 1, 1, 8 },
		{ "ends of 64 bits", "1/s burst 9", S(50), S(50), 0, UINT64_MAX, UINT64_MAX, 2, 9 },
		{ "nothing is used", "1/ns burst 9", S(50), S(50) + 1, S(50) + 1, 1, 0, 0, 8 },
		{ "all at intervals", "1/s burst 9 refill interval", S(50), S(50), S(50), 2, 2, 2, 9 },
		{ "no more than is used", "1/s burst 9 refill interval", S(50), S(50), S(50), 5, 5, 2, 9 },
		{ "before a refill", "1/s burst 9 refill interval", S(50), S(51) - 1, S(50), 1, 1, 1, 8 },
		{ "after a refill", "1/s burst 9 refill interval", S(50), S(51), S(50), 1, 1, 0, 8 },
		{ "after one before it", "1/s burst 9 refill interval", S(50), S(51), S(51), 1, 1, 1, 9 },
		{ "after several", "1/s burst 9 refill interval", S(50), S(55), S(52), 4, 4, 1, 9 },
		{ "and part of one", "1/s burst 9 refill interval", S(50), S(55), S(53) - 1, 4, 4, 1, 9 },
		{ "ends of 64 bits", "9/ns burst 9 refill interval", S(50), S(50), 0, UINT64_MAX, 1, 1, 8 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir_plan plan = plan_of(rows[i].limit);
		const struct weir__charge charge = { rows[i].charged_at, rows[i].cost };
		void *const state = fresh_state(&plan);
		struct weir_verdict verdict;

		CHECK(weir_step_take(&plan, state, rows[i].first, 1).allowed);
		CHECK(weir_step_take(&plan, state, rows[i].second, 1).allowed);
		verdict = weir__step_undo(&plan, state, rows[i].second, &charge, rows[i].n);
		if (!CHECK_EQ(verdict.granted, rows[i].granted) || !CHECK_EQ(verdict.remaining, rows[i].left) ||
		    !CHECK_EQ(weir_step_peek(&plan, state, rows[i].second, 0).remaining, rows[i].left))
			printf("# %s: %s\n", rows[i].limit, rows[i].what);
		if (rows[i].left == 9)
			CHECK_EQ(weir_step_peek(&plan, state, rows[i].second, 0).reset_after, 0);
		free(state);
	}
}

/* A charge that no longer counts is not given back, even if nothing was charged since. */
static void an_undo_of_what_is_gone_gives_nothing(void)
{
	static const char *const limits[] = { "9/10s",
					      "9/10s refill interval",
					      "9/10s fixed_window",
					      "9/10s fixed_window align first",
					      "9/10s sliding_log",
					      "9/10s sliding_counter",
					      "9/10s sliding_counter segments 2" };
	const struct weir__charge charge = { S(50), 4 };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct weir_plan plan = plan_of(limits[i]);
		void *const state = fresh_state(&plan);

		CHECK_EQ(weir__step_undo(&plan, state, S(50), &charge, 4).granted, 0);
		CHECK(weir_step_take(&plan, state, S(50), 4).allowed);
		CHECK_EQ(weir__step_undo(&plan, state, S(70), &charge, 4).granted, 0);
		CHECK_EQ(weir__step_undo(&plan, state, S(50), &charge, 4).granted, 4);
		CHECK_EQ(weir__step_undo(&plan, state, S(50), &charge, 4).granted, 0);
		free(state);
	}
}

/* Three units are taken from a full bucket at 100 s. */
static void what_is_left_is_an_exact_number(void)
{
	static const struct {
		const char *limit;
		weir_ns at;
		struct weir_tokens left;
	} rows[] = {
		{ "7/min burst 3", S(100), { 0, 0, 1 } },
		{ "7/min burst 3", S(100) + 1, { 0, 7, UINT64_C(60000000000) } },
		{ "7/min burst 3", S(110), { 1, 1, 6 } },
		{ "7/min burst 3", S(120), { 2, 1, 3 } },
		{ "7/min burst 3", S(200), { 3, 0, 1 } },
		{ "0.5/s burst 5", S(101), { 2, 1, 2 } },
		{ "0.5/s burst 5", S(103), { 3, 1, 2 } },
		{ "10/s leaky queue 4", MS(100150), { 2, 1, 2 } },
		{ "10/s burst 3", S(99), { 0, 0, 1 } }, /* the clock went back */
		{ "10/s refill interval burst 4", MS(100150), { 1, 0, 1 } },
		{ "5/s fixed_window", MS(100150), { 2, 0, 1 } },
		{ "5/s sliding_log", MS(100150), { 2, 0, 1 } },
		{ "5/s sliding_counter", MS(100150), { 2, 0, 1 } },
		{ "10/s sliding_counter segments 5", MS(100150), { 7, 0, 1 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir_plan plan = plan_of(rows[i].limit);
		void *const state = fresh_state(&plan);
		struct weir_tokens left;

		CHECK(weir_step_take(&plan, state, S(100), 3).allowed);
		left = weir_step_tokens(&plan, state, rows[i].at);
		if (!CHECK_EQ(left.units, rows[i].left.units) || !CHECK_EQ(left.parts, rows[i].left.parts) ||
		    !CHECK_EQ(left.of, rows[i].left.of))
			printf("# %s\n", rows[i].limit);
		CHECK_EQ(left.units, weir_step_peek(&plan, state, rows[i].at, 0).remaining);
		free(state);
	}
}

/* count * elapsed / period, at any time. */
static void what_has_refilled_is_an_exact_number(void)
{
	uint64_t random = 88172645463325252;

	for (int i = 0; i < 100000; i++) {
		struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, random % 1000 + 1,
							1 + (random >> 20) % S(100));
		const weir_ns elapsed = (random >> 10) % S(10);
		struct weir_state state = { 0, 0 };
		struct weir_tokens left;
		struct weir_plan plan;

		limit.burst = 1 + (random >> 50);
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		if (weir_plan_compile(&limit, &plan, NULL) != WEIR_OK)
			continue;
		CHECK(weir_step_allow(&plan, &state, S(1000), limit.burst));
		left = weir_step_tokens(&plan, &state, S(1000) + elapsed);
		CHECK(left.parts < left.of);
		if ((unsigned __int128)limit.count * elapsed >= (unsigned __int128)limit.burst * limit.period)
			CHECK(left.units == limit.burst && left.parts == 0 && left.of == 1);
		else
			CHECK(((unsigned __int128)left.units * left.of + left.parts) * limit.period ==
			      (unsigned __int128)limit.count * elapsed * left.of);
	}
}

TESTS(TEST(only_rate_and_burst_may_change), TEST(a_take_says_what_was_granted), TEST(a_yes_or_no_counts_denials_too),
      TEST(after_an_undo_all_is_as_if_less_had_been_charged), TEST(an_undo_finds_its_own_charge_only),
      TEST(an_undo_of_what_is_gone_gives_nothing), TEST(what_is_left_is_an_exact_number),
      TEST(what_has_refilled_is_an_exact_number))
