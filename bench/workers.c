/* workers.c: see workers.h. */
#include "workers.h"

#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_UP_SECONDS 0.05

struct worker {
	const struct work *work;
	pthread_barrier_t *ready;
	size_t thread;
	int processor;
	uint64_t decisions, allowed;
	double seconds, cpu_seconds;
} __attribute__((aligned(128))); /* threads do not share a cache line, or a pair of lines */

static double seconds_of(clockid_t id)
{
	struct timespec at;

	clock_gettime(id, &at);
	return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

double work_seconds(void)
{
	return seconds_of(CLOCK_MONOTONIC);
}

void work_pin(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		err(1, "processor %d", processor);
}

int work_nth_processor(size_t n)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		err(1, "sched_getaffinity");
	for (int processor = 0; processor < CPU_SETSIZE; processor++) {
		if (CPU_ISSET((size_t)processor, &set) && n-- == 0)
			return processor;
	}
	errx(1, "more threads than available processors");
}

static void work_for(struct worker *worker, double seconds)
{
	const struct work *const work = worker->work;
	const double cpu_start = seconds_of(CLOCK_THREAD_CPUTIME_ID), start = work_seconds();

	worker->decisions = worker->allowed = 0;
	do {
		worker->allowed += work->batch(work->subject, worker->thread);
		worker->decisions += work->each;
		worker->seconds = work_seconds() - start;
	} while (work->count ? worker->decisions < work->count : worker->seconds < seconds);
	worker->cpu_seconds = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
}

static void *run(void *worker_)
{
	struct worker *const worker = worker_;

	work_pin(worker->processor);
	pthread_barrier_wait(worker->ready);
	if (!worker->work->count)
		work_for(worker, WARM_UP_SECONDS);
	pthread_barrier_wait(worker->ready);
	work_for(worker, worker->work->seconds);
	return NULL;
}

static void print_result(const struct worker *workers, const struct work *work, const char *more)
{
	uint64_t decisions = 0, allowed = 0;
	double per_second = 0, slowest = 0, busy = 1;

	for (size_t i = 0; i < work->threads; i++) {
		const struct worker *const worker = &workers[i];

		decisions += worker->decisions;
		allowed += worker->allowed;
		per_second += (double)worker->decisions / worker->seconds;
		if (i == 0 || (double)worker->decisions / worker->seconds < slowest)
			slowest = (double)worker->decisions / worker->seconds;
		if (worker->cpu_seconds / worker->seconds < busy)
			busy = worker->cpu_seconds / worker->seconds;
	}
	if (!work->is_mixed && allowed != (work->is_allowed ? decisions : 0))
		errx(1, "%" PRIu64 " of %" PRIu64 " decisions were allowed, not %s", allowed, decisions,
		     work->is_allowed ? "all" : "none");
	printf("{\"threads\": %zu, \"decisions\": %" PRIu64 ", \"allowed\": %" PRIu64 ", \"denied\": %" PRIu64
	       ", \"ns\": %.4f, \"per_second\": %.0f, \"busy\": %.4f, \"least_share\": %.4f%s}\n",
	       work->threads, decisions, allowed, decisions - allowed, 1e9 * (double)work->threads / per_second,
	       per_second, busy, slowest / per_second, more);
}

void work_measure(const struct work *work, const char *more)
{
	static struct worker workers[WORKERS_MAX];
	pthread_t threads[WORKERS_MAX];
	pthread_barrier_t ready;

	pthread_barrier_init(&ready, NULL, (unsigned)work->threads);
	for (size_t i = 0; i < work->threads; i++) {
		workers[i] = (struct worker){ work, &ready, .thread = i, .processor = work_nth_processor(i) };
		if (pthread_create(&threads[i], NULL, run, &workers[i]) != 0)
			errx(1, "no thread");
	}
	for (size_t i = 0; i < work->threads; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&ready);
	print_result(workers, work, more);
}

bool work_option(struct work *work, const char *name, const char *value)
{
	if (strcmp(name, "--seconds") == 0)
		work->seconds = strtod(value, NULL);
	else if (strcmp(name, "--count") == 0)
		work->count = strtoull(value, NULL, 10);
	else if (strcmp(name, "--threads") == 0)
		work->threads = strtoull(value, NULL, 10);
	else
		return false;
	return true;
}

void work_check(const struct work *work)
{
	if (work->threads < 1 || work->threads > WORKERS_MAX || work->count % work->each != 0)
		errx(2, "--threads must be 1 to %d, --count a multiple of %" PRIu64, WORKERS_MAX, work->each);
}
