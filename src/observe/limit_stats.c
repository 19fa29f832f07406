/* limit_stats.c: statistics of decisions and replies. */
#include "observe/limit_stats.h"

#include <stdlib.h>
#include <string.h>

#include "observe/tracer.h"
#include "store/table/table.h"

enum { SECOND_NS = 1000000000 };

struct weir__limit_stats_set {
	uint32_t n, top_keys;
	uint32_t limits_max; /* the table's */
	struct weir__limit_stats *of;
};

/* --- the set ----------------------------------------------------------------------------------------------------- */

struct weir__limit_stats_set *weir__limit_stats_set_new(const struct weir_table *table, uint32_t workers,
							uint32_t top_keys)
{
	struct weir__limit_stats_set *const stats_set = calloc(1, sizeof(*stats_set));

	if (stats_set == NULL)
		return NULL;
	stats_set->top_keys = top_keys;
	stats_set->limits_max = table->region.limits_max;
	stats_set->of = aligned_alloc(_Alignof(struct weir__limit_stats), workers * sizeof(struct weir__limit_stats));
	if (stats_set->of == NULL) {
		free(stats_set);
		return NULL;
	}
	memset(stats_set->of, 0, workers * sizeof(struct weir__limit_stats));
	for (; stats_set->n < workers; stats_set->n++) {
		struct weir__limit_stats *const stats = &stats_set->of[stats_set->n];

		stats->stats_set = stats_set;
		stats->until_timed = stats->until_top_key = stats->weight = 1;
		stats->random = stats_set->n + 1;
		stats->places = calloc(stats_set->limits_max, sizeof(stats->places[0]));
		if (stats->places == NULL) {
			weir__limit_stats_set_free(stats_set);
			return NULL;
		}
	}
	return stats_set;
}

static void free_stats(struct weir__limit_stats *stats)
{
	for (uint32_t i = 0; i < WEIR__LIMIT_STATS_LIMITS_MAX; i++) {
		struct weir__limit_stats_limit *const of = atomic_load_explicit(&stats->limits[i],
										memory_order_relaxed);

		if (of)
			weir__top_keys_free(of->top_keys);
		free(of);
	}
	free(stats->places);
}

void weir__limit_stats_set_free(struct weir__limit_stats_set *stats_set)
{
	if (stats_set == NULL)
		return;
	for (uint32_t i = 0; i < stats_set->n; i++)
		free_stats(&stats_set->of[i]);
	free(stats_set->of);
	free(stats_set);
}

struct weir__limit_stats *weir__limit_stats_set_of(struct weir__limit_stats_set *stats_set, uint32_t worker)
{
	return stats_set ? &stats_set->of[worker] : NULL;
}

uint32_t weir__limit_stats_set_workers(const struct weir__limit_stats_set *stats_set)
{
	return stats_set->n;
}

/* --- durations --------------------------------------------------------------------------------------------------- */

uint64_t weir__limit_stats_histogram_bound(unsigned place)
{
	return place + 1 < WEIR__LIMIT_STATS_BUCKETS ? (uint64_t)WEIR__LIMIT_STATS_LEAST_NS << place : UINT64_MAX;
}

/* The first bucket whose bound is not below ns. */
static unsigned place_of(uint64_t ns)
{
	const uint64_t steps = ns == 0 ? 0 : (ns - 1) / WEIR__LIMIT_STATS_LEAST_NS;
	const unsigned place = steps == 0 ? 0 : 64 - (unsigned)__builtin_clzll(steps);

	return place < WEIR__LIMIT_STATS_BUCKETS ? place : WEIR__LIMIT_STATS_BUCKETS - 1;
}

