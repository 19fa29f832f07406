/* history_test.c: events in a ring of cells, on one thread; the test itself does what others would do in between.
 * table_history_test.c tests the decisions. */
#include <stdlib.h>

#include "core/rows.h"
#include "store/table/history.h"

enum { OWNER = 0x1234567 };

#define NOW S(1000000)

static void *memory;
static struct weir__arena arena;

/* Called once, while a chunk is taken. */
static void (*meanwhile)(void);

static void make_arena(uint32_t chunks)
{
	const size_t bytes = ((size_t)chunks + 1) * (WEIR__CHUNK_BYTES + 1);

	free(memory);
	memory = aligned_alloc(WEIR__CHUNK_BYTES, (bytes + WEIR__CHUNK_BYTES) / WEIR__CHUNK_BYTES * WEIR__CHUNK_BYTES);
	if (memory == NULL)
		exit(1);
	memset(memory, 0, bytes);
	weir__arena_init(&arena, memory, bytes);
	meanwhile = NULL;
}

static uint32_t take(void *context)
{
	void (*const act)(void) = meanwhile;
	const uint32_t number = weir__arena_take(&arena, NOW);

	(void)context;
	meanwhile = NULL;
	if (act)
		act();
	return number;
}

static uint32_t new_history(const struct weir__shape *shape, uint64_t at, uint64_t units)
{
	const struct weir__event event = { at, units };

	return weir__history_new(&arena, OWNER, shape, &event, 1, 0, 0, take, NULL);
}

static struct weir__history seen_at(uint32_t number)
{
	struct weir__history history;
	uint32_t moved_to = 0;

	memset(&history, 0, sizeof(history));
	CHECK_EQ(weir__history_look(&arena, number, OWNER, &history, &moved_to), WEIR__HISTORY_THERE);
	return history;
}

static enum weir__history_found found_at(uint32_t number)
{
	struct weir__history history;
	uint32_t moved_to = 0;

	return weir__history_look(&arena, number, OWNER, &history, &moved_to);
}

static struct weir__point oldest_of(const struct weir__history *history)
{
	return history->oldest;
}

/* Adds an event and forgets none. */
static enum weir__history_done push(uint32_t number, uint64_t at, uint64_t units)
{
	const struct weir__history history = seen_at(number);
	const struct weir__point oldest = oldest_of(&history);

	return weir__history_push(&history, at, history.newest.total + units, &oldest, take, NULL);
}

/* Makes the second event the oldest. */
static struct weir__point without_first(const struct weir__history *history)
{
	const struct weir__point first = weir__history_first(history);
	struct weir__point second = first;

	CHECK(weir__history_next(history, &second));
	return (struct weir__point){ second.at, first.total, second.position };
}

static uint64_t units_since(uint64_t before, const struct weir__point *point)
{
	return (point->total - before) & WEIR__TOTAL_MASK;
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static void shapes_have_room_for_one_more(void)
{
	static const uint64_t spans[] = { 1, S(1), S(60), S(86400), S(86400) * 365, UINT64_C(1) << 59 };
	static const uint64_t units[] = { 1, 5, 1000, 1 << 20, UINT64_C(1) << 46 };

	for (uint64_t events = 1; events < 2000000; events += 1 + events / 3)
		for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
			for (size_t j = 0; j < sizeof(units) / sizeof(units[0]); j++) {
				const struct weir__shape shape = weir__history_shape(events, spans[i], units[j]);
				const uint32_t cells = weir__shape_cells(&shape);

				CHECK(cells > events || cells == WEIR__CELLS_MOST);
				CHECK(cells <= WEIR__CELLS_MOST);
				CHECK(shape.leaves <= UINT32_C(4) << 4 * shape.depth);
				CHECK(shape.depth == 0 || shape.leaves > UINT32_C(4) << 4 * (shape.depth - 1));
				CHECK(shape.time_bits == 0 || spans[i] < UINT64_C(1) << shape.time_bits >> 1);
				CHECK(shape.time_bits == 0 || units[j] < UINT64_C(1) << (61 - shape.time_bits) >> 2);
			}
}

static void cells_are_wide_where_one_word_is_not_enough(void)
{
	CHECK(weir__history_shape(10, S(60), 1000).time_bits > 0);
	CHECK_EQ(weir__history_shape(10, S(60), UINT64_C(1) << 46).time_bits, 0);
	CHECK_EQ(weir__history_shape(10, S(86400) * 3650, 1000).time_bits, 0);
}

static void chunks_are_counted(void)
{
	/* clang-format off */
	static const struct {
		uint64_t most, duration, units, events, chunks;
	} rows[] = {
		{ 10,   S(1), 10,                   1,       1 + 1 },          /* the root and one leaf of 8 */
		{ 10,   S(1), 10,                   8,       1 + 2 },
		{ 31,   S(1), 31,                   31,      1 + 4 },
		{ 31,   S(1), 31,                   1000000, 1 + 4 },          /* no more than the ring */
		{ 10,   S(1), UINT64_C(1) << 46,    10,      1 + 3 },          /* wide: 4 a leaf */
		{ 100,  S(1), 100,                  100,     1 + 1 + 13 },     /* one index */
		{ 1000, S(1), 1000,                 1000,    1 + 1 + 8 + 126 },
	};
	/* clang-format on */

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir__shape shape = weir__history_shape(rows[i].most, rows[i].duration, rows[i].units);

		CHECK_EQ(weir__history_chunks(&shape, rows[i].events), rows[i].chunks);
	}
}

