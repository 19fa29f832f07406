/* clock.c: the process's clock, and clocks that processes share. Readers take no lock and never wait: there are two
 * places for the line of time (timeline.h), and a number whose lowest bit says which one is current. Now and then a
 * reader steers the line. */
#include "os/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum {
	CALIBRATE_NS = 200000, /* two readings 200 us apart tell the rate to about 100 ppm; steering does the rest */
	STEER_EACH_NS = 100000000,
	STEER_GIVEN_UP_NS = 1000000000, /* whoever steers takes far less, unless it is gone: a thread that forked */
	BEND_AHEAD_NS = 10000000,       /* longer than a new line takes to be seen by all cores */
	SAMPLE_TRIES = 5,
	ANCHOR_MAX_PPM = 500,
};

static const weir_ns anchor_follows_at_once_ns = 1000000000;

static struct weir__clock process_clock;
static pthread_once_t started = PTHREAD_ONCE_INIT;
static _Atomic bool is_started;

static weir_ns kernel_clock(clockid_t id)
{
	struct timespec at;

	clock_gettime(id, &at);
	return (weir_ns)at.tv_sec * 1000000000 + (weir_ns)at.tv_nsec;
}

/* Reading the counter is not a fence: it may be read a few nanoseconds before what stands before it in the program. A
 * fenced reading costs twice as much, and no decision needs it: a clock that is a little behind admits nothing extra. */
static inline uint64_t read_ticks(const struct weir__clock *clock)
{
#if defined(__x86_64__)
	if (__builtin_expect(clock->uses_tsc, 1))
		return __rdtsc();
#endif
	(void)clock;
	return kernel_clock(CLOCK_MONOTONIC) * 2; /* ticks must be shorter than 1 ns */
}

/* Brings the anchor closer to the wall clock. Of several who would do so at once, one may. */
static void move_anchor(struct weir__clock_anchor *anchor)
{
	const weir_ns monotonic = kernel_clock(CLOCK_MONOTONIC);
	const uint64_t wanted = kernel_clock(CLOCK_REALTIME) - monotonic;
	uint64_t moved_at = atomic_load(&anchor->moved_at), ahead, most, error;

	if (monotonic - moved_at < STEER_EACH_NS || monotonic < moved_at ||
	    !atomic_compare_exchange_strong(&anchor->moved_at, &moved_at, monotonic))
		return;
	ahead = atomic_load(&anchor->ahead);
	most = (monotonic - moved_at) / 1000000 * ANCHOR_MAX_PPM;
	error = wanted - ahead;
	if ((int64_t)error < 0) /* the wall clock is behind */
		ahead -= -error < most ? -error : most;
	else
		ahead += error < most || error > anchor_follows_at_once_ns ? error : most;
	atomic_store(&anchor->ahead, ahead);
}

static weir_ns wall_clock(const struct weir__clock *clock, weir_ns monotonic)
{
	return clock->anchor ? monotonic + atomic_load(&clock->anchor->ahead) : kernel_clock(CLOCK_REALTIME);
}

/* The three clocks at one moment, as nearly as can be: of a few tries the one in which they were read fastest. */
static struct weir__clock_sample take_sample(const struct weir__clock *clock)
{
	struct weir__clock_sample best = { 0, 0, 0 };
	uint64_t best_took = UINT64_MAX;

	for (int i = 0; i < SAMPLE_TRIES; i++) {
		const uint64_t before = read_ticks(clock);
		const weir_ns monotonic = kernel_clock(CLOCK_MONOTONIC);
		const weir_ns wall = wall_clock(clock, monotonic);
		const uint64_t after = read_ticks(clock);

		if (after - before < best_took) {
			best_took = after - before;
			best = (struct weir__clock_sample){ before + (after - before) / 2, monotonic, wall };
		}
	}
	return best;
}

static bool kernel_trusts_tsc(void)
{
	bool trusted = false;
#if defined(__x86_64__)
	char name[16] = "";
	FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");

	if (file) {
		trusted = fgets(name, sizeof(name), file) && strcmp(name, "tsc\n") == 0;
		fclose(file);
	}
#endif
	return trusted;
}

