/* top_keys_test.c: a few counters for many keys, compared with an exact count of each. */
#include "observe/top_keys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"
#include "store/table/hash.h"

enum { KEYS = 100000, MOST = 64, SPAN = WEIR__TOP_KEYS_PERIOD_S };

#define SECONDS(n) ((weir_ns)(n)*UINT64_C(1000000000))

/* The beginning of a period of SPAN seconds. */
static const weir_ns start = SECONDS(UINT64_C(1700000010));

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((random_state >> 32) * n >> 32);
}

/* Key k has a weight of 1/(k+1). Uses a table of sums. */
static uint32_t zipf(void)
{
	static uint32_t sums[KEYS];
	uint32_t low = 0, high = KEYS - 1, wanted;

	for (uint32_t i = 0; sums[KEYS - 1] == 0 && i < KEYS; i++)
		sums[i] = (i ? sums[i - 1] : 0) + 100000000 / (i + 1);
	wanted = random_below(sums[KEYS - 1]);
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (sums[middle] > wanted)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static uint32_t uniform(void)
{
	return random_below(KEYS);
}

static size_t read_one(struct weir__top_keys *top_keys, enum weir__top_keys_kind kind, weir_ns now,
		       struct weir__top_key *ret_top_keys, size_t most)
{
	weir_ns since;

	return weir__top_keys_read(&top_keys, 1, kind, now, ret_top_keys, most, &since);
}

static void add_bytes(struct weir__top_keys *top_keys, const void *key, size_t length, uint64_t times, bool is_denied,
		      weir_ns now)
{
	static const struct weir__hash_secret secret = { 1, 2 };

	weir__top_keys_add(top_keys, weir__hash(&secret, key, length), key, length, times, is_denied, now);
}

static void add(struct weir__top_keys *top_keys, const char *key, uint64_t times, bool is_denied, weir_ns now)
{
	add_bytes(top_keys, key, strlen(key), times, is_denied, now);
}

/* The count of a key, or 0. */
static uint64_t count_of(struct weir__top_keys *top_keys, const char *key, enum weir__top_keys_kind kind, weir_ns now)
{
	struct weir__top_key found[2 * MOST];
	const size_t n = read_one(top_keys, kind, now, found, 2 * MOST);

	for (size_t i = 0; i < n; i++)
		if (found[i].key_length == strlen(key) && memcmp(found[i].key, key, strlen(key)) == 0)
			return found[i].count;
	return 0;
}

/* --- the bound --------------------------------------------------------------------------------------------------- */

/* The guarantees of space-saving, for `n` keys added to several summaries. */
static void check_promises(const struct weir__top_key *found, size_t n_found, const uint32_t *exact, uint64_t n)
{
	bool *const is_there = calloc(KEYS, sizeof(*is_there));
	size_t faults = 0;

	for (size_t i = 0; i < n_found; i++) {
		uint32_t key;

		memcpy(&key, found[i].key, sizeof(key));
		is_there[key] = true;
		faults += found[i].count < exact[key];
		faults += found[i].count - found[i].error > exact[key];
		faults += found[i].error > n / MOST;
		faults += i > 0 && found[i - 1].count - found[i - 1].error < found[i].count - found[i].error;
	}
	for (uint32_t key = 0; key < KEYS; key++)
		faults += exact[key] > n / MOST && !is_there[key];
	CHECK_EQ(faults, 0);
	free(is_there);
}

static void check_bound(uint32_t (*next)(void), uint32_t n, size_t workers, bool turns)
{
	struct weir__top_keys *top_keys[4];
	struct weir__top_key *const found = calloc(workers * 2 * MOST, sizeof(*found));
	uint32_t *const exact = calloc(KEYS, sizeof(*exact));
	size_t n_found;
	weir_ns since;

	for (size_t i = 0; i < workers; i++)
		top_keys[i] = weir__top_keys_new(MOST);
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t key = next();
		const weir_ns now = start + (turns && i >= n / 2 ? SECONDS(SPAN) : 0);

		exact[key]++;
		add_bytes(top_keys[random_below((uint32_t)workers)], &key, sizeof(key), 1, i % 3 == 0, now);
	}
	n_found = weir__top_keys_read(top_keys, workers, WEIR__TOP_KEYS_BUSY, start + (turns ? SECONDS(SPAN) : 0),
				      found, workers * 2 * MOST, &since);
	check_promises(found, n_found, exact, n);
	for (size_t i = 0; i < workers; i++)
		weir__top_keys_free(top_keys[i]);
	free(found);
	free(exact);
}

static void zipf_is_within_the_bound(void)
{
	check_bound(zipf, 200000, 1, false);
}

static void uniform_is_within_the_bound(void)
{
	check_bound(uniform, 200000, 1, false);
}

static void several_workers_are_within_the_bound(void)
{
	check_bound(zipf, 200000, 4, false);
	check_bound(uniform, 50000, 3, false);
}

