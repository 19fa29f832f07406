/* table_wait_test.c: waiting for a key. No test measures time: a call that must not wait would wait for years, and the
 * test would time out. The table's own clock shows that a call did wait. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "tables.h"

enum { CROWD = 8, ROUNDS = 300 };

/* One limit is slightly longer than the longest reservation. */
static const char *const of_years[] = {
	"1/31s",
	"1/3000day",
	"1/3000day refill interval",
	"1/3000day leaky queue 1",
	"1/3000day leaky",
	"1/3000day fixed_window",
	"1/3000day fixed_window align first",
	"1/3000day fixed_window count all",
	"1/3000day sliding_counter",
};

#define YEARS (sizeof(of_years) / sizeof(of_years[0]))

/* Made now; the name of shared memory is removed at once. */
static struct weir_table *new_table(bool is_shared)
{
	struct weir_table_options options = { .size_bytes = weir_table_size(100, 0) };
	struct weir_table *table;
	char name[40];

	(void)snprintf(name, sizeof(name), "weir-table-wait-test-%d", (int)getpid());
	options.shared = is_shared ? name : NULL;
	table = table_with(&options);
	if (is_shared)
		CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
	return table;
}

/* A thread that waits, and its result. */
struct wait {
	struct weir_table *table;
	const struct weir_table_limit *limit;
	weir_ns deadline;
	struct weir_canceller canceller;
	pthread_t thread;
	int result;
	weir_ns ended_at;
};

static void *do_wait(void *wait_)
{
	struct wait *const wait = wait_;

	wait->result = weir_table_wait(wait->table, wait->limit, "key", 3, 1, wait->deadline, &wait->canceller);
	wait->ended_at = weir_table_now(wait->table);
	return NULL;
}

static void start(struct wait *wait)
{
	pthread_create(&wait->thread, NULL, do_wait, wait);
}

static int result_of(struct wait *wait)
{
	pthread_join(wait->thread, NULL);
	return wait->result;
}

static weir_ns full_at(const struct wait *wait)
{
	return weir_table_inspect(wait->table, wait->limit, "key", 3, weir_table_now(wait->table)).full_at;
}

/* Starts the thread, and returns when it has reserved its tokens. */
static void start_and_see(struct wait *wait)
{
	const weir_ns before = full_at(wait);

	start(wait);
	while (full_at(wait) == before)
		usleep(100);
}

static uint64_t denied(struct weir_table *table, const struct weir_table_limit *limit)
{
	struct weir_table_limit_stats stats;

	weir_table_limit_stats(table, limit, &stats);
	return stats.denied;
}

static void what_need_not_wait_does_not(void)
{
	for (size_t i = 0; i < 2 * YEARS; i++) {
		struct weir_table *const table = new_table(i % 2);
		const struct weir_table_limit *const limit = limit_in(table, of_years[i / 2]);
		struct weir_canceller cancelled = { 0 };

		weir_canceller_cancel(&cancelled);
		CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, WEIR_NEVER, &cancelled), WEIR_ERR_CANCELLED);
		CHECK_EQ(weir_table_wait(table, limit, "key", 3, 2, WEIR_NEVER, NULL), WEIR_ERR_NEVER);
		if (weir_table_limit_limit(limit).count_all)
			weir_table_reset(table, limit, "key", 3); /* it has counted the cost that never fits */
		CHECK_EQ(slots_with(table, limit, "key", 3), 0);  /* nothing of that was charged */
		CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, 0, NULL), WEIR_OK);
		CHECK_EQ(weir_table_wait(table, limit, "key", 3, 0, 0, NULL), WEIR_OK);
		CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, 0, NULL), WEIR_ERR_DEADLINE);
		CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, weir_table_now(table) + 1000, NULL),
			 WEIR_ERR_DEADLINE);
		CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, WEIR_NEVER, &cancelled), WEIR_ERR_CANCELLED);
		CHECK_EQ(weir_table_wait(table, limit, "other", 5, 1, 0, NULL), WEIR_OK);
		CHECK_EQ(denied(table, limit), 3);
		CHECK(weir_table_reset(table, limit, "key", 3));
		CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, 0, NULL), WEIR_OK);
		weir_table_free(table);
	}
}

