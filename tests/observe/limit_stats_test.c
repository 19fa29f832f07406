/* limit_stats_test.c: readers get what workers count. The clock is the test's own. */
#include "observe/limit_stats.h"

#include <pthread.h>

#include "store/table/tables.h"

enum { LIMITS = 2000, START = 1700000000 };

#define AT(second) ((weir_ns)(second)*UINT64_C(1000000000) + 5)

static struct weir_table *table;
static struct weir_table_limit limits[LIMITS];

static struct weir__limit_stats_set *sights_for(uint32_t workers, uint32_t top_keys)
{
	struct weir__limit_stats_set *stats_set;
	uint32_t limits_max;

	table = table_for(1000, MADE_AT);
	limits_max = table->region.limits_max;
	table->region.limits_max = LIMITS;
	for (uint32_t i = 0; i < LIMITS; i++)
		limits[i].index = i;
	stats_set = weir__limit_stats_set_new(table, workers, top_keys);
	table->region.limits_max = limits_max; /* restored: this table never decides here */
	CHECK(stats_set != NULL);
	return stats_set;
}

static void end(struct weir__limit_stats_set *stats_set)
{
	weir__limit_stats_set_free(stats_set);
	weir_table_free(table);
}

static struct weir_claim claim_on(uint32_t limit, const char *key)
{
	return (struct weir_claim){ &limits[limit], key, strlen(key), 1 };
}

/* A verdict of a limit of 10 with `remaining` left. */
static struct weir_verdict said(bool is_allowed, uint64_t remaining, weir_ns delay)
{
	return (struct weir_verdict){ .allowed = is_allowed, .limit = 10, .remaining = remaining, .delay = delay };
}

static void see(struct weir__limit_stats_set *stats_set, uint32_t worker, uint32_t limit, uint32_t second,
		struct weir_verdict verdict)
{
	const struct weir_claim claim = claim_on(limit, "key");

	weir__limit_stats_each(weir__limit_stats_set_of(stats_set, worker), &claim, &verdict, 1, AT(second));
}

static uint64_t decided_in(struct weir__limit_stats_set *stats_set, uint32_t limit, uint32_t last, uint32_t seconds)
{
	struct weir__limit_stats_sum seen;
	const bool is_seen = weir__limit_stats_set_limit(stats_set, &limits[limit], last, seconds, &seen);

	CHECK_EQ(is_seen, seen.decided > 0);
	return seen.decided;
}

/* --- by second --------------------------------------------------------------------------------------------------- */

/* Of 300 seconds the last 128 are kept, whichever worker counted them. */
static void seconds_are_a_ring(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(2, 0);
	struct weir__limit_stats_sum series[WEIR__LIMIT_STATS_SECONDS];
	const uint32_t last = START + 299;
	uint32_t faults = 0;

	for (uint32_t i = 0; i < 300; i++)
		for (uint32_t n = 0; n <= i % 7; n++)
			see(stats_set, n % 2, 3, START + i, said(n % 3 != 0, 5, 0));
	weir__limit_stats_set_series(stats_set, &limits[3], last, WEIR__LIMIT_STATS_SECONDS, series);
	for (uint32_t i = 0; i < WEIR__LIMIT_STATS_SECONDS; i++) {
		const uint32_t of = (300 - WEIR__LIMIT_STATS_SECONDS + i) % 7 + 1;

		faults += series[i].decided != of || series[i].rejected != (of + 2) / 3;
	}
	CHECK_EQ(faults, 0);
	CHECK_EQ(decided_in(stats_set, 3, last - WEIR__LIMIT_STATS_SECONDS, 1), 0);
	CHECK_EQ(decided_in(stats_set, 3, last + 1, 1), 0);
	CHECK_EQ(decided_in(stats_set, 3, last, 1), 299 % 7 + 1);
	CHECK_EQ(decided_in(stats_set, 3, last, 2), 299 % 7 + 1 + 298 % 7 + 1);
	CHECK_EQ(decided_in(stats_set, 4, last, 128), 0);
	CHECK(weir__limit_stats_set_has(stats_set, &limits[3]) && !weir__limit_stats_set_has(stats_set, &limits[4]));
	end(stats_set);
}