/* The computed number of chunks is the number used, for narrow and wide cells and any depth. */
static void chunks_are_what_events_take(void)
{
	for (uint64_t n = 1; n <= 9000; n += 1 + n / 4)
		for (int wide = 0; wide < 2; wide++) {
			const struct weir__shape shape = weir__history_shape(n, S(60), wide ? UINT64_C(1) << 46 : n);
			uint32_t number;

			make_arena(40000);
			number = new_history(&shape, 1, 1);
			for (uint64_t i = 1; i < n; i++)
				CHECK_EQ(push(number, 1 + i, 1), WEIR__HISTORY_DONE);
			if (weir__arena_used(&arena) > weir__history_chunks(&shape, n))
				CHECK_EQ(weir__arena_used(&arena), weir__history_chunks(&shape, n));
			weir__history_discard(&arena, number);
			CHECK_EQ(weir__arena_used(&arena), 0);
		}
}

/* --- one history -------------------------------------------------------------------------------------------------- */

static void a_new_history_has_its_events(void)
{
	const struct weir__shape shape = weir__history_shape(20, S(60), 100);
	struct weir__event events[20];
	struct weir__history history;
	struct weir__point point;
	uint32_t number;
	uint64_t before;

	make_arena(100);
	for (uint64_t i = 0; i < 20; i++)
		events[i] = (struct weir__event){ S(100) + MS(1) * i, 7 + (i + 1) * 3 };
	number = weir__history_new(&arena, OWNER, &shape, events, 20, 7, S(90), take, NULL);
	history = seen_at(number);
	point = weir__history_first(&history);
	before = history.oldest.total;
	for (uint64_t i = 0; i < 20; i++) {
		CHECK_EQ(point.at, S(10) + MS(1) * i);
		CHECK_EQ(units_since(before, &point), 3);
		before = point.total;
		CHECK_EQ(weir__history_next(&history, &point), i + 1 < 20);
	}
	CHECK_EQ(history.newest.at, S(10) + MS(19));
	CHECK_EQ(history.oldest.at, S(10));
}

static void totals_begin_anywhere(void)
{
	const struct weir__shape shape = weir__history_shape(20, S(60), 100);
	uint64_t different = 0, last = 0;

	make_arena(100);
	for (int i = 0; i < 20; i++) {
		const struct weir__history history = seen_at(new_history(&shape, 5, 1));

		different += history.newest.total != last;
		last = history.newest.total;
	}
	CHECK(different >= 19);
}

/* Merging needs no chunk. */
static void one_instant_is_one_event(void)
{
	const struct weir__shape shape = weir__history_shape(20, S(60), 1000);
	struct weir__history history;
	uint32_t number;

	make_arena(100);
	number = new_history(&shape, S(1), 1);
	CHECK_EQ(weir__arena_used(&arena), 1);
	for (int i = 0; i < 500; i++) {
		history = seen_at(number);
		CHECK_EQ(weir__history_merge(&history, S(1), history.newest.total + 1), WEIR__HISTORY_DONE);
	}
	history = seen_at(number);
	CHECK_EQ(units_since(history.oldest.total, &history.newest), 501);
	CHECK_EQ(weir__arena_used(&arena), 1);
	CHECK_EQ(history.newest.position, 0);
}

