/* clock.c: the process's clock, and clocks that processes share. Readers take no lock and never block. There are two
 * places for the timeline (timeline.h), and a number whose lowest bit says which one is current. Now and then a reader
 * steers the timeline. */
#include "os/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "os/pause.h"

enum {
	CALIBRATE_NS = 200000, /* two readings 200 us apart give the rate to about 100 ppm; steering does the rest */
	STEER_EACH_NS = 100000000,
	BEND_AHEAD_NS = 10000000, /* longer than a new line takes to become visible on all cores */
	SAMPLE_TRIES = 5,
	IDLE_NS = 1000000000, /* a clock that was not read for this long is off by the error of its rate */
	STEER_PATIENCE = 2000,
	READ_TOGETHER_NS = 100000,
};

static struct weir__clock process_clock;
static pthread_once_t started = PTHREAD_ONCE_INIT, forks_watched = PTHREAD_ONCE_INIT;
static _Atomic bool is_started;

/* Incremented in every child, because a thread that was steering in the parent does not exist there. */
static _Atomic uint32_t process_number = 1;

static weir_ns kernel_clock(clockid_t id)
{
	struct timespec at;

	clock_gettime(id, &at);
	return (weir_ns)at.tv_sec * 1000000000 + (weir_ns)at.tv_nsec;
}

/* Reading the counter is not a fence: the processor may read it a few nanoseconds before earlier instructions. A fenced
 * reading costs twice as much, and no decision needs it: a clock that is a little behind allows nothing extra. */
static inline uint64_t read_ticks(const struct weir__clock *clock)
{
#if defined(__x86_64__)
	if (__builtin_expect(clock->uses_tsc, 1))
		return __rdtsc();
#endif
	(void)clock;
	return kernel_clock(CLOCK_MONOTONIC) * 2; /* ticks must be shorter than 1 ns */
}

/* The clock that this one follows. */
static weir_ns read_target(const struct weir__clock *clock, weir_ns monotonic)
{
	return clock->anchor ? monotonic : kernel_clock(CLOCK_REALTIME);
}

/* Reads the three clocks at one moment, as nearly as possible: of a few tries it takes the fastest. */
static struct weir__clock_sample take_sample(const struct weir__clock *clock)
{
	struct weir__clock_sample best = { 0, 0, 0 };
	uint64_t best_took = UINT64_MAX;

	for (int i = 0; i < SAMPLE_TRIES; i++) {
		const uint64_t before = read_ticks(clock);
		const weir_ns monotonic = kernel_clock(CLOCK_MONOTONIC);
		const weir_ns wall = read_target(clock, monotonic);
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

/* Acquire, so that the check whether the place is still current comes after these loads. */
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

/* Reads the two clocks one after the other. Returns false if this thread was interrupted in between, which makes the
 * pair useless. */
static bool read_together(weir_ns *ret_monotonic, weir_ns *ret_wall)
{
	*ret_monotonic = kernel_clock(CLOCK_MONOTONIC);
	*ret_wall = kernel_clock(CLOCK_REALTIME);
	return kernel_clock(CLOCK_MONOTONIC) - *ret_monotonic < READ_TOGETHER_NS;
}

void weir__clock_anchor_init(struct weir__clock_anchor *anchor)
{
	weir_ns monotonic, wall;

	while (!read_together(&monotonic, &wall))
		;
	weir__clock_anchor_begin(anchor, monotonic, wall);
}

static void note_fork(void)
{
	atomic_fetch_add(&process_number, 1);
}

static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, note_fork);
}

