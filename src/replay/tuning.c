/* tuning.c: ladders of candidates, each measured on all arrivals. */
#include "replay/tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "core/wide.h"

#define SECOND UINT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Bucket and log within a fifth of each other count as equal. Then the bucket wins, which needs less memory. */
enum { FIFTHS = 5, SPLITS = 20, PER_SECOND_MOST = 1000000, CURVE_MOST = 96 };

struct run {
	const struct weir__arrivals *arrivals;
	const struct weir__tuning_wish *wish;
	struct weir__tuning *tuning;
	size_t *used;                     /* for each key, how many of its rows are before `until` */
	uint64_t *numbers;                /* one for each key that has good rows */
	uint64_t burst_least, burst_most; /* the bursts that may be needed, at any rate */
	int error;                        /* of note_pair */
	struct weir_message *message;
};

static int fail(struct run *run, const char *why)
{
	struct weir__text text = weir__text_of_message(run->message, 0);

	weir__text_add(&text, why);
	return WEIR_ERR_LIMIT;
}

/* --- measures ---------------------------------------------------------------------------------------------------- */

/* Measures a limit on all keys, or until it has denied more than `most` requests. */
static int measure(struct run *run, const struct weir_limit *limit, uint64_t most, struct weir__tuning_point *point)
{
	const struct weir__arrivals *const arrivals = run->arrivals;
	struct weir_plan plan;
	size_t size, n;
	void *state;
	const int error = weir_plan_compile(limit, &plan, run->message);

	if (error != WEIR_OK)
		return error;
	size = weir_plan_state_size(&plan);
	state = malloc(size);
	if (state == NULL) {
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	memset(point, 0, sizeof(*point));
	point->limit = *limit;
	for (uint32_t key = 0; key < arrivals->keys.n && point->tried.denied <= most; key++) {
		const struct weir__arrival *const rows = weir__arrivals_of(arrivals, key, &n);
		const uint64_t denied = point->tried.denied;

		memset(state, 0, size);
		weir__demand_try(rows, run->used[key], &plan, state, &run->wish->bad, run->wish->wait, &point->tried);
		point->keys_denied += point->tried.denied > denied;
	}
	free(state);
	return WEIR_OK;
}

/* Adds a point, measured on all keys. */
static int add_point(struct run *run, const struct weir_limit *limit)
{
	const int error = measure(run, limit, UINT64_MAX, &run->tuning->points[run->tuning->n]);

	run->tuning->n += error == WEIR_OK;
	return error;
}

/* How much flows at this rate within the horizon, rounded down. */
static uint64_t flow(struct weir__rate rate, weir_ns time)
{
	return weir__saturate(weir__mul(rate.count, time) / rate.period);
}

static uint64_t allowed_of(const struct weir__demand_tried *tried)
{
	return tried->requests + tried->marked - tried->denied - tried->marked_denied;
}

bool weir__tuning_waits_keep(const struct weir__tuning_wish *wish, uint64_t late, uint64_t allowed)
{
	/* of `allowed` requests, the quantile is the ceil(share * allowed)-th in order */
	const weir__u128 in_time = weir__div_up(weir__mul(allowed, wish->wait_ppm), WEIR__TUNING_PPM);

	return late <= allowed - (uint64_t)in_time;
}

/* Returns how many numbers are on the left, 1 to n - 1. None of them is above one on the right. */
static size_t partition(uint64_t *numbers, size_t n)
{
	const uint64_t pivot = numbers[(n - 1) / 2];
	size_t low = 0, high = n - 1;

	for (;; low++, high--) {
		uint64_t swapped;

		while (numbers[low] < pivot)
			low++;
		while (numbers[high] > pivot)
			high--;
		if (low >= high)
			return high + 1;
		swapped = numbers[low];
		numbers[low] = numbers[high];
		numbers[high] = swapped;
	}
}

uint64_t weir__tuning_select(uint64_t *numbers, size_t n, size_t k)
{
	while (n > 1) {
		const size_t left = partition(numbers, n);

		if (k < left) {
			n = left;
		} else {
			numbers += left;
			n -= left;
			k -= left;
		}
	}
	return numbers[0];
}

/* The highest result of `demand` when the `may` keys with the highest results are left out. Keys without good rows do
 * not count. */
static uint64_t quantile(struct run *run,
			 uint64_t (*demand)(struct run *, const struct weir__arrival *, size_t, const void *),
			 const void *of, uint64_t may)
{
	size_t n_keys = 0, n;

	for (uint32_t key = 0; key < run->arrivals->keys.n; key++) {
		const struct weir__arrival *const rows = weir__arrivals_of(run->arrivals, key, &n);
		const uint64_t number = demand(run, rows, run->used[key], of);

		if (number > 0)
			run->numbers[n_keys++] = number;
	}
	if (n_keys == 0)
		return 1;
	return weir__tuning_select(run->numbers, n_keys, may < n_keys ? n_keys - 1 - may : 0);
}

static uint64_t demand_burst(struct run *run, const struct weir__arrival *rows, size_t n, const void *rate)
{
	return weir__demand_burst(rows, n, *(const struct weir__rate *)rate, &run->wish->bad);
}

static uint64_t demand_count(struct run *run, const struct weir__arrival *rows, size_t n, const void *period)
{
	return weir__demand_count(rows, n, *(const weir_ns *)period, &run->wish->bad);
}

/* --- a share of the keys or of the requests may be denied -------------------------------------------------------- */

static const uint64_t ladder[] = { 10, 12, 15, 20, 25, 30, 40, 50, 60, 80 };

/* Calls `with` for rates from 1/day on, in the longest unit in which they are whole. Ends when it returns false. */
static void each_rate(struct run *run, bool (*with)(struct run *, struct weir__rate))
{
	static const struct {
		weir_ns period;
		uint64_t below;
	} units[] = { { DAY, 24 }, { HOUR, 60 }, { MINUTE, 60 }, { SECOND, PER_SECOND_MOST } };

	for (size_t unit = 0; unit < COUNT_OF(units); unit++) {
		for (uint64_t scale = 1; scale <= units[unit].below; scale *= 10) {
			for (size_t i = 0; i < COUNT_OF(ladder); i++) {
				const uint64_t count = ladder[i] * scale / 10;

				if (ladder[i] * scale % 10 != 0 || count >= units[unit].below)
					continue;
				if (!with(run, (struct weir__rate){ count, units[unit].period }))
					return;
			}
		}
	}
}

/* The least burst, or count of a sliding log, from `low` to `high`, with which the limit denies at most as many
 * requests as may be denied. Assumes that a larger burst never denies more, which holds if all costs are equal. The
 * curve shows measured numbers. */
static int find_least(struct run *run, struct weir_limit limit, uint64_t low, uint64_t high, uint64_t *ret_least)
{
	uint64_t *const number = limit.algorithm == WEIR_SLIDING_LOG ? &limit.count : &limit.burst;
	struct weir__tuning_point tried;

	while (low < high) {
		int error;

		*number = low + (high - low) / 2;
		error = measure(run, &limit, run->tuning->requests_may, &tried);
		if (error != WEIR_OK)
			return error;
		if (tried.tried.denied > run->tuning->requests_may)
			low = *number + 1;
		else
			high = *number;
	}
	*ret_least = low;
	return WEIR_OK;
}

/* The least burst at this rate. A burst of `most` is enough. */
static int find_burst(struct run *run, struct weir__rate rate, uint64_t most, uint64_t *ret_burst)
{
	const bool has_keys = run->wish->has_denied_keys;
	const uint64_t least = has_keys ? quantile(run, demand_burst, &rate, run->tuning->keys_may) : 1;

	*ret_burst = least;
	if (!run->wish->has_denied)
		return WEIR_OK;
	return find_least(run, weir_limit_of(WEIR_TOKEN_BUCKET, rate.count, rate.period), least,
			  weir__min(most, quantile(run, demand_burst, &rate, 0)), ret_burst);
}

/* The bursts at all rates are computed first, because they show which rates need a full measurement. At lower rates the
 * burst lets a key take nearly everything at once. At higher rates the burst no longer decreases, and with the burst of
 * a lower rate a point is only worse. */
static bool note_pair(struct run *run, struct weir__rate rate)
{
	struct weir__tuning *const tuning = run->tuning;
	const uint64_t before = tuning->n > 0 ? tuning->points[tuning->n - 1].limit.burst : UINT64_MAX;
	struct weir__tuning_point *point;
	uint64_t burst;

	run->error = find_burst(run, rate, before, &burst);
	if (run->error != WEIR_OK)
		return false;
	if (burst == before)
		return burst > run->burst_least;
	if (tuning->n == 1 && burst > run->burst_most / FIFTHS * (FIFTHS - 1))
		tuning->n = 0;
	point = &tuning->points[tuning->n++];
	point->limit = weir_limit_of(WEIR_TOKEN_BUCKET, rate.count, rate.period);
	point->limit.burst = burst;
	point->most = weir__add_saturating(burst, flow(rate, run->wish->horizon));
	return burst > run->burst_least && tuning->n < CURVE_MOST;
}

static bool keeps_shares(const struct run *run, const struct weir__tuning_point *point)
{
	return (!run->wish->has_denied_keys || point->keys_denied <= run->tuning->keys_may) &&
	       (!run->wish->has_denied || point->tried.denied <= run->tuning->requests_may);
}

static int measure_pairs(struct run *run)
{
	struct weir__tuning *const tuning = run->tuning;
	const size_t n = tuning->n;

	tuning->n = 0;
	for (size_t i = 0; i < n; i++) {
		const uint64_t most = tuning->points[i].most;
		const struct weir_limit limit = tuning->points[i].limit;
		const int error = add_point(run, &limit);

		if (error != WEIR_OK)
			return error;
		tuning->points[i].most = most;
		tuning->points[i].keeps = keeps_shares(run, &tuning->points[i]);
	}
	tuning->n_curve = n;
	return WEIR_OK;
}

/* The least count of a sliding log. */
static int find_count(struct run *run, weir_ns period, uint64_t *ret_count)
{
	const bool has_keys = run->wish->has_denied_keys;
	const uint64_t least = has_keys ? quantile(run, demand_count, &period, run->tuning->keys_may) : 1;

	*ret_count = least;
	if (!run->wish->has_denied || least > WEIR_LOG_COUNT_MAX)
		return WEIR_OK;
	return find_least(run, weir_limit_of(WEIR_SLIDING_LOG, least, period), least,
			  weir__min(WEIR_LOG_COUNT_MAX, quantile(run, demand_count, &period, 0)), ret_count);
}

/* Sliding logs: the period is the horizon, or the one that denies most of the bad requests. */
static int add_logs(struct run *run)
{
	static const weir_ns periods[] = { SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR };
	const bool has_bad = run->tuning->bad_requests > 0;

	for (size_t i = 0; i < (has_bad ? COUNT_OF(periods) : 1); i++) {
		const weir_ns period = has_bad ? periods[i] : run->wish->horizon;
		const uint64_t times = run->wish->horizon / period + (run->wish->horizon % period != 0);
		struct weir__tuning_point *point;
		struct weir_limit limit;
		uint64_t count = 0;
		int error = find_count(run, period, &count);

		if (error == WEIR_OK && count > WEIR_LOG_COUNT_MAX)
			continue;
		limit = weir_limit_of(WEIR_SLIDING_LOG, count, period);
		if (error == WEIR_OK)
			error = add_point(run, &limit);
		if (error != WEIR_OK)
			return error;
		point = &run->tuning->points[run->tuning->n - 1];
		point->most = weir__saturate(weir__mul(count, times));
		point->keeps = keeps_shares(run, point);
	}
	return WEIR_OK;
}

/* Whether a is better than b by more than this many fifths. 0: better at all. */
static bool is_better(const struct run *run, const struct weir__tuning_point *a, const struct weir__tuning_point *b,
		      uint64_t fifths)
{
	if (a->keeps != b->keeps)
		return a->keeps;
	if (run->tuning->bad_requests > 0 && a->tried.marked_denied != b->tried.marked_denied)
		return weir__mul(a->tried.marked_denied, FIFTHS - fifths) > weir__mul(b->tried.marked_denied, FIFTHS);
	return weir__mul(a->most, FIFTHS) < weir__mul(b->most, FIFTHS - fifths);
}

/* Sets burst_least and burst_most. For a share of the requests, from the highest and lowest rate of the ladder. */
static int find_bounds(struct run *run)
{
	const uint64_t may = run->tuning->keys_may;
	int error;

	if (!run->wish->has_denied) {
		run->burst_least = quantile(run, demand_count, &(const weir_ns){ 1 }, may);
		run->burst_most = quantile(run, demand_count, &(const weir_ns){ UINT64_MAX }, may);
		return WEIR_OK;
	}
	error = find_burst(run, (struct weir__rate){ PER_SECOND_MOST, SECOND }, UINT64_MAX, &run->burst_least);
	return error == WEIR_OK ? find_burst(run, (struct weir__rate){ 1, DAY }, UINT64_MAX, &run->burst_most) : error;
}

static int tune_denied(struct run *run)
{
	struct weir__tuning *const tuning = run->tuning;
	int error;

	tuning->keys_may = weir__saturate(weir__mul(tuning->keys, run->wish->denied_keys_ppm) / WEIR__TUNING_PPM);
	tuning->requests_may = weir__saturate(weir__mul(tuning->requests, run->wish->denied_ppm) / WEIR__TUNING_PPM);
	error = find_bounds(run);
	if (error == WEIR_OK)
		each_rate(run, note_pair);
	if (error == WEIR_OK)
		error = run->error;
	if (error == WEIR_OK)
		error = measure_pairs(run);
	if (error == WEIR_OK)
		error = add_logs(run);
	if (error != WEIR_OK)
		return error;
	for (size_t i = 1; i < tuning->n; i++)
		if (is_better(run, &tuning->points[i], &tuning->points[tuning->best],
			      i >= tuning->n_curve && tuning->best < tuning->n_curve))
			tuning->best = i;
	return WEIR_OK;
}

/* --- at most so much may pass ------------------------------------------------------------------------------------ */

static int add_queue(struct run *run, struct weir__rate rate, uint64_t places)
{
	struct weir_limit limit = weir_limit_of(WEIR_LEAKY_BUCKET, rate.count, rate.period);
	struct weir__tuning_point *const point = &run->tuning->points[run->tuning->n];
	int error;

	limit.shape = true;
	limit.burst = places;
	error = add_point(run, &limit);
	if (error != WEIR_OK)
		return error;
	point->most = flow(rate, run->wish->horizon);
	point->keeps = weir__tuning_waits_keep(run->wish, point->tried.late, allowed_of(&point->tried));
	return WEIR_OK;
}

/* The longest queue at this rate that keeps the wish for waits. In the shortest queue that is tried, even the last
 * place keeps it. The longest one denies none. */
static int add_longest_queue(struct run *run, struct weir__rate rate)
{
	const struct weir__interval none = { 0, 0 };
	size_t n;
	const struct weir__arrival *const rows = weir__arrivals_of(run->arrivals, 0, &n);
	uint64_t places = weir__add_saturating(flow(rate, run->wish->wait), 1);
	uint64_t most = weir__demand_burst(rows, run->used[0], rate, &none);

	while (places < most) {
		const uint64_t middle = places + (most - places + 1) / 2;
		const int error = add_queue(run, rate, middle);

		if (error != WEIR_OK)
			return error;
		if (run->tuning->points[--run->tuning->n].keeps)
			places = middle;
		else
			most = middle - 1;
	}
	return add_queue(run, rate, places);
}

/* Bursts from a twentieth of the count on. A bucket passes at most its burst plus what refills in the period. */
static int add_splits(struct run *run)
{
	const struct weir__rate passed = run->wish->passed;
	uint64_t before = passed.count;

	for (uint64_t i = SPLITS - 1; i > 0; i--) {
		const uint64_t burst = weir__saturate(weir__mul(passed.count, i) / SPLITS);
		struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, passed.count - burst, passed.period);
		int error;

		if (burst == 0 || burst == before)
			continue;
		limit.burst = before = burst;
		error = add_point(run, &limit);
		if (error != WEIR_OK)
			return error;
		run->tuning->points[run->tuning->n - 1].keeps = true;
		run->tuning->points[run->tuning->n - 1].most = weir__add_saturating(
			burst, flow((struct weir__rate){ limit.count, limit.period }, run->wish->horizon));
	}
	run->tuning->n_curve = run->tuning->n;
	return WEIR_OK;
}