/* The only event becomes later, and so does the time at which it expires. */
static void an_only_event_may_become_later(void)
{
	const struct weir__shape shape = weir__history_shape(20, S(60), 1000);
	struct weir__history history;
	uint32_t number;

	make_arena(100);
	number = new_history(&shape, S(1), 1);
	history = seen_at(number);
	CHECK_EQ(weir__history_merge(&history, S(2), history.newest.total + 1), WEIR__HISTORY_DONE);
	history = seen_at(number);
	CHECK_EQ(history.oldest.at, S(2));
	CHECK_EQ(history.newest.at, S(2));
	CHECK_EQ(units_since(history.oldest.total, &history.newest), 2);
}

/* Fills a ring, then wraps around it several times, and reads all of it each time. */
static void check_ring(uint64_t most, uint64_t duration, uint64_t units, uint64_t rounds)
{
	const struct weir__shape shape = weir__history_shape(most, duration, units);
	const uint32_t cells = weir__shape_cells(&shape);
	const uint64_t step = duration / cells / 2 + 1;
	struct weir__history history;
	uint32_t number, chunks_when_full = 0;
	uint64_t at = 1000, n = 0, before;
	struct weir__point point;

	make_arena((uint32_t)weir__history_chunks(&shape, cells) + 10);
	number = new_history(&shape, at, 1 + at % 3);
	for (uint64_t i = 1; i < cells; i++) {
		at += step;
		CHECK_EQ(push(number, at, 1 + at % 3), WEIR__HISTORY_DONE);
	}
	CHECK_EQ(push(number, at + 1, 1), WEIR__HISTORY_FULL);
	chunks_when_full = weir__arena_used(&arena);
	for (uint64_t i = 0; i < cells * rounds && !check_failed; i++) {
		struct weir__point oldest;

		at += step;
		history = seen_at(number);
		oldest = without_first(&history);
		CHECK_EQ(weir__history_push(&history, at, history.newest.total + 1 + at % 3, &oldest, take, NULL),
			 WEIR__HISTORY_DONE);
	}
	history = seen_at(number);
	point = weir__history_first(&history);
	before = history.oldest.total;
	do {
		CHECK_EQ(units_since(before, &point), 1 + point.at % 3);
		CHECK_EQ(point.at, history.newest.at - (cells - 1 - n) * step);
		before = point.total;
		n++;
	} while (!check_failed && weir__history_next(&history, &point));
	CHECK_EQ(n, cells);
	CHECK(weir__arena_used(&arena) <= chunks_when_full + 1); /* the last cell's leaf is made when it is written */
	weir__history_discard(&arena, number);
	CHECK_EQ(weir__arena_used(&arena), 0);
}

static void a_ring_goes_round(void)
{
	check_ring(1, S(1), 1, 5);
	check_ring(7, S(1), 100, 5);
	check_ring(31, S(60), 100, 5);
	check_ring(32, S(60), 100, 5); /* an index */
	check_ring(1000, S(3600), 3000, 3);
}

static void a_ring_of_wide_cells_goes_round(void)
{
	check_ring(1, S(86400) * 3650, UINT64_C(1) << 40, 5);
	check_ring(15, S(60), UINT64_C(1) << 46, 5);
	check_ring(1000, S(86400) * 3650, 3000, 3);
}

static void a_deep_ring_goes_round(void)
{
	check_ring(20000, S(3600), 60000, 1);
	check_ring(9000, S(3600), UINT64_C(1) << 46, 1);
}

