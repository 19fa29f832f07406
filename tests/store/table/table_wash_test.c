/* table_wash_test.c: other keys cannot evict a throttled key. In a table that is too small, in slots or in the arena,
 * some key must be evicted, but never one that has used up its limit. Usage is never forgotten for lack of arena. */
/* Covers: src/store/table/table_arena.c */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tables.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { KEYS = 1000, STRANGERS = 3000 };
#else
enum { KEYS = 1000, STRANGERS = 8000 };
#endif

static const char *const limits[] = {
	"5/hour",
	"100/hour burst 100",
	"100/hour leaky queue 100",
	"20/hour refill interval burst 40",
	"5/hour fixed_window",
	"100/hour fixed_window align first",
	"100/hour sliding_counter",
	"5/hour sliding_log",
	"100/hour sliding_log",
	"1000/hour sliding_log",
	"100/hour sliding_log count all",
	"1000/hour sliding_counter segments 60",
	"6/hour sliding_counter segments 6",
	"100/hour sliding_counter count all",
	"20000/hour sliding_counter",
	"300000000/hour sliding_counter", /* more than fits a slot */
};

/* The part of the arena that the limit needs for this many keys: all, some, almost nothing. */
static const double parts[] = { 1, 0.3, 0.05, 0 };

enum kind { PRIVATE, SHARED, FILE_TABLE, KINDS_OF_TABLES };

static struct weir_table *table_of(enum kind kind, const struct weir_limit *limit, double part)
{
	const size_t arena = weir_table_arena_size(limit, KEYS, 0);
	struct weir_table_options options = { .made_at = MADE_AT };
	static char name[64];

	options.arena_bytes = arena ? 4096 + (size_t)((double)(arena < 1 << 22 ? arena : 1 << 22) * part) : 0;
	options.size_bytes = weir_table_size(KEYS, 0) + options.arena_bytes + 4096;
	(void)snprintf(name, sizeof(name), "%sweir-wash-test-%d", kind == FILE_TABLE ? "/tmp/" : "", (int)getpid());
	if (kind == SHARED)
		options.shared = name;
	else if (kind == FILE_TABLE)
		options.file = name;
	return table_with(&options);
}

static void remove_table(enum kind kind)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%sweir-wash-test-%d", kind == FILE_TABLE ? "/tmp/" : "", (int)getpid());
	if (kind == SHARED)
		CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
	else if (kind == FILE_TABLE)
		CHECK_EQ(unlink(name), 0);
}

/* What a victim is allowed that takes all it can, repeatedly, while other keys send two requests each. */
static uint64_t admitted_to_victim(struct weir_table *table, const struct weir_table_limit *limit, weir_ns *now)
{
	uint64_t admitted = 0;

	for (uint32_t stranger = 0; stranger < STRANGERS; stranger++) {
		admitted += weir_table_upto(table, limit, "victim", 6, *now, UINT64_C(1) << 40).granted;
		*now += 1000;
		for (int i = 0; i < 2; i++)
			(void)weir_table_allow(table, limit, &stranger, sizeof(stranger), *now, 1);
	}
	return admitted;
}

static void strangers_wash_out_nobody(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		for (size_t part = 0; part < sizeof(parts) / sizeof(parts[0]); part++)
			for (int kind = PRIVATE; kind < KINDS_OF_TABLES; kind++) {
				struct weir_limit stated;
				const struct weir_table_limit *limit;
				struct weir_table *table;
				weir_ns now = MADE_AT + S(1800);
				uint64_t most, admitted;

				CHECK_EQ(weir_limit_parse(limits[i], strlen(limits[i]), &stated, NULL), WEIR_OK);
				table = table_of((enum kind)kind, &stated, parts[part]);
				limit = limit_in(table, limits[i]);
				most = weir_table_peek(table, limit, "victim", 6, now, 0).limit;
				admitted = admitted_to_victim(table, limit, &now);
				if (admitted != most) {
					check_fail(__FILE__, __LINE__, limits[i]);
					printf("# with %.2f of the arena, kind %d: %" PRIu64 " of %" PRIu64 "\n",
					       parts[part], kind, admitted, most);
				}
				weir_table_free(table);
				remove_table((enum kind)kind);
				if (part > 0 && weir_table_arena_size(&stated, KEYS, 0) == 0)
					break;
			}
}

