/* table_crew.h: a table and workers that use it at the same time: threads of this process on a private table, or
 * processes on a shared one, of which every other one attaches by name. Workers leave their results in shared memory;
 * only the process that runs the test checks them. */
#ifndef WEIR_TESTS_STORE_TABLE_CREW_H
#define WEIR_TESTS_STORE_TABLE_CREW_H

#include <weir/table.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { CREW_MAX = 8, CREW_LIMITS_MAX = 16 };

static inline _Noreturn void bail_out(const char *what, const char *why)
{
	printf("Bail out! %s: %s\n", what, why);
	fflush(stdout);
	exit(1);
}

/* Zeroed, shared after fork, and allocated only where it is touched. */
static inline void *shared_memory(size_t size_bytes)
{
	void *const memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
				  -1, 0);

	if (memory == MAP_FAILED)
		bail_out("shared memory", "the system has none");
	return memory;
}

static inline uint64_t next_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

static inline uint64_t seed_of(uint64_t number)
{
	return (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* A table as one process sees it. */
struct crew_table {
	struct weir_table *table;
	const struct weir_table_limit *limits[CREW_LIMITS_MAX];
};

struct crew_line {
	_Atomic unsigned ready;   /* workers at the start line */
	_Atomic unsigned working; /* workers that have not finished */
};

struct balancer {
	bool is_processes;
	char name[WEIR_TABLE_NAME_MAX + 1];
	struct weir_table_options options;
	const char *const *texts; /* the limits */
	size_t n_texts;
	struct crew_line *line;
	struct crew_table table; /* as this process sees it */
};

typedef void crew_work(const struct balancer *balancer, const struct crew_table *table, unsigned index, void *shared);

/* Makes the table, or attaches to it. */
static inline struct crew_table crew_open(const struct balancer *balancer)
{
	struct weir_message why;
	struct crew_table open;

	if (weir_table_new(&balancer->options, &open.table, &why) != WEIR_OK)
		bail_out("table", why.text);
	for (size_t i = 0; i < balancer->n_texts; i++) {
		char name[2] = { (char)('a' + i), '\0' };

		if (weir_table_add_limit_text(open.table, name, balancer->texts[i], &open.limits[i], &why) != WEIR_OK)
			bail_out(balancer->texts[i], why.text);
	}
	return open;
}

/* made_at: 0, or the time around which the workers' test times lie. */
static inline void crew_init_with_arena(struct balancer *balancer, bool is_processes, uint64_t keys,
					const char *const *texts, size_t n_texts, weir_ns made_at, size_t arena_bytes)
{
	memset(balancer, 0, sizeof(*balancer));
	balancer->is_processes = is_processes;
	balancer->options.size_bytes = weir_table_size(keys, 0) + arena_bytes;
	balancer->options.arena_bytes = arena_bytes;
	balancer->options.made_at = made_at;
	balancer->texts = texts;
	balancer->n_texts = n_texts;
	if (is_processes) {
		static unsigned number;

		snprintf(balancer->name, sizeof(balancer->name), "weir-test-%ld-%u", (long)getpid(), number++);
		balancer->options.shared = balancer->name;
	}
	balancer->line = shared_memory(sizeof(*balancer->line));
	balancer->table = crew_open(balancer);
}

static inline void crew_init(struct balancer *balancer, bool is_processes, uint64_t keys, const char *const *texts,
			     size_t n_texts, weir_ns made_at)
{
	crew_init_with_arena(balancer, is_processes, keys, texts, n_texts, made_at, 0);
}

static inline void crew_fini(struct balancer *balancer)
{
	weir_table_free(balancer->table.table);
	if (balancer->is_processes)
		CHECK_EQ(weir_table_unlink(balancer->name, NULL), WEIR_OK);
	munmap(balancer->line, sizeof(*balancer->line));
}

struct crew_seat {
	const struct balancer *balancer;
	const struct crew_table *table;
	crew_work *work;
	void *shared;
	unsigned index, n;
};

/* All workers begin together, as nearly as the machine allows. */
static inline void *crew_sit(void *seat_)
{
	const struct crew_seat *seat = seat_;
	struct crew_line *const line = seat->balancer->line;

	atomic_fetch_add(&line->ready, 1);
	while (atomic_load(&line->ready) < seat->n)
		sched_yield();
	seat->work(seat->balancer, seat->table, seat->index, seat->shared);
	atomic_fetch_sub(&line->working, 1);
	return NULL;
}

static inline void crew_run_threads(struct crew_seat *seats, unsigned n)
{
	pthread_t threads[CREW_MAX];

	for (unsigned i = 0; i < n; i++) {
		if (pthread_create(&threads[i], NULL, crew_sit, &seats[i]) != 0)
			bail_out("thread", "the system has none");
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static inline _Noreturn void crew_be_process(struct crew_seat *seat)
{
	struct crew_table own;

	if (seat->index % 2) {
		own = crew_open(seat->balancer);
		seat->table = &own;
	}
	crew_sit(seat);
	_exit(0);
}

/* If one dies, the others are killed, because they may wait for it forever. */
static inline void crew_run_processes(struct crew_seat *seats, unsigned n)
{
	pid_t pids[CREW_MAX];
	bool is_broken = false;

	fflush(stdout);
	for (unsigned i = 0; i < n; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			crew_be_process(&seats[i]);
		if (pids[i] < 0)
			bail_out("fork", "the system has no process");
	}
	for (unsigned left = n; left > 0; left--) {
		int status = 0;
		const pid_t pid = wait(&status);

		for (unsigned i = 0; i < n; i++)
			pids[i] = pids[i] == pid ? 0 : pids[i];
		if (pid > 0 && status == 0)
			continue;
		if (!is_broken)
			printf("# a worker ended with status %#x\n", (unsigned)status);
		is_broken = true;
		for (unsigned i = 0; i < n; i++) {
			if (pids[i] > 0)
				kill(pids[i], SIGKILL);
		}
	}
	CHECK(!is_broken);
}

/* Runs n workers until they finish. */
static inline void crew_run(const struct balancer *balancer, unsigned n, crew_work *work, void *shared)
{
	struct crew_seat seats[CREW_MAX];

	for (unsigned i = 0; i < n; i++)
		seats[i] = (struct crew_seat){ balancer, &balancer->table, work, shared, i, n };
	atomic_store(&balancer->line->ready, 0);
	atomic_store(&balancer->line->working, n);
	if (balancer->is_processes)
		crew_run_processes(seats, n);
	else
		crew_run_threads(seats, n);
}

#endif
