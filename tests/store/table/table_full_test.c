/* table_full_test.c: which key has which slot: evictions in a full table, reclaimed slots, and what dead processes
 * leave behind. In a table of 16 slots every slot is a candidate of every key. */
#include <pthread.h>
#include <stdlib.h>

#include "tables.h"

enum { SLOTS = 16, THREADS = 8, ROUNDS = 2000 };

/* Fills a tiny table: key i, 0 to 15, has used i + 1 tokens, a second each. */
static void fill(struct weir_table *table, const struct weir_table_limit *limit)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		CHECK(weir_table_allow(table, limit, &i, sizeof(i), MADE_AT, i + 1));
}

static bool is_stored(struct weir_table *table, const struct weir_table_limit *limit, uint32_t key, weir_ns now)
{
	return weir_table_inspect(table, limit, &key, sizeof(key), now).is_stored;
}

static void the_key_closest_to_whole_gives_way(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const limit = limit_in(table, "1/s burst 100");

	fill(table, limit);
	CHECK_EQ(stats_of(table, MADE_AT).live, SLOTS);
	CHECK_EQ(stats_of(table, MADE_AT).evicted, 0);
	/* Each new key uses 50: the old ones are evicted one after the other, the least used first. */
	for (uint32_t i = 0; i < SLOTS; i++) {
		CHECK(weir_table_allow(table, limit, &(uint32_t){ 100 + i }, 4, MADE_AT, 50));
		CHECK_EQ(stats_of(table, MADE_AT).evicted, i + 1);
		for (uint32_t k = 0; k < SLOTS; k++)
			CHECK_EQ(is_stored(table, limit, k, MADE_AT), k > i);
		for (uint32_t k = 0; k <= i; k++)
			CHECK_EQ(slots_with(table, limit, &(uint32_t){ 100 + k }, 4), 1);
	}
	CHECK_EQ(stats_of(table, MADE_AT).live, SLOTS);
	CHECK_EQ(stats_of(table, MADE_AT).inserted, 2 * SLOTS);
	weir_table_free(table);
}

static void a_throttled_key_stays_whoever_comes(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const limit = limit_in(table, "100/s burst 100");
	weir_ns now = MADE_AT;

	CHECK(weir_table_allow(table, limit, "throttled", 9, now, 100));
	for (uint32_t i = 0; i < 100000; i++, now += i % 100 == 0) {
		CHECK(weir_table_allow(table, limit, &i, sizeof(i), now, 1 + i % 7));
		CHECK(!weir_table_peek(table, limit, "throttled", 9, now, 1).allowed);
	}
	CHECK(stats_of(table, now).evicted > 90000);
	CHECK_EQ(weir_table_peek(table, limit, "throttled", 9, MADE_AT + S(1), 0).remaining, 100);
	weir_table_free(table);
}

/* All windows end at the same time, however little is used: the key that has used least is evicted. */
static void of_windows_the_key_that_used_least_gives_way(void)
{
	static const struct {
		const char *limit;
		uint64_t unit;
	} windows[] = {
		{ "30/hour fixed_window", 1 },
		{ "30/hour refill interval", 1 },
		{ "30/hour sliding_counter", 1 },
		{ "30/hour fixed_window align first", 1 },
		{ "30000000000000/hour fixed_window", UINT64_C(1000000000000) },
		{ "4294967295/hour fixed_window", 1 }, /* all at one level */
		{ "4294967295/hour fixed_window", 300001 },
	};

	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		struct weir_table *const table = tiny_table();
		const struct weir_table_limit *const limit = limit_in(table, windows[i].limit);
		const uint64_t unit = windows[i].unit;

		/* 1, 3, 5, to 29 and all: as many as there are levels. The last ones have used least. */
		for (uint32_t key = SLOTS; key-- > 0;)
			CHECK(weir_table_allow(table, limit, &key, sizeof(key), MADE_AT - key,
					       (key == SLOTS - 1 ? 30 : 2 * key + 1) * unit));
		for (uint32_t key = 0; key < SLOTS - 1; key++) {
			CHECK(weir_table_allow(table, limit, &(uint32_t){ 100 + key }, 4, MADE_AT, 30 * unit));
			CHECK_EQ(stats_of(table, MADE_AT).evicted, key + 1);
			for (uint32_t k = 0; k < SLOTS; k++)
				CHECK_EQ(is_stored(table, limit, k, MADE_AT), k > key);
		}
		weir_table_free(table);
	}
}