/* Under the thread sanitizer, swaps of 16 bytes are atomic within a process only. */
#if !defined(__SANITIZE_THREAD__)

/* --- kills ------------------------------------------------------------------------------------------------------- */

/* The address sanitizer makes a fork slow, and finds nothing in a kill. */
#if defined(__SANITIZE_ADDRESS__)
enum { KILLS = 100 };
#else
enum { KILLS = 400 };
#endif
enum { HAMMERED = 3, WORKERS = 2 };

static const char *const hammered_limits[] = { "3000/hour sliding_log", "3000/hour sliding_counter segments 60",
					       "30000/hour sliding_counter", "3000/hour" };

/* Takes from a few keys all the time, and from new keys, until it is killed. */
static void hammer(struct weir_table *table, const struct weir_table_limit *limit, _Atomic uint64_t *admitted,
		   uint32_t seed)
{
	for (uint32_t i = seed * 1000;; i++) {
		const uint32_t key = i % HAMMERED, stranger = 1000 + i;

		if (weir_table_allow(table, limit, &key, sizeof(key), MADE_AT + i, 1))
			atomic_fetch_add(&admitted[key], 1); /* or it is killed before */
		(void)weir_table_allow(table, limit, &stranger, sizeof(stranger), MADE_AT + i, 1);
	}
}

static pid_t start_hammer(struct weir_table *table, const struct weir_table_limit *limit, _Atomic uint64_t *admitted,
			  uint32_t seed)
{
	const pid_t pid = fork();

	if (pid == 0)
		hammer(table, limit, admitted, seed);
	if (pid < 0)
		abort();
	return pid;
}

/* A killed process loses what it was just allowed. No key gets more than the limit. */
static void kills_admit_nobody_more(void)
{
	_Atomic uint64_t *const admitted = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < sizeof(hammered_limits) / sizeof(hammered_limits[0]); i++) {
		struct weir_limit stated;
		struct weir_table *table;
		const struct weir_table_limit *limit;
		pid_t workers[WORKERS];
		uint32_t n = 0;

		CHECK_EQ(weir_limit_parse(hammered_limits[i], strlen(hammered_limits[i]), &stated, NULL), WEIR_OK);
		table = table_of(SHARED, &stated, 0.05);
		limit = limit_in(table, hammered_limits[i]);
		for (uint32_t key = 0; key < HAMMERED; key++)
			atomic_store(&admitted[key], 0);
		for (uint32_t w = 0; w < WORKERS; w++)
			workers[w] = start_hammer(table, limit, admitted, n++);
		for (uint32_t kill_n = 0; kill_n < KILLS; kill_n++) {
			const struct timespec pause = { .tv_nsec = (long)below(1 << (10 + below(11))) };
			const uint32_t w = kill_n % WORKERS;

			nanosleep(&pause, NULL);
			CHECK_EQ(kill(workers[w], SIGKILL), 0);
			CHECK_EQ(waitpid(workers[w], NULL, 0), workers[w]);
			workers[w] = start_hammer(table, limit, admitted, n++);
		}
		for (uint32_t w = 0; w < WORKERS; w++) {
			CHECK_EQ(kill(workers[w], SIGKILL), 0);
			CHECK_EQ(waitpid(workers[w], NULL, 0), workers[w]);
		}
		for (uint32_t key = 0; key < HAMMERED; key++) {
			while (weir_table_allow(table, limit, &key, sizeof(key), MADE_AT + S(1), 1))
				atomic_fetch_add(&admitted[key], 1);
			if (atomic_load(&admitted[key]) > stated.count)
				printf("# %s: %" PRIu64 "\n", hammered_limits[i], atomic_load(&admitted[key]));
			CHECK(atomic_load(&admitted[key]) <= stated.count);
			CHECK(atomic_load(&admitted[key]) + KILLS + WORKERS >= stated.count);
		}
		weir_table_free(table);
		remove_table(SHARED);
	}
	(void)munmap((void *)admitted, 4096);
}

TESTS(TEST(strangers_wash_out_nobody), TEST(kills_admit_nobody_more))

#else

TESTS(TEST(strangers_wash_out_nobody))

#endif