static uint64_t all_denied(const struct weir__tuning_point *point)
{
	return point->tried.denied + point->tried.marked_denied;
}

/* Of the points on the curve that deny as few as the best, chooses the one that would deny fewest if traffic doubled,
 * and doubled again, until one is left. For the calculation the limit is halved, instead of the traffic doubled. */
static int prefer_growth(struct run *run)
{
	const struct weir__rate passed = run->wish->passed;
	struct weir__tuning *const tuning = run->tuning;
	uint64_t denied[SPLITS];
	size_t n = 0, left[SPLITS];

	for (size_t i = 0; i < tuning->n_curve; i++)
		if (all_denied(&tuning->points[i]) == all_denied(&tuning->points[tuning->best]))
			left[n++] = i;
	for (uint64_t scale = 2; n > 1 && scale <= weir__min(passed.count, UINT64_MAX / passed.period); scale *= 2) {
		uint64_t fewest = UINT64_MAX;
		size_t kept = 0;

		for (size_t i = 0; i < n; i++) {
			struct weir_limit limit = tuning->points[left[i]].limit;
			struct weir__tuning_point tried;
			int error;

			limit.period *= scale;
			limit.burst /= scale;
			denied[i] = UINT64_MAX;
			if (limit.burst == 0)
				continue;
			error = measure(run, &limit, fewest, &tried);
			if (error != WEIR_OK)
				return error;
			denied[i] = all_denied(&tried);
			fewest = weir__min(fewest, denied[i]);
		}
		for (size_t i = 0; i < n; i++)
			if (denied[i] == fewest)
				left[kept++] = left[i];
		n = kept;
		tuning->best = left[0];
	}
	return WEIR_OK;
}