/* Between buckets and windows, the one that is full, or over, first is evicted. */
static void of_both_sorts_the_sooner_one_gives_way(void)
{
	static const char *const limits[][2] = { { "100/s burst 100", "100/hour fixed_window" },
						 { "100/min fixed_window", "100/day burst 100" } };

	for (size_t i = 0; i < 2; i++) {
		struct weir_table *const table = tiny_table();
		const struct weir_table_limit *const sooner = limit_in(table, limits[i][0]);
		const struct weir_table_limit *const later = limit_in(table, limits[i][1]);
		const struct weir_table_limit *const newcomers = limit_in(table, "1/3000day");

		for (uint32_t key = 0; key < SLOTS; key++)
			CHECK(weir_table_allow(table, key == 7 ? sooner : later, &key, sizeof(key), MADE_AT, 100));
		CHECK(weir_table_allow(table, newcomers, "newcomer", 8, MADE_AT, 1));
		CHECK(!is_stored(table, sooner, 7, MADE_AT));
		for (uint32_t key = 0; key < SLOTS; key++)
			CHECK(key == 7 || is_stored(table, later, key, MADE_AT));
		weir_table_free(table);
	}
}

/* An eviction forgives the usage, and decisions in progress must notice it. */
static void giving_way_is_forgiving(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const limit = limit_in(table, "1/s burst 100");
	const uint32_t least = 0, fingerprint = weir__fingerprint(hash_of(limit, &least, sizeof(least)));
	const uint64_t before = atomic_load(weir__table_forgiven(table, fingerprint));

	fill(table, limit);
	CHECK_EQ(atomic_load(weir__table_forgiven(table, fingerprint)), before);
	CHECK(weir_table_allow(table, limit, "newcomer", 8, MADE_AT, 50));
	CHECK(!is_stored(table, limit, least, MADE_AT));
	CHECK_EQ(atomic_load(weir__table_forgiven(table, fingerprint)), before + 1);
	weir_table_free(table);
}

static void a_used_up_window_stays_whoever_comes(void)
{
	static const char *const windows[] = { "100/hour fixed_window", "100/hour sliding_counter",
					       "100/hour refill interval" };

	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		struct weir_table *const table = tiny_table();
		const struct weir_table_limit *const limit = limit_in(table, windows[i]);

		CHECK(weir_table_allow(table, limit, "used up", 7, MADE_AT, 100));
		for (uint32_t key = 0; key < 10000; key++) {
			CHECK(weir_table_allow(table, limit, &key, sizeof(key), MADE_AT + key, 1));
			CHECK(!weir_table_peek(table, limit, "used up", 7, MADE_AT + key, 1).allowed);
		}
		weir_table_free(table);
	}
}

/* Every allowed request is recorded, however full the table is. */
static void who_comes_last_is_recorded(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const slow = limit_in(table, "1/hour burst 100");
	const struct weir_table_limit *const fast = limit_in(table, "1/ms");

	fill(table, slow);
	for (uint32_t i = 0; i < 100; i++) {
		CHECK(weir_table_allow(table, fast, &i, sizeof(i), MADE_AT, 1));
		CHECK(!weir_table_allow(table, fast, &i, sizeof(i), MADE_AT, 1));
	}
	CHECK_EQ(stats_of(table, MADE_AT).evicted, 100);
	for (uint32_t i = 1; i < SLOTS; i++) /* one slow key was evicted, then fast ones */
		CHECK(is_stored(table, slow, i, MADE_AT));
	weir_table_free(table);
}

static void idle_keys_are_reclaimed_uncounted(void)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct weir_table *const table = tiny_table();
		const struct weir_table_limit *const limit = limit_in(table, of_each_kind[i]);
		weir_ns now = MADE_AT;

		for (uint32_t key = 0; key < 1000; key++) {
			CHECK(weir_table_allow(table, limit, &key, sizeof(key), now, 1));
			if (key % SLOTS == SLOTS - 1)
				now += S(60);
		}
		CHECK_EQ(stats_of(table, now).evicted, 0);
		CHECK_EQ(stats_of(table, now).inserted, 1000);
		weir_table_free(table);
	}
}

/* An unused slot is taken first, then the one that has been free longest, so that a clock that steps back finds most of
 * its keys. */
static void what_is_free_longest_is_taken(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const limit = limit_in(table, "1/s");
	const uint32_t fingerprint = weir__fingerprint(hash_of(limit, "key", 3));
	const size_t home = (size_t)(weir__table_home(table, hash_of(limit, "key", 3)) - table->region.slots);
	const size_t pair = home / 8 * 8; /* the first slot of the home pair */

	for (size_t taken = pair; taken < pair + 8; taken++) {
		for (int is_used = 0; is_used < 2; is_used++) {
			for (size_t i = 0; i < SLOTS; i++)
				table->region.slots[i].state = weir__slot_make(1000 + (uint32_t)i, 0,
									       MADE_AT - S(1) - i - table->epoch, 0);
			table->region.slots[taken].state = is_used ? weir__slot_make(77, 0,
										     MADE_AT - S(9) - table->epoch, 0) :
								     (struct weir_state){ 0, 0 };
			CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT, 1));
			CHECK_EQ(weir__slot_fingerprint(table->region.slots[taken].state), fingerprint);
			CHECK_EQ(slots_with(table, limit, "key", 3), 1);
		}
	}
	CHECK_EQ(stats_of(table, MADE_AT).evicted, 0);
	weir_table_free(table);
}