/* The cells of the last leaf in the largest ring. */
static void the_largest_ring_has_a_place_for_each(void)
{
	const struct weir__shape shape = weir__history_shape(UINT64_C(1) << 40, S(60), 1 << 10);
	struct weir__history history;
	struct weir__point nothing;
	uint32_t number;

	CHECK_EQ(weir__shape_cells(&shape), WEIR__CELLS_MOST);
	make_arena(100);
	number = new_history(&shape, 5, 1);
	history = seen_at(number);
	for (uint32_t i = 0; i < 20; i++) {
		/* as if pushed that often */
		history.newest.position = WEIR__CELLS_MOST - 20 + i;
		nothing = (struct weir__point){ 6 + i, history.newest.total,
						(history.newest.position + 1) % WEIR__CELLS_MOST };
		CHECK_EQ(weir__history_push(&history, 6 + i, history.newest.total + 1, &nothing, take, NULL),
			 WEIR__HISTORY_DONE);
		history = seen_at(number);
		CHECK_EQ(history.newest.position, nothing.position);
		CHECK_EQ(history.newest.at, 6 + i);
	}
	weir__history_discard(&arena, number);
	CHECK_EQ(weir__arena_used(&arena), 0);
}

/* If nothing is kept, the next event may take the place of the oldest: the ring is never too full for that. */
static void all_may_be_forgotten_at_once(void)
{
	const struct weir__shape shape = weir__history_shape(7, S(1), 10);
	struct weir__history history;
	struct weir__point next;
	uint32_t number;

	make_arena(100);
	number = new_history(&shape, 1, 1);
	for (uint64_t i = 1; i < 8; i++)
		CHECK_EQ(push(number, 1 + i, 1), WEIR__HISTORY_DONE);
	CHECK_EQ(push(number, 10, 1), WEIR__HISTORY_FULL);
	history = seen_at(number);
	next = (struct weir__point){ 10, history.newest.total, 0 };
	CHECK_EQ(weir__history_push(&history, 10, history.newest.total + 4, &next, take, NULL), WEIR__HISTORY_DONE);
	history = seen_at(number);
	CHECK_EQ(weir__history_first(&history).at, 10);
	CHECK_EQ(units_since(history.oldest.total, &history.newest), 4);
}

/* --- interference ------------------------------------------------------------------------------------------------- */

static void who_was_outrun_changes_nothing(void)
{
	const struct weir__shape shape = weir__history_shape(20, S(60), 100);
	struct weir__history late, history;
	struct weir__point oldest;
	uint32_t number;

	make_arena(100);
	number = new_history(&shape, 1, 1);
	late = seen_at(number);
	CHECK(weir__history_is_unchanged(&late));
	CHECK_EQ(push(number, 2, 5), WEIR__HISTORY_DONE);
	CHECK(!weir__history_is_unchanged(&late));
	oldest = late.oldest;
	CHECK_EQ(weir__history_merge(&late, 1, late.newest.total + 1), WEIR__HISTORY_OUTRUN);
	CHECK_EQ(weir__history_push(&late, 3, late.newest.total + 1, &oldest, take, NULL), WEIR__HISTORY_OUTRUN);
	CHECK(!weir__history_move(&late, 7));
	history = seen_at(number);
	CHECK_EQ(units_since(history.oldest.total, &history.newest), 6);
}

static struct weir__history of_another;

static void another_pushes(void)
{
	const struct weir__history history = of_another;

	CHECK_EQ(weir__history_push(&history, 9, history.newest.total + 3, &history.oldest, take, NULL),
		 WEIR__HISTORY_DONE);
}

/* Two threads make the same leaf at once: one of the leaves is given back. */
static void two_who_make_a_leaf(void)
{
	for (uint64_t most = 10; most < 5000; most *= 10) {
		const struct weir__shape shape = weir__history_shape(most, S(60), 10000);
		struct weir__history history;
		uint32_t number;

		make_arena(100);
		number = new_history(&shape, 1, 1);
		history = of_another = seen_at(number);
		meanwhile = another_pushes;
		CHECK_EQ(weir__history_push(&history, 5, history.newest.total + 1, &history.oldest, take, NULL),
			 WEIR__HISTORY_OUTRUN);
		history = seen_at(number);
		CHECK_EQ(units_since(history.oldest.total, &history.newest), 4);
		CHECK_EQ(weir__arena_used(&arena), weir__history_chunks(&shape, 1));
	}
}

static void another_gives_it_up(void)
{
	weir__history_give_up(&arena, of_another.number, OWNER);
}

