/* arrivals_test.c: requests by key, within a budget of memory: whole keys or none.
 *
 * Covers: src/replay/key_index.c */
#include "replay/arrivals.h"

#include "../check.h"

enum { KEYS = 1000, ROWS = 20000 };

static const struct weir__hash_secret secret = { 1, 2 };
static uint64_t random_state = 3;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((random_state >> 33) % n);
}

/* Each row has its key as its cost, so that tests can tell whose it is. */
static int fill(struct weir__arrivals *arrivals, uint32_t *counts)
{
	random_state = 3;
	memset(counts, 0, KEYS * sizeof(*counts));
	for (uint32_t i = 0; i < ROWS; i++) {
		const uint32_t key = random_below(1 + random_below(KEYS));
		const int error = weir__arrivals_add(arrivals, &key, sizeof(key), i, key);

		if (error != WEIR_OK)
			return error;
		counts[key]++;
	}
	return WEIR_OK;
}

/* Every key that is there has all its rows, in order. Returns how many keys. */
static uint32_t check_rows(struct weir__arrivals *arrivals, const uint32_t *counts)
{
	size_t n, sum = 0;

	CHECK(weir__arrivals_group(arrivals));
	for (uint32_t key = 0; key < arrivals->keys.n; key++) {
		const struct weir__arrival *const rows = weir__arrivals_of(arrivals, key, &n);

		CHECK(n > 0);
		CHECK_EQ(n, counts[rows[0].cost]);
		for (size_t i = 0; i < n; i++) {
			CHECK_EQ(rows[i].cost, rows[0].cost);
			CHECK_EQ(rows[i].key, key);
			CHECK(i == 0 || rows[i].at > rows[i - 1].at);
		}
		sum += n;
	}
	CHECK_EQ(sum, arrivals->n);
	return arrivals->keys.n;
}

static void all_fit(void)
{
	struct weir__arrivals arrivals;
	uint32_t counts[KEYS], different = 0;

	weir__arrivals_init(&arrivals, secret, SIZE_MAX / 2);
	CHECK_EQ(fill(&arrivals, counts), WEIR_OK);
	for (uint32_t key = 0; key < KEYS; key++)
		different += counts[key] > 0;
	CHECK_EQ(arrivals.keys.shift, 0);
	CHECK_EQ(arrivals.n, ROWS);
	CHECK_EQ(check_rows(&arrivals, counts), different);
	weir__arrivals_fini(&arrivals);
}

/* The sample does not depend on the secret, and a smaller one is part of a larger one. */
static void a_budget_keeps_whole_keys(void)
{
	static bool was_kept[KEYS];
	uint32_t counts[KEYS], kept_before = KEYS;
	size_t n;

	memset(was_kept, true, sizeof(was_kept));
	for (size_t bytes = 400000; bytes >= 50000; bytes /= 2) {
		bool is_kept[2][KEYS] = { { false }, { false } };
		uint32_t kept = 0;

		for (uint64_t round = 0; round < 2; round++) {
			struct weir__arrivals arrivals;

			weir__arrivals_init(&arrivals, (struct weir__hash_secret){ round, 77 }, bytes);
			CHECK_EQ(fill(&arrivals, counts), WEIR_OK);
			CHECK(arrivals.keys.shift > 0);
			CHECK(arrivals.n * 32 + weir__key_index_bytes(&arrivals.keys) <= bytes);
			kept = check_rows(&arrivals, counts);
			for (uint32_t key = 0; key < kept; key++)
				is_kept[round][weir__arrivals_of(&arrivals, key, &n)->cost] = true;
			weir__arrivals_fini(&arrivals);
		}
		CHECK(kept > 0);
		CHECK(kept < kept_before);
		kept_before = kept;
		for (uint32_t key = 0; key < KEYS; key++) {
			CHECK_EQ(is_kept[0][key], is_kept[1][key]);
			CHECK(was_kept[key] || !is_kept[0][key]);
			was_kept[key] = is_kept[0][key];
		}
	}
}

static void one_key_that_does_not_fit_is_an_error(void)
{
	struct weir__arrivals arrivals;
	int error = WEIR_OK;
	uint32_t n = 0;

	weir__arrivals_init(&arrivals, secret, 100000);
	while (error == WEIR_OK && n < ROWS)
		error = weir__arrivals_add(&arrivals, "", 0, n++, 1);
	CHECK_EQ(error, WEIR_ERR_FULL);
	CHECK_EQ(arrivals.keys.n, 1);
	weir__arrivals_fini(&arrivals);
}

TESTS(TEST(all_fit), TEST(a_budget_keeps_whole_keys), TEST(one_key_that_does_not_fit_is_an_error))