static void a_wait_ends_when_its_time_comes(void)
{
	static const char *const limits[] = { "1/5ms",
					      "1/5ms refill interval",
					      "1/5ms leaky queue 3",
					      "1/5ms leaky",
					      "1/5ms fixed_window",
					      "1/5ms fixed_window align first",
					      "1/5ms fixed_window count all",
					      "1/5ms sliding_counter" };

	for (size_t i = 0; i < 2 * sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_table *const table = new_table(i % 2);
		const struct weir_table_limit *const limit = limit_in(table, limits[i / 2]);
		const weir_ns begin = weir_table_now(table) / MS(5) * MS(5);

		for (int k = 0; k < 4; k++)
			CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, WEIR_NEVER, NULL), WEIR_OK);
		CHECK(weir_table_now(table) >= begin + 3 * MS(5));
		CHECK_EQ(denied(table, limit), 0);
		weir_table_free(table);
	}
}

/* Very short waits are waited for, too. */
static void short_waits_are_not_cut_short(void)
{
	static const char *const limits[] = { "1/200us", "1/200us refill interval", "1/200us leaky queue 3",
					      "1/200us fixed_window" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_table *const table = new_table(false);
		const struct weir_table_limit *const limit = limit_in(table, limits[i]);
		const weir_ns begin = weir_table_now(table) / 200000 * 200000;

		for (uint64_t k = 0; k < 100; k++) {
			CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, WEIR_NEVER, NULL), WEIR_OK);
			CHECK(weir_table_now(table) >= begin + k * 200000);
		}
		weir_table_free(table);
	}
}

/* Waits for a bucket get its tokens one after another, none too early. */
static void several_are_served_one_after_another(void)
{
	static const char *const limits[] = { "1/2ms", "1/2ms leaky", "1/2ms leaky queue 20", "1/2ms refill interval",
					      "1/2ms fixed_window" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_table *const table = new_table(false);
		const struct weir_table_limit *const limit = limit_in(table, limits[i]);
		const weir_ns begin = weir_table_now(table) / MS(2) * MS(2);
		struct wait waits[CROWD];
		unsigned early[CROWD + 1] = { 0 };

		CHECK(weir_table_allow(table, limit, "key", 3, begin, 1));
		for (size_t k = 0; k < CROWD; k++) {
			waits[k] = (struct wait){ .table = table, .limit = limit, .deadline = WEIR_NEVER };
			start(&waits[k]);
		}
		for (size_t k = 0; k < CROWD; k++) {
			CHECK_EQ(result_of(&waits[k]), WEIR_OK);
			for (size_t n = 1; n <= CROWD; n++) /* who ended before the n-th token was there */
				early[n] += waits[k].ended_at < begin + n * MS(2);
		}
		for (size_t n = 1; n <= CROWD; n++)
			CHECK(early[n] < n);
		weir_table_free(table);
	}
}

/* A request without a wait does not overtake them. */
static void while_others_wait_it_is_not_to_be_had(void)
{
	struct weir_table *const table = new_table(false);
	struct wait wait = { .table = table, .limit = limit_in(table, "1/20s"), .deadline = WEIR_NEVER };
	const weir_ns begin = weir_table_now(table);

	CHECK(weir_table_allow(table, wait.limit, "key", 3, begin, 1));
	start_and_see(&wait);
	CHECK_EQ(full_at(&wait), begin + S(40));
	CHECK(!weir_table_allow(table, wait.limit, "key", 3, begin + S(20), 1));
	CHECK_EQ(weir_table_take(table, wait.limit, "key", 3, begin + S(20), 1).retry_after, S(20));
	CHECK_EQ(weir_table_wait(table, wait.limit, "key", 3, 1, begin + S(40) - 1, NULL), WEIR_ERR_DEADLINE);
	weir_canceller_cancel(&wait.canceller);
	CHECK_EQ(result_of(&wait), WEIR_ERR_CANCELLED);
	CHECK_EQ(full_at(&wait), begin + S(20));
	weir_table_free(table);
}

/* The last wait may be cancelled first; its reservation is given back to the nanosecond. */
static void a_cancelled_wait_gives_back(void)
{
	static const char *const limits[] = { "1/8s", "3/25s burst 1", "1/8s leaky", "1/8s leaky queue 5" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_table *const table = new_table(i % 2);
		const struct weir_table_limit *const limit = limit_in(table, limits[i]);
		struct wait waits[3];
		weir_ns before[3];

		CHECK(weir_table_allow(table, limit, "key", 3, weir_table_now(table), 1));
		for (size_t k = 0; k < 3; k++) {
			waits[k] = (struct wait){ .table = table, .limit = limit, .deadline = WEIR_NEVER };
			before[k] = full_at(&waits[k]);
			start_and_see(&waits[k]);
		}
		for (size_t k = 3; k-- > 0;) {
			weir_canceller_cancel(&waits[k].canceller);
			CHECK_EQ(result_of(&waits[k]), WEIR_ERR_CANCELLED);
			CHECK_EQ(full_at(&waits[k]), before[k]);
		}
		weir_table_free(table);
	}
}

