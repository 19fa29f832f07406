/* inline_limit_test.c: inline limits. */
#include "store/table/inline_limit.h"

#include "tables.h"

static int make(struct weir_table_limit *limit, struct weir_table *table, const char *space, const char *text)
{
	struct weir_limit asked;

	CHECK_EQ(weir_limit_parse(text, strlen(text), &asked, NULL), WEIR_OK);
	return weir__inline_limit_init(limit, table, space, strlen(space), &asked, limit_in(table, "1/s"), NULL);
}

static bool allow(struct weir_table_limit *limit, struct weir_table *table)
{
	return weir_table_allow(table, limit, "key", 3, MADE_AT, 1);
}

static void the_space_says_whose_key_it_is(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	struct weir_table_limit first, again, other;

	CHECK_EQ(make(&first, table, "a", "2/hour"), WEIR_OK);
	CHECK_EQ(make(&again, table, "a", "2/hour"), WEIR_OK);
	CHECK_EQ(make(&other, table, "b", "2/hour"), WEIR_OK);
	CHECK(allow(&first, table) && allow(&again, table));
	CHECK(!allow(&first, table) && !allow(&again, table));
	CHECK(allow(&other, table));
	weir_table_free(table);
}

/* A large limit charges two hours, of which a small one can charge a minute. */
static void what_other_limits_charged_is_owed(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	struct weir_table_limit large, small;
	struct weir_verdict verdict;

	CHECK_EQ(make(&large, table, "a", "1/min burst 200"), WEIR_OK);
	CHECK_EQ(make(&small, table, "a", "1/min burst 1"), WEIR_OK);
	weir__inline_limit_share(&large);
	weir__inline_limit_share(&small);
	CHECK(weir_table_allow(table, &large, "key", 3, MADE_AT, 120));
	verdict = weir_table_take(table, &small, "key", 3, MADE_AT, 1);
	CHECK(!verdict.allowed);
	CHECK_EQ(verdict.retry_after, UINT64_C(7200000000000));
	CHECK_EQ(verdict.remaining, 0);
	verdict = weir_table_peek(table, &large, "key", 3, MADE_AT, 1);
	CHECK_EQ(verdict.remaining, 80);
	weir_table_free(table);
}

/* The instant at which a key is full stays, to the nanosecond, whatever the numbers of the limit that looks. */
static void another_unit_keeps_the_instant(void)
{
	static const char *const texts[] = { "1000003/hour burst 50", "1/s burst 3", "7/min burst 3",
					     "999999937/hour burst 9" };

	for (size_t from = 0; from < 4; from++)
		for (size_t to = 0; to < 4; to++) {
			struct weir_table *const table = table_for(100, MADE_AT);
			struct weir_table_limit first, second;
			weir_ns before, after, charged;

			CHECK_EQ(make(&first, table, "a", texts[from]), WEIR_OK);
			CHECK_EQ(make(&second, table, "a", texts[to]), WEIR_OK);
			weir__inline_limit_share(&first);
			weir__inline_limit_share(&second);
			CHECK(weir_table_allow(table, &first, "key", 3, MADE_AT, 2));
			before = weir_table_peek(table, &first, "key", 3, MADE_AT, 0).reset_after;
			after = weir_table_peek(table, &second, "key", 3, MADE_AT, 0).reset_after;
			CHECK(after <= before && before - after <= 1);
			if (weir_table_allow(table, &second, "key", 3, MADE_AT, 1)) {
				charged = weir_table_peek(table, &second, "key", 3, MADE_AT, 0).reset_after;
				CHECK(charged > after);
				after = weir_table_peek(table, &first, "key", 3, MADE_AT, 0).reset_after;
				CHECK(after <= charged && charged - after <= 1);
			}
			weir_table_free(table);
		}
}

static void decisions_are_counted_with_another_limit(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	struct weir_table_limit_stats stats;
	struct weir_table_limit limit;

	CHECK_EQ(make(&limit, table, "a", "1/hour"), WEIR_OK);
	CHECK(allow(&limit, table) && !allow(&limit, table));
	weir_table_limit_stats(table, limit_in(table, "1/s"), &stats);
	CHECK_EQ(stats.allowed, 1);
	CHECK_EQ(stats.denied, 1);
	weir_table_free(table);
}

static void what_the_table_cannot_hold_is_refused(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	struct weir_table_limit limit;

	CHECK_EQ(make(&limit, table, "a", "5/s sliding_log"), WEIR_ERR_UNSUPPORTED);
	CHECK_EQ(make(&limit, table, "a", "268435456/s fixed_window"), WEIR_ERR_MAXIMUM);
	weir_table_free(table);
}

TESTS(TEST(the_space_says_whose_key_it_is), TEST(what_other_limits_charged_is_owed),
      TEST(another_unit_keeps_the_instant), TEST(decisions_are_counted_with_another_limit),
      TEST(what_the_table_cannot_hold_is_refused))
