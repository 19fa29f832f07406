/* arena_test.c: chunks are taken, given back, and regained when the process that took them is gone. */
#include <pthread.h>
#include <stdlib.h>

#include "core/rows.h"
#include "store/table/arena.h"

/* A stamp is 64 s, and a chunk is old after an hour: see arena.c. */
#define STAMP S(64)
#define OLD (STAMP * 56)
#define NOW (STAMP * 1000)

static void *memory;

static struct weir__arena arena_of(size_t bytes)
{
	struct weir__arena arena;

	free(memory);
	memory = aligned_alloc(WEIR__CHUNK_BYTES, (bytes + WEIR__CHUNK_BYTES) / WEIR__CHUNK_BYTES * WEIR__CHUNK_BYTES);
	if (memory == NULL)
		exit(1);
	memset(memory, 0, bytes);
	weir__arena_init(&arena, memory, bytes);
	return arena;
}

/* The last chunk ends within the memory, for every size. */
static void chunks_fit_the_bytes(void)
{
	for (size_t bytes = 0; bytes < 20000; bytes++) {
		const uint32_t chunks = weir__arena_chunks(bytes);
		const size_t stamps = ((size_t)chunks + WEIR__CHUNK_BYTES - 1) / WEIR__CHUNK_BYTES * WEIR__CHUNK_BYTES;

		if (chunks > 0 && stamps + (size_t)chunks * WEIR__CHUNK_BYTES > bytes) {
			CHECK_EQ(stamps + (size_t)chunks * WEIR__CHUNK_BYTES, bytes);
			return;
		}
	}
	CHECK_EQ(weir__arena_chunks(0), 0);
	CHECK_EQ(weir__arena_chunks(2 * 65 - 1), 0);
	CHECK_EQ(weir__arena_chunks(65 * 1001), 1000);
	CHECK_EQ(weir__arena_chunks(SIZE_MAX), WEIR__CHUNKS_MOST);
}

static void bytes_are_enough_for_the_chunks(void)
{
	for (uint64_t chunks = 0; chunks < 5000; chunks++)
		if (weir__arena_chunks(weir__arena_bytes(chunks)) < chunks)
			CHECK_EQ(weir__arena_chunks(weir__arena_bytes(chunks)), chunks);
	CHECK_EQ(weir__arena_chunks(weir__arena_bytes(WEIR__CHUNKS_MOST)), WEIR__CHUNKS_MOST);
}

static void numbers_begin_at_one(void)
{
	struct weir__arena arena = arena_of(65 * 11);

	CHECK_EQ(arena.n, 10);
	CHECK(weir__arena_chunk(&arena, 0) == NULL);
	CHECK(weir__arena_chunk(&arena, 1) == arena.chunks);
	CHECK(weir__arena_chunk(&arena, 10) == arena.chunks + 9);
	CHECK(weir__arena_chunk(&arena, 11) == NULL);
	CHECK(weir__arena_chunk(&arena, UINT32_MAX) == NULL);
	CHECK_EQ((uintptr_t)arena.chunks % WEIR__CHUNK_BYTES, 0);
}

static void without_memory_there_is_none(void)
{
	struct weir__arena arena = arena_of(64);

	CHECK_EQ(arena.n, 0);
	CHECK_EQ(weir__arena_take(&arena, NOW), 0);
	weir__arena_give(&arena, 0);
	weir__arena_give(&arena, 1);
	CHECK_EQ(weir__arena_used(&arena), 0);
}

static void each_is_taken_once(void)
{
	struct weir__arena arena = arena_of(65 * 1001);
	bool *const had = calloc(arena.n + 1, sizeof(*had));

	for (uint32_t i = 0; i < arena.n; i++) {
		const uint32_t number = weir__arena_take(&arena, NOW);

		CHECK_EQ(weir__arena_used(&arena), i + 1);
		if (number < 1 || number > arena.n || had[number]) {
			CHECK_EQ(number, i + 1);
			break;
		}
		had[number] = true;
	}
	CHECK_EQ(weir__arena_take(&arena, NOW), 0);
	free(had);
}

static void what_is_given_back_is_taken_again(void)
{
	struct weir__arena arena = arena_of(65 * 101);

	while (weir__arena_take(&arena, NOW) != 0)
		;
	for (uint32_t number = 1; number <= arena.n; number += 7) {
		weir__arena_give(&arena, number);
		CHECK_EQ(weir__arena_used(&arena), arena.n - 1);
		CHECK_EQ(weir__arena_take(&arena, NOW), number);
		CHECK_EQ(weir__arena_take(&arena, NOW), 0);
	}
}

/* A take does not search all of a full arena. Chunks that others gave back are found anyway, before long. */
static void what_others_give_back_is_found(void)
{
	struct weir__arena arena = arena_of((size_t)65 * 50001);
	uint32_t tries = 0;

	while (weir__arena_take(&arena, NOW) != 0)
		;
	atomic_store(&arena.taken[arena.n - 2], 0);
	while (tries < 20 && weir__arena_take(&arena, NOW) != arena.n - 1)
		tries++;
	CHECK(tries < 20);
	CHECK_EQ(weir__arena_used(&arena), arena.n);
}