/* Measures the rate by two readings. */
static uint64_t measure_rate(const struct weir__clock *clock, struct weir__clock_sample *ret_last)
{
	const struct weir__clock_sample first = take_sample(clock);
	struct weir__clock_sample last = first;

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

	pthread_once(&forks_watched, watch_forks);
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

/* Returns false if another thread is steering. */
static bool begin_steering(struct weir__clock *clock)
{
	const uint32_t self = atomic_load_explicit(&process_number, memory_order_relaxed);
	uint32_t who = atomic_load_explicit(&clock->steering, memory_order_relaxed);

	return who != self && atomic_compare_exchange_strong(&clock->steering, &who, self);
}

static void end_steering(struct weir__clock *clock)
{
	atomic_store_explicit(&clock->steering, 0, memory_order_release);
}

static struct weir__timeline steered(struct weir__clock *clock, const struct weir__timeline *line,
				     const struct weir__clock_sample *sample)
{
	if (clock->anchor && sample->monotonic - clock->last.monotonic > IDLE_NS)
		return weir__timeline_restart(line, &clock->last, sample, clock->ticks_to_steer);
	return weir__timeline_steer(line, &clock->last, sample, clock->ticks_to_bend);
}

static void steer(struct weir__clock *clock)
{
	struct weir__clock_sample sample;
	struct weir__timeline line, next;
	weir_ns monotonic, wall;

	line = read_line(&clock->lines[atomic_load(&clock->number) & 1]);
	if (!is_steering_due(clock, &line, read_ticks(clock))) /* another thread just did */
		return;
	sample = take_sample(clock);
	next = steered(clock, &line, &sample);
	/* If this thread slept meanwhile, the bend may have passed, and readers may be beyond it. Then the next reader
	 * steers. */
	if (read_ticks(clock) - sample.ticks < clock->ticks_to_bend) {
		clock->last = sample;
		publish(clock, &next);
	}
	if (clock->anchor && read_together(&monotonic, &wall))
		weir__clock_anchor_move(clock->anchor, monotonic, wall);
}

/* Steers, or waits a little until another thread has. */
static void have_steered(struct weir__clock *clock, uint64_t number)
{
	if (begin_steering(clock)) {
		steer(clock);
		end_steering(clock);
		return;
	}
	for (int i = 0; i < STEER_PATIENCE && atomic_load_explicit(&clock->number, memory_order_relaxed) == number; i++)
		weir__pause();
}

static struct weir__timeline read_current(struct weir__clock *clock, uint64_t *ret_ticks, uint64_t *ret_number)
{
	struct weir__timeline line;
	uint64_t number;

	do {
		number = atomic_load_explicit(&clock->number, memory_order_acquire);
		line = read_line(&clock->lines[number & 1]);
		*ret_ticks = read_ticks(clock);
	} while (__builtin_expect(atomic_load_explicit(&clock->number, memory_order_acquire) != number, 0));
	*ret_number = number;
	return line;
}

/* Reads the clock in every case, including the rare ones. */
static __attribute__((noinline)) weir_ns read_whole(struct weir__clock *clock)
{
	uint64_t number, ticks;
	struct weir__timeline line = read_current(clock, &ticks, &number);

	if (is_steering_due(clock, &line, ticks)) {
		have_steered(clock, number);
		line = read_current(clock, &ticks, &number);
		/* A counter that started over has no meaning on the old line. Time stands still until there is a new
		 * line. */
		if (went_back(clock, &line, ticks))
			return line.at_bend;
	}
	return weir__timeline_at(&line, ticks);
}

/* The common path calls nothing, so it saves no registers: the counter is past the bend, and steering is not due. */
static inline bool read_fast(struct weir__clock *clock, weir_ns *ret_now)
{
#if defined(__x86_64__)
	if (__builtin_expect(atomic_load_explicit(&clock->is_fast, memory_order_acquire), 1)) {
		const uint64_t number = atomic_load_explicit(&clock->number, memory_order_acquire);
		struct weir__clock_line *const place = &clock->lines[number & 1];
		const uint64_t bend = atomic_load_explicit(&place->bend, memory_order_acquire);
		const weir_ns at_bend = atomic_load_explicit(&place->at_bend, memory_order_acquire);
		const uint64_t rate = atomic_load_explicit(&place->rate_after, memory_order_acquire);
		const uint64_t past = __rdtsc() - bend; /* before the bend this wraps, to more than ticks_to_steer */

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
	weir_ns monotonic;

	if (!read_fast(clock, &monotonic))
		monotonic = read_whole(clock);
	return monotonic + weir__clock_anchor_at(clock->anchor, monotonic);
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
