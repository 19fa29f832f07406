/* limiter_test.c: a limiter on one thread: its memory, changes and reservations. The vectors test its verdicts,
 * limiter_threads_test.c its use by many threads. */
#include <weir/limiter.h>

#include <stdlib.h>

#include "check.h"
#include "limiters.h"

#define S(n) (UINT64_C(n) * 1000000000)
#define MS(n) (UINT64_C(n) * 1000000)

static struct weir_limit limit_of(const char *text)
{
	struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, 0, 0);

	CHECK_EQ(weir_limit_parse(text, strlen(text), &limit, NULL), WEIR_OK);
	return limit;
}

static int change(struct weir_limiter *limiter, weir_ns now, const char *text)
{
	const struct weir_limit limit = limit_of(text);

	return weir_limiter_change(limiter, now, &limit, NULL);
}

static void a_limiter_needs_so_much_memory(void)
{
	static const char *const in_fixed_size[] = { "10/s",
						     "10/s leaky queue 4",
						     "10/s refill interval",
						     "10/s fixed_window count all",
						     "10/s sliding_counter",
						     "10/s sliding_counter count all",
						     "9999999999/s sliding_counter",
						     "1/s burst 18446744073709551615" };
	struct weir_limit log = limit_of("1000/s sliding_log"), impossible = limit_of("0/s");
	const size_t log_size = weir_limiter_size(&log);

	for (size_t i = 0; i < sizeof(in_fixed_size) / sizeof(in_fixed_size[0]); i++) {
		const struct weir_limit limit = limit_of(in_fixed_size[i]);

		CHECK(weir_limiter_size(&limit) > 0);
		CHECK(weir_limiter_size(&limit) <= WEIR_LIMITER_SIZE);
	}
	log.count++;
	CHECK_EQ(weir_limiter_size(&log), log_size + 16);
	CHECK(log_size <= WEIR_LIMITER_SIZE + 1000 * 16);
	CHECK_EQ(weir_limiter_size(&impossible), 0);
}

static void bad_beginnings_say_why(void)
{
	static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE + 1];
	struct weir_limiter *limiter = NULL;
	struct weir_message why;

	CHECK_EQ(weir_limiter_init_text(memory, sizeof(memory), "10/fortnight", &limiter, &why), WEIR_ERR_SYNTAX);
	CHECK_TEXT(why.text,
		   "at 3: \"fortnight\": unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s");
	CHECK_EQ(weir_limiter_init_text(memory, sizeof(memory), "10/s burst 0", &limiter, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "a burst of 0: a bucket needs room for 1 or more");
	CHECK_EQ(weir_limiter_init_text(memory, 10, "10/s", &limiter, &why), WEIR_ERR_ROOM);
	CHECK_TEXT(why.text, "the memory for a limiter of this limit needs 216 bytes; got 10");
	CHECK_EQ(weir_limiter_init_text(memory + 1, sizeof(memory) - 1, "10/s", &limiter, &why), WEIR_ERR_ALIGNMENT);
	CHECK_TEXT(why.text, "the memory for a limiter must be aligned to 64 bytes; this pointer is off by 1");
	CHECK_EQ(weir_limiter_init_text(memory + 1, 10, "10/s", &limiter, NULL), WEIR_ERR_ALIGNMENT);
	CHECK(limiter == NULL);
	CHECK_EQ(weir_limiter_init_text(memory, sizeof(memory), "10/s", &limiter, NULL), WEIR_OK);
	CHECK(weir_limiter_allow(limiter, S(1), 10));
}

static void each_question(void)
{
	static const char *const limits[] = {
		"10/s burst 5",    "10/s leaky queue 5",  "5/s refill interval",           "5/s fixed_window",
		"5/s sliding_log", "5/s sliding_counter", "5/s sliding_counter segments 5"
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_limiter *const limiter = limiter_of(limits[i], 0);

		CHECK_EQ(weir_limiter_tokens(limiter, S(1)), 5);
		CHECK(weir_limiter_allow(limiter, S(1), 1));
		CHECK(!weir_limiter_allow(limiter, S(1), 5));
		CHECK(weir_limiter_allow(limiter, S(1), 0));
		CHECK_EQ(weir_limiter_take(limiter, S(1), 1).remaining, 3);
		CHECK(!weir_limiter_peek(limiter, S(1), 4).allowed);
		CHECK_EQ(weir_limiter_upto(limiter, S(1), 9).granted, 3);
		CHECK_EQ(weir_limiter_refund(limiter, S(1), 2).remaining, 2);
		CHECK_EQ(weir_limiter_tokens(limiter, S(1)), 2);
		CHECK_EQ(weir_limiter_tokens_exact(limiter, S(1)).units, 2);
		CHECK_EQ(weir_limiter_tokens_exact(limiter, S(1) + MS(50)).parts, i < 2);
		CHECK_EQ(weir_limiter_tokens_exact(limiter, S(1) + MS(50)).of, i < 2 ? 2 : 1);
		CHECK_EQ(weir_limiter_tokens(limiter, S(1)), 2);
		CHECK(weir_limiter_take(limiter, S(1), 6).never);
		free(limiter);
	}
}

