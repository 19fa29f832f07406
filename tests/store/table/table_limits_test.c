/* table_limits_test.c: limits are added by name, by any number of threads and processes. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "hooked_table.h"
#include "tables.h"

enum { THREADS = 8, ROUNDS = 200, NAMES = 12 };

static const struct weir_table_limit *add(struct weir_table *table, const char *name, const char *text, int error,
					  const char *why)
{
	const struct weir_table_limit *limit = NULL;
	struct weir_message message = { 0, "" };

	CHECK_EQ(weir_table_add_limit_text(table, name, text, &limit, &message), error);
	CHECK_TEXT(message.text, why);
	CHECK((limit != NULL) == (error == WEIR_OK));
	return limit;
}

/* A table with two attachments. Its name is removed at once, so that nothing remains. */
static void share(struct weir_table *ret_tables[2], uint32_t limits_max)
{
	struct weir_table_options options = { .size_bytes = weir_table_size(1000, limits_max),
					      .limits_max = limits_max };
	char name[40];

	(void)snprintf(name, sizeof(name), "weir-table-limits-test-%d", (int)getpid());
	options.shared = name;
	ret_tables[0] = table_with(&options);
	ret_tables[1] = table_with(&options);
	CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
}

static void the_same_limit_is_the_same_for_all(void)
{
	const struct weir_table_limit *first, *again, *other;
	struct weir_table *tables[2];

	share(tables, 0);
	first = add(tables[0], "per-user", "3/min", WEIR_OK, "");
	again = add(tables[0], "per-user", "3/min burst 3", WEIR_OK, ""); /* the same, written differently */
	other = add(tables[1], "per-user", "3/60s", WEIR_OK, "");
	CHECK(first == again);
	CHECK_EQ(other->index, first->index);
	CHECK_TEXT(weir_table_limit_name(other), "per-user");
	CHECK_EQ(weir_table_limit_limit(other).count, 3);
	CHECK_EQ(weir_table_limit_limit(other).period, S(60));
	CHECK_EQ(stats_of(tables[0], 0).limits, 1);
	/* Usage that one attachment has charged counts for the other. */
	CHECK(weir_table_allow(tables[0], first, "ann", 3, weir_table_now(tables[0]), 3));
	CHECK(!weir_table_allow(tables[1], other, "ann", 3, weir_table_now(tables[1]), 1));
	CHECK(weir_table_allow(tables[1], other, "bob", 3, weir_table_now(tables[1]), 1));
	weir_table_free(tables[0]);
	weir_table_free(tables[1]);
}

static void limits_that_differ_in_name_are_two(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *const a = add(table, "a", "1/s", WEIR_OK, "");
	const struct weir_table_limit *const b = add(table, "b", "1/s", WEIR_OK, "");

	CHECK(a != b);
	CHECK(hash_of(a, "key", 3) != hash_of(b, "key", 3));
	CHECK(weir_table_allow(table, a, "key", 3, MADE_AT, 1));
	CHECK(weir_table_allow(table, b, "key", 3, MADE_AT, 1));
	CHECK(!weir_table_allow(table, a, "key", 3, MADE_AT, 1));
	CHECK_EQ(stats_of(table, MADE_AT).limits, 2);
	weir_table_free(table);
}

static void another_limit_of_that_name_is_refused(void)
{
	struct weir_table *tables[2];

	share(tables, 2);
	add(tables[0], "a", "10/s leaky queue 5", WEIR_OK, "");
	for (int i = 0; i < 2; i++) {
		add(tables[i], "a", "10/s leaky queue 6", WEIR_ERR_CHANGE,
		    "the table has a limit \"a\" of 10/s leaky queue 5; use weir_table_change_limit to change it");
		add(tables[i], "a", "10/s", WEIR_ERR_CHANGE,
		    "the table has a limit \"a\" of 10/s leaky queue 5; use weir_table_change_limit to change it");
	}
	CHECK_EQ(stats_of(tables[1], 0).limits, 1);
	add(tables[1], "b", "10/s", WEIR_OK, "");
	add(tables[0], "c", "10/s", WEIR_ERR_FULL, "the table has 2 limits, and limits_max is 2");
	add(tables[1], "c", "10/s", WEIR_ERR_FULL, "the table has 2 limits, and limits_max is 2");
	add(tables[0], "b", "10/s", WEIR_OK, ""); /* finding one needs no room */
	add(tables[0], "b", "11/s", WEIR_ERR_CHANGE,
	    "the table has a limit \"b\" of 10/s; use weir_table_change_limit to change it");
	CHECK_EQ(stats_of(tables[0], 0).limits, 2);
	CHECK_EQ(stats_of(tables[0], 0).limits_max, 2);
	weir_table_free(tables[0]);
	weir_table_free(tables[1]);
}

