/* core.c: measures decisions, one mode at a time, and prints one line of JSON. bench/core.py runs it.
 *
 *     core scenarios                      the kinds and modes of `step` and `take`, one a line
 *     core step KIND MODE [OPTION]...     weir_step_allow by itself; time is made up
 *     core take KIND MODE [OPTION]...     weir_step_take, the whole verdict
 *     core hot allow|used|deny [OPTION]...  one limiter that every thread asks, clock included
 *     core clock [OPTION]...              weir_clock_now by itself
 *     core cas [OPTION]...                one 16-byte load and compare-and-swap by themselves
 *     core clock_cas [OPTION]...          the least a limiter can do: the clock, one 16-byte load, one compare-and-swap
 *     core clock_blind_cas [OPTION]...    the same without the load: only a single thread knows what to expect
 *
 *     --seconds S   for so long (0.5), after a warm-up; the clock is looked at each BATCH decisions
 *     --count N     exactly N decisions, a multiple of BATCH, without a warm-up: for counting instructions
 *     --threads N   (1), each on its own processor out of those that this process may use
 *
 * A run whose decisions are not all what its mode claims fails: it would measure something else. */
#include <weir/weir.h>

#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "os/atomic16.h"
#include "scenario.h"

enum {
	BATCH = SCENARIO_DECISIONS,
	THREADS_MAX = 64,
};

#define WARM_UP_SECONDS 0.05

struct options {
	double seconds;
	uint64_t count; /* 0: go by seconds */
	size_t threads;
};

/* What is measured. */
struct subject {
	uint64_t (*batch)(const struct subject *subject); /* decides BATCH times, returns how many were allowed */
	bool is_allowed;                                  /* what every decision must be */
	struct scene scene;
	struct weir_limiter *limiter;
};

struct worker {
	const struct subject *subject;
	const struct options *options;
	pthread_barrier_t *ready;
	int cpu;
	uint64_t decisions, allowed;
	double seconds, cpu_seconds;
} __attribute__((aligned(128))); /* so that threads do not share a line of it, nor a pair of lines */

static uint64_t batch_step(const struct subject *subject)
{
	struct scene scene;
	weir_ns now = subject->scene.start;
	uint64_t allowed = 0;

	memcpy(&scene, &subject->scene, offsetof(struct scene, state) + weir_plan_state_size(&subject->scene.plan));
	for (size_t i = 0; i < BATCH; i++) {
		allowed += weir_step_allow(&scene.plan, scene.state, now, 1);
		now += scene.advance;
	}
	return allowed;
}

static uint64_t batch_take(const struct subject *subject)
{
	struct scene scene;
	weir_ns now = subject->scene.start;
	uint64_t allowed = 0;

	memcpy(&scene, &subject->scene, offsetof(struct scene, state) + weir_plan_state_size(&subject->scene.plan));
	for (size_t i = 0; i < BATCH; i++) {
		allowed += weir_step_take(&scene.plan, scene.state, now, 1).allowed;
		now += scene.advance;
	}
	return allowed;
}

static uint64_t batch_hot(const struct subject *subject)
{
	uint64_t allowed = 0;

	for (size_t i = 0; i < BATCH; i++)
		allowed += weir_limiter_allow(subject->limiter, weir_clock_now(), 1);
	return allowed;
}

static uint64_t batch_clock(const struct subject *subject)
{
	uint64_t allowed = 0;

	(void)subject;
	for (size_t i = 0; i < BATCH; i++)
		allowed += weir_clock_now() != 0;
	return allowed;
}

static union weir__atomic16 bare_slot __attribute__((aligned(64)));

static uint64_t batch_clock_cas(const struct subject *subject)
{
	uint64_t swapped = 0;

	(void)subject;
	for (size_t i = 0; i < BATCH; i++) {
		const weir_ns now = weir_clock_now();
		const struct weir_state seen = weir__atomic16_load(&bare_slot);

		swapped += weir__atomic16_swap(&bare_slot, seen, (struct weir_state){ now, seen.hi + 1 });
	}
	return swapped;
}

