/* demand_test.c: closed forms against the limiter itself, on random arrivals: what is proposed denies none, one less
 * denies some. */
#include "replay/demand.h"

#include <stdlib.h>

#include <weir/limiter.h>

#include "../check.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

enum { ROWS = 200, ROUNDS = 3000 };

static const struct weir__interval none = { 0, 0 };
static uint64_t random_state = 7;

static uint64_t random_from(uint64_t least, uint64_t most)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return least + (random_state >> 33) % (most - least + 1);
}

/* Arrivals at odd times, some at the same instant. */
static size_t make_rows(struct weir__arrival *rows)
{
	const size_t n = (size_t)random_from(1, ROWS);
	const uint64_t apart = random_from(1, 3), cost_most = random_from(1, 4);
	weir_ns at = random_from(1, 5000) * SECOND + random_from(0, 999999999);

	for (size_t i = 0; i < n; i++) {
		rows[i] = (struct weir__arrival){ at, (uint32_t)random_from(1, cost_most), 0 };
		if (random_from(0, 3) > 0)
			at += random_from(0, apart * apart * apart * 90 * MS);
	}
	return n;
}

/* Decides by a limiter: nothing here is shared with what is tested. Denials are never charged. */
static uint64_t denials_of(const struct weir_limit *limit, const struct weir__arrival *rows, size_t n,
			   const struct weir__interval *skip, weir_ns *ret_longest)
{
	const size_t size = (weir_limiter_size(limit) + WEIR_LIMITER_ALIGN - 1) / WEIR_LIMITER_ALIGN *
			    WEIR_LIMITER_ALIGN;
	void *const memory = aligned_alloc(WEIR_LIMITER_ALIGN, size);
	struct weir_limiter *limiter;
	uint64_t denied = 0;

	CHECK_EQ(weir_limiter_init(memory, size, limit, &limiter, NULL), WEIR_OK);
	*ret_longest = 0;
	for (size_t i = 0; i < n; i++) {
		struct weir_verdict verdict;

		if (rows[i].at >= skip->from && rows[i].at < skip->until)
			continue;
		verdict = weir_limiter_take(limiter, rows[i].at, rows[i].cost);
		denied += !verdict.allowed;
		if (verdict.allowed && verdict.delay > *ret_longest)
			*ret_longest = verdict.delay;
	}
	free(memory);
	return denied;
}

static struct weir__interval random_interval(const struct weir__arrival *rows, size_t n)
{
	const weir_ns from = rows[random_from(0, n - 1)].at;

	return random_from(0, 1) ? none : (struct weir__interval){ from, from + random_from(0, 3) * SECOND };
}

static void a_burst_denies_none_and_one_less_denies_some(void)
{
	struct weir__arrival rows[ROWS];
	uint64_t above_one = 0;

	for (int i = 0; i < ROUNDS; i++) {
		const size_t n = make_rows(rows);
		const struct weir__rate rate = { random_from(1, 70), random_from(1, 60) * SECOND / random_from(1, 7) };
		const struct weir__interval skip = random_interval(rows, n);
		const uint64_t burst = weir__demand_burst(rows, n, rate, &skip);
		struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, rate.count, rate.period);
		weir_ns longest;

		if (burst == 0) /* all rows are skipped */
			continue;
		limit.burst = burst;
		CHECK_EQ(denials_of(&limit, rows, n, &skip, &longest), 0);
		if (burst == 1)
			continue;
		above_one++;
		limit.burst = burst - 1;
		CHECK(denials_of(&limit, rows, n, &skip, &longest) > 0);
	}
	CHECK(above_one > ROUNDS / 2);
}

static void a_count_denies_none_and_one_less_denies_some(void)
{
	struct weir__arrival rows[ROWS];

	for (int i = 0; i < ROUNDS; i++) {
		const size_t n = make_rows(rows);
		const struct weir__interval skip = random_interval(rows, n);
		struct weir_limit limit = weir_limit_of(WEIR_SLIDING_LOG, 1, random_from(1, 4000) * MS);
		weir_ns longest;

		limit.count = limit.burst = weir__demand_count(rows, n, limit.period, &skip);
		if (limit.count == 0)
			continue;
		CHECK_EQ(denials_of(&limit, rows, n, &skip, &longest), 0);
		limit.count = limit.burst = limit.count - 1;
		if (limit.count > 0)
			CHECK(denials_of(&limit, rows, n, &skip, &longest) > 0);
	}
}

static void trying_counts_as_the_limiter(void)
{
	static const enum weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_LEAKY_BUCKET, WEIR_FIXED_WINDOW,
							  WEIR_SLIDING_LOG, WEIR_SLIDING_COUNTER };
	struct weir__arrival rows[ROWS];

	for (int i = 0; i < ROUNDS; i++) {
		const size_t n = make_rows(rows);
		const struct weir__interval marked = random_interval(rows, n);
		struct weir_limit limit = weir_limit_of(algorithms[i % 5], random_from(1, 30),
							random_from(1, 3) * SECOND);
		struct weir__demand_tried tried = { 0 };
		struct weir_plan plan;
		weir_ns longest;
		void *state;

		limit.shape = limit.algorithm == WEIR_LEAKY_BUCKET;
		CHECK_EQ(weir_plan_compile(&limit, &plan, NULL), WEIR_OK);
		state = calloc(1, weir_plan_state_size(&plan));
		weir__demand_try(rows, n, &plan, state, &marked, SECOND, &tried);
		free(state);
		CHECK_EQ(tried.requests + tried.marked, n);
		CHECK_EQ(tried.denied + tried.marked_denied, denials_of(&limit, rows, n, &none, &longest));
		CHECK_EQ(tried.longest_delay, longest);
		CHECK((tried.late > 0) == (longest > SECOND));
	}
}

/* Numbers that would not fit 64 bits. */
static void hostile_numbers(void)
{
	const struct weir__arrival rows[] = {
		{ 1, UINT32_MAX, 0 },
		{ 1, UINT32_MAX, 0 },
		{ UINT64_MAX, UINT32_MAX, 0 },
	};

	CHECK_EQ(weir__demand_burst(rows, 3, (struct weir__rate){ 1, UINT64_MAX }, &none), 3 * (uint64_t)UINT32_MAX);
	CHECK_EQ(weir__demand_burst(rows, 3, (struct weir__rate){ UINT64_MAX, 1 }, &none), 2 * (uint64_t)UINT32_MAX);
	CHECK_EQ(weir__demand_count(rows, 3, UINT64_MAX, &none), 3 * (uint64_t)UINT32_MAX);
	CHECK_EQ(weir__demand_burst(rows, 0, (struct weir__rate){ 1, 1 }, &none), 0);
}

TESTS(TEST(a_burst_denies_none_and_one_less_denies_some), TEST(a_count_denies_none_and_one_less_denies_some),
      TEST(trying_counts_as_the_limiter), TEST(hostile_numbers))
