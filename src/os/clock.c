/* clock.c: the process's clock. Readers take no lock and never wait: there are two places for the line of time
 * (timeline.h), and a number whose lowest bit says which one is current. Now and then a reader steers the line. */
#include <weir/clock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "os/timeline.h"

enum {
	CALIBRATE_NS = 200000, /* two readings 200 us apart tell the rate to about 100 ppm; steering does the rest */
	STEER_EACH_NS = 100000000,
	BEND_AHEAD_NS = 10000000, /* longer than a new line takes to be seen by all cores */
	SAMPLE_TRIES = 5,
};

struct shared_line {
	_Atomic uint64_t bend, at_bend, rate_before, rate_after;
};

static struct {
	struct shared_line lines[2];
	_Atomic uint64_t number; /* of lines published; its lowest bit is the current place */
	_Atomic bool is_fast;    /* started, and carried on by the processor\'s counter */
	bool uses_tsc;
	uint64_t ticks_to_steer, ticks_to_bend;
	_Atomic bool steering;          /* a try-lock: whoever fails to get it goes on with the line there is */
	struct weir__clock_sample last; /* under `steering` */
} process_clock __attribute__((aligned(64)));

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
static inline uint64_t read_ticks(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(process_clock.uses_tsc, 1))
		return __rdtsc();
#endif
	return kernel_clock(CLOCK_MONOTONIC) * 2; /* ticks must be shorter than 1 ns */
}

/* The three clocks at one moment, as nearly as can be: of a few tries the one in which they were read fastest. */
static struct weir__clock_sample take_sample(void)
{
	struct weir__clock_sample best = { 0, 0, 0 };
	uint64_t best_took = UINT64_MAX;

	for (int i = 0; i < SAMPLE_TRIES; i++) {
		const uint64_t before = read_ticks();
		const weir_ns monotonic = kernel_clock(CLOCK_MONOTONIC);
		const weir_ns wall = kernel_clock(CLOCK_REALTIME);
		const uint64_t after = read_ticks();

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

static void publish(const struct weir__timeline *line)
{
	const uint64_t number = atomic_load_explicit(&process_clock.number, memory_order_relaxed) + 1;
	struct shared_line *const place = &process_clock.lines[number & 1];

	atomic_store_explicit(&place->bend, line->bend, memory_order_release);
	atomic_store_explicit(&place->at_bend, line->at_bend, memory_order_release);
	atomic_store_explicit(&place->rate_before, line->rate_before, memory_order_release);
	atomic_store_explicit(&place->rate_after, line->rate_after, memory_order_release);
	atomic_store_explicit(&process_clock.number, number, memory_order_release);
}

/* Acquire, so that whether the place was current is looked up after them. */
static inline struct weir__timeline read_line(struct shared_line *place)
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

/* In a child the thread that was steering does not exist. */
static void forget_steering_thread(void)
{
	atomic_store_explicit(&process_clock.steering, false, memory_order_release);
}

static void start(void)
{
	struct weir__clock_sample first, second;
	struct weir__timeline line;
	uint64_t rate = 0;

	process_clock.uses_tsc = kernel_trusts_tsc();
	if (process_clock.uses_tsc) {
		second = first = take_sample();
		while (second.monotonic - first.monotonic < CALIBRATE_NS)
			second = take_sample();
		rate = weir__timeline_rate(&first, &second);
	}
	if (rate == 0) {
		process_clock.uses_tsc = false;
		second = take_sample();
		rate = UINT64_C(1) << 63; /* half a nanosecond */
	}
	process_clock.ticks_to_steer = ticks_of(STEER_EACH_NS, rate);
	process_clock.ticks_to_bend = ticks_of(BEND_AHEAD_NS, rate);
	process_clock.last = second;
	line = weir__timeline_start(&second, rate);
	publish(&line);
	(void)pthread_atfork(NULL, NULL, forget_steering_thread);
	atomic_store_explicit(&is_started, true, memory_order_release);
	atomic_store_explicit(&process_clock.is_fast, process_clock.uses_tsc, memory_order_release);
}

static bool went_back(const struct weir__timeline *line, uint64_t ticks)
{
	return ticks < line->bend && line->bend - ticks > process_clock.ticks_to_bend;
}

static bool is_steering_due(const struct weir__timeline *line, uint64_t ticks)
{
	return went_back(line, ticks) || (ticks >= line->bend && ticks - line->bend > process_clock.ticks_to_steer);
}

static void steer(void)
{
	struct weir__clock_sample sample;
	struct weir__timeline line, next;

	if (atomic_exchange_explicit(&process_clock.steering, true, memory_order_acquire))
		return;
	line = read_line(&process_clock.lines[atomic_load(&process_clock.number) & 1]);
	if (!is_steering_due(&line, read_ticks())) { /* somebody else just has */
		atomic_store_explicit(&process_clock.steering, false, memory_order_release);
		return;
	}
	sample = take_sample();
	next = weir__timeline_steer(&line, &process_clock.last, &sample, process_clock.ticks_to_bend);
	/* If this thread slept meanwhile the bend may be past, and readers beyond it: then leave it to the next one. */
	if (read_ticks() - sample.ticks < process_clock.ticks_to_bend) {
		process_clock.last = sample;
		publish(&next);
	}
	atomic_store_explicit(&process_clock.steering, false, memory_order_release);
}

static __attribute__((noinline)) weir_ns start_and_read(void)
{
	pthread_once(&started, start);
	return weir_clock_now();
}

/* Every way there is. */
static __attribute__((noinline)) weir_ns read_whole(void)
{
	struct weir__timeline line;
	uint64_t number, ticks;

	if (__builtin_expect(!atomic_load_explicit(&is_started, memory_order_acquire), 0))
		return start_and_read();
	do {
		number = atomic_load_explicit(&process_clock.number, memory_order_acquire);
		line = read_line(&process_clock.lines[number & 1]);
		ticks = read_ticks();
	} while (__builtin_expect(atomic_load_explicit(&process_clock.number, memory_order_acquire) != number, 0));
	if (is_steering_due(&line, ticks)) {
		steer();
		/* A counter that started over says nothing by the old line: time stands still until there is a new one. */
		if (went_back(&line, ticks))
			return line.at_bend;
	}
	return weir__timeline_at(&line, ticks);
}

/* The common way calls nothing and so saves no registers: the counter is past the bend, and steering is not due. */
weir_ns weir_clock_now(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(atomic_load_explicit(&process_clock.is_fast, memory_order_acquire), 1)) {
		const uint64_t number = atomic_load_explicit(&process_clock.number, memory_order_acquire);
		struct shared_line *const place = &process_clock.lines[number & 1];
		const uint64_t bend = atomic_load_explicit(&place->bend, memory_order_acquire);
		const weir_ns at_bend = atomic_load_explicit(&place->at_bend, memory_order_acquire);
		const uint64_t rate = atomic_load_explicit(&place->rate_after, memory_order_acquire);
		const uint64_t past = __rdtsc() - bend; /* before the bend: more than any time to steer */

		if (__builtin_expect(past <= process_clock.ticks_to_steer, 1) &&
		    __builtin_expect(atomic_load_explicit(&process_clock.number, memory_order_acquire) == number, 1))
			return at_bend + (weir_ns)((weir__ticks_wide)past * rate >> WEIR__RATE_SHIFT);
	}
#endif
	return read_whole();
}

const char *weir_clock_source(void)
{
	weir_clock_now();
	return process_clock.uses_tsc ? "tsc" : "monotonic";
}