/* The load and the swap by themselves. */
static uint64_t batch_cas(const struct subject *subject)
{
	uint64_t swapped = 0;

	(void)subject;
	for (size_t i = 0; i < BATCH; i++) {
		const struct weir_state seen = weir__atomic16_load(&bare_slot);

		swapped += weir__atomic16_swap(&bare_slot, seen, (struct weir_state){ seen.lo + i, seen.hi + 1 });
	}
	return swapped;
}

/* The expected value stays in registers: nothing but the clock and the swap. */
static uint64_t batch_clock_blind_cas(const struct subject *subject)
{
	struct weir_state seen = weir__atomic16_load(&bare_slot);
	uint64_t swapped = 0;

	(void)subject;
	for (size_t i = 0; i < BATCH; i++) {
		const struct weir_state next = { weir_clock_now(), seen.hi + 1 };

		swapped += weir__atomic16_swap(&bare_slot, seen, next);
		seen = next;
	}
	return swapped;
}

static double seconds_of(clockid_t id)
{
	struct timespec at;

	clock_gettime(id, &at);
	return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		err(1, "processor %d", cpu);
}

static void work_for(struct worker *worker, double seconds)
{
	const double cpu_start = seconds_of(CLOCK_THREAD_CPUTIME_ID), start = seconds_of(CLOCK_MONOTONIC);

	worker->decisions = worker->allowed = 0;
	do {
		worker->allowed += worker->subject->batch(worker->subject);
		worker->decisions += BATCH;
		worker->seconds = seconds_of(CLOCK_MONOTONIC) - start;
	} while (worker->options->count ? worker->decisions < worker->options->count : worker->seconds < seconds);
	worker->cpu_seconds = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
}

static void *work(void *worker_)
{
	struct worker *const worker = worker_;

	pin(worker->cpu);
	pthread_barrier_wait(worker->ready);
	if (!worker->options->count)
		work_for(worker, WARM_UP_SECONDS);
	pthread_barrier_wait(worker->ready);
	work_for(worker, worker->options->seconds);
	return NULL;
}

/* The nth processor that this process may use. */
static int nth_cpu(size_t n)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		err(1, "sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET((size_t)cpu, &set) && n-- == 0)
			return cpu;
	}
	errx(1, "more threads than processors that this process may use");
}

static void print_result(const struct worker *workers, const struct options *options, bool is_allowed)
{
	uint64_t decisions = 0, allowed = 0;
	double per_second = 0, slowest = 0, busy = 1;

	for (size_t i = 0; i < options->threads; i++) {
		const struct worker *const worker = &workers[i];

		decisions += worker->decisions;
		allowed += worker->allowed;
		per_second += (double)worker->decisions / worker->seconds;
		if (i == 0 || (double)worker->decisions / worker->seconds < slowest)
			slowest = (double)worker->decisions / worker->seconds;
		if (worker->cpu_seconds / worker->seconds < busy)
			busy = worker->cpu_seconds / worker->seconds;
	}
	if (allowed != (is_allowed ? decisions : 0))
		errx(1, "%" PRIu64 " of %" PRIu64 " decisions were allowed, not %s", allowed, decisions,
		     is_allowed ? "all" : "none");
	printf("{\"threads\": %zu, \"decisions\": %" PRIu64 ", \"allowed\": %" PRIu64 ", \"denied\": %" PRIu64
	       ", \"ns\": %.4f, \"per_second\": %.0f, \"busy\": %.4f, \"least_share\": %.4f}\n",
	       options->threads, decisions, allowed, decisions - allowed, 1e9 * (double)options->threads / per_second,
	       per_second, busy, slowest / per_second);
}

static void measure(const struct subject *subject, const struct options *options)
{
	static struct worker workers[THREADS_MAX];
	pthread_t threads[THREADS_MAX];
	pthread_barrier_t ready;

	pthread_barrier_init(&ready, NULL, (unsigned)options->threads);
	for (size_t i = 0; i < options->threads; i++) {
		workers[i] = (struct worker){ subject, options, &ready, .cpu = nth_cpu(i) };
		if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
			errx(1, "no thread");
	}
	for (size_t i = 0; i < options->threads; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&ready);
	print_result(workers, options, subject->is_allowed);
}

