/* table_power_cut_test.c: four processes use one table file, and the power fails: the file is copied at random times,
 * page by page in any order while the pages change, and the copy is opened.
 *
 * Every copy must open. Unless it reports damage, no key may have less usage than a second before.
 *
 *     table_power_cut_test [COPIES] */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "files.h"

enum {
	WORKERS = 4,
	KEYS = 120,          /* of each limit, checked */
	PASSING_KEYS = 3000, /* come and go, so that slots change their owners */
	AGES = 64,           /* snapshots that are kept */
	PAUSE_US = 20000,
};

static const char *const texts[] = { "100/min burst 50", "30/min fixed_window", "10/min refill interval burst 30",
				     "60/min sliding_counter", "1/s leaky queue 40" };
static const char passing[] = "50/s burst 3";

/* Nothing refills before the test ends, so what is left only falls. */
static const char log_text[] = "2000/day sliding_log";

enum { LIMITS = sizeof(texts) / sizeof(texts[0]) };

/* A snapshot of the slots of all keys. */
struct age {
	weir_ns at;
	struct weir_state slots[LIMITS][KEYS];
	uint64_t left_of_log[KEYS];
};

static struct age ages[AGES];
static unsigned n_ages;
static int copies_wanted = 20;

static struct weir_table *open_at(const char *at)
{
	struct weir_table_options options = { .limits_max = 8, .file = at };
	struct weir_limit log;

	CHECK_EQ(weir_limit_parse(log_text, sizeof(log_text) - 1, &log, NULL), WEIR_OK);
	options.arena_bytes = weir_table_arena_size(&log, KEYS, 0);
	options.size_bytes = weir_table_size(2 * (LIMITS * KEYS + KEYS + PASSING_KEYS), 8) + options.arena_bytes;
	return table_with(&options);
}

static _Noreturn void work(unsigned seed)
{
	struct weir_table *const table = open_at(path);
	const struct weir_table_limit *limits[LIMITS], *const of_passing = limit_in(table, passing);
	const struct weir_table_limit *const log = limit_in(table, log_text);

	for (unsigned i = 0; i < LIMITS; i++)
		limits[i] = limit_in(table, texts[i]);
	for (unsigned i = 0; i < seed * 1000; i++)
		any();
	for (;;) {
		for (int i = 0; i < 50; i++) {
			const uint32_t key = (uint32_t)below(KEYS), other = (uint32_t)below(PASSING_KEYS);

			(void)weir_table_allow(table, limits[below(LIMITS)], &key, sizeof(key), weir_table_now(table),
					       1);
			(void)weir_table_take(table, of_passing, &other, sizeof(other), weir_table_now(table), 1);
			if (i % 4 == 0)
				(void)weir_table_allow(table, log, &key, sizeof(key), weir_table_now(table), 1);
		}
		usleep(2000);
	}
}

static uint64_t log_left(struct weir_table *table, uint32_t key)
{
	return weir_table_peek(table, limit_in(table, log_text), &key, sizeof(key), weir_table_now(table), 0).remaining;
}

static void remember(struct weir_table *table)
{
	struct age *const age = &ages[n_ages++ % AGES];

	age->at = weir_table_now(table);
	for (uint32_t key = 0; key < KEYS; key++)
		age->left_of_log[key] = log_left(table, key);
	for (unsigned i = 0; i < LIMITS; i++) {
		const struct weir_table_limit *const limit = limit_in(table, texts[i]);

		for (uint32_t key = 0; key < KEYS; key++)
			age->slots[i][key] = place_of(table, limit, &key, sizeof(key)).seen;
	}
}

/* The newest snapshot that is at least a second old; NULL: none yet. */
static const struct age *before(weir_ns at)
{
	const struct age *youngest = NULL;

	for (unsigned i = 0; i < AGES && i < n_ages; i++)
		if (ages[i].at + S(1) <= at && (youngest == NULL || ages[i].at > youngest->at))
			youngest = &ages[i];
	return youngest;
}

