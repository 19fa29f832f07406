/* limiter_wait_test.c: waiting for a limiter. No test measures time: a call that must not wait would wait for an hour,
 * and the test would time out. */
/* Covers: src/os/canceller.c */
#include <weir/weir.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "limiter/limiter.h"
#include "limiters.h"

#define MS(n) (UINT64_C(n) * 1000000)
#define HOUR UINT64_C(3600000000000)

static unsigned rounds = 2000, crowd = 20;

static void change(struct weir_limiter *limiter, const char *text)
{
	struct weir_limit limit;

	CHECK_EQ(weir_limit_parse(text, strlen(text), &limit, NULL), WEIR_OK);
	CHECK_EQ(weir_limiter_change(limiter, weir_clock_now(), &limit, NULL), WEIR_OK);
}

/* A thread that waits, and its result. */
struct wait {
	struct weir_limiter *limiter;
	uint64_t cost;
	weir_ns deadline;
	struct weir_canceller canceller;
	pthread_t thread;
	int result;
};

static void *do_wait(void *wait_)
{
	struct wait *wait = wait_;

	wait->result = weir_limiter_wait(wait->limiter, wait->cost, wait->deadline, &wait->canceller);
	return NULL;
}

static size_t waiting(struct weir_limiter *limiter)
{
	size_t n = 0;

	weir__lock_acquire(weir__limiter_lock(limiter));
	for (struct weir__waiter *waiter = weir__limiter_waiters(limiter)->first; waiter; waiter = waiter->next)
		n++;
	weir__lock_release(weir__limiter_lock(limiter));
	return n;
}

/* Returns when the thread waits. */
static void start(struct wait *wait)
{
	const size_t before = waiting(wait->limiter);

	pthread_create(&wait->thread, NULL, do_wait, wait);
	while (waiting(wait->limiter) <= before)
		usleep(100);
}

static int result_of(struct wait *wait)
{
	pthread_join(wait->thread, NULL);
	return wait->result;
}

/* Windows aligned to the clock are long, so that none ends during the test. */
static const char *const of_each_kind[] = { "1/hour",
					    "1/hour refill interval",
					    "1/hour leaky queue 1",
					    "1/hour leaky",
					    "1/5000day fixed_window",
					    "1/hour fixed_window align first",
					    "1/hour sliding_log",
					    "1/5000day sliding_counter",
					    "1/5000day sliding_counter segments 2" };

#define KINDS (sizeof(of_each_kind) / sizeof(of_each_kind[0]))

static void what_need_not_wait_does_not(void)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct weir_limiter *const limiter = limiter_of(of_each_kind[i], 0);
		struct weir_canceller cancelled = { 0 };

		CHECK_EQ(weir_limiter_wait(limiter, 1, 0, NULL), WEIR_OK);
		CHECK_EQ(weir_limiter_wait(limiter, 0, 0, NULL), WEIR_OK);
		CHECK_EQ(weir_limiter_wait(limiter, 2, WEIR_NEVER, NULL), WEIR_ERR_NEVER);
		CHECK_EQ(weir_limiter_wait(limiter, 1, weir_clock_now() + 1000, NULL), WEIR_ERR_DEADLINE);
		CHECK_EQ(weir_limiter_wait(limiter, 1, 0, NULL), WEIR_ERR_DEADLINE);
		weir_canceller_cancel(&cancelled);
		CHECK(weir_canceller_is_cancelled(&cancelled));
		CHECK_EQ(weir_limiter_wait(limiter, 1, WEIR_NEVER, &cancelled), WEIR_ERR_CANCELLED);
		CHECK_EQ(waiting(limiter), 0);
		/* None of these calls charged anything. */
		CHECK(weir_limiter_peek(limiter, weir_clock_now(), 1).retry_after <=
		      2 * weir_limiter_limit(limiter).period);
		free(limiter);
	}
}

static void a_wait_ends_when_its_time_comes(void)
{
	static const char *const limits[] = { "1/20ms",
					      "1/20ms refill interval",
					      "1/20ms leaky queue 3",
					      "1/20ms fixed_window",
					      "1/20ms sliding_log",
					      "1/20ms sliding_counter" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_limiter *const limiter = limiter_of(limits[i], 0);

		for (int k = 0; k < 4; k++)
			CHECK_EQ(weir_limiter_wait(limiter, 1, WEIR_NEVER, NULL), WEIR_OK);
		free(limiter);
	}
}

