/* tuning_test.c: proposals against brute force: no better one is on the ladder, and the numbers are those of limiters. */
#include "replay/tuning.h"

#include <stdlib.h>

#include <weir/limiter.h>

#include "../check.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)

enum { KEYS = 40, ROUNDS = 30 };

static const struct weir__hash_secret secret = { 5, 6 };
static uint64_t random_state = 11;

static uint64_t random_from(uint64_t least, uint64_t most)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return least + (random_state >> 33) % (most - least + 1);
}

/* `keys` clients of different size. With an attack, requests from 100 s to 110 s come from all keys, densely. */
static void make_arrivals(struct weir__arrivals *arrivals, uint32_t keys, bool has_attack)
{
	weir__arrivals_init(arrivals, secret, SIZE_MAX / 2);
	for (weir_ns at = SECOND; at < 200 * SECOND;) {
		const bool is_attack = has_attack && at >= 100 * SECOND && at < 110 * SECOND;
		const uint32_t key = (uint32_t)random_from(1, random_from(1, keys));

		CHECK_EQ(weir__arrivals_add(arrivals, &key, sizeof(key), at, 1), WEIR_OK);
		at += random_from(0, is_attack ? 20 * MS : 400 * MS);
	}
	CHECK(weir__arrivals_group(arrivals));
}

/* How many keys a limit denies, and how many requests, by limiters. */
static uint64_t denied_by(const struct weir_limit *limit, const struct weir__arrivals *arrivals, weir_ns until,
			  uint64_t *ret_requests)
{
	const size_t size = (weir_limiter_size(limit) + WEIR_LIMITER_ALIGN - 1) / WEIR_LIMITER_ALIGN *
			    WEIR_LIMITER_ALIGN;
	void *const memory = aligned_alloc(WEIR_LIMITER_ALIGN, size);
	uint64_t keys = 0;
	size_t n;

	*ret_requests = 0;
	for (uint32_t key = 0; key < arrivals->keys.n; key++) {
		const struct weir__arrival *const rows = weir__arrivals_of(arrivals, key, &n);
		const uint64_t before = *ret_requests;
		struct weir_limiter *limiter;

		CHECK_EQ(weir_limiter_init(memory, size, limit, &limiter, NULL), WEIR_OK);
		for (size_t i = 0; i < n && rows[i].at < until; i++)
			*ret_requests += !weir_limiter_take(limiter, rows[i].at, rows[i].cost).allowed;
		keys += *ret_requests > before;
	}
	free(memory);
	return keys;
}

static struct weir__tuning tuned;

static const struct weir__tuning_point *run(const struct weir__arrivals *arrivals, const struct weir__tuning_wish *wish)
{
	struct weir_message why = { 0 };

	CHECK_EQ(weir__tuning_run(arrivals, wish, &tuned, &why), WEIR_OK);
	CHECK_TEXT(why.text, "");
	return &tuned.points[tuned.best];
}

static void a_share_of_the_clients(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		const struct weir__tuning_wish wish = { .has_denied_keys = true,
							.denied_keys_ppm = (uint32_t)random_from(0, 200000),
							.until = random_from(50, 300) * SECOND,
							.horizon = random_from(1, 100) * SECOND };
		struct weir__arrivals arrivals;
		const struct weir__tuning_point *best;

		make_arrivals(&arrivals, KEYS, false);
		best = run(&arrivals, &wish);
		CHECK(tuned.n_curve > 3);
		CHECK(best->keeps);
		CHECK_EQ(tuned.keys_may, tuned.keys * wish.denied_keys_ppm / WEIR__TUNING_PPM);
		for (size_t i = 0; i < tuned.n; i++) {
			const struct weir__tuning_point *const point = &tuned.points[i];
			struct weir_limit less = point->limit;
			uint64_t requests;

			CHECK_EQ(denied_by(&point->limit, &arrivals, wish.until, &requests), point->keys_denied);
			CHECK_EQ(requests, point->tried.denied);
			CHECK(point->keys_denied <= tuned.keys_may);
			/* one less denies more keys than the wish permits */
			if (less.algorithm == WEIR_TOKEN_BUCKET)
				less.burst--;
			else
				less.burst = --less.count;
			if ((less.algorithm == WEIR_TOKEN_BUCKET ? less.burst : less.count) > 0)
				CHECK(denied_by(&less, &arrivals, wish.until, &requests) > tuned.keys_may);
			if (i < tuned.n_curve && tuned.best < tuned.n_curve)
				CHECK(best->most <= point->most);
			if (i > 0 && i < tuned.n_curve)
				CHECK(point->limit.burst < point[-1].limit.burst);
		}
		weir__arrivals_fini(&arrivals);
	}
}