static void what_is_not_a_chunk_is_not_given_back(void)
{
	struct weir__arena arena = arena_of(65 * 11);

	while (weir__arena_take(&arena, NOW) != 0)
		;
	weir__arena_give(&arena, 0);
	weir__arena_give(&arena, 11);
	weir__arena_give(&arena, UINT32_MAX);
	CHECK_EQ(weir__arena_used(&arena), 10);
	CHECK_EQ(weir__arena_take(&arena, NOW), 0);
}

/* Taken at `now`, checked by a sweep that began at `since`. */
static void only_old_ones_are_reclaimed(void)
{
	/* clang-format off */
	static const struct {
		const char *what;
		weir_ns now, since;
		bool is_reclaimed;
	} rows[] = {
		{ "one that was just taken may be put to use yet",   NOW,         NOW,                 false },
		{ "so may one of some minutes ago",                  NOW,         NOW + S(600),        false },
		{ "and one whose hour has not passed",               NOW,         NOW + OLD - 1,       false },
		{ "an hour is long enough",                          NOW,         NOW + OLD,           true },
		{ "so are three",                                    NOW,         NOW + S(10800),      true },
		{ "taken after the sweep began, by whichever clock", NOW,         NOW - 1,             false },
		{ "by a clock that is an hour ahead",                NOW,         NOW - S(3000),       false },
		{ "where the stamps begin anew",                     STAMP * 254, STAMP * 254 + OLD - 1, false },
		{ "and later",                                       STAMP * 254, STAMP * 254 + OLD,   true },
	};
	/* clang-format on */
	struct weir__arena arena = arena_of(65 * 11);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const uint32_t number = weir__arena_take(&arena, rows[i].now);

		if (weir__arena_is_old(&arena, number, rows[i].since) != rows[i].is_reclaimed ||
		    weir__arena_reclaim(&arena, number, rows[i].since) != rows[i].is_reclaimed)
			check_fail(__FILE__, __LINE__, rows[i].what);
		CHECK_EQ(weir__arena_used(&arena), !rows[i].is_reclaimed);
		weir__arena_give(&arena, number);
	}
}

static void what_is_free_is_not_reclaimed(void)
{
	struct weir__arena arena = arena_of(65 * 11);

	for (uint32_t number = 1; number <= arena.n; number++)
		CHECK(!weir__arena_reclaim(&arena, number, NOW));
}

/* A sweep waits for two stamps, and is abandoned when it takes so long that ages could be mistaken. */
static void sweeps_are_neither_too_often_nor_too_long(void)
{
	const struct weir__arena arena = arena_of(65 * 11);

	CHECK(!weir__arena_is_next(&arena, NOW, NOW));
	CHECK(!weir__arena_is_next(&arena, NOW + STAMP * 2 - 1, NOW));
	CHECK(weir__arena_is_next(&arena, NOW + STAMP * 2, NOW));
	CHECK(weir__arena_is_next(&arena, NOW, NOW + 1)); /* the clock was set back */
	CHECK(!weir__arena_is_long_after(&arena, NOW + STAMP * 30, NOW));
	CHECK(weir__arena_is_long_after(&arena, NOW + STAMP * 30 + 1, NOW));
	CHECK(weir__arena_is_long_after(&arena, NOW, NOW + 1));
}

/* --- several threads ---------------------------------------------------------------------------------------------- */

enum { THREADS = 4, HELD = 24, ROUNDS = 20000 };

static struct weir__arena crowded;
static _Atomic uint32_t holders[100];
static _Atomic uint32_t doubled, refused;

static void give_one(uint32_t *one)
{
	atomic_fetch_sub(&holders[*one - 1], 1);
	weir__arena_give(&crowded, *one);
	*one = 0;
}

static void *take_and_give(void *seed)
{
	uint32_t held[HELD] = { 0 };
	uint64_t random = *(const uint64_t *)seed;

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t *const one = &held[(random >> 33) % HELD];

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		if (*one) {
			give_one(one);
		} else {
			*one = weir__arena_take(&crowded, NOW);
			if (*one == 0)
				atomic_fetch_add(&refused, 1);
			else if (atomic_fetch_add(&holders[*one - 1], 1) != 0)
				atomic_fetch_add(&doubled, 1);
		}
	}
	for (size_t i = 0; i < HELD; i++)
		if (held[i])
			give_one(&held[i]);
	return NULL;
}

/* There is a chunk for each thread, so every thread gets one in the end, and no two threads get the same. */
static void threads_never_share_a_chunk(void)
{
	uint64_t seeds[THREADS] = { 1, 2, 3, 4 };
	pthread_t threads[THREADS];

	crowded = arena_of(65 * (THREADS * HELD + 1));
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, take_and_give, &seeds[i]);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(atomic_load(&doubled), 0);
	CHECK(atomic_load(&refused) < ROUNDS);
	CHECK_EQ(weir__arena_used(&crowded), 0);
}

TESTS(TEST(chunks_fit_the_bytes), TEST(bytes_are_enough_for_the_chunks), TEST(numbers_begin_at_one),
      TEST(without_memory_there_is_none), TEST(each_is_taken_once), TEST(what_is_given_back_is_taken_again),
      TEST(what_others_give_back_is_found), TEST(what_is_not_a_chunk_is_not_given_back),
      TEST(only_old_ones_are_reclaimed), TEST(what_is_free_is_not_reclaimed),
      TEST(sweeps_are_neither_too_often_nor_too_long), TEST(threads_never_share_a_chunk))