/* Seconds beyond the ring are zero. */
static void a_series_may_be_longer_than_the_ring(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 0);
	struct weir__limit_stats_sum series[2 * WEIR__LIMIT_STATS_SECONDS];
	uint64_t sum = 0;

	see(stats_set, 0, 0, START, said(true, 5, 0));
	weir__limit_stats_set_series(stats_set, &limits[0], START, 2 * WEIR__LIMIT_STATS_SECONDS, series);
	for (uint32_t i = 0; i < 2 * WEIR__LIMIT_STATS_SECONDS; i++)
		sum += series[i].decided;
	CHECK_EQ(sum, 1);
	CHECK_EQ(series[2 * WEIR__LIMIT_STATS_SECONDS - 1].decided, 1);
	end(stats_set);
}

static void fill_is_a_mean(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(2, 0);
	struct weir__limit_stats_sum seen;

	for (uint32_t i = 0; i < 20; i++)
		see(stats_set, i % 2, 0, START + i, said(true, i < 10 ? 0 : i - 10, 0));
	CHECK(weir__limit_stats_set_limit(stats_set, &limits[0], START + 19, WEIR__LIMIT_STATS_FILL_SECONDS, &seen));
	CHECK_EQ(seen.decided, 10);
	/* 0 to 9 of 10, each rounded down */
	CHECK(seen.fill <= WEIR__FILL_ONE * 45 / 10 && seen.fill + 10 > WEIR__FILL_ONE * 45 / 10);
	see(stats_set, 0, 1, START, (struct weir_verdict){ .allowed = false, .limit = 0 });
	CHECK(weir__limit_stats_set_limit(stats_set, &limits[1], START, 1, &seen) && seen.fill == 0);
	end(stats_set);
}

static void delays_are_summed(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(2, 0);
	uint64_t delayed, delay_ns;

	see(stats_set, 0, 0, START, said(true, 0, 100));
	see(stats_set, 1, 0, START + 1000, said(true, 0, 20));
	see(stats_set, 1, 0, START + 1000, said(false, 0, 7)); /* a denied request does not wait */
	see(stats_set, 1, 0, START + 1000, said(true, 0, 0));
	weir__limit_stats_set_delays(stats_set, &limits[0], &delayed, &delay_ns);
	CHECK_EQ(delayed, 2);
	CHECK_EQ(delay_ns, 120);
	end(stats_set);
}

/* A denied request counts only for the limits that denied it, as in the table. */
static void together_is_counted_as_by_the_table(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 4);
	const struct weir_claim claims[] = { claim_on(0, "a"), claim_on(1, "b") };
	struct weir_verdict verdicts[] = { said(true, 5, 0), said(false, 0, 0) };
	struct weir__top_key found[4];
	struct weir__limit_stats_sum seen;
	weir_ns since;

	weir__limit_stats_together(weir__limit_stats_set_of(stats_set, 0), claims, verdicts, 2, false, AT(START));
	CHECK_EQ(decided_in(stats_set, 0, START, 1), 0);
	CHECK(weir__limit_stats_set_limit(stats_set, &limits[1], START, 1, &seen) && seen.rejected == 1);
	CHECK_EQ(weir__limit_stats_set_top_keys(stats_set, &limits[1], WEIR__TOP_KEYS_DENIED, AT(START), found, 4,
						&since),
		 1);
	CHECK_EQ(
		weir__limit_stats_set_top_keys(stats_set, &limits[0], WEIR__TOP_KEYS_BUSY, AT(START), found, 4, &since),
		0);
	verdicts[1].allowed = true;
	weir__limit_stats_together(weir__limit_stats_set_of(stats_set, 0), claims, verdicts, 2, false, AT(START));
	CHECK_EQ(decided_in(stats_set, 0, START, 1), 1);
	CHECK(weir__limit_stats_set_limit(stats_set, &limits[1], START, 1, &seen) && seen.rejected == 1 &&
	      seen.decided == 2);
	end(stats_set);
}