/* Only by the thread that owns the counter. */
static void add64(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

static void add32(_Atomic uint32_t *counter, uint32_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

void weir__limit_stats_histogram_add(struct weir__limit_stats_histogram *histogram, uint64_t ns, uint64_t times)
{
	add64(&histogram->counts[place_of(ns)], times);
	add64(&histogram->sum_ns, ns * times);
}

void weir__limit_stats_sent(struct weir__limit_stats *stats, weir_ns since, weir_ns now)
{
	const uint64_t ns = now > since ? now - since : 0; /* the clock may have been set back */
	uint64_t throttled;

	if (stats == NULL || stats->answered == 0)
		return;
	throttled = stats->throttled < stats->answered ? stats->throttled : stats->answered;
	if (stats->answered > throttled)
		weir__limit_stats_histogram_add(&stats->histograms[WEIR__DURATION_REQUEST], ns,
						stats->answered - throttled);
	if (throttled > 0)
		weir__limit_stats_histogram_add(&stats->histograms[WEIR__DURATION_THROTTLED], ns, throttled);
	stats->answered = stats->throttled = 0;
}

void weir__limit_stats_set_durations(struct weir__limit_stats_set *stats_set, enum weir__limit_stats_duration which,
				     struct weir__limit_stats_histogram_sum *ret_sum)
{
	*ret_sum = (struct weir__limit_stats_histogram_sum){ .n = 0 };
	for (uint32_t i = 0; i < stats_set->n; i++) {
		struct weir__limit_stats_histogram *const histogram = &stats_set->of[i].histograms[which];

		for (unsigned place = 0; place < WEIR__LIMIT_STATS_BUCKETS; place++) {
			const uint64_t n = atomic_load_explicit(&histogram->counts[place], memory_order_relaxed);

			ret_sum->counts[place] += n;
			ret_sum->n += n;
		}
		ret_sum->sum_ns += atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
	}
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

/* The top keys of all limits of a worker take at most WEIR__LIMIT_STATS_TOP_KEYS_MOST bytes. */
static struct weir__top_keys *make_top_keys(struct weir__limit_stats *stats)
{
	const uint32_t most = stats->stats_set->top_keys;
	const size_t size = weir__top_keys_size(most);
	struct weir__top_keys *made;

	if (most == 0 || size > WEIR__LIMIT_STATS_TOP_KEYS_MOST - stats->of_top_keys)
		return NULL;
	made = weir__top_keys_new(most);
	if (made)
		stats->of_top_keys += size;
	return made;
}

/* Seconds between two instants. A clock that was set back counts like one that was set forward. */
static uint32_t apart(uint32_t a, uint32_t b)
{
	return a - b < b - a ? a - b : b - a;
}

/* Evicts a limit that had no decisions for WEIR__LIMIT_STATS_SECONDS. The search is slow, so it runs at most once a
 * second. */
static struct weir__limit_stats_limit *find_room(struct weir__limit_stats *stats, uint32_t second, uint32_t *ret_place)
{
	const uint32_t n = atomic_load_explicit(&stats->n_limits, memory_order_relaxed);

	if (n < WEIR__LIMIT_STATS_LIMITS_MAX) {
		struct weir__limit_stats_limit *const made = calloc(1, sizeof(*made));

		if (made == NULL)
			return NULL;
		made->top_keys = make_top_keys(stats);
		*ret_place = n;
		atomic_store_explicit(&stats->limits[n], made, memory_order_release);
		atomic_store_explicit(&stats->n_limits, n + 1, memory_order_release);
		return made;
	}
	if (stats->looked_for_room == second)
		return NULL;
	stats->looked_for_room = second;
	for (uint32_t i = 0; i < n; i++) {
		struct weir__limit_stats_limit *const of = atomic_load_explicit(&stats->limits[i],
										memory_order_relaxed);
		const uint32_t limit = atomic_load_explicit(&of->limit, memory_order_relaxed);

		if (apart(second, of->newest) <= WEIR__LIMIT_STATS_SECONDS)
			continue;
		if (limit != 0)
			atomic_store_explicit(&stats->places[limit - 1], 0, memory_order_relaxed);
		*ret_place = i;
		return of;
	}
	return NULL;
}

/* NULL: no room for the limit now. */
static struct weir__limit_stats_limit *begin_limit(struct weir__limit_stats *stats, uint32_t limit, uint32_t second)
{
	uint32_t place = 0;
	struct weir__limit_stats_limit *const of = find_room(stats, second, &place);

	if (of == NULL)
		return NULL;
	atomic_store_explicit(&of->limit, 0, memory_order_relaxed);
	/* Release: a reader that sees a value of the next limit also sees that `limit` has changed. */
	atomic_store_explicit(&of->delayed, 0, memory_order_release);
	atomic_store_explicit(&of->delay_ns, 0, memory_order_release);
	for (unsigned i = 0; i < WEIR__LIMIT_STATS_SECONDS; i++)
		atomic_store_explicit(&of->seconds[i].at, 0, memory_order_release);
	if (of->top_keys)
		weir__top_keys_clear(of->top_keys);
	of->newest = second;
	atomic_store_explicit(&of->limit, limit + 1, memory_order_release);
	atomic_store_explicit(&stats->places[limit], (uint16_t)(place + 1), memory_order_release);
	return of;
}

/* For the worker itself. */
static inline struct weir__limit_stats_limit *limit_of(struct weir__limit_stats *stats, uint32_t limit, uint32_t second)
{
	const uint32_t place = atomic_load_explicit(&stats->places[limit], memory_order_relaxed);

	return WEIR__LIKELY(place != 0) ? atomic_load_explicit(&stats->limits[place - 1], memory_order_relaxed) :
					  begin_limit(stats, limit, second);
}

static void clear_second(struct weir__limit_stats_second *at, uint32_t second)
{
	/* Release: a reader that sees one of the new numbers also sees that `at` has changed. */
	atomic_store_explicit(&at->at, 0, memory_order_relaxed);
	atomic_store_explicit(&at->decided, 0, memory_order_release);
	atomic_store_explicit(&at->rejected, 0, memory_order_release);
	atomic_store_explicit(&at->delayed, 0, memory_order_release);
	atomic_store_explicit(&at->fill, 0, memory_order_release);
	atomic_store_explicit(&at->delay_ns, 0, memory_order_release);
	atomic_store_explicit(&at->at, second, memory_order_release);
}

static inline struct weir__limit_stats_second *second_of(struct weir__limit_stats_limit *of, uint32_t second)
{
	struct weir__limit_stats_second *const at = &of->seconds[second % WEIR__LIMIT_STATS_SECONDS];

	if (WEIR__UNLIKELY(atomic_load_explicit(&at->at, memory_order_relaxed) != second)) {
		clear_second(at, second);
		of->newest = second;
	}
	return at;
}

/* Chooses the next key to sample: 1 to 2 n - 1 claims from here, n on average. Random, so as not to be in step with
 * clients that take turns. */
static void choose_key(struct weir__limit_stats *stats)
{
	if (stats->weight == 1) {
		stats->until_top_key = 1;
		return;
	}
	stats->random = stats->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	stats->until_top_key = 1 + (uint32_t)((stats->random >> 32) * (2 * stats->weight - 1) >> 32);
}

/* Counts a sampled key. Returns its weight. */
static uint32_t weigh(struct weir__limit_stats *stats)
{
	const uint32_t weight = stats->weight;

	/* More decisions than expected. */
	if (++stats->looked == 2 * WEIR__LIMIT_STATS_EXACT && weight < WEIR__LIMIT_STATS_WEIGHT_MOST) {
		stats->looked = 0;
		stats->weight *= 4;
	}
	choose_key(stats);
	return weight;
}

/* If the clock was set back a little, the same second comes again. Its numbers stay. */
static void clear_requests(struct weir__limit_stats *stats, uint32_t second)
{
	struct weir__limit_stats_second *const at = &stats->seconds[second % WEIR__LIMIT_STATS_SECONDS];

	if (atomic_load_explicit(&at->at, memory_order_relaxed) != second)
		clear_second(at, second);
}

/* Expects as many decisions as in the previous second. */
static void begin_second(struct weir__limit_stats *stats, uint32_t second)
{
	const uint32_t expected = second == stats->second + 1 ? stats->decided : 0,
		       weight = expected / WEIR__LIMIT_STATS_EXACT + (expected % WEIR__LIMIT_STATS_EXACT > 0);

	stats->weight = weight < 1                             ? 1 :
			weight < WEIR__LIMIT_STATS_WEIGHT_MOST ? weight :
								 WEIR__LIMIT_STATS_WEIGHT_MOST;
	stats->second = second;
	stats->decided = stats->looked = 0;
	clear_requests(stats, second);
	choose_key(stats);
}

/* Counts requests, not claims, in the current second. */
static inline void see_requests(struct weir__limit_stats *stats, uint32_t n, uint32_t rejected, uint32_t delayed)
{
	struct weir__limit_stats_second *const at = &stats->seconds[stats->second % WEIR__LIMIT_STATS_SECONDS];

	add32(&at->decided, n);
	add64(&stats->requests, n);
	if (rejected > 0) {
		add32(&at->rejected, rejected);
		add64(&stats->rejected, rejected);
	}
	if (WEIR__UNLIKELY(delayed > 0)) {
		add32(&at->delayed, delayed);
		add64(&stats->delayed, delayed);
	}
	stats->throttled += rejected + delayed;
}

/* The fill ratio, in units of 1/WEIR__FILL_ONE. The limit seldom changes, so its reciprocal is cached to save a
 * division. Rounding is harmless: nothing is decided by it. */
static inline uint64_t share_of(struct weir__limit_stats_limit *of, double left, uint64_t whole)
{
	if (WEIR__UNLIKELY(of->whole != whole)) {
		of->whole = whole;
		of->share = whole ? (double)WEIR__FILL_ONE / (double)whole : 0;
	}
	return (uint64_t)(int64_t)(left * of->share + 0.5);
}

static void add_delays(struct weir__limit_stats_limit *of, struct weir__limit_stats_second *at, uint32_t delayed,
		       uint64_t delay_ns)
{
	add32(&at->delayed, delayed);
	add64(&at->delay_ns, delay_ns);
	add64(&of->delayed, delayed);
	add64(&of->delay_ns, delay_ns);
}

static void look_at_key(struct weir__limit_stats *stats, struct weir__limit_stats_limit *of,
			const struct weir_claim *claim, bool is_allowed, weir_ns now)
{
	const uint32_t weight = weigh(stats);

	if (of->top_keys && claim->key_length > 0)
		weir__top_keys_add(of->top_keys, weir__hash(&claim->limit->secret, claim->key, claim->key_length),
				   claim->key, claim->key_length, weight, !is_allowed, now);
}

/* Counts one claim. Returns whether the request is delayed. */
static inline bool see(struct weir__limit_stats *stats, const struct weir_claim *claim,
		       const struct weir_verdict *verdict, bool is_allowed, uint32_t second, weir_ns now)
{
	struct weir__limit_stats_limit *const of = limit_of(stats, claim->limit->index, second);
	const bool is_delayed = is_allowed && verdict->delay > 0;
	struct weir__limit_stats_second *at;

	if (WEIR__UNLIKELY(of == NULL))
		return is_delayed;
	at = second_of(of, second);
	add32(&at->decided, 1);
	add64(&at->fill, share_of(of, (double)verdict->remaining, verdict->limit));
	if (!is_allowed)
		add32(&at->rejected, 1);
	if (WEIR__UNLIKELY(is_delayed))
		add_delays(of, at, 1, verdict->delay);
	if (claim->key_length > 0 && WEIR__UNLIKELY(--stats->until_top_key == 0))
		look_at_key(stats, of, claim, is_allowed, now);
	stats->decided++;
	return is_delayed;
}

/* How many claims, from the first on, have the same limit with the same numbers. */
static size_t run_of(const struct weir_claim *claims, const struct weir_verdict *verdicts, size_t n)
{
	size_t run = 1;

	while (run < n && claims[run].limit->index == claims[0].limit->index &&
	       verdicts[run].limit == verdicts[0].limit)
		run++;
	return run;
}

static void look_at_keys(struct weir__limit_stats *stats, struct weir__limit_stats_limit *of,
			 const struct weir_claim *claims, const struct weir_verdict *verdicts, size_t n, weir_ns now)
{
	size_t next = stats->until_top_key - 1;

	while (next < n) {
		look_at_key(stats, of, &claims[next], verdicts[next].allowed, now);
		next += stats->until_top_key;
	}
	stats->until_top_key = (uint32_t)(next + 1 - n);
}

/* Counts claims of one limit. All verdicts have the same limit, so one share_of is enough. */
static void see_run(struct weir__limit_stats *stats, const struct weir_claim *claims,
		    const struct weir_verdict *verdicts, size_t n, uint32_t second, weir_ns now)
{
	struct weir__limit_stats_limit *const of = limit_of(stats, claims[0].limit->index, second);
	uint32_t rejected = 0, delayed = 0;
	uint64_t delay_ns = 0;
	double left = 0;
	struct weir__limit_stats_second *at;

	for (size_t i = 0; i < n; i++) {
		rejected += !verdicts[i].allowed;
		delayed += verdicts[i].allowed && verdicts[i].delay > 0;
		delay_ns += verdicts[i].allowed ? verdicts[i].delay : 0;
		left += (double)verdicts[i].remaining;
	}
	see_requests(stats, (uint32_t)n, rejected, delayed);
	if (of == NULL)
		return;
	look_at_keys(stats, of, claims, verdicts, n, now);
	stats->decided += (uint32_t)n;
	at = second_of(of, second);
	add32(&at->decided, (uint32_t)n);
	add64(&at->fill, share_of(of, left, verdicts[0].limit));
	if (rejected > 0)
		add32(&at->rejected, rejected);
	if (delayed > 0)
		add_delays(of, at, delayed, delay_ns);
}

void weir__limit_stats_each(struct weir__limit_stats *stats, const struct weir_claim *claims,
			    const struct weir_verdict *verdicts, size_t n, weir_ns now)
{
	const uint32_t second = (uint32_t)(now / SECOND_NS);
	size_t run;

	if (stats == NULL)
		return;
	if (WEIR__UNLIKELY(stats->second != second))
		begin_second(stats, second);
	for (size_t i = 0; i < n; i += run) {
		run = run_of(claims + i, verdicts + i, n - i);
		see_run(stats, claims + i, verdicts + i, run, second, now);
	}
	if (WEIR__UNLIKELY(stats->tracer != NULL))
		weir__tracer_each(stats->tracer, claims, verdicts, n, now);
}

/* Counts as the table does: all claims if the request is allowed, otherwise only claims that denied. */
void weir__limit_stats_together(struct weir__limit_stats *stats, const struct weir_claim *claims,
				const struct weir_verdict *verdicts, size_t n, bool is_shadow, weir_ns now)
{
	const uint32_t second = (uint32_t)(now / SECOND_NS);
	bool is_allowed = true, is_delayed = false;

	if (stats == NULL)
		return;
	if (WEIR__UNLIKELY(stats->second != second))
		begin_second(stats, second);
	for (size_t i = 0; i < n; i++)
		is_allowed = is_allowed && verdicts[i].allowed;
	for (size_t i = 0; i < n; i++)
		if (is_allowed || !verdicts[i].allowed)
			is_delayed |= see(stats, &claims[i], &verdicts[i], is_allowed, second, now);
	if (!is_shadow)
		see_requests(stats, 1, !is_allowed, is_delayed);
	if (WEIR__UNLIKELY(stats->tracer != NULL))
		weir__tracer_together(stats->tracer, claims, verdicts, n, is_shadow, now);
}

void weir__limit_stats_without_limit(struct weir__limit_stats *stats, bool is_allowed, weir_ns now)
{
	const uint32_t second = (uint32_t)(now / SECOND_NS);

	if (WEIR__UNLIKELY(stats->second != second))
		begin_second(stats, second);
	see_requests(stats, 1, !is_allowed, 0);
}

/* --- reading, from any thread ------------------------------------------------------------------------------------ */

/* NULL: the worker has no statistics of this limit. */
static struct weir__limit_stats_limit *find(const struct weir__limit_stats *stats, uint32_t limit)
{
	const uint32_t place = atomic_load_explicit(&stats->places[limit], memory_order_acquire);
	struct weir__limit_stats_limit *const of =
		place ? atomic_load_explicit(&stats->limits[place - 1], memory_order_acquire) : NULL;

	return of && atomic_load_explicit(&of->limit, memory_order_acquire) == limit + 1 ? of : NULL;
}

/* Whether the entry still belongs to this limit. If so, what was read from it before this call does too. */
static bool is_still(const struct weir__limit_stats_limit *of, const struct weir_table_limit *limit)
{
	return atomic_load_explicit(&of->limit, memory_order_acquire) == limit->index + 1;
}

static void add_second(struct weir__limit_stats_second *at, uint32_t second, struct weir__limit_stats_sum *seen)
{
	struct weir__limit_stats_sum now;

	if (atomic_load_explicit(&at->at, memory_order_acquire) != second)
		return;
	now.decided = atomic_load_explicit(&at->decided, memory_order_acquire);
	now.rejected = atomic_load_explicit(&at->rejected, memory_order_acquire);
	now.delayed = atomic_load_explicit(&at->delayed, memory_order_acquire);
	now.delay_ns = atomic_load_explicit(&at->delay_ns, memory_order_acquire);
	now.fill = atomic_load_explicit(&at->fill, memory_order_acquire);
	if (atomic_load_explicit(&at->at, memory_order_relaxed) != second)
		return;
	seen->decided += now.decided;
	seen->rejected += now.rejected;
	seen->delayed += now.delayed;
	seen->delay_ns += now.delay_ns;
	seen->fill += now.fill;
}

static void add_seen(struct weir__limit_stats_sum *sum, const struct weir__limit_stats_sum *seen)
{
	sum->decided += seen->decided;
	sum->rejected += seen->rejected;
	sum->delayed += seen->delayed;
	sum->delay_ns += seen->delay_ns;
	sum->fill += seen->fill;
}

bool weir__limit_stats_set_limit(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				 uint32_t last, uint32_t seconds, struct weir__limit_stats_sum *ret_seen)
{
	*ret_seen = (struct weir__limit_stats_sum){ .decided = 0 };
	for (uint32_t i = 0; i < stats_set->n; i++) {
		struct weir__limit_stats_limit *const of = find(&stats_set->of[i], limit->index);
		struct weir__limit_stats_sum seen = { .decided = 0 };

		for (uint32_t back = 0; of && back < seconds && back < WEIR__LIMIT_STATS_SECONDS; back++)
			add_second(&of->seconds[(last - back) % WEIR__LIMIT_STATS_SECONDS], last - back, &seen);
		if (of && is_still(of, limit))
			add_seen(ret_seen, &seen);
	}
	return ret_seen->decided > 0;
}

void weir__limit_stats_set_series(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				  uint32_t last, uint32_t seconds, struct weir__limit_stats_sum *ret_seen)
{
	const uint32_t n = seconds < WEIR__LIMIT_STATS_SECONDS ? seconds : WEIR__LIMIT_STATS_SECONDS;
	struct weir__limit_stats_sum seen[WEIR__LIMIT_STATS_SECONDS];

	memset(ret_seen, 0, seconds * sizeof(*ret_seen));
	for (uint32_t i = 0; i < stats_set->n; i++) {
		struct weir__limit_stats_limit *const of = find(&stats_set->of[i], limit->index);

		memset(seen, 0, sizeof(seen));
		for (uint32_t back = 0; of && back < n; back++)
			add_second(&of->seconds[(last - back) % WEIR__LIMIT_STATS_SECONDS], last - back, &seen[back]);
		for (uint32_t back = 0; of && is_still(of, limit) && back < n; back++)
			add_seen(&ret_seen[seconds - 1 - back], &seen[back]);
	}
}

void weir__limit_stats_set_requests(struct weir__limit_stats_set *stats_set, struct weir__limit_stats_sum *ret_seen)
{
	*ret_seen = (struct weir__limit_stats_sum){ .decided = 0 };
	for (uint32_t i = 0; i < stats_set->n; i++) {
		struct weir__limit_stats *const of = &stats_set->of[i];

		ret_seen->decided += atomic_load_explicit(&of->requests, memory_order_relaxed);
		ret_seen->rejected += atomic_load_explicit(&of->rejected, memory_order_relaxed);
		ret_seen->delayed += atomic_load_explicit(&of->delayed, memory_order_relaxed);
	}
}

void weir__limit_stats_set_requests_series(struct weir__limit_stats_set *stats_set, uint32_t last, uint32_t seconds,
					   struct weir__limit_stats_sum *ret_seen)
{
	const uint32_t n = seconds < WEIR__LIMIT_STATS_SECONDS ? seconds : WEIR__LIMIT_STATS_SECONDS;

	memset(ret_seen, 0, seconds * sizeof(*ret_seen));
	for (uint32_t i = 0; i < stats_set->n; i++)
		for (uint32_t back = 0; back < n; back++)
			add_second(&stats_set->of[i].seconds[(last - back) % WEIR__LIMIT_STATS_SECONDS], last - back,
				   &ret_seen[seconds - 1 - back]);
}

bool weir__limit_stats_set_has(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit)
{
	for (uint32_t i = 0; i < stats_set->n; i++)
		if (find(&stats_set->of[i], limit->index))
			return true;
	return false;
}

void weir__limit_stats_set_delays(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				  uint64_t *ret_delayed, uint64_t *ret_delay_ns)
{
	*ret_delayed = *ret_delay_ns = 0;
	for (uint32_t i = 0; i < stats_set->n; i++) {
		struct weir__limit_stats_limit *const of = find(&stats_set->of[i], limit->index);
		uint64_t delayed, delay_ns;

		if (of == NULL)
			continue;
		delayed = atomic_load_explicit(&of->delayed, memory_order_acquire);
		delay_ns = atomic_load_explicit(&of->delay_ns, memory_order_acquire);
		if (is_still(of, limit)) {
			*ret_delayed += delayed;
			*ret_delay_ns += delay_ns;
		}
	}
}

size_t weir__limit_stats_set_top_keys(struct weir__limit_stats_set *stats_set, const struct weir_table_limit *limit,
				      enum weir__top_keys_kind kind, weir_ns now, struct weir__top_key *ret_top_keys,
				      size_t most, weir_ns *ret_since)
{
	const struct weir__limit_stats_limit *stats, *seen[WEIR__TOP_KEYS_JOINED_MAX];
	struct weir__top_keys *of[WEIR__TOP_KEYS_JOINED_MAX] = { NULL };
	size_t n = 0, found;

	for (uint32_t i = 0; i < stats_set->n && n < WEIR__TOP_KEYS_JOINED_MAX; i++) {
		stats = find(&stats_set->of[i], limit->index);
		if (stats && stats->top_keys) {
			seen[n] = stats;
			of[n++] = stats->top_keys;
		}
	}
	found = weir__top_keys_read(of, n, kind, now, ret_top_keys, most, ret_since);
	for (size_t i = 0; i < n; i++)
		if (!is_still(seen[i], limit))
			found = 0; /* it may be of another limit: this limit was evicted */
	return found;
}
