/* events_test.c: searches in a ring of cells find what a linear walk finds, whatever the cells hold. A careful search
 * notices each event that others have overwritten. */
#include <stdlib.h>

#include "core/rows.h"
#include "store/table/events.h"

enum { OWNER = 0x1234567, CHUNKS = 3000 };

#define NOW S(1000000)
#define BASE S(500)

static void *memory;
static struct weir__arena arena;
static uint64_t chance = 88172645463325252;

static uint64_t below(uint64_t n)
{
	chance ^= chance << 13;
	chance ^= chance >> 7;
	chance ^= chance << 17;
	return chance % n;
}

static uint32_t take(void *context)
{
	(void)context;
	return weir__arena_take(&arena, NOW);
}

static void make_arena(void)
{
	const size_t bytes = ((size_t)CHUNKS + 1) * (WEIR__CHUNK_BYTES + 1);

	free(memory);
	memory = aligned_alloc(WEIR__CHUNK_BYTES, (bytes + WEIR__CHUNK_BYTES) / WEIR__CHUNK_BYTES * WEIR__CHUNK_BYTES);
	if (memory == NULL)
		exit(1);
	memset(memory, 0, bytes);
	weir__arena_init(&arena, memory, bytes);
}

static struct weir__history seen_at(uint32_t number)
{
	struct weir__history history;
	uint32_t moved_to = 0;

	memset(&history, 0, sizeof(history));
	CHECK_EQ(weir__history_look(&arena, number, OWNER, &history, &moved_to), WEIR__HISTORY_THERE);
	return history;
}

/* Adds an event some time later. The ring keeps at most `most` events. */
static void push(uint32_t number, uint64_t most)
{
	const struct weir__history history = seen_at(number);
	const uint32_t cells = weir__shape_cells(&history.shape);
	struct weir__point oldest = history.oldest, first = weir__history_first(&history);

	if ((history.newest.position + cells - history.oldest.position) % cells + 1 >= most) {
		oldest.total = first.total;
		if (weir__history_next(&history, &first)) {
			oldest.at = first.at;
			oldest.position = first.position;
		}
	}
	CHECK_EQ(weir__history_push(&history, history.newest.at + 1 + below(5), history.newest.total + 1 + below(3),
				    &oldest, take, NULL),
		 WEIR__HISTORY_DONE);
}

static uint32_t new_ring(uint64_t most, bool is_wide, uint64_t pushes)
{
	const struct weir__shape shape = weir__history_shape(most, S(60), is_wide ? UINT64_C(1) << 46 : 3 * most);
	const struct weir__event event = { 1, 1 };
	uint32_t number;

	make_arena();
	number = weir__history_new(&arena, OWNER, &shape, &event, 1, 0, 0, take, NULL);
	for (uint64_t i = 0; i < pushes; i++)
		push(number, most);
	return number;
}

/* The same by a linear walk. */
static struct weir__found walk(const struct weir__history *history, uint64_t n, enum weir__events_by by, uint64_t least)
{
	const uint32_t cells = weir__shape_cells(&history->shape);
	struct weir__point point = weir__history_first(history);
	uint64_t before = 0;

	do {
		const struct weir__event event = { point.at + BASE,
						   (point.total - history->oldest.total) & WEIR__TOTAL_MASK };

		if ((by == WEIR__EVENTS_BY_INSTANT ? event.at : event.total) >= least)
			return (struct weir__found){ (point.position + cells - history->oldest.position) % cells, event,
						     before };
		before = event.total;
	} while (weir__history_next(history, &point));
	return (struct weir__found){ .i = n, .before = before };
}

static bool is_same(const struct weir__found *a, const struct weir__found *b)
{
	return a->i == b->i && a->event.at == b->event.at && a->event.total == b->event.total && a->before == b->before;
}

static void check_searches(uint32_t number, bool is_careful)
{
	struct weir__history history = seen_at(number);
	struct weir__events events;

	CHECK(weir__events_init(&events, &history, BASE, is_careful));
	for (int i = 0; i < 200 && !check_failed; i++) {
		const enum weir__events_by by = i % 2 ? WEIR__EVENTS_BY_TOTAL : WEIR__EVENTS_BY_INSTANT;
		const uint64_t least = by == WEIR__EVENTS_BY_TOTAL ?
					       below(events.newest.total + 3) :
					       history.oldest.at + BASE +
						       below(history.newest.at - history.oldest.at + 3);
		const struct weir__found found = weir__events_find(&events, by, least);
		const struct weir__found expected = walk(&history, events.n, by, least);

		CHECK(is_same(&found, &expected));
		if (found.i < events.n) {
			const struct weir__point point = weir__events_point(&events, &found);

			CHECK_EQ(point.at + BASE, found.event.at);
			CHECK_EQ((point.total - history.oldest.total) & WEIR__TOTAL_MASK, found.before);
		}
	}
	CHECK(!events.is_lost);
	CHECK(weir__events_hold(&events));
}