static void groups_of_several_limits_are_told_apart(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 0);
	const struct weir_claim claims[] = { claim_on(0, "a"), claim_on(0, "b"), claim_on(1, "a"), claim_on(0, "c") };
	const struct weir_verdict verdicts[] = { said(true, 5, 0), said(false, 0, 0), said(false, 0, 0),
						 said(true, 1, 0) };
	struct weir__limit_stats_sum seen;

	weir__limit_stats_each(weir__limit_stats_set_of(stats_set, 0), claims, verdicts, 4, AT(START));
	weir__limit_stats_each(weir__limit_stats_set_of(stats_set, 0), NULL, NULL, 0, AT(START));
	weir__limit_stats_each(NULL, claims, verdicts, 4, AT(START));
	CHECK(weir__limit_stats_set_limit(stats_set, &limits[0], START, 1, &seen) && seen.decided == 3 &&
	      seen.rejected == 1);
	CHECK(weir__limit_stats_set_limit(stats_set, &limits[1], START, 1, &seen) && seen.decided == 1 &&
	      seen.rejected == 1);
	end(stats_set);
}

/* A request with two limits counts once, in total and in its second. Limits in shadow change nothing. */
static void requests_are_counted_as_wholes(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(2, 0);
	const struct weir_claim claims[] = { claim_on(0, "a"), claim_on(1, "b"), claim_on(0, "c") };
	const struct weir_verdict go[] = { said(true, 5, 0), said(true, 5, 7), said(true, 1, 0) },
				  no[] = { said(true, 5, 0), said(false, 0, 0), said(false, 1, 0) };
	struct weir__limit_stats_sum seen, series[2 * WEIR__LIMIT_STATS_SECONDS];

	weir__limit_stats_together(weir__limit_stats_set_of(stats_set, 0), claims, go, 2, false, AT(START));
	weir__limit_stats_together(weir__limit_stats_set_of(stats_set, 1), claims, no, 2, false, AT(START));
	weir__limit_stats_together(weir__limit_stats_set_of(stats_set, 1), claims + 1, no + 1, 1, true, AT(START));
	weir__limit_stats_together(weir__limit_stats_set_of(stats_set, 1), claims + 1, go + 1, 1, true, AT(START));
	weir__limit_stats_each(weir__limit_stats_set_of(stats_set, 0), claims, no, 3, AT(START + 1));
	weir__limit_stats_each(weir__limit_stats_set_of(stats_set, 0), claims, go, 3,
			       AT(START)); /* the clock was set back */
	weir__limit_stats_set_requests(stats_set, &seen);
	CHECK(seen.decided == 8 && seen.rejected == 3 && seen.delayed == 2 && weir__limit_stats_allowed(&seen) == 5);
	weir__limit_stats_set_requests_series(stats_set, START + 1, 2, series);
	CHECK(series[0].decided == 5 && series[0].rejected == 1 && series[0].delayed == 2);
	CHECK(series[1].decided == 3 && series[1].rejected == 2 && series[1].delayed == 0);
	weir__limit_stats_set_requests_series(stats_set, START + WEIR__LIMIT_STATS_SECONDS,
					      2 * WEIR__LIMIT_STATS_SECONDS, series);
	CHECK(series[WEIR__LIMIT_STATS_SECONDS - 1].decided == 0 && series[WEIR__LIMIT_STATS_SECONDS].decided == 3);
	weir__limit_stats_each(weir__limit_stats_set_of(stats_set, 0), claims, go, 1,
			       AT(START + WEIR__LIMIT_STATS_SECONDS));
	weir__limit_stats_set_requests_series(stats_set, START, 1, series);
	CHECK(series[0].decided == 1 && series[0].rejected == 1); /* counted by the other worker */
	end(stats_set);
}

