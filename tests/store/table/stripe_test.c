/* stripe_test.c: every decision is counted once: by many threads, by threads that follow each other, by children of a
 * fork, and by one thread on two tables. */
#include "store/table/stripe.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tables.h"

enum { CROWD = WEIR__STRIPES + 20, EACH = 2000, FOLLOWERS = 3 * WEIR__STRIPES };

static struct weir_table *table;
static const struct weir_table_limit *limit;
static pthread_barrier_t barrier;

static void begin(const char *shared)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0), .shared = shared };

	table = table_with(&options);
	limit = limit_in(table, "1000/3000day");
}

static struct weir_table_limit_stats counted(void)
{
	struct weir_table_limit_stats stats;

	weir_table_limit_stats(table, limit, &stats);
	return stats;
}

/* Makes decisions on one key, of which the first thousand are allowed. */
static void decide(uint32_t key)
{
	const weir_ns now = weir_table_now(table);

	for (unsigned i = 0; i < EACH; i++)
		weir_table_allow(table, limit, &key, sizeof(key), now, 1);
}

static void check_counted(uint64_t deciders)
{
	CHECK_EQ(counted().allowed, deciders * 1000);
	CHECK_EQ(counted().denied, deciders * (EACH - 1000));
	CHECK_EQ(stats_of(table, weir_table_now(table)).inserted, deciders);
}

struct decider {
	uint32_t key;
	pthread_t thread;
	struct weir__stripe_in_use in_use;
};

static void *decide_in_a_crowd(void *decider_)
{
	struct decider *const decider = decider_;

	decider->in_use = weir__stripe_of(&table->region);
	pthread_barrier_wait(&barrier); /* all threads have a stripe while all are alive */
	decide(decider->key);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void many_threads_at_once(void)
{
	static struct decider deciders[CROWD];
	unsigned own = 0;

	begin(NULL);
	pthread_barrier_init(&barrier, NULL, CROWD);
	for (uint32_t i = 0; i < CROWD; i++) {
		deciders[i].key = i;
		pthread_create(&deciders[i].thread, NULL, decide_in_a_crowd, &deciders[i]);
	}
	for (size_t i = 0; i < CROWD; i++)
		pthread_join(deciders[i].thread, NULL);
	check_counted(CROWD);
	for (size_t i = 0; i < CROWD; i++) {
		own += deciders[i].in_use.is_own;
		for (size_t k = 0; k < i; k++) /* a thread's own stripe belongs to no other */
			CHECK(deciders[i].in_use.stripe != deciders[k].in_use.stripe || !deciders[i].in_use.is_own);
	}
	CHECK_EQ(own, WEIR__STRIPES);
	pthread_barrier_destroy(&barrier);
	weir_table_free(table);
}

static void *decide_alone(void *decider_)
{
	struct decider *const decider = decider_;

	decide(decider->key);
	decider->in_use = weir__stripe_of(&table->region);
	return NULL;
}

/* A thread takes over the stripe of a thread that is gone, with its counts. */
static void threads_that_follow_each_other(void)
{
	begin(NULL);
	for (uint32_t i = 0; i < FOLLOWERS; i++) {
		struct decider decider = { .key = i };

		pthread_create(&decider.thread, NULL, decide_alone, &decider);
		pthread_join(decider.thread, NULL);
		CHECK(decider.in_use.is_own);
	}
	check_counted(FOLLOWERS);
	weir_table_free(table);
}

/* Parent and child count in the same memory at the same time, but not in the same stripe. */
static void a_child_counts_by_itself(void)
{
	char name[40];
	pid_t child;
	int status = 1;

	(void)snprintf(name, sizeof(name), "stripe-test-%d", (int)getpid());
	begin(name);
	CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
	decide(1);
	fflush(stdout); /* or the child prints the buffer again */
	child = fork();
	if (child == 0) {
		decide(2);
		_exit(0);
	}
	decide(3);
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	decide(4);
	check_counted(4);
	weir_table_free(table);
}

static void one_thread_on_two_tables(void)
{
	struct weir_table *tables[2];

	for (size_t i = 0; i < 2; i++) {
		begin(NULL);
		tables[i] = table;
	}
	for (unsigned i = 0; i < 1000; i++)
		for (size_t k = 0; k < 2; k++)
			weir_table_allow(tables[k], limit_in(tables[k], "1000/3000day"), "key", 3, MADE_AT, 1 + k);
	for (size_t i = 0; i < 2; i++) {
		table = tables[i];
		limit = limit_in(table, "1000/3000day");
		CHECK_EQ(counted().allowed, i ? 500 : 1000);
		CHECK_EQ(counted().denied, i ? 500 : 0);
		weir_table_free(table);
	}
}

TESTS(TEST(many_threads_at_once), TEST(threads_that_follow_each_other), TEST(a_child_counts_by_itself),
      TEST(one_thread_on_two_tables))