static uint64_t all_forgiven(const struct weir_table *table)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < WEIR__FORGIVEN; i++)
		sum += atomic_load(&table->region.header->forgiven[i]);
	return sum;
}

static uint32_t keys_stored(struct weir_table *table, const struct weir_table_limit *limit)
{
	uint32_t stored = 0;

	for (uint32_t i = 0; i < SLOTS; i++)
		stored += is_stored(table, limit, i, MADE_AT);
	return stored;
}

/* Another clock may be 100 ms behind, by which the key still has usage. By this clock it is full, so no loss is
 * counted. */
static void a_slot_is_free_100_ms_after_its_key_is_whole(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const limit = limit_in(table, "1/s");

	for (uint32_t i = 0; i < SLOTS; i++) /* full again at 1 s and i ns */
		CHECK(weir_table_allow(table, limit, &i, sizeof(i), MADE_AT + i, 1));
	CHECK(weir_table_allow(table, limit, "a", 1, MADE_AT + MS(1100) - 1, 1));
	CHECK_EQ(all_forgiven(table), 1);
	CHECK_EQ(keys_stored(table, limit), SLOTS - 1);
	CHECK(weir_table_allow(table, limit, "b", 1, MADE_AT + MS(1100) + SLOTS, 1));
	CHECK_EQ(all_forgiven(table), 1);
	CHECK_EQ(keys_stored(table, limit), SLOTS - 2);
	CHECK_EQ(stats_of(table, MADE_AT + MS(1100)).evicted, 0);
	weir_table_free(table);
}

static void a_whole_key_that_comes_back_has_its_slot_still(void)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct weir_table *const table = tiny_table();
		const struct weir_table_limit *const limit = limit_in(table, of_each_kind[i]);

		CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT, 1));
		CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT + S(100), 1));
		CHECK(weir_table_take(table, limit, "key", 3, MADE_AT + S(200), 1).allowed);
		CHECK_EQ(slots_with(table, limit, "key", 3), 1);
		CHECK_EQ(stats_of(table, MADE_AT).inserted, 1);
		weir_table_free(table);
	}
}

/* --- what dead processes leave behind --------------------------------------------------------------------------- */

static struct weir_state claim_of(struct weir_table *table, const struct weir_table_limit *limit, const char *key,
				  weir_ns full_at)
{
	return weir__slot_make(weir__fingerprint(hash_of(limit, key, strlen(key))), (uint32_t)any(),
			       full_at - table->epoch, WEIR__SLOT_CLAIMED);
}

/* Takes from a key of three tokens in each way. In the end all of them have been charged, once. */
static void ask_for_all(struct weir_table *table, const struct weir_table_limit *limit)
{
	const struct weir_claim claim = { limit, "key", 3, 1 };
	struct weir_decision decision;

	CHECK(!weir_table_inspect(table, limit, "key", 3, MADE_AT).is_stored);
	CHECK(!weir_table_reset(table, limit, "key", 3));
	CHECK_EQ(weir_table_peek(table, limit, "key", 3, MADE_AT, 1).remaining, 3);
	CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT, 1));
	CHECK(weir_table_take(table, limit, "key", 3, MADE_AT, 1).allowed);
	CHECK_EQ(weir_table_decide(table, &claim, 1, MADE_AT, NULL, &decision), WEIR_OK);
	CHECK(decision.verdict.allowed && decision.verdict.remaining == 0);
	CHECK(!weir_table_allow(table, limit, "key", 3, MADE_AT, 1));
	CHECK_EQ(slots_with(table, limit, "key", 3), 1);
}

static void a_claim_left_behind_blocks_nobody(void)
{
	for (size_t at = 0; at < SLOTS; at++) {
		struct weir_table *const table = tiny_table();
		const struct weir_table_limit *const limit = limit_in(table, "3/min");

		table->region.slots[at].state = claim_of(table, limit, "key", MADE_AT + S(20));
		ask_for_all(table, limit);
		weir_table_free(table);
	}
}

static void nor_do_many_of_them(void)
{
	for (unsigned mask = 1; mask < 1u << SLOTS; mask += 1 + (unsigned)below(40)) {
		struct weir_table *const table = tiny_table();
		const struct weir_table_limit *const limit = limit_in(table, "3/min");

		for (size_t at = 0; at < SLOTS; at++)
			if (mask >> at & 1)
				table->region.slots[at].state = claim_of(table, limit, below(3) ? "key" : "other",
									 MADE_AT + below(S(60)));
		ask_for_all(table, limit);
		weir_table_free(table);
	}
}

