/* limiter_threads_test.c: eight threads on one limiter. Time is an argument: in each round all threads send requests at
 * the same instant until they are denied. Together they must be allowed exactly what one thread would be. */
#include <weir/weir.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"
#include "limiters.h"

#define S(n) (UINT64_C(n) * 1000000000)

enum { THREADS = 8, DENIALS = 20 };

static unsigned rounds = 300;

static const char *const limits[] = {
	"700/7ms burst 500",
	"700/7ms leaky queue 500",
	"700/7ms refill interval burst 500",
	"500/7ms fixed_window",
	"500/7ms fixed_window align first",
	"500/7ms fixed_window count all",
	"500/7ms sliding_counter",
	"500/7ms sliding_counter segments 7",
	"500/7ms sliding_log",
	"500/7ms sliding_log count all",
	"100/7ms burst 18446744073709551615", /* never denies here */
	"1/36500day burst 5000000",
};

#define LIMITS (sizeof(limits) / sizeof(limits[0]))

struct shared {
	struct weir_limiter *limiter;
	pthread_barrier_t barrier;
	_Atomic weir_ns now;
	_Atomic uint64_t admitted;
	_Atomic bool stop;
	uint64_t enough; /* a thread stops at this many in a round */
};

static void *ask_in_rounds(void *shared_)
{
	struct shared *shared = shared_;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t admitted = 0;
		unsigned denied = 0;
		weir_ns now;

		pthread_barrier_wait(&shared->barrier);
		now = atomic_load(&shared->now);
		while (denied < DENIALS && admitted < shared->enough) {
			const bool is_allowed = (admitted + denied) % 2 ?
							weir_limiter_take(shared->limiter, now, 1).allowed :
							weir_limiter_allow(shared->limiter, now, 1);

			admitted += is_allowed;
			denied += !is_allowed;
		}
		atomic_fetch_add(&shared->admitted, admitted);
		pthread_barrier_wait(&shared->barrier);
	}
	return NULL;
}

static uint64_t admitted_serially(struct weir_limiter *limiter, weir_ns now, uint64_t enough)
{
	uint64_t admitted = 0;
	unsigned denied = 0;

	while (admitted < enough && denied < THREADS * DENIALS) { /* as many denials as there: they may count */
		if (weir_limiter_allow(limiter, now, 1))
			admitted++;
		else
			denied++;
	}
	return admitted;
}

static void threads_are_admitted_what_one_would_be(void)
{
	for (size_t i = 0; i < LIMITS; i++) {
		struct weir_limiter *const model = limiter_of(limits[i], 0);
		struct shared shared = { .limiter = limiter_of(limits[i], 0), .enough = 2000 };
		pthread_t threads[THREADS];
		weir_ns now = S(1790000000);

		pthread_barrier_init(&shared.barrier, NULL, THREADS + 1);
		for (size_t t = 0; t < THREADS; t++)
			pthread_create(&threads[t], NULL, ask_in_rounds, &shared);
		for (unsigned round = 0; round < rounds; round++, now += 100003 * (1 + round % 30)) {
			atomic_store(&shared.now, now);
			atomic_store(&shared.admitted, 0);
			pthread_barrier_wait(&shared.barrier);
			pthread_barrier_wait(&shared.barrier);
			if (!CHECK_EQ(atomic_load(&shared.admitted),
				      admitted_serially(model, now, THREADS * shared.enough)))
				printf("# %s, round %u\n", limits[i], round);
		}
		for (size_t t = 0; t < THREADS; t++)
			pthread_join(threads[t], NULL);
		pthread_barrier_destroy(&shared.barrier);
		free(shared.limiter);
		free(model);
	}
}

/* Each thread's clock is a little off. Together they are allowed no more than burst + rate * time. */
static void *ask_with_own_clock(void *shared_)
{
	static _Atomic uint64_t seed = 1;
	struct shared *shared = shared_;
	uint64_t random = atomic_fetch_add(&seed, 1) * 0x9e3779b97f4a7c15, admitted = 0;

	while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		admitted += weir_limiter_allow(shared->limiter, atomic_load(&shared->now) - random % 1000, 1);
	}
	atomic_fetch_add(&shared->admitted, admitted);
	return NULL;
}