/* A thread that takes a leaf for a root that is given up meanwhile fails. */
static void a_history_given_up_meanwhile(void)
{
	const struct weir__shape shape = weir__history_shape(10, S(60), 100);
	struct weir__history history;
	uint32_t number;

	make_arena(100);
	number = new_history(&shape, 1, 1);
	history = of_another = seen_at(number);
	meanwhile = another_gives_it_up;
	CHECK_EQ(weir__history_push(&history, 5, history.newest.total + 1, &history.oldest, take, NULL),
		 WEIR__HISTORY_OUTRUN);
	CHECK_EQ(found_at(number), WEIR__HISTORY_GONE);
	CHECK(weir__arena_used(&arena) <= 1); /* at most the leaf, which a sweep finds */
}

/* --- moved, given up, visited ------------------------------------------------------------------------------------- */

static void a_root_that_has_moved_says_where_to(void)
{
	const struct weir__shape shape = weir__history_shape(10, S(60), 100);
	struct weir__history history, later;
	uint32_t from, to, moved_to = 0;

	make_arena(100);
	from = new_history(&shape, 1, 1);
	to = new_history(&shape, 1, 2);
	history = seen_at(from);
	CHECK(weir__history_move(&history, to));
	CHECK(!weir__history_move(&history, to));
	CHECK_EQ(weir__history_look(&arena, from, OWNER, &later, &moved_to), WEIR__HISTORY_MOVED);
	CHECK_EQ(moved_to, to);
	CHECK_EQ(weir__history_merge(&history, 1, history.newest.total + 1), WEIR__HISTORY_OUTRUN);
	CHECK_EQ(found_at(to), WEIR__HISTORY_THERE);
}

static void giving_up_gives_back_all(void)
{
	static const uint64_t mosts[] = { 1, 20, 100, 1000, 9000 };

	for (size_t i = 0; i < sizeof(mosts) / sizeof(mosts[0]); i++) {
		const struct weir__shape shape = weir__history_shape(mosts[i], S(60), mosts[i]);
		struct weir__history history;
		uint32_t from, to;

		make_arena(20000);
		from = new_history(&shape, 1, 1);
		for (uint64_t j = 1; j < mosts[i]; j++)
			CHECK_EQ(push(from, 1 + j, 1), WEIR__HISTORY_DONE);
		to = new_history(&shape, 1, 1);
		CHECK_EQ(push(to, 2, 1), WEIR__HISTORY_DONE);
		history = seen_at(from);
		CHECK(weir__history_move(&history, to));
		weir__history_give_up(&arena, from, OWNER); /* of both */
		CHECK_EQ(weir__arena_used(&arena), 0);
		CHECK_EQ(found_at(to), WEIR__HISTORY_GONE);
	}
}

static void giving_up_twice_is_giving_up_once(void)
{
	const struct weir__shape shape = weir__history_shape(10, S(60), 100);
	uint32_t number;

	make_arena(100);
	number = new_history(&shape, 1, 1);
	weir__history_give_up(&arena, number, OWNER);
	CHECK_EQ(weir__arena_take(&arena, NOW), number); /* another thread has it, and has not written to it yet */
	weir__history_give_up(&arena, number, OWNER);
	CHECK_EQ(weir__arena_used(&arena), 1);
}

static void nobody_gives_up_anothers(void)
{
	const struct weir__shape shape = weir__history_shape(10, S(60), 100);
	struct weir__history history;
	uint32_t number, moved_to;

	make_arena(100);
	number = new_history(&shape, 1, 1);
	weir__history_give_up(&arena, number, OWNER + 1);
	weir__history_give_up(&arena, 0, OWNER);
	weir__history_give_up(&arena, arena.n + 1, OWNER);
	weir__history_discard(&arena, 0);
	weir__history_discard(&arena, UINT32_MAX);
	CHECK_EQ(found_at(number), WEIR__HISTORY_THERE);
	CHECK_EQ(weir__history_look(&arena, number, OWNER + 1, &history, &moved_to), WEIR__HISTORY_GONE);
	CHECK_EQ(weir__history_look(&arena, number, OWNER | UINT64_C(1) << 40, &history, &moved_to),
		 WEIR__HISTORY_GONE);
	CHECK_EQ(found_at(0), WEIR__HISTORY_GONE);
	CHECK_EQ(found_at(arena.n + 1), WEIR__HISTORY_GONE);
}

static void count_visit(void *context, uint32_t number)
{
	unsigned char *const visits = context;

	visits[number]++;
}

