/* redis_plan_test.c: which plans Redis can hold, and how a plan changes with its limit. */
#include "store/redis/redis_plan.h"

#include "check.h"
#include "core/wide.h"

static struct weir_plan plan_of(const char *text)
{
	struct weir_limit limit;
	struct weir_plan plan = { 0 };
	struct weir_message why = { 0 };

	if (weir_limit_parse(text, strlen(text), &limit, &why) != WEIR_OK ||
	    weir_plan_compile(&limit, &plan, &why) != WEIR_OK)
		check_fail(__FILE__, __LINE__, why.text);
	return plan;
}

static struct weir__redis_plan redis_plan_of(const char *text)
{
	const struct weir_plan plan = plan_of(text);
	struct weir__redis_plan redis_plan = { 0 };

	CHECK(weir__redis_plan_init(&redis_plan, &plan, NULL) == WEIR_OK);
	return redis_plan;
}

/* "" if Redis can hold it. */
static const char *refusal(const char *text)
{
	static struct weir_message why;
	const struct weir_plan plan = plan_of(text);
	struct weir__redis_plan redis_plan;
	const int error = weir__redis_plan_init(&redis_plan, &plan, &why);

	CHECK(error == WEIR_OK || error == WEIR_ERR_MAXIMUM);
	return error == WEIR_OK ? "" : why.text;
}

