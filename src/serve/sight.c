/* sight.c: counting what is decided and answered. */
#include "serve/sight.h"

#include <stdlib.h>
#include <string.h>

#include "serve/witness.h"
#include "store/table.h"

enum { SECOND_NS = 1000000000 };

struct weir__sights {
	uint32_t n, talkers;
	uint32_t limits_max; /* of the table */
	struct weir__sight *of;
};

/* --- all of them ------------------------------------------------------------------------------------------------- */

struct weir__sights *weir__sights_new(const struct weir_table *table, uint32_t workers, uint32_t talkers)
{
	struct weir__sights *const sights = calloc(1, sizeof(*sights));

	if (sights == NULL)
		return NULL;
	sights->talkers = talkers;
	sights->limits_max = table->region.limits_max;
	sights->of = aligned_alloc(_Alignof(struct weir__sight), workers * sizeof(struct weir__sight));
	if (sights->of == NULL) {
		free(sights);
		return NULL;
	}
	memset(sights->of, 0, workers * sizeof(struct weir__sight));
	for (; sights->n < workers; sights->n++) {
		struct weir__sight *const sight = &sights->of[sights->n];

		sight->sights = sights;
		sight->until_timed = sight->until_talker = sight->weight = 1;
		sight->random = sights->n + 1;
		sight->places = calloc(sights->limits_max, sizeof(sight->places[0]));
		if (sight->places == NULL) {
			weir__sights_free(sights);
			return NULL;
		}
	}
	return sights;
}

static void free_sight(struct weir__sight *sight)
{
	for (uint32_t i = 0; i < WEIR__SIGHT_LIMITS_MAX; i++) {
		struct weir__limit_sight *const of = atomic_load_explicit(&sight->limits[i], memory_order_relaxed);

		if (of)
			weir__talkers_free(of->talkers);
		free(of);
	}
	free(sight->places);
}

void weir__sights_free(struct weir__sights *sights)
{
	if (sights == NULL)
		return;
	for (uint32_t i = 0; i < sights->n; i++)
		free_sight(&sights->of[i]);
	free(sights->of);
	free(sights);
}

struct weir__sight *weir__sights_of(struct weir__sights *sights, uint32_t worker)
{
	return sights ? &sights->of[worker] : NULL;
}

uint32_t weir__sights_workers(const struct weir__sights *sights)
{
	return sights->n;
}

/* --- spans ------------------------------------------------------------------------------------------------------- */

uint64_t weir__spans_bound(unsigned place)
{
	return place + 1 < WEIR__SPANS ? (uint64_t)WEIR__SPAN_LEAST_NS << place : UINT64_MAX;
}

/* The first whose bound it does not exceed. */
static unsigned place_of(uint64_t ns)
{
	const uint64_t steps = ns == 0 ? 0 : (ns - 1) / WEIR__SPAN_LEAST_NS;
	const unsigned place = steps == 0 ? 0 : 64 - (unsigned)__builtin_clzll(steps);

	return place < WEIR__SPANS ? place : WEIR__SPANS - 1;
}

