/* waiting.c: measures how evenly waits end, and their CPU time. Prints one line of JSON.
 *
 *     waiting queue|limiter N      one thread takes N departures of 1000 a second: spacing errors, processor time
 *     waiting crowd N SECONDS      N threads wait on one limiter of 10,000 a second: shares, total, processor time
 *     waiting sleepers N SECONDS   N threads wake up as often by themselves: what the wake-ups alone cost */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <weir/weir.h>

enum { CROWD_RATE = 10000 };

static const weir_ns spacing = 1000000;

static double processor_seconds(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static weir_ns monotonic(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (weir_ns)at.tv_sec * 1000000000 + (weir_ns)at.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Prints how far the distance of consecutive times is from `spacing`. */
static void print_spacing(weir_ns *times, size_t n, double seconds_used)
{
	const double elapsed = (double)(times[n - 1] - times[0]) / 1e9;

	for (size_t i = 0; i + 1 < n; i++) {
		const weir_ns between = times[i + 1] - times[i];

		times[i] = between > spacing ? between - spacing : spacing - between;
	}
	qsort(times, n - 1, sizeof(*times), by_size);
	printf("{\"p50_us\": %.1f, \"p99_us\": %.1f, \"worst_us\": %.1f, \"per_second\": %.2f, \"cpu_us_each\": %.2f}\n",
	       (double)times[(n - 1) / 2] / 1e3, (double)times[(n - 1) * 99 / 100] / 1e3, (double)times[n - 2] / 1e3,
	       (double)(n - 1) / elapsed, seconds_used * 1e6 / (double)n);
}

static void *memory_of(size_t size)
{
	void *memory = aligned_alloc(64, (size + 63) / 64 * 64);

	if (memory == NULL)
		err(1, "aligned_alloc");
	return memory;
}

static void measure_queue(size_t n)
{
	struct weir_limit limit = weir_limit_of(WEIR_LEAKY_BUCKET, 1000, 1000000000);
	weir_ns *const times = memory_of(n * sizeof(*times));
	struct weir_queue *queue;
	double before;
	size_t size;
	void *item;

	limit.shape = true;
	limit.burst = n;
	size = weir_queue_size(&limit);
	if (weir_queue_init(memory_of(size), size, &limit, NULL, &queue, NULL) != WEIR_OK)
		errx(1, "no queue");
	for (size_t i = 0; i < n; i++)
		weir_queue_try_push(queue, &times[i], NULL);
	before = processor_seconds();
	for (size_t i = 0; i < n; i++) {
		if (weir_queue_pop(queue, &item, WEIR_NEVER, NULL) != WEIR_OK || item != &times[i])
			errx(1, "the queue is out of order");
		times[i] = monotonic();
	}
	print_spacing(times, n, processor_seconds() - before);
}

static struct weir_limiter *limiter_of(const char *text)
{
	struct weir_limiter *limiter;

	if (weir_limiter_init_text(memory_of(WEIR_LIMITER_SIZE), WEIR_LIMITER_SIZE, text, &limiter, NULL) != WEIR_OK)
		errx(1, "no limiter");
	return limiter;
}

static void measure_limiter(size_t n)
{
	weir_ns *const times = memory_of(n * sizeof(*times));
	struct weir_limiter *const limiter = limiter_of("1000/s burst 1");
	const double before = processor_seconds();

	for (size_t i = 0; i < n; i++) {
		if (weir_limiter_wait(limiter, 1, WEIR_NEVER, NULL) != WEIR_OK)
			errx(1, "the wait failed");
		times[i] = monotonic();
	}
	print_spacing(times, n, processor_seconds() - before);
}

/* --- a crowd --- */

struct member {
	pthread_t thread;
	struct weir_limiter *limiter; /* NULL: sleeps by itself */
	size_t number, of;
	weir_ns end;
	uint64_t turns;
};

static void *take_turns(void *member_)
{
	struct member *member = member_;
	const weir_ns turn = UINT64_C(1000000000) * member->of / CROWD_RATE;
	weir_ns next = monotonic() + turn * (member->number + 1) / member->of;

	while (monotonic() < member->end) {
		if (member->limiter) {
			if (weir_limiter_wait(member->limiter, 1, WEIR_NEVER, NULL) != WEIR_OK)
				errx(1, "the wait failed");
		} else {
			const struct timespec at = { (time_t)(next / 1000000000), (long)(next % 1000000000) };

			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
			next += turn;
		}
		member->turns++;
	}
	return NULL;
}

static void measure_crowd(size_t n, double seconds, bool has_limiter)
{
	struct weir_limiter *const limiter = has_limiter ? limiter_of("10000/s burst 1") : NULL;
	struct member *const members = calloc(n, sizeof(*members));
	const weir_ns begin = monotonic(), end = begin + (weir_ns)(seconds * 1e9);
	uint64_t total = 0, least = UINT64_MAX, most = 0;
	pthread_attr_t small;
	double used, elapsed;

	if (members == NULL)
		err(1, "calloc");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (size_t i = 0; i < n; i++) {
		members[i] = (struct member){ .limiter = limiter, .number = i, .of = n, .end = end };
		if (pthread_create(&members[i].thread, &small, take_turns, &members[i]) != 0)
			errx(1, "no more threads");
	}
	for (size_t i = 0; i < n; i++) {
		pthread_join(members[i].thread, NULL);
		total += members[i].turns;
		least = members[i].turns < least ? members[i].turns : least;
		most = members[i].turns > most ? members[i].turns : most;
	}
	elapsed = (double)(monotonic() - begin) / 1e9;
	used = processor_seconds();
	printf("{\"turns\": %" PRIu64 ", \"least\": %" PRIu64 ", \"most\": %" PRIu64
	       ", \"seconds\": %.3f, \"cpu\": %.4f, \"most_by_model\": %.0f}\n",
	       total, least, most, elapsed, used / elapsed, elapsed * CROWD_RATE + 1);
	if (has_limiter && (double)total > elapsed * CROWD_RATE + 1)
		errx(1, "allowed more than the limit");
}

int main(int argc, char **argv)
{
	const size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	const double seconds = argc > 3 ? strtod(argv[3], NULL) : 0;

	if (n > 1 && argc == 3 && strcmp(argv[1], "queue") == 0)
		measure_queue(n);
	else if (n > 1 && argc == 3 && strcmp(argv[1], "limiter") == 0)
		measure_limiter(n);
	else if (n > 1 && argc == 4 && strcmp(argv[1], "crowd") == 0)
		measure_crowd(n, seconds, true);
	else if (n > 1 && argc == 4 && strcmp(argv[1], "sleepers") == 0)
		measure_crowd(n, seconds, false);
	else
		errx(2, "usage: waiting queue|limiter N, or waiting crowd|sleepers N SECONDS");
	return 0;
}