/* --- how long ---------------------------------------------------------------------------------------------------- */

static void places_end_at_their_bounds(void)
{
	static const struct {
		uint64_t ns;
		unsigned place;
	} rows[] = { { 0, 0 },
		     { 1, 0 },
		     { 256, 0 },
		     { 257, 1 },
		     { 512, 1 },
		     { 513, 2 },
		     { 1024, 2 },
		     { UINT64_C(256) << 25, 25 },
		     { (UINT64_C(256) << 25) + 1, 26 },
		     { UINT64_MAX, 26 } };
	struct weir__limit_stats_set *const stats_set = sights_for(2, 0);
	struct weir__limit_stats_histogram_sum sum;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t before;

		weir__limit_stats_set_durations(stats_set, WEIR__DURATION_WAIT, &sum);
		before = sum.counts[rows[i].place];
		weir__limit_stats_histogram_add(
			&weir__limit_stats_set_of(stats_set, i % 2)->histograms[WEIR__DURATION_WAIT], rows[i].ns, 3);
		weir__limit_stats_set_durations(stats_set, WEIR__DURATION_WAIT, &sum);
		if (!CHECK_EQ(sum.counts[rows[i].place], before + 3))
			printf("# %" PRIu64 " ns\n", rows[i].ns);
		CHECK_EQ(sum.n, 3 * (i + 1));
		CHECK(rows[i].ns <= weir__limit_stats_histogram_bound(rows[i].place));
		CHECK(rows[i].place == 0 || rows[i].ns > weir__limit_stats_histogram_bound(rows[i].place - 1));
	}
	CHECK(weir__limit_stats_histogram_bound(WEIR__LIMIT_STATS_BUCKETS - 1) == UINT64_MAX &&
	      weir__limit_stats_histogram_bound(0) == WEIR__LIMIT_STATS_LEAST_NS);
	end(stats_set);
}

/* A reply is throttled if it says so: a limit in shadow throttles no request. */
static void answers_are_throttled_or_not(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 0);
	struct weir__limit_stats *const stats = weir__limit_stats_set_of(stats_set, 0);
	const struct weir_claim claim = claim_on(0, "key");
	const struct weir_verdict verdicts[] = { said(true, 5, 0), said(false, 0, 0), said(true, 0, 9) };
	struct weir__limit_stats_histogram_sum answer, throttled;

	for (int i = 0; i < 3; i++)
		weir__limit_stats_together(stats, &claim, &verdicts[i], 1, false, AT(START));
	weir__limit_stats_together(stats, &claim, &verdicts[1], 1, true, AT(START));
	weir__limit_stats_answered(stats, 4);
	weir__limit_stats_sent(stats, 1000, 3000);
	weir__limit_stats_sent(stats, 1000, 9000); /* no reply in between */
	weir__limit_stats_set_durations(stats_set, WEIR__DURATION_REQUEST, &answer);
	weir__limit_stats_set_durations(stats_set, WEIR__DURATION_THROTTLED, &throttled);
	CHECK(answer.n == 2 && answer.sum_ns == 4000 && throttled.n == 2 && throttled.sum_ns == 4000);
	weir__limit_stats_answered(stats, 1);
	weir__limit_stats_sent(stats, 3000, 1000); /* the clock was set back */
	weir__limit_stats_set_durations(stats_set, WEIR__DURATION_REQUEST, &answer);
	CHECK(answer.n == 3 && answer.sum_ns == 4000);
	end(stats_set);
}

static void one_of_some_calls_is_timed(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 0);
	uint32_t timed = 0;

	for (uint32_t i = 0; i < 10 * WEIR__LIMIT_STATS_TIMED; i++)
		timed += weir__limit_stats_is_timed(weir__limit_stats_set_of(stats_set, 0));
	CHECK_EQ(timed, 10);
	CHECK(!weir__limit_stats_is_timed(NULL));
	end(stats_set);
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