/* By the one who writes. */
static void add64(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

static void add32(_Atomic uint32_t *counter, uint32_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

void weir__spans_add(struct weir__spans *spans, uint64_t ns, uint64_t times)
{
	add64(&spans->counts[place_of(ns)], times);
	add64(&spans->sum_ns, ns * times);
}

void weir__sight_sent(struct weir__sight *sight, weir_ns since, weir_ns now)
{
	const uint64_t ns = now > since ? now - since : 0; /* the clock may have been set back */
	uint64_t throttled;

	if (sight == NULL || sight->answered == 0)
		return;
	throttled = sight->throttled < sight->answered ? sight->throttled : sight->answered;
	if (sight->answered > throttled)
		weir__spans_add(&sight->spans[WEIR__SPAN_ANSWER], ns, sight->answered - throttled);
	if (throttled > 0)
		weir__spans_add(&sight->spans[WEIR__SPAN_THROTTLED], ns, throttled);
	sight->answered = sight->throttled = 0;
}

void weir__sights_spans(struct weir__sights *sights, enum weir__sight_span which, struct weir__spans_sum *ret_sum)
{
	*ret_sum = (struct weir__spans_sum){ .n = 0 };
	for (uint32_t i = 0; i < sights->n; i++) {
		struct weir__spans *const spans = &sights->of[i].spans[which];

		for (unsigned place = 0; place < WEIR__SPANS; place++) {
			const uint64_t n = atomic_load_explicit(&spans->counts[place], memory_order_relaxed);

			ret_sum->counts[place] += n;
			ret_sum->n += n;
		}
		ret_sum->sum_ns += atomic_load_explicit(&spans->sum_ns, memory_order_relaxed);
	}
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

/* Keys take memory: those of all limits of a worker so much at most. */
static struct weir__talkers *make_talkers(struct weir__sight *sight)
{
	const uint32_t most = sight->sights->talkers;
	const size_t size = weir__talkers_size(most);
	struct weir__talkers *made;

	if (most == 0 || size > WEIR__SIGHT_TALKERS_MOST - sight->of_talkers)
		return NULL;
	made = weir__talkers_new(most);
	if (made)
		sight->of_talkers += size;
	return made;
}

/* Seconds between two; a clock that was set back is as far off as one that was set forward. */
static uint32_t apart(uint32_t a, uint32_t b)
{
	return a - b < b - a ? a - b : b - a;
}

/* One that nobody has asked for as long as is remembered gives way. Looking for it takes a while: once in a second. */
static struct weir__limit_sight *find_room(struct weir__sight *sight, uint32_t second, uint32_t *ret_place)
{
	const uint32_t n = atomic_load_explicit(&sight->n_limits, memory_order_relaxed);

	if (n < WEIR__SIGHT_LIMITS_MAX) {
		struct weir__limit_sight *const made = calloc(1, sizeof(*made));

		if (made == NULL)
			return NULL;
		made->talkers = make_talkers(sight);
		*ret_place = n;
		atomic_store_explicit(&sight->limits[n], made, memory_order_release);
		atomic_store_explicit(&sight->n_limits, n + 1, memory_order_release);
		return made;
	}
	if (sight->looked_for_room == second)
		return NULL;
	sight->looked_for_room = second;
	for (uint32_t i = 0; i < n; i++) {
		struct weir__limit_sight *const of = atomic_load_explicit(&sight->limits[i], memory_order_relaxed);
		const uint32_t limit = atomic_load_explicit(&of->limit, memory_order_relaxed);

		if (apart(second, of->newest) <= WEIR__SIGHT_SECONDS)
			continue;
		if (limit != 0)
			atomic_store_explicit(&sight->places[limit - 1], 0, memory_order_relaxed);
		*ret_place = i;
		return of;
	}
	return NULL;
}

/* NULL: there is no room for it now. */
static struct weir__limit_sight *begin_limit(struct weir__sight *sight, uint32_t limit, uint32_t second)
{
	uint32_t place = 0;
	struct weir__limit_sight *const of = find_room(sight, second, &place);

	if (of == NULL)
		return NULL;
	atomic_store_explicit(&of->limit, 0, memory_order_relaxed);
	/* Whoever reads something of the next limit also reads that it is no longer this one. */
	atomic_store_explicit(&of->delayed, 0, memory_order_release);
	atomic_store_explicit(&of->delay_ns, 0, memory_order_release);
	for (unsigned i = 0; i < WEIR__SIGHT_SECONDS; i++)
		atomic_store_explicit(&of->seconds[i].at, 0, memory_order_release);
	if (of->talkers)
		weir__talkers_clear(of->talkers);
	of->newest = second;
	atomic_store_explicit(&of->limit, limit + 1, memory_order_release);
	atomic_store_explicit(&sight->places[limit], (uint16_t)(place + 1), memory_order_release);
	return of;
}

/* As the worker itself finds it. */
static inline struct weir__limit_sight *limit_of(struct weir__sight *sight, uint32_t limit, uint32_t second)
{
	const uint32_t place = atomic_load_explicit(&sight->places[limit], memory_order_relaxed);

	return WEIR__LIKELY(place != 0) ? atomic_load_explicit(&sight->limits[place - 1], memory_order_relaxed) :
					  begin_limit(sight, limit, second);
}

static void clear_second(struct weir__second *at, uint32_t second)
{
	/* Each is released behind the first: who reads one of the new numbers sees that the second is another. */
	atomic_store_explicit(&at->at, 0, memory_order_relaxed);
	atomic_store_explicit(&at->decided, 0, memory_order_release);
	atomic_store_explicit(&at->rejected, 0, memory_order_release);
	atomic_store_explicit(&at->delayed, 0, memory_order_release);
	atomic_store_explicit(&at->fill, 0, memory_order_release);
	atomic_store_explicit(&at->delay_ns, 0, memory_order_release);
	atomic_store_explicit(&at->at, second, memory_order_release);
}

static inline struct weir__second *second_of(struct weir__limit_sight *of, uint32_t second)
{
	struct weir__second *const at = &of->seconds[second % WEIR__SIGHT_SECONDS];

	if (WEIR__UNLIKELY(atomic_load_explicit(&at->at, memory_order_relaxed) != second)) {
		clear_second(at, second);
		of->newest = second;
	}
	return at;
}

/* Chooses the next key that is looked at: 1 to 2 n - 1 claims from here, of which n is the mean: not in step with those who
 * ask in turns. */
static void choose_key(struct weir__sight *sight)
{
	if (sight->weight == 1) {
		sight->until_talker = 1;
		return;
	}
	sight->random = sight->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	sight->until_talker = 1 + (uint32_t)((sight->random >> 32) * (2 * sight->weight - 1) >> 32);
}

/* One is looked at. Returns how often it counts. */
static uint32_t weigh(struct weir__sight *sight)
{
	const uint32_t weight = sight->weight;

	/* It has become more than was reckoned with. */
	if (++sight->looked == 2 * WEIR__SIGHT_EXACT && weight < WEIR__SIGHT_WEIGHT_MOST) {
		sight->looked = 0;
		sight->weight *= 4;
	}
	choose_key(sight);
	return weight;
}

/* A clock that was set back a little comes to the same second again, whose numbers stay. */
static void clear_requests(struct weir__sight *sight, uint32_t second)
{
	struct weir__second *const at = &sight->seconds[second % WEIR__SIGHT_SECONDS];

	if (atomic_load_explicit(&at->at, memory_order_relaxed) != second)
		clear_second(at, second);
}

/* As much is reckoned with as there was in the second before. */
static void begin_second(struct weir__sight *sight, uint32_t second)
{
	const uint32_t expected = second == sight->second + 1 ? sight->decided : 0,
		       weight = expected / WEIR__SIGHT_EXACT + (expected % WEIR__SIGHT_EXACT > 0);

	sight->weight = weight < 1 ? 1 : weight < WEIR__SIGHT_WEIGHT_MOST ? weight : WEIR__SIGHT_WEIGHT_MOST;
	sight->second = second;
	sight->decided = sight->looked = 0;
	clear_requests(sight, second);
	choose_key(sight);
}

/* Requests as wholes, in the second that has begun. */
static inline void see_requests(struct weir__sight *sight, uint32_t n, uint32_t rejected, uint32_t delayed)
{
	struct weir__second *const at = &sight->seconds[sight->second % WEIR__SIGHT_SECONDS];

	add32(&at->decided, n);
	add64(&sight->requests, n);
	if (rejected > 0) {
		add32(&at->rejected, rejected);
		add64(&sight->rejected, rejected);
	}
	if (WEIR__UNLIKELY(delayed > 0)) {
		add32(&at->delayed, delayed);
		add64(&sight->delayed, delayed);
	}
	sight->throttled += rejected + delayed;
}

/* A share of the whole, which seldom is another one: so there is no division. Nothing is decided by it: it may be rounded. */
static inline uint64_t share_of(struct weir__limit_sight *of, double left, uint64_t whole)
{
	if (WEIR__UNLIKELY(of->whole != whole)) {
		of->whole = whole;
		of->share = whole ? (double)WEIR__FILL_ONE / (double)whole : 0;
	}
	return (uint64_t)(int64_t)(left * of->share + 0.5);
}

static void add_delays(struct weir__limit_sight *of, struct weir__second *at, uint32_t delayed, uint64_t delay_ns)
{
	add32(&at->delayed, delayed);
	add64(&at->delay_ns, delay_ns);
	add64(&of->delayed, delayed);
	add64(&of->delay_ns, delay_ns);
}

static void look_at_key(struct weir__sight *sight, struct weir__limit_sight *of, const struct weir_claim *claim,
			bool is_allowed, weir_ns now)
{
	const uint32_t weight = weigh(sight);

	if (of->talkers && claim->key_length > 0)
		weir__talkers_add(of->talkers, weir__hash(&claim->limit->secret, claim->key, claim->key_length),
				  claim->key, claim->key_length, weight, !is_allowed, now);
}

/* One claim. Whether who asked is told to wait. */
static inline bool see(struct weir__sight *sight, const struct weir_claim *claim, const struct weir_verdict *verdict,
		       bool is_allowed, uint32_t second, weir_ns now)
{
	struct weir__limit_sight *const of = limit_of(sight, claim->limit->index, second);
	const bool is_delayed = is_allowed && verdict->delay > 0;
	struct weir__second *at;

	if (WEIR__UNLIKELY(of == NULL))
		return is_delayed;
	at = second_of(of, second);
	add32(&at->decided, 1);
	add64(&at->fill, share_of(of, (double)verdict->remaining, verdict->limit));
	if (!is_allowed)
		add32(&at->rejected, 1);
	if (WEIR__UNLIKELY(is_delayed))
		add_delays(of, at, 1, verdict->delay);
	if (claim->key_length > 0 && WEIR__UNLIKELY(--sight->until_talker == 0))
		look_at_key(sight, of, claim, is_allowed, now);
	sight->decided++;
	return is_delayed;
}

/* How many claims from here on are of the same limit, as it is. */
static size_t run_of(const struct weir_claim *claims, const struct weir_verdict *verdicts, size_t n)
{
	size_t run = 1;

	while (run < n && claims[run].limit->index == claims[0].limit->index &&
	       verdicts[run].limit == verdicts[0].limit)
		run++;
	return run;
}

static void look_at_keys(struct weir__sight *sight, struct weir__limit_sight *of, const struct weir_claim *claims,
			 const struct weir_verdict *verdicts, size_t n, weir_ns now)
{
	size_t next = sight->until_talker - 1;

	while (next < n) {
		look_at_key(sight, of, &claims[next], verdicts[next].allowed, now);
		next += sight->until_talker;
	}
	sight->until_talker = (uint32_t)(next + 1 - n);
}

/* Claims of one limit, as it is: of all of them the whole is the same. */
static void see_run(struct weir__sight *sight, const struct weir_claim *claims, const struct weir_verdict *verdicts,
		    size_t n, uint32_t second, weir_ns now)
{
	struct weir__limit_sight *const of = limit_of(sight, claims[0].limit->index, second);
	uint32_t rejected = 0, delayed = 0;
	uint64_t delay_ns = 0;
	double left = 0;
	struct weir__second *at;

	for (size_t i = 0; i < n; i++) {
		rejected += !verdicts[i].allowed;
		delayed += verdicts[i].allowed && verdicts[i].delay > 0;
		delay_ns += verdicts[i].allowed ? verdicts[i].delay : 0;
		left += (double)verdicts[i].remaining;
	}
	see_requests(sight, (uint32_t)n, rejected, delayed);
	if (of == NULL)
		return;
	look_at_keys(sight, of, claims, verdicts, n, now);
	sight->decided += (uint32_t)n;
	at = second_of(of, second);
	add32(&at->decided, (uint32_t)n);
	add64(&at->fill, share_of(of, left, verdicts[0].limit));
	if (rejected > 0)
		add32(&at->rejected, rejected);
	if (delayed > 0)
		add_delays(of, at, delayed, delay_ns);
}

void weir__sight_each(struct weir__sight *sight, const struct weir_claim *claims, const struct weir_verdict *verdicts,
		      size_t n, weir_ns now)
{
	const uint32_t second = (uint32_t)(now / SECOND_NS);
	size_t run;

	if (sight == NULL)
		return;
	if (WEIR__UNLIKELY(sight->second != second))
		begin_second(sight, second);
	for (size_t i = 0; i < n; i += run) {
		run = run_of(claims + i, verdicts + i, n - i);
		see_run(sight, claims + i, verdicts + i, run, second, now);
	}
	if (WEIR__UNLIKELY(sight->witness != NULL))
		weir__witness_each(sight->witness, claims, verdicts, n, now);
}

/* As the table counts: all if it is allowed, else those that denied. */
void weir__sight_together(struct weir__sight *sight, const struct weir_claim *claims,
			  const struct weir_verdict *verdicts, size_t n, bool is_shadow, weir_ns now)
{
	const uint32_t second = (uint32_t)(now / SECOND_NS);
	bool is_allowed = true, is_delayed = false;

	if (sight == NULL)
		return;
	if (WEIR__UNLIKELY(sight->second != second))
		begin_second(sight, second);
	for (size_t i = 0; i < n; i++)
		is_allowed = is_allowed && verdicts[i].allowed;
	for (size_t i = 0; i < n; i++)
		if (is_allowed || !verdicts[i].allowed)
			is_delayed |= see(sight, &claims[i], &verdicts[i], is_allowed, second, now);
	if (!is_shadow)
		see_requests(sight, 1, !is_allowed, is_delayed);
	if (WEIR__UNLIKELY(sight->witness != NULL))
		weir__witness_together(sight->witness, claims, verdicts, n, is_shadow, now);
}

/* --- by anybody -------------------------------------------------------------------------------------------------- */

/* NULL: the worker does not see it. */
static struct weir__limit_sight *find(const struct weir__sight *sight, uint32_t limit)
{
	const uint32_t place = atomic_load_explicit(&sight->places[limit], memory_order_acquire);
	struct weir__limit_sight *const of =
		place ? atomic_load_explicit(&sight->limits[place - 1], memory_order_acquire) : NULL;

	return of && atomic_load_explicit(&of->limit, memory_order_acquire) == limit + 1 ? of : NULL;
}

/* Whether it is still of this limit: what was read of it before then is. */
static bool is_still(const struct weir__limit_sight *of, const struct weir_table_limit *limit)
{
	return atomic_load_explicit(&of->limit, memory_order_acquire) == limit->index + 1;
}

static void add_second(struct weir__second *at, uint32_t second, struct weir__limit_seen *seen)
{
	struct weir__limit_seen now;

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

static void add_seen(struct weir__limit_seen *sum, const struct weir__limit_seen *seen)
{
	sum->decided += seen->decided;
	sum->rejected += seen->rejected;
	sum->delayed += seen->delayed;
	sum->delay_ns += seen->delay_ns;
	sum->fill += seen->fill;
}

bool weir__sights_limit(struct weir__sights *sights, const struct weir_table_limit *limit, uint32_t last,
			uint32_t seconds, struct weir__limit_seen *ret_seen)
{
	*ret_seen = (struct weir__limit_seen){ .decided = 0 };
	for (uint32_t i = 0; i < sights->n; i++) {
		struct weir__limit_sight *const of = find(&sights->of[i], limit->index);
		struct weir__limit_seen seen = { .decided = 0 };

		for (uint32_t back = 0; of && back < seconds && back < WEIR__SIGHT_SECONDS; back++)
			add_second(&of->seconds[(last - back) % WEIR__SIGHT_SECONDS], last - back, &seen);
		if (of && is_still(of, limit))
			add_seen(ret_seen, &seen);
	}
	return ret_seen->decided > 0;
}

void weir__sights_series(struct weir__sights *sights, const struct weir_table_limit *limit, uint32_t last,
			 uint32_t seconds, struct weir__limit_seen *ret_seen)
{
	const uint32_t n = seconds < WEIR__SIGHT_SECONDS ? seconds : WEIR__SIGHT_SECONDS;
	struct weir__limit_seen seen[WEIR__SIGHT_SECONDS];

	memset(ret_seen, 0, seconds * sizeof(*ret_seen));
	for (uint32_t i = 0; i < sights->n; i++) {
		struct weir__limit_sight *const of = find(&sights->of[i], limit->index);

		memset(seen, 0, sizeof(seen));
		for (uint32_t back = 0; of && back < n; back++)
			add_second(&of->seconds[(last - back) % WEIR__SIGHT_SECONDS], last - back, &seen[back]);
		for (uint32_t back = 0; of && is_still(of, limit) && back < n; back++)
			add_seen(&ret_seen[seconds - 1 - back], &seen[back]);
	}
}

void weir__sights_requests(struct weir__sights *sights, struct weir__limit_seen *ret_seen)
{
	*ret_seen = (struct weir__limit_seen){ .decided = 0 };
	for (uint32_t i = 0; i < sights->n; i++) {
		struct weir__sight *const of = &sights->of[i];

		ret_seen->decided += atomic_load_explicit(&of->requests, memory_order_relaxed);
		ret_seen->rejected += atomic_load_explicit(&of->rejected, memory_order_relaxed);
		ret_seen->delayed += atomic_load_explicit(&of->delayed, memory_order_relaxed);
	}
}

void weir__sights_requests_series(struct weir__sights *sights, uint32_t last, uint32_t seconds,
				  struct weir__limit_seen *ret_seen)
{
	const uint32_t n = seconds < WEIR__SIGHT_SECONDS ? seconds : WEIR__SIGHT_SECONDS;

	memset(ret_seen, 0, seconds * sizeof(*ret_seen));
	for (uint32_t i = 0; i < sights->n; i++)
		for (uint32_t back = 0; back < n; back++)
			add_second(&sights->of[i].seconds[(last - back) % WEIR__SIGHT_SECONDS], last - back,
				   &ret_seen[seconds - 1 - back]);
}

bool weir__sights_has(struct weir__sights *sights, const struct weir_table_limit *limit)
{
	for (uint32_t i = 0; i < sights->n; i++)
		if (find(&sights->of[i], limit->index))
			return true;
	return false;
}

void weir__sights_delays(struct weir__sights *sights, const struct weir_table_limit *limit, uint64_t *ret_delayed,
			 uint64_t *ret_delay_ns)
{
	*ret_delayed = *ret_delay_ns = 0;
	for (uint32_t i = 0; i < sights->n; i++) {
		struct weir__limit_sight *const of = find(&sights->of[i], limit->index);
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

size_t weir__sights_talkers(struct weir__sights *sights, const struct weir_table_limit *limit,
			    enum weir__talkers_kind kind, weir_ns now, struct weir__talker *ret_talkers, size_t most,
			    weir_ns *ret_since)
{
	const struct weir__limit_sight *sight, *seen[WEIR__TALKERS_JOINED_MAX];
	struct weir__talkers *of[WEIR__TALKERS_JOINED_MAX] = { NULL };
	size_t n = 0, found;

	for (uint32_t i = 0; i < sights->n && n < WEIR__TALKERS_JOINED_MAX; i++) {
		sight = find(&sights->of[i], limit->index);
		if (sight && sight->talkers) {
			seen[n] = sight;
			of[n++] = sight->talkers;
		}
	}
	found = weir__talkers_read(of, n, kind, now, ret_talkers, most, ret_since);
	for (size_t i = 0; i < n; i++)
		if (!is_still(seen[i], limit))
			found = 0; /* what was read may be of another limit: nothing is known of this one any more */
	return found;
}