static int tune_passed(struct run *run)
{
	const struct weir__rate passed = run->wish->passed;
	struct weir__tuning *const tuning = run->tuning;
	const struct weir_limit log = weir_limit_of(WEIR_SLIDING_LOG, passed.count, passed.period);
	int error = add_splits(run);

	for (size_t i = 1; i < tuning->n && error == WEIR_OK; i++)
		if (all_denied(&tuning->points[i]) < all_denied(&tuning->points[tuning->best]))
			tuning->best = i;
	if (error == WEIR_OK)
		error = prefer_growth(run);
	if (error == WEIR_OK && passed.count <= WEIR_LOG_COUNT_MAX) {
		const uint64_t times = run->wish->horizon / passed.period + (run->wish->horizon % passed.period != 0);

		error = add_point(run, &log);
		tuning->points[tuning->n - 1].keeps = true;
		tuning->points[tuning->n - 1].most = weir__saturate(weir__mul(passed.count, times));
	}
	if (error == WEIR_OK && run->wish->has_wait)
		error = add_longest_queue(run, passed);
	if (error != WEIR_OK)
		return error;
	for (size_t i = tuning->n_curve; i < tuning->n; i++)
		if (all_denied(&tuning->points[i]) < all_denied(&tuning->points[tuning->best]))
			tuning->best = i;
	return WEIR_OK;
}