static uint64_t sum_of_keys(struct weir__limit_stats_set *stats_set, uint32_t limit, weir_ns now, uint64_t *ret_least,
			    uint64_t *ret_most)
{
	struct weir__top_key found[64];
	weir_ns since;
	const size_t n = weir__limit_stats_set_top_keys(stats_set, &limits[limit], WEIR__TOP_KEYS_BUSY, now, found, 64,
							&since);
	uint64_t sum = 0;

	*ret_least = UINT64_MAX;
	*ret_most = 0;
	for (size_t i = 0; i < n; i++) {
		sum += found[i].count;
		*ret_least = found[i].count < *ret_least ? found[i].count : *ret_least;
		*ret_most = found[i].count > *ret_most ? found[i].count : *ret_most;
	}
	return sum;
}

/* Ten keys take turns, `times` requests in a second. */
static void ask_in_turns(struct weir__limit_stats_set *stats_set, uint32_t times, uint32_t second)
{
	static const char *const names[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };
	struct weir_verdict verdicts[32];
	struct weir_claim claims[32];
	uint32_t done = 0;

	while (done < times) {
		const uint32_t n = times - done < 32 ? times - done : 32;

		for (uint32_t i = 0; i < n; i++) {
			claims[i] = claim_on(0, names[(done + i) % 10]);
			verdicts[i] = said(true, 5, 0);
		}
		weir__limit_stats_each(weir__limit_stats_set_of(stats_set, 0), claims, verdicts, n, AT(second));
		done += n;
	}
}

static void quiet_times_are_exact(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 16);
	uint64_t least, most;

	for (uint32_t i = 0; i < 5; i++)
		ask_in_turns(stats_set, WEIR__LIMIT_STATS_EXACT, START + i);
	CHECK_EQ(sum_of_keys(stats_set, 0, AT(START + 4), &least, &most), 5 * WEIR__LIMIT_STATS_EXACT);
	CHECK(least == WEIR__LIMIT_STATS_EXACT / 2 && most == least);
	end(stats_set);
}

/* In the first second the rate is not known yet. The random seed is fixed, so the numbers are always the same. */
static void busy_times_are_reckoned_without_a_bias(void)
{
	const uint32_t times = 2000000;

	for (uint32_t seconds = 1; seconds <= 3; seconds++) {
		struct weir__limit_stats_set *const stats_set = sights_for(1, 16);
		const uint64_t asked = (uint64_t)times * seconds;
		uint64_t sum, least, most;

		for (uint32_t i = 0; i < seconds; i++)
			ask_in_turns(stats_set, times, START + i);
		sum = sum_of_keys(stats_set, 0, AT(START + seconds), &least, &most);
		CHECK(sum > asked / 200 * 199 && sum < asked / 200 * 201);
		CHECK(least > asked / 10 / 100 * 96 && most < asked / 10 / 100 * 104);
		printf("# %" PRIu64 " requests of 10 keys: %" PRIu64 ", of each %" PRIu64 " to %" PRIu64 "\n", asked,
		       sum, least, most);
		CHECK_EQ(decided_in(stats_set, 0, START + seconds - 1, seconds), asked);
		end(stats_set);
	}
}

static void a_key_of_none_is_not_looked_at(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 16);
	const struct weir_claim claim = { &limits[0], NULL, 0, 1 };
	const struct weir_verdict verdict = said(false, 0, 0);
	uint64_t least, most;

	weir__limit_stats_each(weir__limit_stats_set_of(stats_set, 0), &claim, &verdict, 1, AT(START));
	CHECK_EQ(sum_of_keys(stats_set, 0, AT(START), &least, &most), 0);
	CHECK_EQ(decided_in(stats_set, 0, START, 1), 1);
	end(stats_set);
}

/* --- room -------------------------------------------------------------------------------------------------------- */

