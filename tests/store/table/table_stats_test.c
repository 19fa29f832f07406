/* table_stats_test.c: statistics of a table, complete and by a sample. */
#include "store/table/tables.h"

enum { KEYS = 200, ALL = 1 << 30 };

static struct weir_table *filled(const struct weir_table_limit **ret_limit)
{
	struct weir_table *const table = table_for(100000, MADE_AT);

	*ret_limit = limit_in(table, "1/s burst 2");
	for (uint32_t i = 0; i < KEYS; i++)
		(void)weir_table_take(table, *ret_limit, &i, sizeof(i), MADE_AT, i < KEYS / 2 ? 1 : 2);
	return table;
}

static void decisions_are_counted_by_limit(void)
{
	const struct weir_table_limit *limit;
	struct weir_table *const table = filled(&limit);
	const struct weir_table_limit *const other = limit_in(table, "1/min");
	struct weir_table_limit_stats stats;
	const uint32_t key = KEYS - 1;

	CHECK(!weir_table_take(table, limit, &key, sizeof(key), MADE_AT, 1).allowed);
	weir_table_limit_stats(table, limit, &stats);
	CHECK_EQ(stats.allowed, KEYS);
	CHECK_EQ(stats.denied, 1);
	weir_table_limit_stats(table, other, &stats);
	CHECK_EQ(stats.allowed + stats.denied, 0);
	weir_table_free(table);
}

static void keys_live_while_they_owe(void)
{
	const struct weir_table_limit *limit;
	struct weir_table *const table = filled(&limit);
	static const struct {
		weir_ns later;
		uint64_t live;
	} rows[] = { { 0, KEYS }, { S(1) - 1, KEYS }, { S(1), KEYS / 2 }, { S(2) - 1, KEYS / 2 }, { S(2), 0 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__table_key_count key_count;
		struct weir_table_stats stats;

		weir_table_stats(table, MADE_AT + rows[i].later, &stats);
		weir__table_look(table, MADE_AT + rows[i].later, ALL, &key_count);
		CHECK_EQ(stats.live, rows[i].live);
		CHECK_EQ(key_count.live, rows[i].live);
		CHECK_EQ(key_count.seen, rows[i].live);
		CHECK_EQ(key_count.capacity, stats.capacity);
		CHECK_EQ(key_count.inserted, KEYS);
		CHECK(key_count.is_exact);
	}
	weir_table_free(table);
}

/* A sample is scaled up to the whole table, and never to more than was ever there. */
static void a_count_looks_at_a_part(void)
{
	const struct weir_table_limit *limit;
	struct weir_table *const table = filled(&limit);
	uint64_t slots = 1, seen = 0;
	struct weir__table_key_count key_count;

	do {
		slots *= 2;
		weir__table_look(table, MADE_AT, slots, &key_count);
		CHECK(key_count.seen >= seen && key_count.seen <= slots && key_count.live <= KEYS);
		CHECK(key_count.live == 0 ? key_count.seen == 0 : key_count.live >= key_count.seen);
		seen = key_count.seen;
	} while (!key_count.is_exact);
	CHECK_EQ(key_count.live, KEYS);
	weir_table_free(table);
}

TESTS(TEST(decisions_are_counted_by_limit), TEST(keys_live_while_they_owe), TEST(a_count_looks_at_a_part))
