/* tables.h: tables, limits and random numbers for tests. A table that cannot be made ends the program. */
#ifndef WEIR_TESTS_STORE_TABLES_H
#define WEIR_TESTS_STORE_TABLES_H

#include "core/rows.h"
#include "store/table/table.h"

/* The times of tests lie around this: in 2096, so that they are in the future of the real clock. */
#define MADE_AT S(4000000000)

/* One limit of each kind and option that a table supports. They refill within seconds, so that a key has much, little
 * and no usage within one run. */
static const char *const of_each_kind[] = {
	"10/s burst 5",
	"7/min burst 3",
	"10/s leaky queue 5",
	"10/s leaky burst 4",
	"5/s refill interval burst 12",
	"5/s fixed_window",
	"5/s fixed_window align first",
	"5/s fixed_window count all",
	"5000000000/s fixed_window",
	"5000000000/s fixed_window count all",
	"20/s sliding_counter",
};

#define KINDS (sizeof(of_each_kind) / sizeof(of_each_kind[0]))

static inline uint64_t any(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static inline uint64_t below(uint64_t n)
{
	return any() % n;
}

static inline struct weir_table *table_with(const struct weir_table_options *options)
{
	struct weir_message why = { 0, "" };
	struct weir_table *table;

	if (weir_table_new(options, &table, &why) != WEIR_OK) {
		printf("Bail out! no table: %s\n", why.text);
		exit(1);
	}
	return table;
}

/* A table with room for this many keys. Its secret, and so the place of each key, is always the same. */
static inline struct weir_table *table_for(uint64_t keys, weir_ns made_at)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(keys, 0), .made_at = made_at };
	struct weir_table *const table = table_with(&options);

	table->region.secret = (struct weir__hash_secret){ 0x0123456789abcdef, 0xfedcba9876543210 };
	return table;
}

/* The same with an arena. */
static inline struct weir_table *table_with_arena(uint64_t keys, size_t arena_bytes)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(keys, 0) + arena_bytes,
						    .arena_bytes = arena_bytes,
						    .made_at = MADE_AT };
	struct weir_table *const table = table_with(&options);

	table->region.secret = (struct weir__hash_secret){ 0x0123456789abcdef, 0xfedcba9876543210 };
	return table;
}

/* Only four of its lines are used: 16 slots, which are the candidates of every key. */
static inline struct weir_table *tiny_table(void)
{
	struct weir_table *const table = table_for(0, MADE_AT);

	table->region.lines = WEIR__LINES_LEAST;
	return table;
}

/* Adds a limit that is named by its text. */
static inline const struct weir_table_limit *limit_in(struct weir_table *table, const char *text)
{
	const struct weir_table_limit *limit;
	struct weir_message why = { 0, "" };

	if (weir_table_add_limit_text(table, text, text, &limit, &why) != WEIR_OK) {
		printf("Bail out! \"%s\": %s\n", text, why.text);
		exit(1);
	}
	return limit;
}

static inline size_t slots_of(const struct weir_table *table)
{
	return table->region.lines * WEIR__LINE_SLOTS;
}

static inline uint64_t hash_of(const struct weir_table_limit *limit, const void *key, size_t key_length)
{
	return weir__hash(&limit->secret, key, key_length);
}

static inline struct weir__place place_of(struct weir_table *table, const struct weir_table_limit *limit,
					  const void *bytes, size_t length)
{
	struct weir_state ignored;
	struct weir__place place;
	struct weir__key key;

	weir__key_init(&key, table, limit, hash_of(limit, bytes, length));
	weir__table_find(&key, &place, &ignored);
	return place;
}

/* How many slots have the key's fingerprint, including claims: at most one while no operation runs. */
static inline unsigned slots_with(const struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				  size_t key_length)
{
	const uint32_t fingerprint = weir__fingerprint(hash_of(limit, key, key_length));
	unsigned n = 0;

	for (size_t i = 0; i < slots_of(table); i++)
		n += weir__slot_fingerprint(weir__atomic16_load(&table->region.slots[i])) == fingerprint;
	return n;
}

static inline struct weir_table_stats stats_of(struct weir_table *table, weir_ns now)
{
	struct weir_table_stats stats;

	weir_table_stats(table, now, &stats);
	return stats;
}

static inline void check_verdict(const char *file, int line, const char *what, const struct weir_verdict *found,
				 const struct weir_verdict *expected)
{
	if (is_same_verdict(found, expected))
		return;
	check_fail(file, line, what);
	for (int i = 0; i < 2; i++) {
		const struct weir_verdict *const v = i ? expected : found;

		printf("# %s: allowed %d never %d limit %" PRIu64 " remaining %" PRIu64 " granted %" PRIu64
		       " retry %" PRIu64 " reset %" PRIu64 " delay %" PRIu64 "\n",
		       i ? "expected" : "   found", v->allowed, v->never, v->limit, v->remaining, v->granted,
		       v->retry_after, v->reset_after, v->delay);
	}
}

#define CHECK_VERDICT(what, found, expected) check_verdict(__FILE__, __LINE__, what, found, expected)

#endif
