/* plan_test.c: which limits are invalid, and the plans of valid ones. */
#include "rows.h"

static struct weir_limit limit_of(const char *text)
{
	struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, 0, 0);

	CHECK_EQ(weir_limit_parse(text, strlen(text), &limit, NULL), WEIR_OK);
	return limit;
}

static void check_refused(struct weir_limit limit, int error, const char *message)
{
	struct weir_plan plan = { .kind = 77 };
	struct weir_message why = { 1, "" };

	CHECK_EQ(weir_plan_compile(&limit, &plan, &why), error);
	CHECK_TEXT(why.text, message);
	CHECK_EQ(why.at, 0);
	CHECK_EQ(plan.kind, 77);
	CHECK_EQ(weir_plan_compile(&limit, &plan, NULL), error);
}

static void noughts_are_refused(void)
{
	struct weir_limit limit = limit_of("0/s");

	check_refused(limit, WEIR_ERR_LIMIT, "a count of 0: a rate needs 1 or more");
	check_refused(limit_of("1/0s"), WEIR_ERR_LIMIT, "a period of 0: a rate needs 1 ns or more");
	check_refused(limit_of("1/s burst 0"), WEIR_ERR_LIMIT, "a burst of 0: a bucket needs room for 1 or more");
	check_refused(limit_of("1/s leaky queue 0"), WEIR_ERR_LIMIT, "a burst of 0: a bucket needs room for 1 or more");
	check_refused(limit_of("1/s sliding_counter segments 0"), WEIR_ERR_LIMIT,
		      "a number of segments of 0: 1 is the plain sliding counter");
}

static void maxima_are_refused_not_rounded(void)
{
	check_refused(limit_of("1/ns sliding_counter segments 3"), WEIR_ERR_LIMIT,
		      "a number of segments of 3: it must divide the period in nanoseconds");
	check_refused(limit_of("1/1048577ns sliding_counter segments 1048577"), WEIR_ERR_MAXIMUM,
		      "a number of segments of 1048577: the maximum is 1048576");
	check_refused(limit_of("4294967296/s sliding_log"), WEIR_ERR_MAXIMUM,
		      "a count of 4294967296: a sliding_log counts at most 4294967295; use sliding_counter");
	check_refused(limit_of("18446744073709551615/18446744073709551614ns"), WEIR_ERR_MAXIMUM,
		      "a burst of 18446744073709551615: in lowest terms of count/period, 2^64 * count + burst * period "
		      "must not exceed 2^128");
}

static void options_of_other_algorithms_are_refused(void)
{
	struct weir_limit limit = limit_of("1/s");

	limit.segments = 2;
	check_refused(limit, WEIR_ERR_LIMIT, "segments belongs to sliding_counter");
	limit = limit_of("1/s leaky");
	limit.refill_interval = true;
	check_refused(limit, WEIR_ERR_LIMIT, "refill interval belongs to token_bucket");
	limit = limit_of("1/s");
	limit.shape = true;
	check_refused(limit, WEIR_ERR_LIMIT, "queue belongs to leaky");
	limit = limit_of("1/s");
	limit.align_first = true;
	check_refused(limit, WEIR_ERR_LIMIT, "align first belongs to fixed_window");
	limit = limit_of("1/s");
	limit.count_all = true;
	check_refused(limit, WEIR_ERR_LIMIT, "count all belongs to windows");
	limit = limit_of("1/s leaky");
	limit.count_all = true;
	check_refused(limit, WEIR_ERR_LIMIT, "count all belongs to windows");
	limit.algorithm = (enum weir_algorithm)5;
	check_refused(limit, WEIR_ERR_LIMIT, "an algorithm of 5: use 0 to 4, see enum weir_algorithm");
}

static void rates_are_reduced(void)
{
	const struct weir_plan plan = plan_of("100/min");

	CHECK_EQ(plan.kind, WEIR_KIND_BUCKET);
	CHECK_EQ(plan.count, 1);
	CHECK_EQ(plan.period, MS(600));
	CHECK_EQ(plan.most, 100);
	CHECK_EQ(plan_of("10/s refill interval").count, 10); /* interval refills are not reduced */
}

static void each_kind_has_its_state(void)
{
	static const struct {
		const char *limit;
		enum weir_kind kind;
		size_t size;
		bool slim;
	} rows[] = {
		{ "100/min", WEIR_KIND_BUCKET, 16, true },
		{ "100/min leaky queue 5", WEIR_KIND_BUCKET, 16, true },
		{ "1/day burst 18446744073709551615", WEIR_KIND_BUCKET, 16, true },
		{ "1/36500day burst 18446744073709551615", WEIR_KIND_BUCKET, 16, false },
		{ "140737488355327/281474976710656ns", WEIR_KIND_BUCKET, 16, true },
		{ "562949953421313/ns", WEIR_KIND_BUCKET, 16, false },
		{ "100/min refill interval", WEIR_KIND_INTERVAL, 16, true },
		{ "100/min refill interval burst 281474976710656", WEIR_KIND_INTERVAL, 16, false },
		{ "100/min fixed_window", WEIR_KIND_WINDOW, 16, true },
		{ "281474976710656/min fixed_window", WEIR_KIND_WINDOW, 16, false },
		{ "4294967295/min sliding_counter", WEIR_KIND_COUNTER, 16, true },
		{ "100/65535ns sliding_counter", WEIR_KIND_COUNTER, 16, false },
		{ "4294967296/min sliding_counter", WEIR_KIND_SEGMENTS, 24, false },
		{ "100/min sliding_counter count all", WEIR_KIND_SEGMENTS, 24, false },
		{ "100/min sliding_counter segments 60", WEIR_KIND_SEGMENTS, 8 + 61 * 8, false },
		{ "100/min sliding_log", WEIR_KIND_LOG, 24 + 100 * 16, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir_plan plan = plan_of(rows[i].limit);

		if (!CHECK_EQ(plan.kind, rows[i].kind) || !CHECK_EQ(weir_plan_state_size(&plan), rows[i].size) ||
		    !CHECK_EQ((plan.flags & WEIR_PLAN_SLIM) != 0, rows[i].slim))
			printf("# %s\n", rows[i].limit);
	}
}

TESTS(TEST(noughts_are_refused), TEST(maxima_are_refused_not_rounded), TEST(options_of_other_algorithms_are_refused),
      TEST(rates_are_reduced), TEST(each_kind_has_its_state))
