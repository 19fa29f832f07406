/* mapping_guard_test.c: a file that is truncated while its mapping is in use. */
#include "os/mapping_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"
#include "os/memory.h"
#include "test_folder.h"

enum { PAGES = 64, HEAD_PAGES = 3, THREADS = 4 };

static char folder[TEST_FOLDER_SIZE], path[TEST_FOLDER_SIZE + 8];
static size_t page, size, head;

struct mapping {
	volatile unsigned char *at;
	struct weir__mapping_guard *guard;
};

/* A file whose pages begin with their number, from 1 on. */
static struct mapping map_file(void)
{
	const int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct mapping mapping = { NULL, NULL };
	void *memory;

	CHECK_EQ(posix_fallocate(file, 0, (off_t)size), 0);
	CHECK_EQ(weir__memory_map(file, size, &memory), 0);
	close(file);
	mapping.at = memory;
	for (size_t i = 0; i < PAGES; i++)
		mapping.at[i * page] = (unsigned char)(i + 1);
	CHECK_EQ(weir__mapping_guard_new(memory, size, path, head, &mapping.guard), 0);
	return mapping;
}

static void unmap(const struct mapping *mapping)
{
	weir__mapping_guard_free(mapping->guard);
	weir__memory_free((void *)(uintptr_t)mapping->at, size);
	unlink(path);
}

static size_t size_of_file(void)
{
	struct stat status;

	return stat(path, &status) == 0 ? (size_t)status.st_size : 0;
}

/* The head is restored, bytes before the cut stay, the rest is zero, and all pages are writable. */
static void check_pages(const struct mapping *mapping, size_t kept)
{
	for (size_t i = 0; i < PAGES; i++) {
		const size_t at = i * page;

		CHECK_EQ(mapping->at[at], at < kept || at < head ? i + 1 : 0);
		mapping->at[at + 1] = 7;
		CHECK_EQ(mapping->at[at + 1], 7);
	}
}

static void a_truncated_file_is_extended(void)
{
	const size_t cuts[] = { 0, 1, page, page + 100, head, head + 5 * page, size - page };

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		const struct mapping mapping = map_file();
		struct weir__mapping_state state = weir__mapping_guard_state(mapping.guard);

		CHECK(state.truncations == 0 && !state.is_detached && state.is_named);
		CHECK_EQ(truncate(path, (off_t)cuts[i]), 0);
		check_pages(&mapping, cuts[i]);
		state = weir__mapping_guard_state(mapping.guard);
		CHECK(state.truncations == 1 && !state.is_detached);
		CHECK_EQ(size_of_file(), size);
		unmap(&mapping);
	}
}

static void it_is_noticed_before_it_is_touched(void)
{
	const struct mapping mapping = map_file();

	CHECK_EQ(truncate(path, 0), 0);
	weir__mapping_guard_look(mapping.guard);
	CHECK_EQ(weir__mapping_guard_state(mapping.guard).truncations, 1);
	CHECK_EQ(size_of_file(), size);
	check_pages(&mapping, 0);
	unmap(&mapping);
}

/* The head is restored as of the last call of weir__mapping_guard_look. */
static void the_head_is_the_last_that_was_seen(void)
{
	const struct mapping mapping = map_file();

	mapping.at[5] = 1;
	weir__mapping_guard_look(mapping.guard);
	mapping.at[5] = 2;
	CHECK_EQ(truncate(path, 0), 0);
	CHECK_EQ(mapping.at[5], 1);
	unmap(&mapping);
}