/* In any order, sometimes with a pause. */
static void copy_file(size_t size)
{
	enum { PAGES_MAX = 4096 };
	static unsigned char page[WEIR__PAGE_BYTES];
	static uint32_t order[PAGES_MAX];
	const uint32_t pages = (uint32_t)(size / sizeof(page));
	const int from = open(path, O_RDONLY | O_CLOEXEC);
	const int to = open(copy_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(from >= 0 && to >= 0 && pages <= PAGES_MAX);
	for (uint32_t i = 0; i < pages; i++) {
		const uint32_t other = (uint32_t)below(i + 1);

		order[i] = order[other];
		order[other] = i;
	}
	for (uint32_t i = 0; i < pages; i++) {
		const off_t at = (off_t)order[i] * (off_t)sizeof(page);

		if (below(50) == 0)
			usleep((useconds_t)below(5000));
		CHECK_EQ(pread(from, page, sizeof(page), at), sizeof(page));
		CHECK_EQ(pwrite(to, page, sizeof(page), at), sizeof(page));
	}
	close(from);
	close(to);
}

static uint64_t left_in(const struct weir_table_limit *limit, struct weir_state slot, weir_ns now)
{
	struct weir_state state = weir__slot_unpack(&limit->view.format, slot);

	return weir_step_peek(&limit->view.format.plan, &state, now, 0).remaining;
}

/* How many keys have more left now than their usage in the snapshot permits. */
static uint64_t forgiven_in(struct weir_table *copy, const struct age *age, uint64_t *ret_owing)
{
	const weir_ns now = weir_table_now(copy);
	uint64_t forgiven = 0;

	for (uint32_t key = 0; key < KEYS; key++) {
		if (log_left(copy, key) <= age->left_of_log[key])
			continue;
		forgiven++;
		printf("# log, key %u: %" PRIu64 " left, and %" PRIu64 " a second before\n", (unsigned)key,
		       log_left(copy, key), age->left_of_log[key]);
	}
	for (unsigned i = 0; i < LIMITS; i++) {
		const struct weir_table_limit *const limit = limit_in(copy, texts[i]);

		for (uint32_t key = 0; key < KEYS; key++) {
			const struct weir__place place = place_of(copy, limit, &key, sizeof(key));
			const uint64_t most = left_in(limit, age->slots[i][key], now);

			*ret_owing += most < left_in(limit, (struct weir_state){ 0, 0 }, now);
			if (left_in(limit, place.seen, now) <= most)
				continue;
			forgiven++;
			printf("# \"%s\", key %u: %" PRIu64 " left, and %" PRIu64 " a second before\n", texts[i],
			       (unsigned)key, left_in(limit, place.seen, now), most);
		}
	}
	return forgiven;
}

static void check_copy(const struct age *age, uint64_t *ret_owing, uint64_t *ret_damaged)
{
	struct weir_table *const copy = open_at(copy_path);
	const struct weir_table_stats stats = stats_of(copy, weir_table_now(copy));
	const uint64_t damaged = stats.damaged_slots + stats.damaged_pages * (WEIR__PAGE_SLOTS - 1);

	CHECK(forgiven_in(copy, age, ret_owing) <= damaged);
	*ret_damaged += damaged > 0;
	weir_table_free(copy);
}

static void no_copy_owes_less(void)
{
	struct weir_table *const table = open_at(path);
	uint64_t owing = 0, damaged = 0;
	pid_t workers[WORKERS];
	int status, copies = 0;

	fflush(stdout);
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i] = fork();
		if (workers[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work(i + 1);
		}
	}
	while (copies < copies_wanted) {
		const struct age *age;

		remember(table);
		usleep((useconds_t)below(2 * PAUSE_US));
		age = before(weir_table_now(table));
		if (age == NULL)
			continue;
		copy_file(table->region.size_bytes);
		check_copy(age, &owing, &damaged);
		copies++;
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		CHECK_EQ(kill(workers[i], SIGKILL), 0);
		CHECK_EQ(waitpid(workers[i], &status, 0), workers[i]);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	CHECK(owing > (uint64_t)copies * LIMITS * KEYS / 4); /* otherwise nothing was tested */
	CHECK_EQ(stats_of(table, weir_table_now(table)).evicted, 0);
	printf("# %d copies, %" PRIu64 " keys in them owed, %" PRIu64 " copies were damaged\n", copies, owing, damaged);
	weir_table_free(table);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = { TEST(no_copy_owes_less) };

	if (argc > 1)
		copies_wanted = atoi(argv[1]);
	choose_path();
	(void)snprintf(copy_path, sizeof(copy_path), "/dev/shm/weir-test-%d.copy",
		       (int)owner); /* no disk to wait for */
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
