/* region_limit_test.c: what a reader of a table sees of its limits, and that reading adds none. */
#include <stdlib.h>

#include "check.h"
#include "store/table/table.h"

enum { LIMITS_MAX = 8 };

static const weir_ns now = UINT64_C(1790000000000000000);

static struct weir_table *new_table(weir_ns made_at)
{
	const struct weir_table_options options = { .size_bytes = 1 << 16,
						    .limits_max = LIMITS_MAX,
						    .made_at = made_at };
	struct weir_table *table;

	if (weir_table_new(&options, &table, NULL) != WEIR_OK) {
		puts("Bail out! no table");
		exit(1);
	}
	return table;
}

static const struct weir_table_limit *add(struct weir_table *table, const char *name, const char *text)
{
	const struct weir_table_limit *limit = NULL;

	CHECK_EQ(weir_table_add_limit_text(table, name, text, &limit, NULL), WEIR_OK);
	return limit;
}

static uint32_t limits_in(struct weir_table *table)
{
	struct weir_table_stats stats;

	weir_table_stats(table, now, &stats);
	return stats.limits;
}

static void found_by_name(void)
{
	static char names[LIMITS_MAX][8];
	struct weir_table *const table = new_table(now);
	struct weir__region_words words;
	uint32_t index = 99;

	CHECK(!weir__region_find_limit(&table->region, "0", &index));
	CHECK_EQ(index, 99);
	/* Up to the last entry: a search for more than there can be must end. */
	for (int i = 0; i < LIMITS_MAX; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%d", i);
		CHECK(!weir__region_find_limit(&table->region, names[i], &index));
		CHECK_EQ(limits_in(table), i);
		CHECK_EQ(add(table, names[i], "100/min burst 20")->index < LIMITS_MAX, true);
	}
	for (int i = 0; i < LIMITS_MAX; i++) {
		CHECK(weir__region_find_limit(&table->region, names[i], &index));
		CHECK_EQ(index, add(table, names[i], "100/min burst 20")->index);
		CHECK(weir__region_read_limit(&table->region, index, &words));
		CHECK_TEXT(words.name, names[i]);
		CHECK_TEXT(words.text, "100/min burst 20");
	}
	CHECK(!weir__region_find_limit(&table->region, "8", &index));
	weir_table_free(table);
}

static void the_longest_words(void)
{
	static const char name[] = "123456789-123456789-123456789-123456789-123456789-123456789-123";
	struct weir_table *const table = new_table(now);
	struct weir__region_words words;

	add(table, name, "4294967295/9007199254740993ns burst 4294967291");
	for (uint32_t i = 0; i < LIMITS_MAX; i++)
		if (weir__region_read_limit(&table->region, i, &words)) {
			CHECK_TEXT(words.name, name);
			CHECK_TEXT(words.text, "4294967295/9007199254740993ns burst 4294967291");
		}
	weir_table_free(table);
}

static void words_of_another_are_none(void)
{
	struct weir_table *const table = new_table(now);
	const uint32_t index = add(table, "per user", "100/min")->index;
	struct weir__region_limit *const entry = &table->region.limits[index];
	const struct weir__region_limit whole = *entry;
	struct weir__region_words words;

	for (int damage = 0; damage < 4; damage++) {
		*entry = whole;
		if (damage == 0)
			memset(entry->text, 0, sizeof(entry->text)); /* killed before the text was written */
		else if (damage == 1)
			entry->name[0] ^= 1;
		else if (damage == 2)
			memset(entry->text, 'x', sizeof(entry->text)); /* no terminating NUL */
		else
			memset(entry->name, 'x', sizeof(entry->name));
		memset(&words, 'y', sizeof(words));
		CHECK(weir__region_read_limit(&table->region, index, &words));
		CHECK_TEXT(words.name, "");
		CHECK_TEXT(words.text, "");
	}
	*entry = whole;
	CHECK(weir__region_read_limit(&table->region, index, &words));
	CHECK_TEXT(words.name, "per user");
	weir_table_free(table);
}

static void when_it_was_made(void)
{
	static const struct {
		weir_ns made_at, known;
	} rows[] = {
		{ UINT64_C(1790000000000000000), UINT64_C(1790000000000000000) },
		{ (UINT64_C(1) << 58) + 1, (UINT64_C(1) << 58) + 1 },
		{ UINT64_C(1) << 58, 0 }, /* for all of these the epoch is Unix's */
		{ 1, 0 },
		{ UINT64_MAX, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_table *const table = new_table(rows[i].made_at);

		CHECK_EQ(weir__region_made_at(&table->region), rows[i].known);
		weir_table_free(table);
	}
}

static void inspected_with_a_cost(void)
{
	struct weir_table *const table = new_table(now);
	const struct weir_table_limit *const limit = add(table, "l", "10/s burst 3");
	struct weir_table_limit_stats counted;
	struct weir_table_key key;

	CHECK(weir_table_take(table, limit, "k", 1, now, 3).allowed);
	key = weir__table_inspect(table, limit, "k", 1, now, 1);
	CHECK(key.is_stored && !key.verdict.allowed);
	CHECK_EQ(key.full_at, now + 300000000);
	CHECK_EQ(key.verdict.retry_after, 100000000);
	CHECK_EQ(key.verdict.reset_after, 300000000);
	key = weir__table_inspect(table, limit, "k", 1, now + 100000000, 1);
	CHECK(key.is_stored && key.verdict.allowed);
	CHECK_EQ(key.verdict.remaining, 1);
	CHECK(weir__table_inspect(table, limit, "k", 1, now, 4).verdict.never);
	CHECK(weir_table_inspect(table, limit, "k", 1, now).verdict.allowed);
	weir__table_limit_stats(table, limit->index, &counted);
	CHECK_EQ(counted.allowed, 1);
	CHECK_EQ(counted.denied, 0);
	weir_table_free(table);
}

TESTS(TEST(found_by_name), TEST(the_longest_words), TEST(words_of_another_are_none), TEST(when_it_was_made),
      TEST(inspected_with_a_cost))