/* The same limits as in peers/core.go. */
static const struct {
	const char *mode, *limit;
	bool is_allowed;
} hot_limits[] = {
	{ "allow", "1000000000/s burst 1000000000", true }, /* refilled faster than anybody asks */
	{ "used", "1/s burst 1000000000000", true },        /* never whole again, and never empty in this life */
	{ "deny", "1/hour burst 1", false },                /* emptied before */
};

static void begin_hot(const char *mode, struct subject *subject)
{
	static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE];
	struct weir_message why;

	for (size_t i = 0; i < sizeof(hot_limits) / sizeof(hot_limits[0]); i++) {
		if (strcmp(hot_limits[i].mode, mode) != 0)
			continue;
		if (weir_limiter_init_text(memory, sizeof(memory), hot_limits[i].limit, &subject->limiter, &why) !=
		    WEIR_OK)
			errx(1, "%s: %s", hot_limits[i].limit, why.text);
		weir_limiter_allow(subject->limiter, weir_clock_now(), 1);
		subject->is_allowed = hot_limits[i].is_allowed;
		subject->batch = batch_hot;
		return;
	}
	errx(2, "hot: no such mode: %s", mode);
}

static const struct {
	const char *name;
	uint64_t (*batch)(const struct subject *subject);
} bare[] = {
	{ "clock", batch_clock },
	{ "cas", batch_cas },
	{ "clock_cas", batch_clock_cas },
	{ "clock_blind_cas", batch_clock_blind_cas },
};

/* Returns how many arguments name the subject. */
static int begin(int n, char **arguments, struct subject *subject)
{
	const char *const what = n > 0 ? arguments[0] : "";

	for (size_t i = 0; i < sizeof(bare) / sizeof(bare[0]); i++) {
		if (strcmp(what, bare[i].name) == 0) {
			subject->batch = bare[i].batch;
			subject->is_allowed = true;
			return 1;
		}
	}
	if (n >= 2 && strcmp(what, "hot") == 0) {
		begin_hot(arguments[1], subject);
		return 2;
	}
	if (n >= 3 && (strcmp(what, "step") == 0 || strcmp(what, "take") == 0)) {
		const struct scenario *const scenario = scenario_find(arguments[1], arguments[2]);

		if (!scenario)
			errx(2, "no such scenario: %s %s", arguments[1], arguments[2]);
		scenario_begin(scenario, &subject->scene);
		subject->is_allowed = scenario->is_allowed;
		subject->batch = strcmp(what, "step") == 0 ? batch_step : batch_take;
		return 3;
	}
	errx(2, "usage: core scenarios | step KIND MODE | take KIND MODE | hot MODE | clock | cas | clock_cas | "
		"clock_blind_cas, [--seconds S | --count N] [--threads N]");
}

static struct options read_options(int n, char **arguments)
{
	struct options options = { .seconds = 0.5, .threads = 1 };

	for (int i = 0; i < n; i += 2) {
		const char *const name = arguments[i], *const value = i + 1 < n ? arguments[i + 1] : "";

		if (strcmp(name, "--seconds") == 0)
			options.seconds = strtod(value, NULL);
		else if (strcmp(name, "--count") == 0)
			options.count = strtoull(value, NULL, 10);
		else if (strcmp(name, "--threads") == 0)
			options.threads = strtoull(value, NULL, 10);
		else
			errx(2, "no such option: %s", name);
	}
	if (options.threads < 1 || options.threads > THREADS_MAX || options.count % BATCH != 0)
		errx(2, "threads are 1 to %d, the count a multiple of %d", THREADS_MAX, BATCH);
	return options;
}

int main(int argc, char **argv)
{
	static struct subject subject;
	struct options options;
	int used;

	if (argc == 2 && strcmp(argv[1], "scenarios") == 0) {
		for (size_t i = 0; i < scenarios_n; i++)
			printf("%s %s %s\n", scenarios[i].kind, scenarios[i].mode,
			       scenarios[i].is_constant_size ? "constant" : "grows");
		return 0;
	}
	used = begin(argc - 1, argv + 1, &subject);
	options = read_options(argc - 1 - used, argv + 1 + used);
	weir_clock_now(); /* it calibrates itself when it is first asked */
	measure(&subject, &options);
	return 0;
}