static void two_spans_are_within_the_bound(void)
{
	check_bound(zipf, 200000, 1, true);
	check_bound(zipf, 100000, 4, true);
}

/* With no more keys than counters, counts are exact. */
static void few_keys_are_exact(void)
{
	struct weir__top_keys *const top_keys = weir__top_keys_new(MOST);
	struct weir__top_key found[2 * MOST];
	uint32_t faults = 0;

	for (uint32_t i = 0; i < MOST * 100; i++) {
		const uint32_t key = i % MOST;

		add_bytes(top_keys, &key, sizeof(key), key + 1, key < 3, start);
	}
	CHECK_EQ(read_one(top_keys, WEIR__TOP_KEYS_BUSY, start, found, 2 * MOST), MOST);
	for (uint32_t i = 0; i < MOST; i++)
		faults += found[i].count != (uint64_t)100 * (MOST - i) || found[i].error != 0;
	CHECK_EQ(faults, 0);
	CHECK_EQ(read_one(top_keys, WEIR__TOP_KEYS_DENIED, start, found, 2 * MOST), 3);
	CHECK_EQ(found[0].count, 300);
	CHECK_EQ(read_one(top_keys, WEIR__TOP_KEYS_BUSY, start, found, 5), 5);
	weir__top_keys_free(top_keys);
}

static void the_smallest_gives_way(void)
{
	struct weir__top_keys *const top_keys = weir__top_keys_new(2);
	struct weir__top_key found[4];

	add(top_keys, "a", 10, false, start);
	add(top_keys, "b", 3, false, start);
	add(top_keys, "c", 1, false, start);
	CHECK_EQ(read_one(top_keys, WEIR__TOP_KEYS_BUSY, start, found, 4), 2);
	CHECK_EQ(found[0].key[0], 'a');
	CHECK_EQ(found[1].key[0], 'c');
	CHECK_EQ(found[1].count, 4);
	CHECK_EQ(found[1].error, 3);
	weir__top_keys_free(top_keys);
}

/* A full summary without a key may have counted it as often as its smallest counter. That is added. */
static void what_another_may_have_counted_is_added(void)
{
	struct weir__top_keys *const of[] = { weir__top_keys_new(2), weir__top_keys_new(2) };
	struct weir__top_key found[8];
	weir_ns since;

	add(of[0], "a", 10, false, start);
	add(of[0], "b", 3, false, start);
	add(of[1], "a", 5, false, start);
	CHECK_EQ(weir__top_keys_read(of, 2, WEIR__TOP_KEYS_BUSY, start, found, 8, &since), 2);
	CHECK(found[0].count == 15 && found[0].error == 0 && found[1].count == 3 && found[1].error == 0);
	add(of[1], "c", 4, false, start);
	CHECK_EQ(weir__top_keys_read(of, 2, WEIR__TOP_KEYS_BUSY, start, found, 8, &since), 3);
	CHECK(found[0].key[0] == 'a' && found[0].count == 15 && found[0].error == 0);
	CHECK(found[1].key[0] == 'c' && found[1].count == 7 && found[1].error == 3);
	CHECK(found[2].key[0] == 'b' && found[2].count == 7 && found[2].error == 4);
	weir__top_keys_free(of[0]);
	weir__top_keys_free(of[1]);
}

/* --- time -------------------------------------------------------------------------------------------------------- */

