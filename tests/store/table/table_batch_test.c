/* table_batch_test.c: a batch is decided like its requests one after another. Two tables with one secret have the same
 * keys; one gets batches, the other single requests. */
#include <stdlib.h>

#include "tables.h"

enum { MOST = 100, ROUNDS = 30 };

static struct weir_table *together, *one_by_one;
static const struct weir_table_limit *limits[2][KINDS]; /* of either table */

static void begin(void)
{
	together = table_for(2000, MADE_AT);
	one_by_one = table_for(2000, MADE_AT);
	for (size_t i = 0; i < KINDS; i++) {
		limits[0][i] = limit_in(together, of_each_kind[i]);
		limits[1][i] = limit_in(one_by_one, of_each_kind[i]);
	}
}

static void end(void)
{
	weir_table_free(together);
	weir_table_free(one_by_one);
}

/* n claims for each table: mixed limits and few keys, so that many repeat. */
static void any_claims(struct weir_claim *ret_together, struct weir_claim *ret_one_by_one, uint32_t *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint64_t kind = below(KINDS);
		const uint64_t cost = below(20) ? below(4) : below(2) ? UINT64_MAX : 100;

		keys[i] = (uint32_t)below(below(2) ? 3 : 50);
		ret_together[i] = (struct weir_claim){ limits[0][kind], &keys[i], sizeof(keys[i]), cost };
		ret_one_by_one[i] = ret_together[i];
		ret_one_by_one[i].limit = limits[1][kind];
	}
}

static void check_allow(size_t n, weir_ns now)
{
	struct weir_claim batch[MOST], single[MOST];
	uint32_t keys[MOST];
	bool allowed[MOST + 1];

	any_claims(batch, single, keys, n);
	memset(allowed, 7, sizeof(allowed));
	weir_table_allow_batch(together, batch, n, now, allowed);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(allowed[i], weir_table_allow(one_by_one, single[i].limit, single[i].key, single[i].key_length,
						      now, single[i].cost));
	CHECK_EQ(*(unsigned char *)&allowed[n], 7); /* nothing is written beyond n */
}

static void check_take(size_t n, weir_ns now)
{
	struct weir_claim batch[MOST], single[MOST];
	struct weir_verdict verdicts[MOST + 1];
	uint32_t keys[MOST];

	any_claims(batch, single, keys, n);
	verdicts[n].limit = 7;
	weir_table_take_batch(together, batch, n, now, verdicts);
	for (size_t i = 0; i < n; i++) {
		const struct weir_verdict expected = weir_table_take(one_by_one, single[i].limit, single[i].key,
								     single[i].key_length, now, single[i].cost);

		CHECK_VERDICT("take", &verdicts[i], &expected);
	}
	CHECK_EQ(verdicts[n].limit, 7);
}

static void check_same_numbers(weir_ns now)
{
	const struct weir_table_stats a = stats_of(together, now), b = stats_of(one_by_one, now);

	CHECK_EQ(memcmp(&a, &b, sizeof(a)), 0);
	for (size_t i = 0; i < KINDS; i++) {
		struct weir_table_limit_stats of_a, of_b;

		weir_table_limit_stats(together, limits[0][i], &of_a);
		weir_table_limit_stats(one_by_one, limits[1][i], &of_b);
		CHECK(of_a.allowed == of_b.allowed && of_a.denied == of_b.denied);
		CHECK(of_a.allowed > 0 && of_a.denied > 0);
	}
}

static void of_every_size(void (*check)(size_t n, weir_ns now))
{
	weir_ns now = MADE_AT;

	begin();
	for (int round = 0; round < ROUNDS; round++)
		for (size_t n = 0; n <= MOST; n++, now += below(MS(20)))
			check(n, now);
	check_same_numbers(now);
	/* Also where time stands still. */
	check(MOST, UINT64_MAX);
	check(MOST, 0);
	end();
}

static void allow_in_batches(void)
{
	of_every_size(check_allow);
}

static void take_in_batches(void)
{
	of_every_size(check_take);
}

static void a_batch_of_one_key_is_decided_in_order(void)
{
	struct weir_claim claims[MOST];
	bool allowed[MOST];

	begin();
	for (size_t i = 0; i < MOST; i++)
		claims[i] = (struct weir_claim){ limit_in(together, "60/min"), "key", 3, 1 };
	claims[10].cost = 60; /* does not fit behind ten; those after it do */
	weir_table_allow_batch(together, claims, MOST, MADE_AT, allowed);
	for (size_t i = 0; i < MOST; i++)
		CHECK_EQ(allowed[i], i != 10 && i <= 60);
	end();
}

TESTS(TEST(allow_in_batches), TEST(take_in_batches), TEST(a_batch_of_one_key_is_decided_in_order))