static void limits_and_names_that_cannot_be(void)
{
	static const struct {
		const char *name, *limit;
		int error;
		const char *why;
	} rows[] = {
		{ "", "1/s", WEIR_ERR_LIMIT, "a limit named \"\": a name has 1 to 63 bytes" },
		{ "0123456789012345678901234567890123456789012345678901234567890123", "1/s", WEIR_ERR_LIMIT,
		  "a limit named \"0123456789012345678901234567890123456789...\": a name has 1 to 63 bytes" },
		{ "012345678901234567890123456789012345678901234567890123456789012", "1/s", WEIR_OK, "" },
		{ "any/byte but \xff controls: \xc2\xa0", "1/s", WEIR_OK, "" },
		{ "new\nline", "1/s", WEIR_ERR_LIMIT,
		  "a limit named \"new?line\": at 3: a name must not contain control characters" },
		{ "a", "1/fortnight", WEIR_ERR_SYNTAX,
		  "at 2: \"fortnight\": unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s" },
		{ "a", "0/s", WEIR_ERR_LIMIT, "a count of 0: a rate needs 1 or more" },
		{ "a", "70368744177664/s fixed_window", WEIR_ERR_MAXIMUM,
		  "in a table a count is at most 70368744177663" },
		{ "a", "1/s sliding_log", WEIR_ERR_NO_ARENA,
		  "a sliding_log, or a sliding_counter with segments, count all or a count above 16383, needs the table's arena, and this table has none: set arena_bytes" },
	};
	struct weir_table *const table = table_for(100, MADE_AT);
	uint32_t added = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		add(table, rows[i].name, rows[i].limit, rows[i].error, rows[i].why);
		added += rows[i].error == WEIR_OK;
	}
	CHECK_EQ(stats_of(table, MADE_AT).limits, added); /* a rejected limit leaves no trace */
	weir_table_free(table);
}

/* Limits can be checked before there is a table, as if it had an arena. */
static void limits_are_checked_without_a_table(void)
{
	static const struct {
		const char *limit;
		int error;
		const char *why;
	} rows[] = {
		{ "10/s burst 20", WEIR_OK, "" },
		{ "100/min sliding_log", WEIR_OK, "" },
		{ "4294967295/s", WEIR_OK, "" },
		{ "18446744073709551615/s", WEIR_ERR_MAXIMUM,
		  "in a table the count of a rate in lowest terms is at most 4294967295" },
		{ "4294967295/s fixed_window", WEIR_OK, "" },
		{ "268435456/s refill interval", WEIR_ERR_MAXIMUM,
		  "in a table a burst with refill interval is at most 268435455" },
		{ "1/10000day", WEIR_ERR_MAXIMUM,
		  "in a table a used-up key must be full again after at most 576460632303423488 ns: 6671 whole days" },
		{ "1/6000day sliding_log", WEIR_ERR_MAXIMUM,
		  "in a table a used-up key must be full again after at most 504403053265495552 ns: 5837 whole days" },
	};
	const struct weir_limit none = { .algorithm = WEIR_TOKEN_BUCKET };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_message why = { .text = "" };
		struct weir_limit limit;

		CHECK_EQ(weir_limit_parse(rows[i].limit, strlen(rows[i].limit), &limit, &why), WEIR_OK);
		CHECK_EQ(weir_table_check_limit(&limit, &why), rows[i].error);
		CHECK_TEXT(rows[i].error == WEIR_OK ? "" : why.text, rows[i].why);
	}
	CHECK_EQ(weir_table_check_limit(&none, NULL), WEIR_ERR_LIMIT);
}