static void cancelled_from_another_thread(void)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct wait wait = { .limiter = limiter_of(of_each_kind[i], 0), .cost = 1, .deadline = WEIR_NEVER };

		weir_limiter_allow(wait.limiter, weir_clock_now(), 1);
		start(&wait);
		weir_canceller_cancel(&wait.canceller);
		CHECK_EQ(result_of(&wait), WEIR_ERR_CANCELLED);
		CHECK_EQ(waiting(wait.limiter), 0);
		free(wait.limiter);
	}
}

static void buckets_serve_in_order(void)
{
	struct weir_limiter *const limiter = limiter_of("1/hour", 0);
	struct wait *const waits = calloc(crowd, sizeof(*waits));
	weir_ns last = 0;

	weir_limiter_allow(limiter, weir_clock_now(), 1);
	for (size_t i = 0; i < crowd; i++) {
		waits[i] = (struct wait){ .limiter = limiter, .cost = 1, .deadline = WEIR_NEVER };
		start(&waits[i]);
	}
	weir__lock_acquire(weir__limiter_lock(limiter));
	for (struct weir__waiter *waiter = weir__limiter_waiters(limiter)->first; waiter; waiter = waiter->next) {
		CHECK(last == 0 || waiter->act_at == last + HOUR);
		last = waiter->act_at;
	}
	weir__lock_release(weir__limiter_lock(limiter));
	change(limiter, "10000/s burst 1"); /* all compute their waits again, in the same order */
	for (size_t i = 0; i < crowd; i++)
		CHECK_EQ(result_of(&waits[i]), WEIR_OK);
	free(waits);
	free(limiter);
}

/* In any order of cancellation, nothing stays charged. */
static void cancelled_waits_leave_no_debt(void)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 }, { 1, 2, 0 } };
	static const char *const limits[] = { "1/hour", "1/hour refill interval" };

	for (size_t i = 0; i < 8; i++) {
		struct weir_limiter *const limiter = limiter_of(limits[i % 2], 0);
		struct wait waits[3];

		weir_limiter_allow(limiter, weir_clock_now(), 1);
		for (size_t k = 0; k < 3; k++) {
			waits[k] = (struct wait){ .limiter = limiter, .cost = 1, .deadline = WEIR_NEVER };
			start(&waits[k]);
		}
		for (size_t k = 0; k < 3; k++) {
			weir_canceller_cancel(&waits[orders[i / 2][k]].canceller);
			CHECK_EQ(result_of(&waits[orders[i / 2][k]]), WEIR_ERR_CANCELLED);
		}
		CHECK(weir_limiter_peek(limiter, weir_clock_now(), 1).retry_after <= HOUR);
		free(limiter);
	}
}

static void what_is_cancelled_before_it_begins_does_not(void)
{
	struct weir_limiter *const limiter = limiter_of("5/hour", 0);
	struct weir_canceller cancelled = { 0 };

	weir_canceller_cancel(&cancelled);
	CHECK_EQ(weir_limiter_wait(limiter, 1, WEIR_NEVER, &cancelled), WEIR_ERR_CANCELLED);
	CHECK_EQ(weir_limiter_tokens(limiter, weir_clock_now()), 5);
	free(limiter);
}

static void a_raised_limit_wakes(void)
{
	static const char *const pairs[][2] = {
		{ "1/hour", "1000/s burst 1" },
		{ "1/hour refill interval", "1/ms refill interval" },
		{ "1/5000day fixed_window", "9/5000day fixed_window" },
		{ "1/5000day sliding_counter", "9/5000day sliding_counter" },
		{ "1/hour", "1000/s burst 18446744073709551615" }, /* decided under a lock */
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct wait wait = { .limiter = limiter_of(pairs[i][0], 0), .cost = 1, .deadline = WEIR_NEVER };

		weir_limiter_allow(wait.limiter, weir_clock_now(), 1);
		start(&wait);
		change(wait.limiter, pairs[i][1]);
		CHECK_EQ(result_of(&wait), WEIR_OK);
		free(wait.limiter);
	}
}

static void a_lowered_limit_ends_waits_that_have_become_vain(void)
{
	struct wait wait = { .limiter = limiter_of("1/hour burst 3", 0), .cost = 2 };

	weir_limiter_allow(wait.limiter, weir_clock_now(), 3);
	wait.deadline = weir_clock_now() + 3 * HOUR;
	start(&wait);
	change(wait.limiter, "1/day burst 3");
	CHECK_EQ(result_of(&wait), WEIR_ERR_DEADLINE);
	wait.deadline = WEIR_NEVER;
	start(&wait);
	change(wait.limiter, "1/day burst 1");
	CHECK_EQ(result_of(&wait), WEIR_ERR_NEVER);
	/* The reservations were given back: one token, a day's refill, is all that is missing. */
	CHECK(weir_limiter_peek(wait.limiter, weir_clock_now(), 1).retry_after <= 24 * HOUR);
	free(wait.limiter);
}

