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

/* A large limit charges two hours; a small one can charge only a minute. */
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

/* The instant at which a key is full stays the same to the nanosecond under any limit. */
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

	CHECK_EQ(make(&limit, table, "a", "5/s sliding_log"), WEIR_ERR_NO_ARENA);
	CHECK_EQ(make(&limit, table, "a", "268435456/s fixed_window align first"), WEIR_ERR_MAXIMUM);
	weir_table_free(table);
}

/* Limits of each kind, and how much of them one request uses. */
static const struct {
	const char *text;
	uint64_t all;
} used_up[] = {
	{ "5/hour", 5 },
	{ "100/hour burst 10", 10 },
	{ "5/hour leaky queue 5", 5 },
	{ "5/hour leaky burst 4", 4 },
	{ "5/hour refill interval burst 12", 12 },
	{ "5/hour fixed_window", 5 },
	{ "5/hour fixed_window align first", 5 },
	{ "20/hour sliding_counter", 20 },
	{ "20/hour sliding_counter segments 6", 20 },
	{ "5/hour sliding_log", 5 },
};

enum { USED_UP = sizeof(used_up) / sizeof(used_up[0]) };

/* Keys of a 16-year inline limit rank above all keys of the table's own limits. */
static void inline_keys_leave_used_up_keys_of_other_limits_alone(void)
{
	static const char *const texts[] = { "1/6000day", "1/5000day fixed_window", "1/5000day sliding_log" };

	for (size_t of = 0; of < sizeof(texts) / sizeof(texts[0]); of++) {
		struct weir_table *const table = table_with_arena(10000, 1 << 20);
		struct weir_table_limit limit;

		CHECK_EQ(make(&limit, table, "a", texts[of]), WEIR_OK);
		for (size_t i = 0; i < USED_UP; i++)
			CHECK(weir_table_allow(table, limit_in(table, used_up[i].text), "victim", 6, MADE_AT,
					       used_up[i].all));
		for (uint32_t i = 0; i < 200000; i++)
			CHECK(weir_table_allow(table, &limit, &i, sizeof(i), MADE_AT, 1));
		CHECK(stats_of(table, MADE_AT).evicted > 100000);
		for (size_t i = 0; i < USED_UP; i++)
			CHECK(!weir_table_allow(table, limit_in(table, used_up[i].text), "victim", 6, MADE_AT, 1));
		weir_table_free(table);
	}
}

/* How many of these keys are denied because they are used up. */
static uint32_t denied_of(struct weir_table *table, const struct weir_table_limit *limit, uint32_t n)
{
	uint32_t denied = 0;

	for (uint32_t i = 0; i < n; i++)
		denied += !weir_table_peek(table, limit, &i, sizeof(i), MADE_AT, 1).allowed;
	return denied;
}

/* The other way round: keys of the table's long limits do not evict those of a short inline limit. Those have one of 75
 * slots, so hardly any has more than four neighbours among its 16 candidates. */
static void inline_keys_keep_their_share(void)
{
	struct weir_table *const table = table_for(10000, MADE_AT);
	const struct weir_table_limit *const longest = limit_in(table, "1/5000day");
	struct weir_table_limit limit;

	CHECK_EQ(make(&limit, table, "a", "1/min"), WEIR_OK);
	for (uint32_t i = 0; i < 200; i++)
		CHECK(weir_table_allow(table, &limit, &i, sizeof(i), MADE_AT, 1));
	for (uint32_t i = 0; i < 200000; i++)
		CHECK(weir_table_allow(table, longest, &i, sizeof(i), MADE_AT, 1));
	CHECK(denied_of(table, &limit, 200) > 190);
	weir_table_free(table);
}