/* The longest text of a limit fits its entry. */
static void a_limit_of_many_words(void)
{
	static const char *const text = "268435455/576460632303423487ns fixed_window align first count all";
	struct weir_table *const table = table_for(100, MADE_AT);
	struct weir_limit limit;

	add(table, "long", text, WEIR_OK, "");
	limit = weir_table_limit_limit(add(table, "long", text, WEIR_OK, ""));
	CHECK(limit.align_first && limit.count_all);
	add(table, "long", "1/s", WEIR_ERR_CHANGE,
	    "the table has a limit \"long\" of 268435455/576460632303423487ns fixed_window align first count all; use weir_table_change_limit to change it");
	weir_table_free(table);
}

/* --- at once ---------------------------------------------------------------------------------------------------- */

static struct weir_table *meeting;
static struct {
	const char *name, *text;
	int error;
	const struct weir_table_limit *limit;
} first, second;
static unsigned accesses, stop_at;

static void add_first(void)
{
	first.error = weir_table_add_limit_text(meeting, first.name, first.text, &first.limit, NULL);
}

static void add_second(void)
{
	second.error = weir_table_add_limit_text(meeting, second.name, second.text, &second.limit, NULL);
}

static void add_second_in_between(const void *at)
{
	(void)at;
	if (accesses++ == stop_at)
		add_second();
}

/* Another limit is added before each access to the list. */
static void two_who_add_meet_once(void)
{
	static const struct {
		const char *name, *text;
		int error; /* of one of the two */
		bool is_same;
	} rows[] = { { "a", "1/s", WEIR_OK, true },
		     { "b", "1/s", WEIR_OK, false },
		     { "a", "2/s", WEIR_ERR_CHANGE, true } };

	for (size_t i = 0; i < 3 * 8 * 10; i++) {
		const struct weir_table_options options = { .size_bytes = weir_table_size(10, 2), .limits_max = 2 };

		first.name = "a";
		first.text = "1/s";
		second.name = rows[i / 80].name;
		second.text = rows[i / 80].text;
		meeting = table_with(&options);
		accesses = 0;
		stop_at = (unsigned)i % 8;
		meeting->region.secret.k0 = i / 8 % 10; /* which determines where they begin to search */
		table_hook = add_second_in_between;
		add_first();
		table_hook = NULL;
		if (accesses <= stop_at) /* it has fewer */
			add_second();
		CHECK_EQ(first.error == WEIR_OK ? second.error : first.error, rows[i / 80].error);
		CHECK(first.error == WEIR_OK || second.error == WEIR_OK);
		if (rows[i / 80].error == WEIR_OK)
			CHECK_EQ(first.limit == second.limit, rows[i / 80].is_same);
		CHECK_EQ(stats_of(meeting, MADE_AT).limits, rows[i / 80].is_same ? 1 : 2);
		weir_table_free(meeting);
	}
}

static struct weir_table *crowded[2];
static pthread_barrier_t barrier;
static uint32_t indexes[THREADS][NAMES];

/* All threads add the same limits in different orders, through one of two attachments. */
static void *add_all(void *number_)
{
	const size_t number = (uintptr_t)number_;

	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&barrier);
		if (number == 0)
			share(crowded, NAMES);
		pthread_barrier_wait(&barrier);
		for (size_t i = 0; i < NAMES; i++) {
			const size_t which = (i * 5 + number) % NAMES;
			const char name[2] = { (char)('a' + which), '\0' };
			const struct weir_table_limit *limit = NULL;

			CHECK_EQ(weir_table_add_limit_text(crowded[number % 2], name, "1/s", &limit, NULL), WEIR_OK);
			indexes[number][which] = limit->index;
		}
		pthread_barrier_wait(&barrier);
		if (number != 0)
			continue;
		CHECK_EQ(stats_of(crowded[0], 0).limits, NAMES);
		for (size_t i = 1; i < THREADS; i++)
			CHECK_EQ(memcmp(indexes[i], indexes[0], sizeof(indexes[0])), 0);
		weir_table_free(crowded[0]);
		weir_table_free(crowded[1]);
	}
	return NULL;
}

static void all_who_add_it_at_once_get_the_same_one(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, add_all, (void *)i);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
}

TESTS(TEST(the_same_limit_is_the_same_for_all), TEST(limits_that_differ_in_name_are_two),
      TEST(another_limit_of_that_name_is_refused), TEST(limits_and_names_that_cannot_be),
      TEST(limits_are_checked_without_a_table), TEST(a_limit_of_many_words), TEST(two_who_add_meet_once),
      TEST(all_who_add_it_at_once_get_the_same_one))