/* The first operation of each kind meets a claim. */
static void each_question_passes_a_claim(void)
{
	for (size_t at = 0; at < SLOTS; at++) {
		for (int which = 0; which < 6; which++) {
			struct weir_table *const table = tiny_table();
			const struct weir_table_limit *const limit = limit_in(table, "3/min");
			const struct weir_claim claims[2] = { { limit, "key", 3, 1 }, { limit, "other", 5, 1 } };
			struct weir_decision decision;

			table->region.slots[at].state = claim_of(table, limit, "key", MADE_AT + S(20));
			switch (which) {
			case 0:
				CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT, 3));
				break;
			case 1:
				CHECK_EQ(weir_table_upto(table, limit, "key", 3, MADE_AT, 9).granted, 3);
				break;
			case 2:
				CHECK_EQ(weir_table_refund(table, limit, "key", 3, MADE_AT, 1).remaining, 3);
				break;
			case 3:
				CHECK(!weir_table_reset(table, limit, "key", 3));
				break;
			case 4:
				CHECK(!weir_table_inspect(table, limit, "key", 3, MADE_AT).is_stored);
				break;
			default:
				CHECK_EQ(weir_table_decide(table, claims, 2, MADE_AT, NULL, &decision), WEIR_OK);
				CHECK(decision.verdict.allowed);
			}
			CHECK(slots_with(table, limit, "key", 3) <= 1);
			weir_table_free(table);
		}
	}
}

/* Claims of keys that are never used again are reclaimed like those keys' slots: when they would be full, or when there
 * is no other room. */
static void claims_of_others_are_reclaimed(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const limit = limit_in(table, "3/min");
	char key[2] = "a";

	for (size_t at = 0; at < SLOTS; at++, key[0]++)
		table->region.slots[at].state = claim_of(table, limit, key, MADE_AT + S(20));
	ask_for_all(table, limit);
	CHECK_EQ(stats_of(table, MADE_AT).evicted, 1);
	for (uint32_t i = 0; i < SLOTS - 1; i++)
		CHECK(weir_table_allow(table, limit, &i, sizeof(i), MADE_AT + S(21), 1));
	CHECK_EQ(stats_of(table, MADE_AT).evicted, 1);
	weir_table_free(table);
}

/* --- many at once ----------------------------------------------------------------------------------------------- */

static struct weir_table *crowded;
static const struct weir_table_limit *crowded_limit;
static pthread_barrier_t barrier;
static _Atomic uint64_t admitted;

static void *insert_the_same(void *unused)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&barrier);
		if (weir_table_allow(crowded, crowded_limit, &round, sizeof(round), MADE_AT, 2))
			atomic_fetch_add(&admitted, 2);
		if (weir_table_take(crowded, crowded_limit, &round, sizeof(round), MADE_AT, 1).allowed)
			atomic_fetch_add(&admitted, 1);
	}
	return unused;
}

/* Eight threads insert the same key at once: it gets one slot, and is charged no more than it has. */
static void a_key_never_has_two_slots(void)
{
	pthread_t threads[THREADS];

	crowded = table_for(2 * ROUNDS, MADE_AT);
	crowded_limit = limit_in(crowded, "5/hour");
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, insert_the_same, NULL);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 0; i < ROUNDS; i++)
		CHECK_EQ(slots_with(crowded, crowded_limit, &i, sizeof(i)), 1);
	CHECK_EQ(atomic_load(&admitted), 5 * ROUNDS);
	CHECK_EQ(stats_of(crowded, MADE_AT).live, ROUNDS);
	CHECK_EQ(stats_of(crowded, MADE_AT).inserted, ROUNDS);
	CHECK_EQ(stats_of(crowded, MADE_AT).evicted, 0);
	pthread_barrier_destroy(&barrier);
	weir_table_free(crowded);
}

TESTS(TEST(the_key_closest_to_whole_gives_way), TEST(a_throttled_key_stays_whoever_comes),
      TEST(of_windows_the_key_that_used_least_gives_way), TEST(a_used_up_window_stays_whoever_comes),
      TEST(of_both_sorts_the_sooner_one_gives_way), TEST(giving_way_is_forgiving), TEST(what_is_free_longest_is_taken),
      TEST(who_comes_last_is_recorded), TEST(idle_keys_are_reclaimed_uncounted),
      TEST(a_slot_is_free_100_ms_after_its_key_is_whole), TEST(a_whole_key_that_comes_back_has_its_slot_still),
      TEST(a_claim_left_behind_blocks_nobody), TEST(nor_do_many_of_them), TEST(each_question_passes_a_claim),
      TEST(claims_of_others_are_reclaimed), TEST(a_key_never_has_two_slots))