static void clocks_that_differ_admit_nothing_extra(void)
{
	struct shared shared = { .limiter = limiter_of("1/us burst 50", 0) };
	const weir_ns start = S(1790000000), steps = rounds * 1000;
	pthread_t threads[THREADS];

	atomic_store(&shared.now, start);
	for (size_t t = 0; t < THREADS; t++)
		pthread_create(&threads[t], NULL, ask_with_own_clock, &shared);
	for (weir_ns i = 0; i < steps; i++)
		atomic_fetch_add(&shared.now, 100);
	atomic_store(&shared.stop, true);
	for (size_t t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	CHECK(atomic_load(&shared.admitted) <= 50 + (steps * 100 + 1000) / 1000);
	free(shared.limiter);
}

/* The limit changes between two, also between the lock-free state and the lock. No decision may mix them: at one
 * instant, no more than the larger burst is allowed, and the usage in the end includes every allowed request. The
 * bursts of buckets are equal, because a lower burst would cut the usage. */
static void *ask_while_it_changes(void *shared_)
{
	struct shared *shared = shared_;
	uint64_t admitted = 0;

	while (!atomic_load_explicit(&shared->stop, memory_order_relaxed))
		admitted += weir_limiter_allow(shared->limiter, S(1000), 1);
	atomic_fetch_add(&shared->admitted, admitted);
	return NULL;
}

static void changes_under_load_lose_nothing(void)
{
	static const char *const pairs[][2] = {
		{ "1/s burst 100000", "7/13s burst 100000" },
		{ "1/s burst 18446744073709551615", "1/36500day burst 18446744073709551615" },
		{ "100000/hour fixed_window", "90000/hour fixed_window" },
		{ "100000/hour sliding_counter", "90000/hour sliding_counter" },
		{ "10000/hour sliding_log", "9000/hour sliding_log" },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct shared shared = { .limiter = limiter_of(pairs[i][0], 0) };
		struct weir_limit both[2];
		pthread_t threads[THREADS];
		uint64_t tokens, most;

		for (size_t k = 0; k < 2; k++)
			weir_limit_parse(pairs[i][k], strlen(pairs[i][k]), &both[k], NULL);
		most = both[0].burst;
		for (size_t t = 0; t < THREADS; t++)
			pthread_create(&threads[t], NULL, ask_while_it_changes, &shared);
		for (unsigned k = 1; k <= rounds * 20; k++)
			CHECK_EQ(weir_limiter_change(shared.limiter, S(1000), &both[k % 2], NULL), WEIR_OK);
		atomic_store(&shared.stop, true);
		for (size_t t = 0; t < THREADS; t++)
			pthread_join(threads[t], NULL);
		weir_limiter_change(shared.limiter, S(1000), &both[0], NULL);
		tokens = weir_limiter_tokens(shared.limiter, S(1000));
		CHECK(atomic_load(&shared.admitted) <= most);
		CHECK(tokens <= most - atomic_load(&shared.admitted));
		/* Each change of a rate rounds the usage up by a tiny amount. */
		CHECK(most - atomic_load(&shared.admitted) - tokens <= (i < 2));
		free(shared.limiter);
	}
}

static void *reserve_and_cancel(void *shared_)
{
	struct shared *shared = shared_;
	uint64_t kept = 0;

	for (unsigned i = 0; i < rounds * 10; i++) {
		struct weir_reservation reservation;
		struct weir_verdict v;

		weir_limiter_reserve(shared->limiter, S(1000), 1, UINT64_MAX, &reservation, &v);
		kept++;
		if (i % 2)
			kept -= weir_limiter_cancel(shared->limiter, S(1000), &reservation);
	}
	atomic_fetch_add(&shared->admitted, kept);
	return NULL;
}

static void reservations_are_neither_lost_nor_made_twice(void)
{
	struct shared shared = { .limiter = limiter_of("1/s burst 1", 0) };
	struct weir_reservation last;
	struct weir_verdict v;
	pthread_t threads[THREADS];

	for (size_t t = 0; t < THREADS; t++)
		pthread_create(&threads[t], NULL, reserve_and_cancel, &shared);
	for (size_t t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	weir_limiter_reserve(shared.limiter, S(1000), 1, UINT64_MAX, &last, &v);
	CHECK_EQ(v.delay, S(1) * atomic_load(&shared.admitted));
	free(shared.limiter);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(threads_are_admitted_what_one_would_be),
		TEST(clocks_that_differ_admit_nothing_extra),
		TEST(changes_under_load_lose_nothing),
		TEST(reservations_are_neither_lost_nor_made_twice),
	};

	if (argc > 1) /* full size */
		rounds = (unsigned)atoi(argv[1]);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