static void everyday_limits_can_be(void)
{
	static const char *const texts[] = {
		"100/min burst 20",
		"7/min",
		"9999/day",
		"999983/s burst 1000000",
		"1/365day burst 60",
		"10/s leaky queue 50",
		"5/s leaky",
		"1000000/s refill interval burst 5000000",
		"100/min sliding_counter",
		"1000000/day sliding_counter segments 1440",
		"1000/hour sliding_log",
		"10/s fixed_window align first count all",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK_TEXT(refusal(texts[i]), "");
}

/* The last that fits, the first that does not, and why. */
static void what_needs_more_than_53_bits_is_refused(void)
{
	static const struct {
		const char *last, *first, *why;
	} rows[] = {
		{ "1000000000/s burst 281474976710655", "1000000000/s burst 281474976710656",
		  "a burst of 281474976710656: in Redis the maximum is 281474976710655" },
		{ "281474976710655/s fixed_window", "281474976710656/s fixed_window",
		  "a count of 281474976710656: in Redis the maximum is 281474976710655" },
		{ "281474976710655/s refill interval burst 5", "281474976710656/s refill interval burst 5",
		  "a count of 281474976710656: in Redis the maximum is 281474976710655" },
		{ "4294967291/s", "4294967297/s",
		  "a rate with, in lowest terms of count/period, a count of 4294967297: in Redis the maximum is 4294967295" },
		{ "65535/ns burst 1", "65536/ns burst 1",
		  "a rate per nanosecond of 65536: in Redis the maximum is below 65536" },
		{ "1000000/s sliding_log", "1000001/s sliding_log",
		  "a count of 1000001: in Redis use a sliding_counter for more; the maximum of a sliding_log is 1000000" },
		{ "5/s sliding_counter segments 4000", "5/s sliding_counter segments 5000",
		  "a number of segments of 5000: in Redis the maximum is 4096" },
		{ "187649984473770/s sliding_counter segments 2", "187649984473771/s sliding_counter segments 2",
		  "a count of 187649984473771: in Redis with this number of segments the maximum is 187649984473770" },
		{ "1/2251799813685247us fixed_window", "1/2251799813685248us fixed_window",
		  "a limit that is full again after 2251799813685248 us: in Redis the maximum is 2251799813685247 us, 71 years; lower its burst, or its period" },
		{ "1/day burst 26062", "1/day burst 26063",
		  "a limit that is full again after 2251843200000000 us: in Redis the maximum is 2251799813685247 us, 71 years; lower its burst, or its period" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_TEXT(refusal(rows[i].last), "");
		CHECK_TEXT(refusal(rows[i].first), rows[i].why);
	}
}

/* 7/min, burst 10: a token takes 60 s / 7, which is 8571428 us and 4000/7000 of one. */
static void bytes_are_what_the_script_reads(void)
{
	static const unsigned char expected[WEIR__REDIS_PLAN_BYTES] = {
		3,    0,    0,                   /* version, a bucket, no options */
		7,    0,    0,    0,    0, 0,    /* count */
		0x24, 0xca, 0x82, 0,    0, 0, 0, /* a token: microseconds */
		0xa0, 0x0f, 0,    0,    0, 0,    /* and a rest */
		10,   0,    0,    0,    0, 0,    /* burst */
		0x6d, 0xe5, 0x1b, 0x05, 0, 0, 0, /* ten of them: 85714285 us */
		0x88, 0x13, 0,    0,    0, 0,    /* and 5000 of 7000 */
		0,    0,    0,    0,    0, 0, 0, /* set before all others */
	};
	const struct weir__redis_plan plan = redis_plan_of("7/min burst 10");

	for (size_t i = 0; i < sizeof(expected); i++)
		CHECK_EQ(plan.bytes[i], expected[i]);
}

/* As the script reads it: the last 7 bytes, in microseconds. */
static uint64_t told_instant(const struct weir__redis_plan *plan)
{
	uint64_t instant = 0;

	for (size_t i = 0; i < 7; i++)
		instant |= (uint64_t)plan->bytes[WEIR__REDIS_PLAN_BYTES - 7 + i] << (8 * i);
	return instant;
}

static void a_plan_says_when_it_was_set(void)
{
	struct weir__redis_plan plan = redis_plan_of("10/s burst 5");
	const struct weir_plan to = plan_of("10/s burst 8");
	const uint64_t ages = UINT64_C(1) << 55;

	CHECK_EQ(plan.set_at, 0);
	CHECK(weir__redis_plan_change(&plan, &to, 5000000999, NULL) == WEIR_OK);
	CHECK_EQ(plan.plan.most, 8);
	CHECK_EQ(plan.set_at, 5000000000);
	CHECK_EQ(told_instant(&plan), 5000000);
	/* Each change is later than the one before, whatever the clock says, and even if it changes nothing. */
	CHECK(weir__redis_plan_change(&plan, &to, 4000000000, NULL) == WEIR_OK);
	CHECK_EQ(told_instant(&plan), 5000001);
	CHECK(weir__redis_plan_change(&plan, &to, 5000001000, NULL) == WEIR_OK);
	CHECK_EQ(told_instant(&plan), 5000002);
	weir__redis_plan_set_age(&plan, 7000999);
	CHECK_EQ(plan.set_at, 0);
	CHECK_EQ(told_instant(&plan), ages + 7000);
	weir__redis_plan_set_age(&plan, UINT64_MAX);
	CHECK_EQ(told_instant(&plan), ages + WEIR__REDIS_TIME_MAX_US);
	weir__redis_plan_set_at(&plan, UINT64_MAX);
	CHECK_EQ(told_instant(&plan), UINT64_C(1) << 53);
}

static void a_refused_change_changes_nothing(void)
{
	struct weir__redis_plan plan = redis_plan_of("10/s fixed_window");
	const struct weir__redis_plan before = plan;
	const struct weir_plan other_period = plan_of("10/min fixed_window"),
			       too_many = plan_of("281474976710656/s fixed_window"),
			       right = plan_of("11/s fixed_window");

	CHECK(weir__redis_plan_change(&plan, &other_period, 1000, NULL) == WEIR_ERR_CHANGE);
	CHECK(weir__redis_plan_change(&plan, &too_many, 1000, NULL) == WEIR_ERR_MAXIMUM);
	CHECK(weir__redis_plan_change(&plan, &right, UINT64_MAX, NULL) == WEIR_ERR_MAXIMUM);
	CHECK(memcmp(&plan, &before, sizeof(plan)) == 0);
	CHECK(weir__redis_plan_change(&plan, &right, 1000, NULL) == WEIR_OK);
	CHECK_EQ(plan.plan.most, 11);
}

/* In memory a log has fixed room, and a counter of more than 32 bits is another kind. In Redis neither matters. */
static void what_only_memory_refuses_can_be_changed(void)
{
	struct weir__redis_plan plan = redis_plan_of("10/s sliding_log");
	struct weir_plan to = plan_of("5000/s sliding_log");

	CHECK(weir__redis_plan_change(&plan, &to, 1000, NULL) == WEIR_OK);
	plan = redis_plan_of("10/s sliding_counter");
	to = plan_of("10000000000/s sliding_counter");
	CHECK(weir__redis_plan_change(&plan, &to, 1000, NULL) == WEIR_OK);
	to = plan_of("10/s sliding_counter");
	CHECK(weir__redis_plan_change(&plan, &to, 1000, NULL) == WEIR_OK);
	CHECK_EQ(plan.plan.most, 10);
}

TESTS(TEST(everyday_limits_can_be), TEST(what_needs_more_than_53_bits_is_refused),
      TEST(bytes_are_what_the_script_reads), TEST(a_plan_says_when_it_was_set), TEST(a_refused_change_changes_nothing),
      TEST(what_only_memory_refuses_can_be_changed))