static void every_chunk_is_visited_once(void)
{
	static const uint64_t mosts[] = { 5, 20, 100, 1000 };

	for (size_t i = 0; i < sizeof(mosts) / sizeof(mosts[0]); i++) {
		const struct weir__shape shape = weir__history_shape(mosts[i], S(60), mosts[i]);
		unsigned char visits[1001] = { 0 };
		struct weir__history history;
		uint32_t from, to;
		uint64_t n = 0;

		make_arena(1000);
		from = new_history(&shape, 1, 1);
		for (uint64_t j = 1; j < mosts[i]; j++)
			CHECK_EQ(push(from, 1 + j, 1), WEIR__HISTORY_DONE);
		to = new_history(&shape, 1, 1);
		CHECK_EQ(push(to, 2, 1), WEIR__HISTORY_DONE);
		history = seen_at(from);
		CHECK(weir__history_move(&history, to));
		weir__history_visit(&arena, from, count_visit, visits);
		for (uint32_t j = 1; j <= arena.n; j++) {
			CHECK_EQ(visits[j], atomic_load(&arena.taken[j - 1]) != 0);
			n += visits[j];
		}
		CHECK_EQ(n, weir__arena_used(&arena));
		weir__history_visit(&arena, 0, count_visit, visits);
	}
}

/* --- no room ------------------------------------------------------------------------------------------------------ */

static void without_a_chunk_nothing_is_changed(void)
{
	const struct weir__shape shape = weir__history_shape(100, S(60), 100);
	struct weir__event events[100];
	struct weir__history history;
	uint32_t number;

	for (uint64_t i = 0; i < 100; i++)
		events[i] = (struct weir__event){ 1 + i, 1 + i };
	for (uint32_t chunks = 1; chunks < 15; chunks++) {
		make_arena(chunks);
		CHECK_EQ(weir__history_new(&arena, OWNER, &shape, events, 100, 0, 0, take, NULL), 0);
		CHECK_EQ(weir__arena_used(&arena), 0);
	}
	make_arena(3);
	number = new_history(&shape, 1, 1);
	for (uint64_t i = 1; i <= 8; i++)
		CHECK_EQ(push(number, 1 + i, 1), WEIR__HISTORY_DONE);
	CHECK_EQ(push(number, 10, 1), WEIR__HISTORY_FULL);
	history = seen_at(number);
	CHECK_EQ(units_since(history.oldest.total, &history.newest), 9);
	CHECK_EQ(weir__history_merge(&history, 10, history.newest.total + 1), WEIR__HISTORY_DONE);
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

/* Ten events of one unit each, a second apart. */
static uint32_t ten_events(bool is_wide)
{
	const struct weir__shape shape = weir__history_shape(11, S(60), is_wide ? UINT64_C(1) << 46 : 100);
	uint32_t number;

	make_arena(100);
	number = new_history(&shape, S(1), 1);
	for (uint64_t i = 1; i < 10; i++)
		CHECK_EQ(push(number, S(1) * (i + 1), 1), WEIR__HISTORY_DONE);
	return number;
}

/* Whatever cells hold, events are in order, and their units add up to the total. */
static void check_events_in_order(uint32_t number)
{
	const struct weir__history history = seen_at(number);
	struct weir__point point = weir__history_first(&history);
	uint64_t units = units_since(history.oldest.total, &point), n = 1;

	for (struct weir__point before = point; weir__history_next(&history, &point); before = point, n++) {
		CHECK(point.at >= before.at);
		units += units_since(before.total, &point);
	}
	CHECK(n <= 10);
	CHECK_EQ(point.at, S(10));
	CHECK_EQ(units, 10);
}

/* Overwrites one cell with various values. Wide cells are two words. */
static void a_damaged_cell_counts_with_the_next(void)
{
	static const uint64_t damages[] = {
		0, 1, 2, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 62 | 1, 0x123456789abcdef1, 0x7654321076543211
	};

	for (size_t i = 0; i < 2 * sizeof(damages) / sizeof(damages[0]); i++)
		for (uint32_t cell = 0; cell < 8; cell++) {
			const uint32_t number = ten_events(i % 2);
			const struct weir__history history = seen_at(number);
			union weir__chunk *const leaf = weir__arena_chunk(&arena, atomic_load(&history.root->refs[0]));

			atomic_store(&leaf->words[cell], damages[i / 2]);
			check_events_in_order(number);
			CHECK_EQ(push(number, S(11), 1), WEIR__HISTORY_DONE);
		}
}

/* As left by a killed process, or by random damage. */
static void a_missing_leaf_is_passed_over(void)
{
	const uint32_t number = ten_events(false);
	const struct weir__history history = seen_at(number);

	atomic_store(&history.root->refs[0], 0);
	check_events_in_order(number);
	atomic_store(&history.root->refs[0], UINT32_MAX);
	check_events_in_order(number);
	atomic_store(&history.root->refs[1], 5000000); /* no such chunk */
	check_events_in_order(number);
	CHECK_EQ(push(number, S(11), 1), WEIR__HISTORY_FULL);
	weir__history_discard(&arena, number);
}

static void a_damaged_root_is_gone(void)
{
	static const uint64_t shapes[] = {
		0,
		UINT64_MAX,
		UINT64_C(1) << 32 | 61,          /* no bits left for the total */
		UINT64_C(5) << 32 | 40,          /* more leaves than references */
		UINT64_C(1) << 32 | 5 << 8 | 40, /* too deep */
		UINT64_C(1) << 50 | 4 << 8 | 40, /* too many leaves */
	};
	uint32_t number = ten_events(false);
	struct weir__history history = seen_at(number);

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		atomic_store(&history.root->shape, shapes[i]);
		CHECK_EQ(found_at(number), WEIR__HISTORY_GONE);
		weir__history_visit(&arena, number, count_visit, (unsigned char[101]){ 0 });
	}
	number = ten_events(false);
	history = seen_at(number);
	history.root->newest.state.lo |= UINT64_C(0xff) << 48; /* its place */
	CHECK_EQ(found_at(number), WEIR__HISTORY_GONE);
	number = ten_events(false);
	history = seen_at(number);
	history.root->oldest.state.lo |= UINT64_C(0xff) << 48;
	CHECK_EQ(found_at(number), WEIR__HISTORY_GONE);
}