/* Cancelled in order of arrival: later waits depend on the first reservation, and keep their times. What that leaves
 * unused is lost. */
static void what_later_ones_built_upon_stays(void)
{
	struct weir_table *const table = new_table(false);
	const struct weir_table_limit *const limit = limit_in(table, "1/8s");
	const weir_ns begin = weir_table_now(table);
	struct wait waits[3];

	CHECK(weir_table_allow(table, limit, "key", 3, begin, 1));
	for (size_t k = 0; k < 3; k++) {
		waits[k] = (struct wait){ .table = table, .limit = limit, .deadline = WEIR_NEVER };
		start_and_see(&waits[k]);
	}
	for (size_t k = 0; k < 3; k++) {
		weir_canceller_cancel(&waits[k].canceller);
		CHECK_EQ(result_of(&waits[k]), WEIR_ERR_CANCELLED);
		CHECK_EQ(full_at(&waits[k]), begin + (k < 2 ? S(32) : S(24)));
	}
	weir_table_free(table);
}

/* A reservation that was forgiven meanwhile is not given back a second time. */
static void a_wait_that_was_forgiven_gives_nothing_back(void)
{
	struct weir_table *const table = new_table(false);
	const struct weir_table_limit *const limit = limit_in(table, "2/40s");
	struct wait wait = { .table = table, .limit = limit, .deadline = WEIR_NEVER };
	weir_ns now;

	CHECK(weir_table_allow(table, limit, "key", 3, weir_table_now(table), 2));
	start_and_see(&wait);
	CHECK(weir_table_reset(table, limit, "key", 3));
	now = weir_table_now(table);
	CHECK(weir_table_allow(table, limit, "key", 3, now, 2)); /* somebody else's */
	weir_canceller_cancel(&wait.canceller);
	CHECK_EQ(result_of(&wait), WEIR_ERR_CANCELLED);
	CHECK_EQ(full_at(&wait), now + S(40));
	weir_table_free(table);
}

/* A clock that is less than half a minute behind does not take reservations for a new clock. */
static void a_clock_a_little_behind_forgives_nothing(void)
{
	struct weir_table *const table = new_table(false);
	const struct weir_table_limit *const limit = limit_in(table, "1/25s");
	struct wait wait = { .table = table, .limit = limit, .deadline = WEIR_NEVER };
	const weir_ns begin = weir_table_now(table);

	CHECK(weir_table_allow(table, limit, "key", 3, begin, 1));
	start_and_see(&wait);
	CHECK(!weir_table_allow(table, limit, "key", 3, begin - S(25), 1));
	CHECK(!weir_table_peek(table, limit, "key", 3, begin - S(25), 1).allowed);
	CHECK_EQ(full_at(&wait), begin + S(50));
	weir_canceller_cancel(&wait.canceller);
	CHECK_EQ(result_of(&wait), WEIR_ERR_CANCELLED);
	weir_table_free(table);
}

/* Nothing is reserved more than half a minute ahead, nor for limits without debt. */
static void a_long_wait_takes_nothing_ahead(void)
{
	for (size_t i = 0; i < YEARS; i++) {
		struct weir_table *const table = new_table(i % 2);
		const struct weir_table_limit *const limit = limit_in(table, of_years[i]);
		struct wait waits[4];
		weir_ns before;

		CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, WEIR_NEVER, NULL), WEIR_OK);
		before = full_at(&(struct wait){ .table = table, .limit = limit });
		for (size_t k = 0; k < 4; k++) {
			waits[k] = (struct wait){ .table = table, .limit = limit, .deadline = WEIR_NEVER };
			start(&waits[k]);
		}
		for (int n = 0; n < 1000; n++, sched_yield()) /* while they come to sleep, most likely */
			CHECK_EQ(full_at(&waits[0]), before);
		for (size_t k = 0; k < 4; k++) {
			weir_canceller_cancel(&waits[k].canceller);
			CHECK_EQ(result_of(&waits[k]), WEIR_ERR_CANCELLED);
		}
		CHECK_EQ(full_at(&waits[0]), before);
		weir_table_free(table);
	}
}

