/* lock_test.c: one thread at a time has the lock, and every waiting thread gets it. */
/* Covers: src/os/futex.c */
#include "os/lock.h"

#include <pthread.h>

#include "check.h"

enum { THREADS = 8, TURNS = 20000 };

static struct weir__lock lock;
static uint64_t turns; /* under the lock */

static void *take_turns(void *unused)
{
	for (int i = 0; i < TURNS; i++) {
		weir__lock_acquire(&lock);
		turns++;
		weir__lock_release(&lock);
	}
	return unused;
}

static void one_at_a_time(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, take_turns, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(turns, THREADS * TURNS);
	CHECK_EQ(lock.word, 0);
}

TESTS(TEST(one_at_a_time))