/* In a child process, because the file size limit is per process. */
static void without_room_it_goes_on_in_memory(void)
{
	const struct mapping mapping = map_file();
	const pid_t child = fork();
	int status = 0;

	if (child == 0) {
		const struct rlimit none = { page, page };
		struct weir__mapping_state state;

		signal(SIGXFSZ, SIG_IGN);
		(void)setrlimit(RLIMIT_FSIZE, &none);
		check_failed = false;
		CHECK_EQ(truncate(path, 100), 0);
		check_pages(&mapping, 100);
		state = weir__mapping_guard_state(mapping.guard);
		CHECK(state.is_detached && state.truncations == 1);
		weir__mapping_guard_look(mapping.guard); /* not reported again */
		CHECK_EQ(weir__mapping_guard_state(mapping.guard).truncations, 1);
		CHECK(size_of_file() < size);
		_exit(check_failed);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	unmap(&mapping);
}

static void a_file_that_lost_its_name(void)
{
	const struct mapping mapping = map_file();

	unlink(path);
	weir__mapping_guard_look(mapping.guard);
	CHECK(!weir__mapping_guard_state(mapping.guard).is_named);
	close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)); /* another file of that name */
	weir__mapping_guard_look(mapping.guard);
	CHECK(!weir__mapping_guard_state(mapping.guard).is_named);
	check_pages(&mapping, size);
	unmap(&mapping);
}

static _Atomic bool is_over;
static _Atomic uint64_t rounds[THREADS];
static _Atomic int threads_begun;

static void *touch(void *context)
{
	const struct mapping *const mapping = context;
	const int index = threads_begun++;

	for (; !is_over; rounds[index]++)
		for (size_t i = 0; i < PAGES; i++)
			(void)__atomic_fetch_add(&mapping->at[i * page + 64], 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Waits until no thread is in the handler: a file that is truncated during the repair may lose its head. */
static void await_threads(void)
{
	uint64_t before[THREADS];

	for (int i = 0; i < THREADS; i++)
		before[i] = rounds[i];
	for (int i = 0; i < THREADS; i++)
		while (rounds[i] < before[i] + 2)
			(void)sched_yield();
}

static void many_threads_touch_it(void)
{
	struct mapping mapping = map_file();
	pthread_t threads[THREADS];

	is_over = false;
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, touch, &mapping), 0);
	for (int i = 0; i < 200; i++) {
		CHECK_EQ(truncate(path, (off_t)(i % 3 * (int)page)), 0);
		weir__mapping_guard_look(mapping.guard);
		await_threads();
	}
	is_over = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < HEAD_PAGES; i++)
		CHECK_EQ(mapping.at[i * page], i + 1);
	CHECK(!weir__mapping_guard_state(mapping.guard).is_detached);
	CHECK_EQ(size_of_file(), size);
	unmap(&mapping);
}

/* Without a guard, the signal ends the process. */
static void what_is_not_guarded_is_not_caught(void)
{
	const struct mapping mapping = map_file();
	const pid_t child = fork();
	int status = 0;

	if (child == 0) {
		const struct rlimit no_core = { 0, 0 };

		(void)setrlimit(RLIMIT_CORE, &no_core);
		(void)signal(SIGBUS, SIG_DFL); /* sanitizers have their own */
		weir__mapping_guard_free(mapping.guard);
		(void)!truncate(path, 0);
		_exit(mapping.at[0] == 0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	unmap(&mapping);
}

static void guards_are_bounded(void)
{
	struct weir__mapping_guard *more[9];
	const struct mapping mapping = map_file();
	int n = 0;

	while (n < 9 && weir__mapping_guard_new((void *)(uintptr_t)mapping.at, size, path, head, &more[n]) == 0)
		n++;
	CHECK_EQ(n, 7);
	while (n > 0)
		weir__mapping_guard_free(more[--n]);
	unmap(&mapping);
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(a_truncated_file_is_extended),       TEST(it_is_noticed_before_it_is_touched),
		TEST(the_head_is_the_last_that_was_seen), TEST(without_room_it_goes_on_in_memory),
		TEST(a_file_that_lost_its_name),          TEST(many_threads_touch_it),
		TEST(what_is_not_guarded_is_not_caught),  TEST(guards_are_bounded),
	};
	int result;

	test_folder_new(folder, "guard");
	(void)snprintf(path, sizeof(path), "%s/file", folder);
	page = weir__memory_page();
	size = PAGES * page;
	head = HEAD_PAGES * page;
	result = check_run(tests, sizeof(tests) / sizeof(tests[0]));
	unlink(path);
	rmdir(folder);
	return result;
}