static _Atomic unsigned signals;

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

static void signals_do_not_end_a_wait(void)
{
	const struct sigaction action = { .sa_handler = on_signal };
	struct wait wait = { .limiter = limiter_of("1/hour", 0), .cost = 1, .deadline = WEIR_NEVER };

	sigaction(SIGUSR1, &action, NULL);
	weir_limiter_allow(wait.limiter, weir_clock_now(), 1);
	start(&wait);
	for (unsigned i = 1; i <= 20; i++) {
		pthread_kill(wait.thread, SIGUSR1);
		while (atomic_load(&signals) < i)
			usleep(100);
	}
	CHECK_EQ(waiting(wait.limiter), 1);
	weir_canceller_cancel(&wait.canceller);
	CHECK_EQ(result_of(&wait), WEIR_ERR_CANCELLED);
	free(wait.limiter);
}

/* Waits of a few microseconds race with cancellations and deadlines. A lost wake-up would leave a wait of an hour; a
 * cancelled wait that kept or gave back too much would change the sum. */
struct racer {
	struct weir_limiter *limiter;
	struct weir_canceller *cancellers; /* one per round */
	pthread_barrier_t *barrier;
	uint64_t admitted;
	bool cancels;
};

static void *race(void *racer_)
{
	struct racer *racer = racer_;

	for (unsigned round = 0; round < rounds; round++) {
		pthread_barrier_wait(racer->barrier);
		if (racer->cancels) {
			for (volatile unsigned i = 0; i < round % 512; i++)
				;
			weir_canceller_cancel(&racer->cancellers[round]);
		} else {
			const weir_ns deadline = round % 3 ? WEIR_NEVER : weir_clock_now() + round % 97 * 100;

			racer->admitted += weir_limiter_wait(racer->limiter, 1, deadline, &racer->cancellers[round]) ==
					   WEIR_OK;
		}
	}
	return NULL;
}

static void no_wake_up_is_lost_in_races(void)
{
	static const char *const limits[] = { "1/hour", "1/3us burst 1", "2/5000day fixed_window",
					      "1/3us leaky queue 2" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_limiter *const limiter = limiter_of(limits[i], 0);
		const struct weir_limit limit = weir_limiter_limit(limiter);
		struct weir_canceller *cancellers = calloc(rounds, sizeof(*cancellers));
		const weir_ns begin = weir_clock_now();
		struct racer racers[4];
		pthread_t threads[4];
		pthread_barrier_t barrier;
		uint64_t admitted = 0;

		pthread_barrier_init(&barrier, NULL, 4);
		for (size_t t = 0; t < 4; t++) {
			racers[t] = (struct racer){ limiter, cancellers, &barrier, 0, t == 3 };
			pthread_create(&threads[t], NULL, race, &racers[t]);
		}
		for (size_t t = 0; t < 4; t++) {
			pthread_join(threads[t], NULL);
			admitted += racers[t].admitted;
		}
		CHECK_EQ(waiting(limiter), 0);
		if (i == 0) /* cancelled and late waits stay uncharged */
			CHECK(weir_limiter_peek(limiter, weir_clock_now(), 1).retry_after <= HOUR);
		CHECK(admitted <= limit.burst + (weir_clock_now() - begin) / (limit.period / limit.count));
		pthread_barrier_destroy(&barrier);
		free(cancellers);
		free(limiter);
	}
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(what_need_not_wait_does_not),   TEST(a_wait_ends_when_its_time_comes),
		TEST(cancelled_from_another_thread), TEST(buckets_serve_in_order),
		TEST(cancelled_waits_leave_no_debt), TEST(what_is_cancelled_before_it_begins_does_not),
		TEST(a_raised_limit_wakes),          TEST(a_lowered_limit_ends_waits_that_have_become_vain),
		TEST(signals_do_not_end_a_wait),     TEST(no_wake_up_is_lost_in_races),
	};

	if (argc > 1) { /* full size */
		rounds = (unsigned)atoi(argv[1]);
		crowd = 1000;
	}
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