/* --- waits ------------------------------------------------------------------------------------------------------- */

/* Adds a queue at this rate that denies none. Removes the point again if it does not keep the wish. */
static int try_rate(struct run *run, struct weir__rate rate, bool *ret_keeps)
{
	const struct weir__interval none = { 0, 0 };
	size_t n;
	const struct weir__arrival *const rows = weir__arrivals_of(run->arrivals, 0, &n);
	const int error = add_queue(run, rate, weir__demand_burst(rows, run->used[0], rate, &none));

	if (error == WEIR_OK)
		*ret_keeps = run->tuning->points[run->tuning->n - 1].keeps;
	return error;
}

/* Waits fall with the rate, so the least rate is found by halving. */
static int find_rate(struct run *run, weir_ns period, uint64_t *ret_count)
{
	uint64_t low = 0, high;
	size_t n;
	const struct weir__interval none = { 0, 0 };
	const struct weir__arrival *const rows = weir__arrivals_of(run->arrivals, 0, &n);

	/* at a rate of the fullest period's requests per period, no request waits longer than a period, unless all
	 * arrive at one instant */
	high = weir__demand_count(rows, run->used[0], period, &none);
	for (bool keeps = false; !keeps; high *= 2) {
		const int error = high > UINT64_C(1) << 50 ? fail(run, "no rate keeps the wish for waits") :
							     try_rate(run, (struct weir__rate){ high, period }, &keeps);

		if (error != WEIR_OK)
			return error;
		run->tuning->n--;
		if (keeps)
			break;
		low = high;
	}
	while (high - low > 1) {
		const uint64_t middle = low + (high - low) / 2;
		bool keeps = false;
		const int error = try_rate(run, (struct weir__rate){ middle, period }, &keeps);

		if (error != WEIR_OK)
			return error;
		run->tuning->n--;
		*(keeps ? &high : &low) = middle;
	}
	*ret_count = high;
	return WEIR_OK;
}

