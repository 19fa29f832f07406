/* leaf_hints_test.c: hints name the leaves that the next decision reads, and a wrong hint changes no result. */
#include "store/table/leaf_hints.h"

#include "tables.h"

enum { CHUNK_MASK = (1 << 27) - 1, EVENTS = 100 };

static struct weir_table *table;
static const struct weir_table_limit *limit;

static void begin(void)
{
	const struct weir_table_options options = { .size_bytes = 1 << 20, .arena_bytes = 512 << 10 };

	CHECK_EQ(weir_table_new(&options, &table, NULL), WEIR_OK);
	CHECK_EQ(weir_table_add_limit_text(table, "log", "20/min sliding_log", &limit, NULL), WEIR_OK);
}

/* The key's history, and the hint for its slot. */
static _Atomic uint64_t *look(struct weir__history *ret_history)
{
	struct weir__key key;
	struct weir__place place;
	struct weir_state state;
	uint32_t moved_to;

	weir__key_init(&key, table, limit, weir__hash(&limit->secret, "key", 3));
	weir__table_find(&key, &place, &state);
	CHECK(place.slot != NULL);
	CHECK_EQ(
		weir__history_look(&table->region.arena, weir__slot_root(place.seen), key.hash, ret_history, &moved_to),
		WEIR__HISTORY_THERE);
	return weir__table_leaf_hint(table, place.slot);
}

static uint32_t leaf_at(const struct weir__history *history, uint32_t position)
{
	const uint32_t number = weir__history_leaf(history, weir__shape_leaf(&history->shape, position));

	return number <= CHUNK_MASK ? number : 0;
}

/* One event every 3 s and 20 a minute: all are allowed, and the ring wraps several times. A leaf is made when an event
 * is stored in it, so the hint has it one event later. */
static void a_hint_names_the_leaves_of_the_newest_and_the_oldest_event(void)
{
	weir_ns now;

	begin();
	now = weir_table_now(table);
	for (int i = 0; i < EVENTS; i++, now += 3000000000) {
		struct weir__history history;
		uint64_t hint;

		CHECK(weir_table_allow(table, limit, "key", 3, now, 1));
		if (i < 30) /* the ring's leaves are still being made */
			continue;
		hint = *look(&history);
		CHECK_EQ(hint & CHUNK_MASK, leaf_at(&history, history.newest.position));
		CHECK_EQ(hint >> 27 & CHUNK_MASK, leaf_at(&history, history.oldest.position));
	}
	weir_table_free(table);
}

static void a_wrong_hint_changes_no_decision(void)
{
	weir_ns now;

	begin();
	now = weir_table_now(table);
	CHECK(weir_table_allow(table, limit, "key", 3, now, 1));
	for (uint64_t i = 0; i < EVENTS; i++) {
		struct weir__history history;

		*look(&history) = i * UINT64_C(0x9e3779b97f4a7c15);
		CHECK_EQ(weir_table_allow(table, limit, "key", 3, now + i, 1), i < 19);
	}
	weir_table_free(table);
}

/* One slot in eight could have a history: hints are shared, and the arena bounds their number. */
static void a_small_arena_has_few_hints(void)
{
	struct weir__leaf_hints hints;

	weir__leaf_hints_init(&hints, 4096, 600);
	CHECK(weir__leaf_hint(&hints, 4095) == weir__leaf_hint(&hints, 511));
	CHECK(weir__leaf_hint(&hints, 511) != weir__leaf_hint(&hints, 510));
	weir__leaf_hints_free(&hints);
	weir__leaf_hints_init(&hints, 4096, 1 << 20);
	CHECK(weir__leaf_hint(&hints, 4095) != weir__leaf_hint(&hints, 511));
	weir__leaf_hints_free(&hints);
	weir__leaf_hints_init(&hints, 4096, 0);
	CHECK(weir__leaf_hint(&hints, 0) == NULL);
}

TESTS(TEST(a_hint_names_the_leaves_of_the_newest_and_the_oldest_event), TEST(a_wrong_hint_changes_no_decision),
      TEST(a_small_arena_has_few_hints))