/* Alone in even rounds, in odd ones with a share of the clients. */
static void a_share_of_the_requests(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		const struct weir__tuning_wish wish = { .has_denied = true,
							.denied_ppm = (uint32_t)random_from(0, 200000),
							.has_denied_keys = round % 2 == 1,
							.denied_keys_ppm = (uint32_t)random_from(0, 300000),
							.until = random_from(50, 300) * SECOND,
							.horizon = random_from(1, 100) * SECOND };
		struct weir__arrivals arrivals;
		const struct weir__tuning_point *best;

		make_arrivals(&arrivals, KEYS, false);
		best = run(&arrivals, &wish);
		CHECK(tuned.n_curve > 1);
		CHECK(best->keeps);
		CHECK_EQ(tuned.requests_may, tuned.requests * wish.denied_ppm / WEIR__TUNING_PPM);
		for (size_t i = 0; i < tuned.n; i++) {
			const struct weir__tuning_point *const point = &tuned.points[i];
			const bool is_bucket = point->limit.algorithm == WEIR_TOKEN_BUCKET;
			struct weir_limit less = point->limit;
			uint64_t requests;

			CHECK_EQ(denied_by(&point->limit, &arrivals, wish.until, &requests), point->keys_denied);
			CHECK_EQ(requests, point->tried.denied);
			CHECK(point->keeps && requests <= tuned.requests_may);
			CHECK(round % 2 == 0 || point->keys_denied <= tuned.keys_may);
			/* one less denies more than the wish permits */
			if (is_bucket)
				less.burst--;
			else
				less.burst = --less.count;
			if ((is_bucket ? less.burst : less.count) > 0) {
				const uint64_t keys = denied_by(&less, &arrivals, wish.until, &requests);

				CHECK(requests > tuned.requests_may || (round % 2 == 1 && keys > tuned.keys_may));
			}
			if (i < tuned.n_curve && tuned.best < tuned.n_curve)
				CHECK(best->most <= point->most);
			if (i > 0 && i < tuned.n_curve)
				CHECK(point->limit.burst < point[-1].limit.burst);
		}
		weir__arrivals_fini(&arrivals);
	}
}

static void an_attack(void)
{
	struct weir__tuning_wish wish = { .has_denied_keys = true,
					  .denied_keys_ppm = 50000,
					  .until = UINT64_MAX,
					  .horizon = MINUTE,
					  .bad = { 100 * SECOND, 110 * SECOND } };
	struct weir__arrivals arrivals;
	const struct weir__tuning_point *best;
	uint64_t requests;

	make_arrivals(&arrivals, KEYS, true);
	best = run(&arrivals, &wish);
	CHECK(tuned.bad_requests > 500);
	CHECK_EQ(best->tried.marked, tuned.bad_requests);
	CHECK(best->keeps);
	denied_by(&best->limit, &arrivals, wish.until, &requests);
	CHECK_EQ(best->tried.denied + best->tried.marked_denied, requests);
	for (size_t i = 0; i < tuned.n_curve; i++)
		if (tuned.points[i].keeps && tuned.best < tuned.n_curve)
			CHECK(tuned.points[i].tried.marked_denied <= best->tried.marked_denied);
	weir__arrivals_fini(&arrivals);
}

static void never_more_passes(void)
{
	struct weir__tuning_wish wish = { .until = UINT64_MAX, .horizon = MINUTE, .passed = { 20, 2 * SECOND } };
	struct weir__arrivals arrivals;

	make_arrivals(&arrivals, 1, true);
	for (int with_wait = 0; with_wait < 2; with_wait++) {
		const struct weir__tuning_point *best;

		wish.has_wait = with_wait;
		wish.wait = 300 * MS;
		wish.wait_ppm = 900000;
		best = run(&arrivals, &wish);
		for (size_t i = 0; i < tuned.n; i++) {
			const struct weir__tuning_point *const point = &tuned.points[i];
			uint64_t requests;

			denied_by(&point->limit, &arrivals, wish.until, &requests);
			CHECK_EQ(requests, point->tried.denied);
			CHECK(best->tried.denied <= point->tried.denied);
			if (point->limit.algorithm == WEIR_TOKEN_BUCKET)
				CHECK_EQ(point->limit.count + point->limit.burst, 20);
			else
				CHECK_EQ(point->limit.count, 20);
		}
		CHECK_EQ(tuned.points[tuned.n - 1].limit.algorithm, with_wait ? WEIR_LEAKY_BUCKET : WEIR_SLIDING_LOG);
	}
	weir__arrivals_fini(&arrivals);
}

/* All that deny none are equal, but not if there were more traffic: each split that is left would deny more. */
static void equals_are_told_apart_by_growth(void)
{
	const struct weir__tuning_wish wish = { .until = UINT64_MAX, .horizon = MINUTE, .passed = { 640, 2 * SECOND } };
	const struct weir__tuning_point *best;
	struct weir__arrivals arrivals;
	unsigned ties = 0, told_apart = 0;

	make_arrivals(&arrivals, 1, true);
	best = run(&arrivals, &wish);
	CHECK_EQ(best->limit.algorithm, WEIR_TOKEN_BUCKET);
	CHECK_EQ(best->tried.denied, 0);
	for (size_t i = 0; i < tuned.n_curve; i++) {
		const struct weir__tuning_point *const point = &tuned.points[i];

		if (point == best || point->tried.denied > 0)
			continue;
		ties++;
		for (uint64_t scale = 2; scale <= 32; scale *= 2) {
			struct weir_limit half = point->limit, best_half = best->limit;
			uint64_t requests, least;

			half.burst /= scale;
			half.period *= scale;
			best_half.burst /= scale;
			best_half.period *= scale;
			denied_by(&half, &arrivals, wish.until, &requests);
			denied_by(&best_half, &arrivals, wish.until, &least);
			CHECK(least <= requests);
			if (least != requests) {
				told_apart++;
				break;
			}
		}
	}
	CHECK(ties > 5);
	CHECK_EQ(told_apart, ties);
	weir__arrivals_fini(&arrivals);
}