static void changes_keep_what_was_used(void)
{
	struct weir_limiter *const limiter = limiter_of("10/s burst 10", 0);
	char text[WEIR_LIMIT_TEXT_MAX];
	struct weir_limit limit;

	weir_limiter_allow(limiter, S(1), 4);
	CHECK_EQ(change(limiter, S(1), "1/s burst 20"), WEIR_OK);
	CHECK_EQ(weir_limiter_tokens(limiter, S(1)), 16);
	CHECK_EQ(change(limiter, S(1), "0/s"), WEIR_ERR_LIMIT);
	CHECK_EQ(change(limiter, S(1), "1/s fixed_window"), WEIR_ERR_CHANGE);
	CHECK_EQ(weir_limiter_tokens(limiter, S(1)), 16);
	limit = weir_limiter_limit(limiter);
	weir_limit_print(&limit, text);
	CHECK_TEXT(text, "1/s burst 20");
	free(limiter);
}

/* Limits near 2^64 are decided under a lock. A limiter can switch between both ways of deciding any number of times. */
static void changes_across_the_two_ways_of_deciding(void)
{
	static const char *const pairs[][2] = {
		{ "1/s burst 1000", "1/36500day burst 18446744073709551615" },
		{ "10/s refill interval burst 1000", "10/s refill interval burst 18446744073709551615" },
		{ "1000/min fixed_window", "18446744073709551615/min fixed_window" },
		{ "1000/min sliding_counter", "18446744073709551615/min sliding_counter" },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct weir_limiter *const limiter = limiter_of(pairs[i][0], 0);
		CHECK(weir_limiter_allow(limiter, S(60), 100));
		for (unsigned round = 0; round < 70000; round++) { /* more than there are generations */
			CHECK_EQ(change(limiter, S(60), pairs[i][1 - round % 2]), WEIR_OK);
			if (check_failed)
				break;
		}
		CHECK_EQ(change(limiter, S(60), pairs[i][0]), WEIR_OK);
		CHECK_EQ(weir_limiter_tokens(limiter, S(60)), 900);
		CHECK(!weir_limiter_allow(limiter, S(60), 901));
		CHECK(weir_limiter_allow(limiter, S(60), 900));
		CHECK_EQ(change(limiter, S(60), pairs[i][1]), WEIR_OK);
		CHECK(weir_limiter_allow(limiter, S(60), 1));
		free(limiter);
	}
}

static void a_log_grows_into_the_memory_it_has(void)
{
	struct weir_limiter *const limiter = limiter_of("10/s sliding_log", 5 * 16);

	CHECK_EQ(change(limiter, S(1), "15/s sliding_log"), WEIR_OK);
	CHECK_EQ(change(limiter, S(1), "16/s sliding_log"), WEIR_ERR_ROOM);
	for (unsigned i = 0; i < 15; i++)
		CHECK(weir_limiter_allow(limiter, S(1) + i, 1));
	CHECK(!weir_limiter_allow(limiter, S(1) + 15, 1));
	free(limiter);
}

static void reservations(void)
{
	struct weir_limiter *const limiter = limiter_of("10/s burst 2", 0);
	struct weir_reservation first, second;
	struct weir_verdict v;

	CHECK_EQ(weir_limiter_reserve(limiter, S(1), 2, 0, &first, &v), WEIR_OK);
	CHECK(v.allowed && v.delay == 0);
	CHECK_EQ(weir_limiter_reserve(limiter, S(1), 1, MS(99), &second, &v), WEIR_OK);
	CHECK(!v.allowed && v.retry_after == MS(1));
	CHECK_EQ(weir_limiter_reserve(limiter, S(1), 1, MS(100), &second, &v), WEIR_OK);
	CHECK(v.allowed && v.delay == MS(100) && second.act_at == S(1) + MS(100));
	CHECK_EQ(weir_limiter_cancel(limiter, S(1), &second), 1);
	CHECK_EQ(weir_limiter_cancel(limiter, S(1), &second), 0);
	CHECK_EQ(weir_limiter_cancel(limiter, S(1), &first), 2);
	CHECK_EQ(weir_limiter_tokens(limiter, S(1)), 2);
	free(limiter);
}