static void spans_turn(void)
{
	static const struct {
		weir_ns at;
		uint64_t count;
	} rows[] = { { SECONDS(0), 5 },
		     { SECONDS(SPAN) - 1, 5 },
		     { SECONDS(SPAN), 5 },
		     { SECONDS(2 * SPAN) - 1, 5 },
		     { SECONDS(2 * SPAN), 0 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__top_keys *const top_keys = weir__top_keys_new(MOST);
		struct weir__top_key found[1];
		weir_ns since;

		add(top_keys, "key", 5, true, start);
		CHECK_EQ(count_of(top_keys, "key", WEIR__TOP_KEYS_DENIED, start + rows[i].at), rows[i].count);
		(void)weir__top_keys_read(&top_keys, 1, WEIR__TOP_KEYS_BUSY, start + rows[i].at, found, 1, &since);
		CHECK_EQ(since, start + rows[i].at / SECONDS(SPAN) * SECONDS(SPAN) - SECONDS(SPAN));
		weir__top_keys_free(top_keys);
	}
}

static void both_spans_are_counted(void)
{
	struct weir__top_keys *const top_keys = weir__top_keys_new(MOST);

	add(top_keys, "key", 5, false, start);
	add(top_keys, "key", 7, false, start + SECONDS(SPAN));
	CHECK_EQ(count_of(top_keys, "key", WEIR__TOP_KEYS_BUSY, start + SECONDS(SPAN)), 12);
	add(top_keys, "key", 1, false, start + SECONDS(2 * SPAN));
	CHECK_EQ(count_of(top_keys, "key", WEIR__TOP_KEYS_BUSY, start + SECONDS(2 * SPAN)), 8);
	weir__top_keys_free(top_keys);
}

/* A reader may be ahead of a writer: the counts stay. */
static void who_is_a_little_late_ends_nothing(void)
{
	struct weir__top_keys *const top_keys = weir__top_keys_new(MOST);

	add(top_keys, "key", 5, true, start);
	CHECK_EQ(count_of(top_keys, "key", WEIR__TOP_KEYS_BUSY, start + SECONDS(SPAN)), 5);
	add(top_keys, "key", 2, true, start + SECONDS(SPAN) - 1);
	CHECK_EQ(count_of(top_keys, "key", WEIR__TOP_KEYS_BUSY, start + SECONDS(SPAN)), 7);
	CHECK_EQ(count_of(top_keys, "key", WEIR__TOP_KEYS_DENIED, start + SECONDS(SPAN)), 7);
	weir__top_keys_free(top_keys);
}

static void a_clock_set_back_begins_anew(void)
{
	struct weir__top_keys *const top_keys = weir__top_keys_new(MOST);

	add(top_keys, "key", 5, false, start);
	add(top_keys, "key", 2, false, start - SECONDS(3600));
	CHECK_EQ(count_of(top_keys, "key", WEIR__TOP_KEYS_BUSY, start - SECONDS(3600)), 2);
	CHECK_EQ(count_of(top_keys, "key", WEIR__TOP_KEYS_BUSY, 0), 0);
	weir__top_keys_free(top_keys);
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

static void long_keys_are_told_apart(void)
{
	struct weir__top_keys *const top_keys = weir__top_keys_new(MOST);
	struct weir__top_key found[4];
	char key[WEIR__TOP_KEY_KEY_SIZE + 10];

	memset(key, 'k', sizeof(key));
	add_bytes(top_keys, key, sizeof(key), 2, false, start);
	key[sizeof(key) - 1] = 'l';
	add_bytes(top_keys, key, sizeof(key), 1, false, start);
	add_bytes(top_keys, key, WEIR__TOP_KEY_KEY_SIZE, 3, false, start);
	CHECK_EQ(read_one(top_keys, WEIR__TOP_KEYS_BUSY, start, found, 4), 3);
	CHECK(found[0].key_length == WEIR__TOP_KEY_KEY_SIZE && found[1].key_length == sizeof(key));
	CHECK(memcmp(found[2].key, key, WEIR__TOP_KEY_KEY_SIZE) == 0);
	weir__top_keys_free(top_keys);
}

static void another_limit_begins_anew(void)
{
	struct weir__top_keys *const top_keys = weir__top_keys_new(MOST);
	struct weir__top_key found[2];
	weir_ns since;

	add(top_keys, "key", 1, true, start);
	weir__top_keys_clear(top_keys);
	CHECK_EQ(read_one(top_keys, WEIR__TOP_KEYS_BUSY, start, found, 2), 0);
	CHECK_EQ(weir__top_keys_read(NULL, 0, WEIR__TOP_KEYS_BUSY, start, found, 2, &since), 0);
	weir__top_keys_free(top_keys);
	weir__top_keys_free(NULL);
}

/* --- threads ----------------------------------------------------------------------------------------------------- */

struct reading {
	struct weir__top_keys *top_keys;
	_Atomic bool is_over;
	uint64_t faults;
};

/* Counts never decrease within a period. */
static void *read_on(void *reading_)
{
	struct reading *const reading = reading_;
	uint64_t last = 0;

	while (!atomic_load(&reading->is_over)) {
		const uint64_t now = count_of(reading->top_keys, "key", WEIR__TOP_KEYS_BUSY, start);

		reading->faults += now < last;
		last = now;
	}
	return NULL;
}

static void one_adds_and_another_reads(void)
{
	struct reading reading = { .top_keys = weir__top_keys_new(MOST) };
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, read_on, &reading), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		add(reading.top_keys, "key", 1, false, start);
		add_bytes(reading.top_keys, &i, sizeof(i), 1, true, start);
	}
	atomic_store(&reading.is_over, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(reading.faults, 0);
	CHECK_EQ(count_of(reading.top_keys, "key", WEIR__TOP_KEYS_BUSY, start), 20000);
	weir__top_keys_free(reading.top_keys);
}

TESTS(TEST(few_keys_are_exact), TEST(the_smallest_gives_way), TEST(zipf_is_within_the_bound),
      TEST(uniform_is_within_the_bound), TEST(several_workers_are_within_the_bound),
      TEST(two_spans_are_within_the_bound), TEST(what_another_may_have_counted_is_added), TEST(spans_turn),
      TEST(both_spans_are_counted), TEST(who_is_a_little_late_ends_nothing), TEST(a_clock_set_back_begins_anew),
      TEST(long_keys_are_told_apart), TEST(another_limit_begins_anew), TEST(one_adds_and_another_reads))
