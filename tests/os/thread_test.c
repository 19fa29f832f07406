/* thread_test.c: numbers and nonces that tell threads and processes apart. Two are equal by chance once in 2^32, so
 * tests of many tolerate a few pairs. */
#include "os/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 64, NONCES = 2000 };

struct seen {
	uint32_t number, again;
	uint32_t nonces[NONCES];
};

static struct seen seen[THREADS];
static pthread_barrier_t barrier;

static void look(struct seen *ret_seen)
{
	for (size_t i = 0; i < NONCES; i++)
		ret_seen->nonces[i] = weir__thread_nonce();
	ret_seen->number = weir__thread_number();
	ret_seen->again = weir__thread_number();
}

static void *look_in_thread(void *mine)
{
	look(mine);
	pthread_barrier_wait(&barrier); /* all threads live at once */
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static size_t pairs_in(uint32_t *numbers, size_t n)
{
	size_t pairs = 0;

	qsort(numbers, n, sizeof(*numbers), by_value);
	for (size_t i = 1; i < n; i++)
		pairs += numbers[i] == numbers[i - 1];
	return pairs;
}

static void start_all(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, look_in_thread, &seen[i]);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
}

/* What a child of this process sees. */
static struct seen of_child(void)
{
	static struct seen answer;
	int ends[2];
	pid_t child;
	size_t done = 0;

	CHECK_EQ(pipe(ends), 0);
	fflush(stdout); /* or the child prints the buffer again */
	child = fork();
	if (child == 0) {
		look(&answer);
		while (done < sizeof(answer)) {
			const ssize_t n = write(ends[1], (const char *)&answer + done, sizeof(answer) - done);

			if (n <= 0)
				_exit(1);
			done += (size_t)n;
		}
		_exit(0);
	}
	close(ends[1]);
	while (done < sizeof(answer)) {
		const ssize_t n = read(ends[0], (char *)&answer + done, sizeof(answer) - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	close(ends[0]);
	CHECK(child > 0 && waitpid(child, NULL, 0) == child);
	CHECK_EQ(done, sizeof(answer));
	return answer;
}

/* Must run first, before any thread has a number. */
static void who_has_nonces_alone_is_told_apart_from_its_child(void)
{
	const uint32_t before = weir__thread_nonce();
	const struct seen child = of_child();

	CHECK(child.nonces[0] != before && child.nonces[0] != weir__thread_nonce());
}

static void threads_have_numbers_in_a_row(void)
{
	uint32_t numbers[THREADS];

	start_all();
	for (size_t i = 0; i < THREADS; i++) {
		numbers[i] = seen[i].number;
		CHECK(numbers[i] != 0);
		CHECK_EQ(seen[i].again, seen[i].number); /* the number stays */
	}
	CHECK_EQ(pairs_in(numbers, THREADS), 0);
	/* Sorted, they are consecutive, unless they wrapped at 2^32, where 0 is skipped. */
	CHECK(numbers[THREADS - 1] - numbers[0] == THREADS - 1 || numbers[0] == 1);
}

static void nonces_differ(void)
{
	static uint32_t all[THREADS * NONCES];

	start_all();
	for (size_t i = 0; i < THREADS; i++) {
		memcpy(all + i * NONCES, seen[i].nonces, sizeof(seen[i].nonces));
		CHECK_EQ(pairs_in(seen[i].nonces, NONCES), 0); /* no repeats within one thread */
	}
	/* Two pairs are expected among 128,000 numbers. */
	CHECK(pairs_in(all, sizeof(all) / sizeof(all[0])) < 50);
}

static void a_child_has_others_than_its_parent(void)
{
	static struct seen parent, children[2], after;

	look(&parent);
	children[0] = of_child();
	children[1] = of_child();
	look(&after);
	CHECK_EQ(after.number, parent.number); /* the parent keeps its own */
	for (size_t i = 0; i < 2; i++) {
		CHECK(children[i].number != 0);
		CHECK(children[i].number != parent.number);
		CHECK(memcmp(children[i].nonces, after.nonces, sizeof(after.nonces)) != 0);
	}
	CHECK(children[0].number != children[1].number);
	CHECK(children[0].nonces[0] != children[1].nonces[0]);
	CHECK(children[0].nonces[0] != after.nonces[0] && children[1].nonces[0] != after.nonces[0]);
}

TESTS(TEST(who_has_nonces_alone_is_told_apart_from_its_child), TEST(threads_have_numbers_in_a_row), TEST(nonces_differ),
      TEST(a_child_has_others_than_its_parent))