static void debt_survives_time_and_changes(void)
{
	static const char *const limits[] = { "1/s burst 1", "1/s refill interval burst 1",
					      "1/9000000000000000000ns burst 1",
					      "1/s refill interval burst 9999999999999999" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_limiter *const limiter = limiter_of(limits[i], 0);
		struct weir_reservation reservation;
		struct weir_limit limit;
		struct weir_verdict v;

		if (i >= 2) { /* the other way of deciding */
			CHECK_EQ(weir_limiter_reserve(limiter, S(1000), 1, UINT64_MAX, &reservation, &v), WEIR_OK);
			CHECK_EQ(weir_limiter_cancel(limiter, S(1000), &reservation), 1);
			free(limiter);
			continue;
		}
		for (unsigned n = 0; n < 200; n++)
			CHECK_EQ(weir_limiter_reserve(limiter, S(1000), 1, UINT64_MAX, &reservation, &v), WEIR_OK);
		CHECK_EQ(reservation.act_at, S(1199));
		CHECK_EQ(weir_limiter_peek(limiter, S(1000), 1).retry_after, S(200));
		limit = weir_limiter_limit(limiter);
		limit.burst = 2;
		CHECK_EQ(weir_limiter_change(limiter, S(1000), &limit, NULL), WEIR_OK);
		CHECK_EQ(weir_limiter_peek(limiter, S(1000), 1).retry_after, S(199));
		CHECK_EQ(weir_limiter_peek(limiter, S(940), 1).retry_after, S(259));
		CHECK(weir_limiter_peek(limiter, S(900), 1).retry_after <= S(2)); /* a new clock */
		free(limiter);
	}
}

/* 1 a second, 3 places: one departure per second. */
static void departures_are_reserved(void)
{
	struct weir_limiter *const limiter = limiter_of("1/s leaky queue 3", 0);
	struct weir_reservation first, second, third;
	struct weir_verdict v;

	CHECK_EQ(weir_limiter_reserve(limiter, S(10), 1, WEIR_NEVER, &first, &v), WEIR_OK);
	CHECK(v.allowed && v.delay == 0);
	CHECK_EQ(weir_limiter_reserve(limiter, S(10), 1, WEIR_NEVER, &second, &v), WEIR_OK);
	CHECK(v.allowed && v.delay == S(1) && second.act_at == S(11));
	CHECK_EQ(weir_limiter_reserve(limiter, S(10), 1, S(1), &third, &v), WEIR_OK);
	CHECK(!v.allowed && v.delay == S(2) && v.retry_after == S(1) && third.cost == 0);
	CHECK_EQ(weir_limiter_reserve(limiter, S(10), 1, S(2), &third, &v), WEIR_OK);
	CHECK(v.allowed && v.delay == S(2));
	CHECK_EQ(weir_limiter_reserve(limiter, S(10), 1, WEIR_NEVER, &first, &v), WEIR_OK);
	CHECK(!v.allowed && v.delay == 0 && v.retry_after == S(1)); /* full */
	CHECK_EQ(weir_limiter_cancel(limiter, S(10), &second), 0);  /* the third was reserved after it */
	CHECK_EQ(weir_limiter_cancel(limiter, S(10), &third), 1);
	CHECK_EQ(weir_limiter_cancel(limiter, S(10), &third), 0);
	CHECK_EQ(weir_limiter_take(limiter, S(10), 1).delay, S(2));
	free(limiter);
}

static void windows_do_not_reserve(void)
{
	static const char *const others[] = { "1/s fixed_window", "1/s sliding_log", "1/s sliding_counter" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct weir_limiter *const limiter = limiter_of(others[i], 0);
		struct weir_reservation reservation = { .cost = 1 };
		struct weir_verdict v;

		CHECK_EQ(weir_limiter_reserve(limiter, S(1), 1, 0, &reservation, &v), WEIR_ERR_UNSUPPORTED);
		CHECK_EQ(reservation.cost, 1);
		CHECK_EQ(weir_limiter_cancel(limiter, S(1), &reservation), 0);
		free(limiter);
	}
}

TESTS(TEST(a_limiter_needs_so_much_memory), TEST(bad_beginnings_say_why), TEST(each_question),
      TEST(changes_keep_what_was_used), TEST(changes_across_the_two_ways_of_deciding),
      TEST(a_log_grows_into_the_memory_it_has), TEST(reservations), TEST(debt_survives_time_and_changes),
      TEST(departures_are_reserved), TEST(windows_do_not_reserve))