static int tune_wait(struct run *run)
{
	static const uint64_t percents[] = { 50, 60, 70, 80, 90, 100, 110, 125, 150, 200 };
	struct weir__tuning *const tuning = run->tuning;
	weir_ns period = SECOND;
	uint64_t count, before = 0;
	int error = find_rate(run, period, &count);

	if (error == WEIR_OK && count < 10) { /* whole numbers are too coarse */
		period = MINUTE;
		error = find_rate(run, period, &count);
	}
	for (size_t i = 0; i < COUNT_OF(percents) && error == WEIR_OK; i++) {
		const struct weir__rate rate = { weir__saturate(weir__mul(count, percents[i]) / 100), period };
		bool keeps = false;

		if (rate.count == 0 || rate.count == before)
			continue;
		before = rate.count;
		if (percents[i] == 100)
			tuning->best = tuning->n;
		error = try_rate(run, rate, &keeps);
	}
	tuning->n_curve = tuning->n;
	return error;
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

static void count_used(struct run *run)
{
	const struct weir__tuning_wish *const wish = run->wish;
	struct weir__tuning *const tuning = run->tuning;
	size_t n;

	for (uint32_t key = 0; key < run->arrivals->keys.n; key++) {
		const struct weir__arrival *const rows = weir__arrivals_of(run->arrivals, key, &n);
		const uint64_t requests = tuning->requests;

		for (; run->used[key] < n && rows[run->used[key]].at < wish->until; run->used[key]++) {
			const bool is_bad = weir__interval_has(&wish->bad, rows[run->used[key]].at);

			*(is_bad ? &tuning->bad_requests : &tuning->requests) += 1;
		}
		tuning->keys += tuning->requests > requests;
	}
}

static int tune(struct run *run)
{
	const struct weir__tuning_wish *const wish = run->wish;

	count_used(run);
	if (run->tuning->requests == 0)
		return fail(run, "no request is left to choose by: all are held out or bad");
	if (wish->bad.until > wish->bad.from && run->tuning->bad_requests == 0)
		return fail(run, "no request before the part held out is in the bad interval");
	if (weir__tuning_is_of_shares(wish))
		return tune_denied(run);
	return wish->passed.count > 0 ? tune_passed(run) : tune_wait(run);
}

int weir__tuning_run(const struct weir__arrivals *arrivals, const struct weir__tuning_wish *wish,
		     struct weir__tuning *ret_tuning, struct weir_message *ret_message)
{
	struct run run = { .arrivals = arrivals, .wish = wish, .tuning = ret_tuning, .message = ret_message };
	int error = WEIR_ERR_SYSTEM;

	memset(ret_tuning, 0, sizeof(*ret_tuning));
	run.used = calloc(arrivals->keys.n + (size_t)1, sizeof(*run.used));
	run.numbers = calloc(arrivals->keys.n + (size_t)1, sizeof(*run.numbers));
	if (run.used && run.numbers)
		error = tune(&run);
	else
		errno = ENOMEM;
	free(run.used);
	free(run.numbers);
	return error;
}