static void waits(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		const struct weir__tuning_wish wish = { .has_wait = true,
							.wait = random_from(1, 3000) * MS,
							.wait_ppm = (uint32_t)random_from(500000, 1000000),
							.until = UINT64_MAX,
							.horizon = MINUTE };
		struct weir__arrivals arrivals;
		const struct weir__tuning_point *best;
		struct weir_limit less;
		struct weir__demand_tried tried = { 0 };
		struct weir_plan plan;
		struct weir_state state = { 0, 0 };
		size_t n;

		make_arrivals(&arrivals, 1, round % 2);
		best = run(&arrivals, &wish);
		CHECK(best->keeps);
		CHECK_EQ(best->tried.denied, 0);
		/* a lower rate does not keep the wish, however long its queue is */
		less = best->limit;
		less.count--;
		less.burst = 1000000;
		if (less.count > 0) {
			CHECK_EQ(weir_plan_compile(&less, &plan, NULL), WEIR_OK);
			weir__demand_try(weir__arrivals_of(&arrivals, 0, &n), arrivals.n, &plan, &state, &wish.bad,
					 wish.wait, &tried);
			CHECK(!weir__tuning_waits_keep(&wish, tried.late, tried.requests));
		}
		weir__arrivals_fini(&arrivals);
	}
}

static void quantiles_of_waits(void)
{
	const struct weir__tuning_wish wish = { .wait_ppm = 990000 };

	CHECK(weir__tuning_waits_keep(&wish, 0, 0));
	CHECK(weir__tuning_waits_keep(&wish, 1, 100));
	CHECK(!weir__tuning_waits_keep(&wish, 2, 100));
	CHECK(!weir__tuning_waits_keep(&wish, 1, 99)); /* the 99th of 99 is the last */
	CHECK(weir__tuning_waits_keep(&wish, UINT64_MAX / 100, UINT64_MAX));
}

static int by_size(const void *a_, const void *b_)
{
	const uint64_t a = *(const uint64_t *)a_, b = *(const uint64_t *)b_;

	return a < b ? -1 : a > b;
}

static void selecting(void)
{
	uint64_t numbers[50], sorted[50];

	for (int round = 0; round < 5000; round++) {
		const size_t n = (size_t)random_from(1, 50), k = (size_t)random_from(0, n - 1);
		const uint64_t most = random_from(0, 60);

		for (size_t i = 0; i < n; i++)
			numbers[i] = sorted[i] = random_from(0, most);
		qsort(sorted, n, sizeof(*sorted), by_size);
		CHECK_EQ(weir__tuning_select(numbers, n, k), sorted[k]);
	}
}

static void nothing_is_left(void)
{
	struct weir__tuning_wish wish = { .has_denied_keys = true, .until = 0, .horizon = MINUTE };
	struct weir__arrivals arrivals;
	struct weir_message why;

	make_arrivals(&arrivals, 3, false);
	CHECK_EQ(weir__tuning_run(&arrivals, &wish, &tuned, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "no request is left to choose by: all are held out or bad");
	wish.until = UINT64_MAX;
	wish.bad = (struct weir__interval){ 500 * SECOND, 600 * SECOND };
	CHECK_EQ(weir__tuning_run(&arrivals, &wish, &tuned, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "no request before the part held out is in the bad interval");
	wish = (struct weir__tuning_wish){
		.has_wait = true, .wait = 1, .wait_ppm = WEIR__TUNING_PPM, .until = UINT64_MAX, .horizon = MINUTE
	};
	weir__arrivals_fini(&arrivals);
	/* two at one instant: the second waits at any rate */
	weir__arrivals_init(&arrivals, secret, SIZE_MAX / 2);
	weir__arrivals_add(&arrivals, "", 0, SECOND, 1);
	weir__arrivals_add(&arrivals, "", 0, SECOND, 1);
	CHECK(weir__arrivals_group(&arrivals));
	wish.wait = 0;
	CHECK_EQ(weir__tuning_run(&arrivals, &wish, &tuned, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "no rate keeps the wish for waits");
	weir__arrivals_fini(&arrivals);
}

TESTS(TEST(a_share_of_the_clients), TEST(a_share_of_the_requests), TEST(an_attack), TEST(never_more_passes),
      TEST(equals_are_told_apart_by_growth), TEST(waits), TEST(quantiles_of_waits), TEST(selecting),
      TEST(nothing_is_left))