static void a_limit_that_nobody_asks_gives_way(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 2);
	const uint32_t later = START + WEIR__LIMIT_STATS_SECONDS + 1;
	uint64_t least, most;

	for (uint32_t i = 0; i < WEIR__LIMIT_STATS_LIMITS_MAX; i++)
		see(stats_set, 0, i, START, said(true, 5, 0));
	see(stats_set, 0, WEIR__LIMIT_STATS_LIMITS_MAX, START, said(true, 5, 0)); /* no room */
	CHECK(!weir__limit_stats_set_has(stats_set, &limits[WEIR__LIMIT_STATS_LIMITS_MAX]));
	see(stats_set, 0, WEIR__LIMIT_STATS_LIMITS_MAX, later - 1, said(true, 5, 0)); /* still no room */
	CHECK(!weir__limit_stats_set_has(stats_set, &limits[WEIR__LIMIT_STATS_LIMITS_MAX]));
	for (uint32_t i = 1; i < WEIR__LIMIT_STATS_LIMITS_MAX; i++)
		see(stats_set, 0, i, later - 1, said(true, 5, 0));
	see(stats_set, 0, WEIR__LIMIT_STATS_LIMITS_MAX, later, said(true, 5, 10));
	CHECK_EQ(decided_in(stats_set, WEIR__LIMIT_STATS_LIMITS_MAX, later, 128), 1);
	CHECK_EQ(sum_of_keys(stats_set, WEIR__LIMIT_STATS_LIMITS_MAX, AT(later), &least, &most), 1);
	CHECK(!weir__limit_stats_set_has(stats_set, &limits[0]));
	CHECK_EQ(decided_in(stats_set, 0, later, 128), 0);
	CHECK_EQ(decided_in(stats_set, 1, later, 128), 1);
	end(stats_set);
}

/* A limit that was used before the clock was set back a little does not count as unused. */
static void a_clock_set_back_a_little_ends_no_limit(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 0);

	for (uint32_t i = 0; i < WEIR__LIMIT_STATS_LIMITS_MAX; i++)
		see(stats_set, 0, i, START, said(true, 5, 0));
	see(stats_set, 0, LIMITS - 1, START - 10, said(true, 5, 0));
	CHECK(!weir__limit_stats_set_has(stats_set, &limits[LIMITS - 1]) &&
	      weir__limit_stats_set_has(stats_set, &limits[0]));
	see(stats_set, 0, 7, START - 10, said(true, 5, 0));
	CHECK_EQ(decided_in(stats_set, 7, START - 10, 1), 1);
	CHECK_EQ(decided_in(stats_set, 7, START, 1), 1);
	see(stats_set, 0, LIMITS - 1, START - 1000, said(true, 5, 0));
	CHECK(weir__limit_stats_set_has(stats_set, &limits[LIMITS - 1]));
	end(stats_set);
}

/* Keys of 1024 counters take at most 64 MiB. Limits beyond that are counted without keys. */
static void keys_take_so_much_memory_at_most(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 1024);
	uint32_t with = 0;

	for (uint32_t i = 0; i < WEIR__LIMIT_STATS_LIMITS_MAX; i++) {
		uint64_t least, most;

		see(stats_set, 0, i, START, said(true, 5, 0));
		with += sum_of_keys(stats_set, i, AT(START), &least, &most) == 1;
	}
	CHECK_EQ(with, WEIR__LIMIT_STATS_TOP_KEYS_MOST / weir__top_keys_size(1024));
	CHECK(with > 100);
	CHECK_EQ(decided_in(stats_set, WEIR__LIMIT_STATS_LIMITS_MAX - 1, START, 1), 1);
	end(stats_set);
}

/* --- threads ----------------------------------------------------------------------------------------------------- */

struct looking {
	struct weir__limit_stats_set *stats_set;
	_Atomic bool is_over;
	_Atomic uint32_t second; /* of the newest count */
	_Atomic uint64_t faults, seen;
};