static void shaped_departures(void)
{
	struct weir_table *const table = new_table(false);
	const struct weir_table_limit *const limit = limit_in(table, "1/3000day leaky queue 2");
	struct wait wait = { .table = table, .limit = limit, .deadline = WEIR_NEVER };

	CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, 0, NULL), WEIR_OK); /* departs at once */
	CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, weir_table_now(table) + S(60), NULL), WEIR_ERR_DEADLINE);
	CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, weir_table_now(table) + 2000 * S(86400), NULL),
		 WEIR_ERR_DEADLINE); /* at once: there is room, but its departure is later */
	CHECK_EQ(weir_table_peek(table, limit, "key", 3, weir_table_now(table), 0).remaining, 1);
	start_and_see(&wait); /* is given its departure, the queue is full */
	CHECK_EQ(weir_table_peek(table, limit, "key", 3, weir_table_now(table), 0).remaining, 0);
	weir_canceller_cancel(&wait.canceller);
	CHECK_EQ(result_of(&wait), WEIR_ERR_CANCELLED);
	CHECK_EQ(weir_table_peek(table, limit, "key", 3, weir_table_now(table), 0).remaining, 1);
	weir_table_free(table);
}

/* --- races ------------------------------------------------------------------------------------------------------ */

struct racer {
	struct wait wait;
	struct weir_canceller *cancellers; /* one a round */
	pthread_barrier_t *barrier;
	bool cancels;
	uint64_t admitted;
	pthread_t thread;
};

static void *race(void *racer_)
{
	struct racer *const racer = racer_;
	const struct wait *const wait = &racer->wait;

	for (unsigned round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(racer->barrier);
		if (racer->cancels) {
			for (volatile unsigned i = 0; i < round % 512; i++)
				;
			weir_canceller_cancel(&racer->cancellers[round]);
		} else {
			const weir_ns deadline = round % 3 ? WEIR_NEVER :
							     weir_table_now(wait->table) + round % 97 * 100;

			racer->admitted += weir_table_wait(wait->table, wait->limit, "key", 3, 1, deadline,
							   &racer->cancellers[round]) == WEIR_OK;
		}
	}
	return NULL;
}

/* Waits of microseconds and of years are cancelled at all moments. A lost wake-up would leave a wait of years; a
 * cancelled wait that gave back others' tokens would change the sum. */
static void no_wake_up_is_lost_in_races(void)
{
	static const char *const limits[] = { "1/3000day", "1/3us burst 1", "2/3000day fixed_window",
					      "1/3us leaky queue 2" };
	struct weir_canceller cancellers[ROUNDS];

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_table *const table = new_table(false);
		const struct weir_table_limit *const limit = limit_in(table, limits[i]);
		const struct weir_limit of = weir_table_limit_limit(limit);
		const weir_ns begin = weir_table_now(table);
		struct racer racers[4];
		pthread_barrier_t barrier;
		uint64_t admitted = 0;

		memset(cancellers, 0, sizeof(cancellers));
		pthread_barrier_init(&barrier, NULL, 4);
		for (size_t t = 0; t < 4; t++) {
			racers[t] = (struct racer){ .wait = { .table = table, .limit = limit },
						    .cancellers = cancellers,
						    .barrier = &barrier,
						    .cancels = t == 3 };
			pthread_create(&racers[t].thread, NULL, race, &racers[t]);
		}
		for (size_t t = 0; t < 4; t++) {
			pthread_join(racers[t].thread, NULL);
			admitted += racers[t].admitted;
		}
		CHECK(admitted > 0);
		CHECK(admitted <= of.burst + (weir_table_now(table) - begin) / (of.period / of.count) + 1);
		pthread_barrier_destroy(&barrier);
		weir_table_free(table);
	}
}

/* --- reservations, which do not block: the clock is given --- */

static struct weir_verdict reserve(struct weir_table *table, const struct weir_table_limit *limit, weir_ns now,
				   weir_ns max_wait, struct weir_reservation *ret_reservation)
{
	struct weir_verdict verdict;

	CHECK_EQ(weir_table_reserve(table, limit, "key", 3, now, 1, max_wait, ret_reservation, &verdict), WEIR_OK);
	return verdict;
}