static void publish(struct weir__clock *clock, const struct weir__timeline *line)
{
	const uint64_t number = atomic_load_explicit(&clock->number, memory_order_relaxed) + 1;
	struct weir__clock_line *const place = &clock->lines[number & 1];

	atomic_store_explicit(&place->bend, line->bend, memory_order_release);
	atomic_store_explicit(&place->at_bend, line->at_bend, memory_order_release);
	atomic_store_explicit(&place->rate_before, line->rate_before, memory_order_release);
	atomic_store_explicit(&place->rate_after, line->rate_after, memory_order_release);
	atomic_store_explicit(&clock->number, number, memory_order_release);
}

/* Acquire, so that whether the place was current is looked up after them. */
static inline struct weir__timeline read_line(struct weir__clock_line *place)
{
	return (struct weir__timeline){
		.bend = atomic_load_explicit(&place->bend, memory_order_acquire),
		.at_bend = atomic_load_explicit(&place->at_bend, memory_order_acquire),
		.rate_before = atomic_load_explicit(&place->rate_before, memory_order_acquire),
		.rate_after = atomic_load_explicit(&place->rate_after, memory_order_acquire),
	};
}

static uint64_t ticks_of(weir_ns span, uint64_t rate)
{
	return (uint64_t)(((weir__ticks_wide)span << WEIR__RATE_SHIFT) / rate);
}

void weir__clock_anchor_init(struct weir__clock_anchor *anchor)
{
	const struct weir__clock clock = { .uses_tsc = kernel_trusts_tsc() };
	const struct weir__clock_sample sample = take_sample(&clock);

	atomic_store(&anchor->ahead, sample.wall - sample.monotonic);
	atomic_store(&anchor->moved_at, sample.monotonic);
	atomic_store(&anchor->made_at_ticks, sample.ticks);
	atomic_store(&anchor->made_at_monotonic, sample.monotonic);
}

/* Two readings tell the rate; the first one may be the anchor's, if that is old enough. */
static uint64_t measure_rate(const struct weir__clock *clock, struct weir__clock_sample *ret_last)
{
	struct weir__clock_sample first = take_sample(clock), last = first;

	if (clock->anchor && first.monotonic - atomic_load(&clock->anchor->made_at_monotonic) > STEER_EACH_NS) {
		first.ticks = atomic_load(&clock->anchor->made_at_ticks);
		first.monotonic = atomic_load(&clock->anchor->made_at_monotonic);
	}
	while (last.monotonic - first.monotonic < CALIBRATE_NS)
		last = take_sample(clock);
	*ret_last = last;
	return weir__timeline_rate(&first, &last);
}

void weir__clock_init(struct weir__clock *clock, struct weir__clock_anchor *anchor)
{
	struct weir__clock_sample sample;
	struct weir__timeline line;
	uint64_t rate = 0;

	memset(clock, 0, sizeof(*clock));
	clock->anchor = anchor;
	clock->uses_tsc = kernel_trusts_tsc();
	if (clock->uses_tsc)
		rate = measure_rate(clock, &sample);
	if (rate == 0) {
		clock->uses_tsc = false;
		sample = take_sample(clock);
		rate = UINT64_C(1) << 63; /* half a nanosecond */
	}
	clock->ticks_to_steer = ticks_of(STEER_EACH_NS, rate);
	clock->ticks_to_bend = ticks_of(BEND_AHEAD_NS, rate);
	clock->last = sample;
	line = weir__timeline_start(&sample, rate);
	publish(clock, &line);
	atomic_store_explicit(&clock->is_fast, clock->uses_tsc, memory_order_release);
}

static void start(void)
{
	weir__clock_init(&process_clock, NULL);
	atomic_store_explicit(&is_started, true, memory_order_release);
}

static bool went_back(const struct weir__clock *clock, const struct weir__timeline *line, uint64_t ticks)
{
	return ticks < line->bend && line->bend - ticks > clock->ticks_to_bend;
}

static bool is_steering_due(const struct weir__clock *clock, const struct weir__timeline *line, uint64_t ticks)
{
	return went_back(clock, line, ticks) || (ticks >= line->bend && ticks - line->bend > clock->ticks_to_steer);
}