/* Random bits all over the arena: no access leaves it, and every operation ends. */
static void a_scribbled_arena_is_survived(void)
{
	uint64_t random = 88172645463325252;

	for (int i = 0; i < 3000; i++) {
		const uint32_t number = ten_events(i % 2);
		struct weir__history history = seen_at(number);
		struct weir__point point;
		uint32_t moved_to;

		for (int j = 0; j < 1 + i % 20; j++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			arena.chunks[random % 6].words[random / 8 % 8] = i % 3 ? random : random >> 40;
		}
		if (weir__history_look(&arena, number, OWNER, &history, &moved_to) == WEIR__HISTORY_THERE) {
			point = weir__history_first(&history);
			while (weir__history_next(&history, &point))
				;
			(void)weir__history_push(&history, history.newest.at + 1, history.newest.total + 1,
						 &history.oldest, take, NULL);
		}
		weir__history_fetch_root(&arena, number);
		weir__history_fetch_leaves(&arena, number);
		weir__history_give_up(&arena, number, OWNER);
		CHECK(weir__arena_used(&arena) <= arena.n);
	}
}

TESTS(TEST(shapes_have_room_for_one_more), TEST(cells_are_wide_where_one_word_is_not_enough), TEST(chunks_are_counted),
      TEST(chunks_are_what_events_take), TEST(a_new_history_has_its_events), TEST(totals_begin_anywhere),
      TEST(one_instant_is_one_event), TEST(an_only_event_may_become_later), TEST(a_ring_goes_round),
      TEST(a_ring_of_wide_cells_goes_round), TEST(a_deep_ring_goes_round), TEST(the_largest_ring_has_a_place_for_each),
      TEST(all_may_be_forgotten_at_once), TEST(who_was_outrun_changes_nothing), TEST(two_who_make_a_leaf),
      TEST(a_history_given_up_meanwhile), TEST(a_root_that_has_moved_says_where_to), TEST(giving_up_gives_back_all),
      TEST(giving_up_twice_is_giving_up_once), TEST(nobody_gives_up_anothers), TEST(every_chunk_is_visited_once),
      TEST(without_a_chunk_nothing_is_changed), TEST(a_damaged_cell_counts_with_the_next),
      TEST(a_missing_leaf_is_passed_over), TEST(a_damaged_root_is_gone), TEST(a_scribbled_arena_is_survived))
