/* sizing_test.c: the size of a queue, by hand and against the limiter itself. */
#include "replay/sizing.h"

#include "../check.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)

static struct weir__sizing size_of(struct weir__rate in, struct weir__rate out, weir_ns wait, weir_ns lasts)
{
	const struct weir__sizing_wish wish = { in, out, wait, lasts };
	struct weir__sizing sizing = { 0 };
	const char *const why = weir__sizing_calculate(&wish, &sizing);

	CHECK_TEXT(why ? why : "", "");
	return sizing;
}

static struct weir__sizing_run run_of(struct weir__rate in, struct weir__rate out, uint64_t places, uint64_t n)
{
	struct weir_limit limit = weir_limit_of(WEIR_LEAKY_BUCKET, out.count, out.period);
	struct weir__sizing_run run = { 0 };

	limit.burst = places;
	limit.shape = true;
	CHECK_EQ(weir__sizing_try(&limit, in, n, &run, NULL), WEIR_OK);
	return run;
}

static void by_hand(void)
{
	static const struct {
		struct weir__rate in, out;
		weir_ns wait, lasts;
		struct weir__sizing wanted;
	} rows[] = {
		/* 200 requests leave in 2 s, so request 201 waits 2 s. The queue grows by 1 in 6 requests. */
		{ { 120, SECOND },
		  { 100, SECOND },
		  2 * SECOND,
		  0,
		  { .places = 201,
		    .last_waits = 2 * SECOND,
		    .drains = 2010 * MS,
		    .overflows = true,
		    .passes = 1201,
		    .denies_at = UINT64_C(10008333334),
		    .denied = 1,
		    .denied_of = 6 } },
		/* 600 requests in 5 s: 599 / 6 places more than one, rounded up; the last waits 599 / 600 s */
		{ { 120, SECOND },
		  { 100, SECOND },
		  2 * SECOND,
		  5 * SECOND,
		  { .places = 201,
		    .last_waits = 2 * SECOND,
		    .drains = 2010 * MS,
		    .overflows = true,
		    .passes = 1201,
		    .denies_at = UINT64_C(10008333334),
		    .denied = 1,
		    .denied_of = 6,
		    .arrive = 600,
		    .places_needed = 101,
		    .would_wait = UINT64_C(998333334) } },
		/* 2400 requests in 20 s need more; 2399 / (2 + 2399 / 120) = 109.08 */
		{ { 120, SECOND },
		  { 100, SECOND },
		  2 * SECOND,
		  20 * SECOND,
		  { .places = 201,
		    .last_waits = 2 * SECOND,
		    .drains = 2010 * MS,
		    .overflows = true,
		    .passes = 1201,
		    .denies_at = UINT64_C(10008333334),
		    .denied = 1,
		    .denied_of = 6,
		    .arrive = 2400,
		    .places_needed = 401,
		    .would_wait = UINT64_C(3998333334),
		    .is_too_long = true,
		    .enough = 110 } },
		/* no wait: one place, and no request may find it taken */
		{ { 3, SECOND },
		  { 2, SECOND },
		  0,
		  0,
		  { .places = 1,
		    .drains = 500 * MS,
		    .overflows = true,
		    .passes = 1,
		    .denies_at = UINT64_C(333333334),
		    .denied = 1,
		    .denied_of = 3 } },
		/* as much out as in: the queue never grows */
		{ { 60, MINUTE },
		  { 1, SECOND },
		  5 * SECOND,
		  MINUTE,
		  { .places = 6, .last_waits = 5 * SECOND, .drains = 6 * SECOND, .arrive = 60, .places_needed = 1 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir__sizing found = size_of(rows[i].in, rows[i].out, rows[i].wait, rows[i].lasts);

		CHECK_EQ(found.places, rows[i].wanted.places);
		CHECK_EQ(found.last_waits, rows[i].wanted.last_waits);
		CHECK_EQ(found.drains, rows[i].wanted.drains);
		CHECK_EQ(found.overflows, rows[i].wanted.overflows);
		CHECK_EQ(found.passes, rows[i].wanted.passes);
		CHECK_EQ(found.denies_at, rows[i].wanted.denies_at);
		CHECK_EQ(found.denied, rows[i].wanted.denied);
		CHECK_EQ(found.denied_of, rows[i].wanted.denied_of);
		CHECK_EQ(found.arrive, rows[i].wanted.arrive);
		CHECK_EQ(found.places_needed, rows[i].wanted.places_needed);
		CHECK_EQ(found.would_wait, rows[i].wanted.would_wait);
		CHECK_EQ(found.is_too_long, rows[i].wanted.is_too_long);
		CHECK_EQ(found.enough, rows[i].wanted.enough);
	}
}

static uint64_t random_state = 1;

static uint64_t random_from(uint64_t least, uint64_t most)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return least + (random_state >> 33) % (most - least + 1);
}

/* The periods are multiples of the counts, so all arrivals are at whole ns. */
static void the_limiter_agrees(void)
{
	for (int i = 0; i < 2000; i++) {
		const struct weir__rate in = { 1, random_from(1, 900) };
		const struct weir__rate out = { 1, random_from(1, 1000) };
		const weir_ns wait = random_from(0, 20000), lasts = random_from(1, 30000);
		const struct weir__sizing sizing = size_of(in, out, wait, lasts);
		struct weir__sizing_run run = run_of(in, out, sizing.places, sizing.passes + 1);

		if (sizing.overflows) {
			CHECK_EQ(run.passed, sizing.passes);
			CHECK_EQ(run.denied, 1);
			CHECK_EQ(run.denied_at, sizing.denies_at);
		}
		CHECK(run.longest_delay <= wait);
		CHECK(sizing.last_waits + out.period > wait); /* one place more would wait longer */
		run = run_of(in, out, sizing.places_needed, sizing.arrive);
		CHECK_EQ(run.allowed, sizing.arrive);
		CHECK_EQ(run.longest_delay, sizing.would_wait);
		if (sizing.places_needed > 1)
			CHECK(run_of(in, out, sizing.places_needed - 1, sizing.arrive).denied > 0);
		CHECK_EQ(sizing.is_too_long, sizing.places_needed > sizing.places);
	}
}

static void enough_is_the_least(void)
{
	int found = 0;

	for (int i = 0; i < 2000; i++) {
		const struct weir__rate in = { random_from(50, 900), SECOND };
		struct weir__rate out = { random_from(1, 40), SECOND };
		const weir_ns wait = random_from(1, 3000) * MS, lasts = random_from(1, 60) * SECOND;
		const struct weir__sizing sizing = size_of(in, out, wait, lasts);

		if (!sizing.is_too_long)
			continue;
		found++;
		out.count = sizing.enough;
		CHECK(!size_of(in, out, wait, lasts).overflows || size_of(in, out, wait, lasts).would_wait <= wait);
		out.count = sizing.enough - 1;
		CHECK(size_of(in, out, wait, lasts).would_wait > wait);
	}
	CHECK(found > 500);
}

static void impossible(void)
{
	static const struct {
		struct weir__sizing_wish wish;
		const char *why;
	} rows[] = {
		{ { { 2, 1 }, { UINT64_MAX, 1 }, SECOND, 0 }, "the queue would have more than 2^62 places" },
		{ { { UINT64_MAX, 1 }, { 1, UINT64_MAX - 1 }, 1, 0 },
		  "the quotient of these rates needs more than 64 bits; use rounder numbers" },
		{ { { UINT64_C(1000000000000000001), SECOND }, { UINT64_C(1000000000000000000), SECOND }, SECOND, 0 },
		  "more than 2^62 requests would pass before the first denial; the inflow exceeds the outflow by too little" },
		{ { { 1000, 1 }, { 1, 1 }, 1, UINT64_MAX }, "more than 2^62 requests arrive in this time" },
	};
	struct weir__sizing sizing;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *const why = weir__sizing_calculate(&rows[i].wish, &sizing);

		CHECK_TEXT(why ? why : "(none)", rows[i].why);
	}
}

TESTS(TEST(by_hand), TEST(the_limiter_agrees), TEST(enough_is_the_least), TEST(impossible))