/* False: somebody else is at it. A thread that vanished meanwhile, as all but one do in the child of a fork, is not
 * waited for. */
static bool begin_steering(struct weir__clock *clock, weir_ns monotonic)
{
	uint64_t since = atomic_load_explicit(&clock->steering_since, memory_order_acquire);

	if (since != 0 && monotonic - since < STEER_GIVEN_UP_NS)
		return false;
	return atomic_compare_exchange_strong(&clock->steering_since, &since, monotonic);
}

static void end_steering(struct weir__clock *clock)
{
	atomic_store_explicit(&clock->steering_since, 0, memory_order_release);
}

static void steer(struct weir__clock *clock)
{
	struct weir__clock_sample sample;
	struct weir__timeline line, next;

	if (!begin_steering(clock, kernel_clock(CLOCK_MONOTONIC)))
		return;
	line = read_line(&clock->lines[atomic_load(&clock->number) & 1]);
	if (!is_steering_due(clock, &line, read_ticks(clock))) { /* somebody else just has */
		end_steering(clock);
		return;
	}
	if (clock->anchor)
		move_anchor(clock->anchor);
	sample = take_sample(clock);
	next = weir__timeline_steer(&line, &clock->last, &sample, clock->ticks_to_bend);
	/* If this thread slept meanwhile the bend may be past, and readers beyond it: then leave it to the next one. */
	if (read_ticks(clock) - sample.ticks < clock->ticks_to_bend) {
		clock->last = sample;
		publish(clock, &next);
	}
	end_steering(clock);
}

/* Every way there is. */
static __attribute__((noinline)) weir_ns read_whole(struct weir__clock *clock)
{
	struct weir__timeline line;
	uint64_t number, ticks;

	do {
		number = atomic_load_explicit(&clock->number, memory_order_acquire);
		line = read_line(&clock->lines[number & 1]);
		ticks = read_ticks(clock);
	} while (__builtin_expect(atomic_load_explicit(&clock->number, memory_order_acquire) != number, 0));
	if (is_steering_due(clock, &line, ticks)) {
		steer(clock);
		/* A counter that started over says nothing by the old line: time stands still until there is a new one. */
		if (went_back(clock, &line, ticks))
			return line.at_bend;
	}
	return weir__timeline_at(&line, ticks);
}

/* The common way calls nothing and so saves no registers: the counter is past the bend, and steering is not due. */
static inline bool read_fast(struct weir__clock *clock, weir_ns *ret_now)
{
#if defined(__x86_64__)
	if (__builtin_expect(atomic_load_explicit(&clock->is_fast, memory_order_acquire), 1)) {
		const uint64_t number = atomic_load_explicit(&clock->number, memory_order_acquire);
		struct weir__clock_line *const place = &clock->lines[number & 1];
		const uint64_t bend = atomic_load_explicit(&place->bend, memory_order_acquire);
		const weir_ns at_bend = atomic_load_explicit(&place->at_bend, memory_order_acquire);
		const uint64_t rate = atomic_load_explicit(&place->rate_after, memory_order_acquire);
		const uint64_t past = __rdtsc() - bend; /* before the bend: more than any time to steer */

		*ret_now = at_bend + (weir_ns)((weir__ticks_wide)past * rate >> WEIR__RATE_SHIFT);
		return __builtin_expect(past <= clock->ticks_to_steer, 1) &&
		       __builtin_expect(atomic_load_explicit(&clock->number, memory_order_acquire) == number, 1);
	}
#endif
	(void)clock;
	(void)ret_now;
	return false;
}

weir_ns weir__clock_read(struct weir__clock *clock)
{
	weir_ns now;

	return read_fast(clock, &now) ? now : read_whole(clock);
}

static __attribute__((noinline)) weir_ns start_and_read(void)
{
	if (__builtin_expect(!atomic_load_explicit(&is_started, memory_order_acquire), 0))
		pthread_once(&started, start);
	return read_whole(&process_clock);
}

weir_ns weir_clock_now(void)
{
	weir_ns now;

	return read_fast(&process_clock, &now) ? now : start_and_read();
}

const char *weir_clock_source(void)
{
	weir_clock_now();
	return process_clock.uses_tsc ? "tsc" : "monotonic";
}