static void a_search_finds_what_a_walk_finds(void)
{
	static const uint64_t mosts[] = { 1, 2, 7, 8, 31, 100, 1000 };

	for (size_t i = 0; i < 4 * sizeof(mosts) / sizeof(mosts[0]) && !check_failed; i++) {
		const uint64_t most = mosts[i / 4];

		for (uint64_t pushes = 0; pushes < 3 * most && !check_failed; pushes += 1 + most / 5)
			check_searches(new_ring(most, i % 2, pushes), i / 2 % 2);
	}
}

/* Both skip a damaged cell. */
static void a_damaged_cell_makes_it_walk(void)
{
	for (int i = 0; i < 300 && !check_failed; i++) {
		const uint32_t number = new_ring(100, i % 2, 150);

		for (int j = 0; j < 1 + i % 4; j++) {
			const struct weir__history history = seen_at(number);
			union weir__chunk *const index = weir__arena_chunk(&arena, atomic_load(&history.root->refs[0]));
			union weir__chunk *const leaf = weir__arena_chunk(&arena, atomic_load(&index->refs[below(12)]));

			leaf->words[below(8)] = 0; /* as if it had never been written */
		}
		check_searches(number, i / 2 % 2);
	}
}

/* Others push during a careful search: what the search does not report as lost was there when it began. */
static void what_is_overwritten_is_noticed(void)
{
	uint64_t lost = 0, found_later = 0;

	for (int i = 0; i < 2000 && !check_failed; i++) {
		const uint64_t most = 20;
		const uint32_t number = new_ring(most, i % 2, 50);
		const enum weir__events_by by = i / 2 % 2 ? WEIR__EVENTS_BY_TOTAL : WEIR__EVENTS_BY_INSTANT;
		struct weir__history history = seen_at(number);
		struct weir__found found, expected;
		struct weir__events events;
		uint64_t least;

		CHECK(weir__events_init(&events, &history, BASE, true));
		least = by == WEIR__EVENTS_BY_TOTAL ?
				1 + below(events.newest.total) :
				history.oldest.at + BASE + below(history.newest.at - history.oldest.at + 1);
		expected = walk(&history, events.n, by, least);
		for (uint64_t pushes = below(most + 5); pushes > 0; pushes--)
			push(number, most);
		found = weir__events_find(&events, by, least);
		lost += !weir__events_hold(&events);
		found_later += weir__events_hold(&events) && !weir__history_is_unchanged(&history);
		if (weir__events_hold(&events))
			CHECK(is_same(&found, &expected));
	}
	CHECK(lost > 100);
	CHECK(found_later > 100);
}

/* Without care, any push makes a search invalid. */
static void without_care_any_change_counts(void)
{
	const uint32_t number = new_ring(20, false, 10);
	struct weir__history history = seen_at(number);
	struct weir__events events;

	CHECK(weir__events_init(&events, &history, BASE, false));
	CHECK(weir__events_hold(&events));
	push(number, 20);
	CHECK(!weir__events_hold(&events));
}

/* A careful search reads the newest event after the oldest. They may be of different moments, but never in the wrong
 * order. */
static void a_root_that_is_gone_cannot_be_read(void)
{
	const uint32_t number = new_ring(20, false, 10);
	struct weir__history history = seen_at(number);
	struct weir__events events;

	weir__history_give_up(&arena, number, OWNER);
	CHECK(!weir__events_init(&events, &history, BASE, true));
}

static void few_events_are_searched_alike(void)
{
	struct weir__events events = { .few = { { 10, 3 } }, .n = 1, .newest = { 10, 3 } };
	const struct weir__found first = weir__events_find(&events, WEIR__EVENTS_BY_TOTAL, 3);
	const struct weir__found none = weir__events_find(&events, WEIR__EVENTS_BY_INSTANT, 11);

	CHECK_EQ(first.i, 0);
	CHECK_EQ(first.event.at, 10);
	CHECK_EQ(first.before, 0);
	CHECK_EQ(none.i, 1);
	CHECK_EQ(none.before, 3);
	CHECK(weir__events_hold(&events));
	events = (struct weir__events){ .n = 0 };
	CHECK_EQ(weir__events_find(&events, WEIR__EVENTS_BY_INSTANT, 0).i, 0);
}

TESTS(TEST(a_search_finds_what_a_walk_finds), TEST(a_damaged_cell_makes_it_walk), TEST(what_is_overwritten_is_noticed),
      TEST(without_care_any_change_counts), TEST(a_root_that_is_gone_cannot_be_read),
      TEST(few_events_are_searched_alike))