static void reservations_go_one_after_another(void)
{
	static const char *const limits[] = { "1/s burst 1", "1/s leaky burst 1", "1/s leaky queue 100" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct weir_table *const table = table_for(100, MADE_AT);
		const struct weir_table_limit *const limit = limit_in(table, limits[i]);
		struct weir_reservation reservations[4], copy;
		struct weir_table_limit_stats stats;
		struct weir_verdict v;

		for (size_t n = 0; n < 4; n++) {
			v = reserve(table, limit, MADE_AT, WEIR_NEVER, &reservations[n]);
			CHECK(v.allowed && v.granted == 1);
			CHECK_EQ(v.delay, n * S(1));
			CHECK_EQ(reservations[n].act_at, MADE_AT + n * S(1));
		}
		v = reserve(table, limit, MADE_AT, S(3), &(struct weir_reservation){ 0 });
		CHECK(!v.allowed && v.retry_after == S(1));
		weir_table_limit_stats(table, limit, &stats);
		CHECK_EQ(stats.allowed, 4);
		CHECK_EQ(stats.denied, 1);
		/* A reservation that later ones depend on is not given back until they are. */
		copy = reservations[2];
		CHECK_EQ(weir_table_cancel(table, limit, "key", 3, MADE_AT, &copy), 0);
		CHECK_EQ(weir_table_cancel(table, limit, "key", 3, MADE_AT, &reservations[3]), 1);
		CHECK_EQ(weir_table_cancel(table, limit, "key", 3, MADE_AT, &reservations[3]), 0);
		copy = reservations[2];
		CHECK_EQ(weir_table_cancel(table, limit, "other", 5, MADE_AT, &copy), 0);
		CHECK_EQ(weir_table_cancel(table, limit, "key", 3, MADE_AT, &reservations[2]), 1);
		CHECK_EQ(reserve(table, limit, MADE_AT, WEIR_NEVER, &reservations[2]).delay, S(2));
		/* Its time has passed. */
		CHECK_EQ(weir_table_cancel(table, limit, "key", 3, MADE_AT + S(2) + 1, &reservations[2]), 0);
		weir_table_free(table);
	}
}

static void reservations_of_a_limit_that_was_changed_stay(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "1/s burst 1");
	struct weir_reservation first, second;

	(void)reserve(table, limit, MADE_AT, WEIR_NEVER, &first);
	(void)reserve(table, limit, MADE_AT, WEIR_NEVER, &second);
	CHECK_EQ(weir_table_change_limit_text(table, limit, "2/s burst 1", MADE_AT, NULL), WEIR_OK);
	CHECK_EQ(weir_table_cancel(table, limit, "key", 3, MADE_AT, &second), 0);
	weir_table_free(table);
}

static void reservations_reach_half_a_minute(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "1/10s burst 1");
	const struct weir_table_limit *const shaped = limit_in(table, "1/10s leaky queue 100");
	struct weir_reservation reservation;
	struct weir_verdict v;

	for (size_t n = 0; n < 4; n++)
		CHECK_EQ(reserve(table, limit, MADE_AT, WEIR_NEVER, &reservation).delay, n * S(10));
	v = reserve(table, limit, MADE_AT, WEIR_NEVER, &reservation);
	CHECK(!v.allowed && !v.never && v.retry_after == S(10) && reservation.cost == 0);
	CHECK_EQ(weir_table_cancel(table, limit, "key", 3, MADE_AT, &reservation), 0);
	CHECK_EQ(reserve(table, limit, MADE_AT + S(10), WEIR_NEVER, &reservation).delay, S(30));
	for (size_t n = 0; n < 10; n++)
		CHECK_EQ(reserve(table, shaped, MADE_AT, WEIR_NEVER, &reservation).delay, n * S(10));
	weir_table_free(table);
}

static void windows_do_not_reserve(void)
{
	static const char *const others[] = { "5/s fixed_window", "5/s sliding_counter", "5/s refill interval" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct weir_table *const table = table_for(100, MADE_AT);
		const struct weir_table_limit *const limit = limit_in(table, others[i]);
		struct weir_reservation reservation = { .cost = 1 };
		struct weir_verdict v;

		CHECK_EQ(weir_table_reserve(table, limit, "key", 3, MADE_AT, 1, 0, &reservation, &v),
			 WEIR_ERR_UNSUPPORTED);
		CHECK_EQ(reservation.cost, 1);
		CHECK_EQ(weir_table_cancel(table, limit, "key", 3, MADE_AT, &reservation), 0);
		weir_table_free(table);
	}
}

TESTS(TEST(what_need_not_wait_does_not), TEST(a_wait_ends_when_its_time_comes), TEST(short_waits_are_not_cut_short),
      TEST(several_are_served_one_after_another), TEST(while_others_wait_it_is_not_to_be_had),
      TEST(a_cancelled_wait_gives_back), TEST(what_later_ones_built_upon_stays),
      TEST(a_wait_that_was_forgiven_gives_nothing_back), TEST(a_clock_a_little_behind_forgives_nothing),
      TEST(a_long_wait_takes_nothing_ahead), TEST(shaped_departures), TEST(no_wake_up_is_lost_in_races),
      TEST(reservations_go_one_after_another), TEST(reservations_of_a_limit_that_was_changed_stay),
      TEST(reservations_reach_half_a_minute), TEST(windows_do_not_reserve))