/* In a table of 16 slots that keys of the other group have filled, each group gets its own share. */
static void the_share_is_a_setting(void)
{
	static const struct {
		uint32_t percent, slots;
	} rows[] = { { 1, 1 }, { 6, 1 }, { 7, 2 }, { 25, 4 }, { 50, 8 }, { 99, 15 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int inline_first = 0; inline_first < 2; inline_first++) {
			struct weir_table *const table = tiny_table();
			const struct weir_table_limit *const own = limit_in(table, "1/day");
			struct weir_table_limit limit;

			CHECK_EQ(make(&limit, table, "a", "1/day"), WEIR_OK);
			weir__table_set_inline_share(table, rows[i].percent);
			for (uint32_t n = 0; n < 32; n++)
				CHECK(weir_table_allow(table, inline_first ? &limit : own, &n, sizeof(n), MADE_AT, 1));
			for (uint32_t n = 0; n < 32; n++)
				CHECK(weir_table_allow(table, inline_first ? own : &limit, &n, sizeof(n), MADE_AT, 1));
			CHECK_EQ(denied_of(table, &limit, 32), rows[i].slots);
			CHECK_EQ(denied_of(table, own, 32), 16 - rows[i].slots);
			weir_table_free(table);
		}
}

/* Seven changes of a limit make an era, which is mixed into the fingerprints. */
static void the_group_survives_changes_of_limits(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const own = limit_in(table, "1/day");
	struct weir_table_limit limit;

	CHECK_EQ(make(&limit, table, "a", "1/6000day"), WEIR_OK);
	CHECK(weir_table_allow(table, own, "victim", 6, MADE_AT, 1));
	for (uint64_t burst = 2; burst < 40; burst++) {
		char text[32];
		struct weir_limit to;

		(void)snprintf(text, sizeof(text), "1/day burst %d", (int)burst);
		CHECK_EQ(weir_limit_parse(text, strlen(text), &to, NULL), WEIR_OK);
		CHECK_EQ(weir_table_change_limit(table, own, &to, MADE_AT, NULL), WEIR_OK);
		CHECK(weir_table_allow(table, own, "victim", 6, MADE_AT, 1));
		for (uint32_t n = 0; n < 64; n++)
			(void)weir_table_allow(table, &limit, &n, sizeof(n), MADE_AT, 1);
		CHECK(!weir_table_peek(table, own, "victim", 6, MADE_AT, 1).allowed);
	}
	weir_table_free(table);
}

/* In an arena, too, each group gives up what exceeds its share. A folded key may be denied early, so the test counts
 * the keys of the table's own limit that keep their events. */
static void histories_of_inline_keys_are_folded_first(void)
{
	struct weir_table *const table = table_with_arena(10000, 1 << 18);
	const struct weir_table_limit *const own = limit_in(table, "9/hour sliding_log");
	struct weir_table_limit limit;
	uint32_t kept = 0;

	CHECK_EQ(make(&limit, table, "a", "2/day sliding_log"), WEIR_OK);
	for (uint32_t i = 0; i < 500; i++)
		CHECK(weir_table_allow(table, own, &i, sizeof(i), MADE_AT, 1));
	for (uint32_t i = 0; i < 9000; i++)
		CHECK(weir_table_allow(table, &limit, &i, sizeof(i), MADE_AT, 2));
	CHECK(stats_of(table, MADE_AT).folded > 4000);
	for (uint32_t i = 0; i < 500; i++)
		kept += weir__slot_root(place_of(table, own, &i, sizeof(i)).seen) != 0;
	CHECK(kept > 450);
	weir_table_free(table);
}

TESTS(TEST(the_space_says_whose_key_it_is), TEST(what_other_limits_charged_is_owed),
      TEST(another_unit_keeps_the_instant), TEST(decisions_are_counted_with_another_limit),
      TEST(what_the_table_cannot_hold_is_refused), TEST(inline_keys_leave_used_up_keys_of_other_limits_alone),
      TEST(inline_keys_keep_their_share), TEST(the_share_is_a_setting), TEST(the_group_survives_changes_of_limits),
      TEST(histories_of_inline_keys_are_folded_first))
