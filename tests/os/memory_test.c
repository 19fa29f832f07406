/* memory_test.c: names, sizes and owners of shared memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static int allocations;

static int posix_fallocate_counted(int file, off_t at, off_t size)
{
	allocations++;
	return posix_fallocate(file, at, size);
}

#define posix_fallocate posix_fallocate_counted
#include "os/memory.c"
#undef posix_fallocate

enum { SIZE = 1 << 16 };

static const char *const endings[] = { "b", "a", "a.b" }; /* "a" < "a.b" < "b" */

#define NAMES (sizeof(endings) / sizeof(endings[0]))

static char names[NAMES][64];

static void make(const char *name)
{
	void *memory;
	int file;

	CHECK_EQ(weir__memory_new_shared(SIZE, 0640, &memory, &file), 0);
	CHECK_EQ(weir__memory_publish(file, name), 0);
	weir__memory_close(file);
	weir__memory_free(memory, SIZE);
}

static void status_is_that_of_the_file(void)
{
	struct weir__memory_status status = { 0, 0, 0, 0 };

	make(names[0]);
	CHECK_EQ(weir__memory_status(names[0], &status), 0);
	CHECK_EQ(status.size_bytes, SIZE);
	CHECK_EQ(status.owner, geteuid());
	CHECK_EQ(status.group, getegid());
	CHECK_EQ(status.mode, 0640);
	CHECK_EQ(weir__memory_unlink(names[0]), 0);
	CHECK_EQ(weir__memory_status(names[0], &status), ENOENT);
	CHECK_EQ(status.size_bytes, SIZE);
}

struct visited {
	char names[NAMES][64];
	size_t n;
};

/* Ignores shared memory of other programs. */
static void visit(void *context, const char *name)
{
	struct visited *const visited = context;

	for (size_t i = 0; i < NAMES; i++)
		if (strcmp(name, names[i]) == 0 && visited->n < NAMES)
			(void)snprintf(visited->names[visited->n++], sizeof(visited->names[0]), "%s", name);
}

static void each_name_is_visited_in_order(void)
{
	struct visited visited = { .n = 0 };

	for (size_t i = 0; i < NAMES; i++)
		make(names[i]);
	CHECK_EQ(weir__memory_each(visit, &visited), 0);
	if (CHECK_EQ(visited.n, NAMES)) {
		CHECK_TEXT(visited.names[0], names[1]);
		CHECK_TEXT(visited.names[1], names[2]);
		CHECK_TEXT(visited.names[2], names[0]);
	}
	for (size_t i = 0; i < NAMES; i++)
		CHECK_EQ(weir__memory_unlink(names[i]), 0);
	visited.n = 0;
	CHECK_EQ(weir__memory_each(visit, &visited), 0);
	CHECK_EQ(visited.n, 0);
}

/* It would fill the disk, or use up the memory, of everyone for a moment. */
static void what_has_no_room_is_not_begun(void)
{
	static const char *const folders[] = { "/dev/shm", "/tmp", "." };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const int file = open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

		if (file < 0 && errno == EOPNOTSUPP)
			continue;
		allocations = 0;
		CHECK_EQ(weir__memory_set_aside(file, (size_t)1 << 62), ENOSPC);
		CHECK_EQ(allocations, 0);
		CHECK_EQ(weir__memory_set_aside(file, SIZE), 0);
		CHECK_EQ(allocations, 1);
		close(file);
	}
}

int main(void)
{
	static const struct check_test tests[] = { TEST(status_is_that_of_the_file),
						   TEST(each_name_is_visited_in_order),
						   TEST(what_has_no_room_is_not_begun) };

	for (size_t i = 0; i < NAMES; i++)
		(void)snprintf(names[i], sizeof(names[i]), "memory-test-%d-%s", (int)getpid(), endings[i]);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