/* Limits are evicted all the time, and a reader always gets the limit that it asked for: limit i has at most i % 5 + 1
 * decisions in a second, and its key is its number. */
static void *look_on(void *looking_)
{
	struct looking *const looking = looking_;
	struct weir__limit_stats_sum series[4];
	struct weir__top_key found[4];
	uint64_t delayed, delay_ns;
	weir_ns since;

	for (uint32_t i = 0; !atomic_load(&looking->is_over); i = (i + 1) % LIMITS) {
		struct weir__limit_stats_histogram_sum sum;

		weir__limit_stats_set_series(looking->stats_set, &limits[i], atomic_load(&looking->second), 4, series);
		for (int j = 0; j < 4; j++) {
			looking->faults += series[j].decided > i % 5 + 1;
			looking->seen += series[j].decided > 0;
		}
		weir__limit_stats_set_requests_series(looking->stats_set, atomic_load(&looking->second), 4, series);
		for (int j = 0; j < 4; j++) /* 8 limits in a second, which occurs at most twice */
			looking->faults += series[j].decided > 2 * 8 * 5 || series[j].rejected > 0;
		weir__limit_stats_set_requests(looking->stats_set, &series[0]);
		weir__limit_stats_set_delays(looking->stats_set, &limits[i], &delayed, &delay_ns);
		weir__limit_stats_set_durations(looking->stats_set, WEIR__DURATION_REQUEST, &sum);
		if (weir__limit_stats_set_top_keys(looking->stats_set, &limits[i], WEIR__TOP_KEYS_BUSY,
						   AT(atomic_load(&looking->second)), found, 4, &since) > 0)
			looking->faults += found[0].key_length != sizeof(i) || memcmp(found[0].key, &i, sizeof(i)) != 0;
	}
	return NULL;
}

static void others_look_while_limits_give_way(void)
{
	struct weir__limit_stats_set *const stats_set = sights_for(1, 2);
	struct looking looking = { .stats_set = stats_set };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, look_on, &looking), 0);
	for (uint32_t round = 0; round < 30; round++)
		for (uint32_t i = 0; i < LIMITS; i++) {
			const struct weir_claim claim = { &limits[i], (const char *)&i, sizeof(i), 1 };
			const struct weir_verdict verdict = said(true, 5, i % 2);
			const uint32_t second = START + round * 200 + i / 8; /* so that more limits are live than fit */

			atomic_store(&looking.second, second);
			for (uint32_t n = 0; n < i % 5 + 1; n++)
				weir__limit_stats_each(weir__limit_stats_set_of(stats_set, 0), &claim, &verdict, 1,
						       AT(second));
			weir__limit_stats_answered(weir__limit_stats_set_of(stats_set, 0), 1);
			weir__limit_stats_sent(weir__limit_stats_set_of(stats_set, 0), 0, second);
		}
	atomic_store(&looking.is_over, true);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(looking.faults, 0);
	printf("# %" PRIu64 " seconds of limits were read\n", (uint64_t)looking.seen);
	end(stats_set);
}

TESTS(TEST(seconds_are_a_ring), TEST(a_series_may_be_longer_than_the_ring), TEST(fill_is_a_mean),
      TEST(delays_are_summed), TEST(together_is_counted_as_by_the_table), TEST(groups_of_several_limits_are_told_apart),
      TEST(requests_are_counted_as_wholes), TEST(places_end_at_their_bounds), TEST(answers_are_throttled_or_not),
      TEST(one_of_some_calls_is_timed), TEST(quiet_times_are_exact), TEST(busy_times_are_reckoned_without_a_bias),
      TEST(a_key_of_none_is_not_looked_at), TEST(a_limit_that_nobody_asks_gives_way),
      TEST(a_clock_set_back_a_little_ends_no_limit), TEST(keys_take_so_much_memory_at_most),
      TEST(others_look_while_limits_give_way))
