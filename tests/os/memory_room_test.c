/* memory_room_test.c: how much memory is available, read from fake files of /proc and /sys. */
#include "os/memory_room.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "test_folder.h"

enum { FILES_MOST = 8 };

static char root[TEST_FOLDER_SIZE];

static void make_folder(void)
{
	test_folder_new(root, "room");
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
	(void)status;
	(void)kind;
	(void)at;
	return remove(path);
}

static void remove_folder(void)
{
	CHECK_EQ(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Writes a file and makes the directories that it is in. */
static void write_file(const char *name, const char *text)
{
	char path[512];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s%s", root, name);
	for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	CHECK(file != NULL);
	if (file) {
		(void)fputs(text, file);
		(void)fclose(file);
	}
}

#define V2 "/sys/fs/cgroup"
#define V1 "/sys/fs/cgroup/memory"
#define MEMINFO                                                                                                        \
	{                                                                                                              \
		"/proc/meminfo", "MemTotal:  9000 kB\nMemFree:  1 kB\nMemAvailable:   8000 kB\n"                       \
	}

static void the_least_counts(void)
{
	static const struct {
		const char *what;
		struct {
			const char *name, *text;
		} files[FILES_MOST];
		uint64_t bytes;
		const char *where;
	} rows[] = {
		{ "nothing to read", { { NULL, NULL } }, UINT64_MAX, "the machine" },
		{ "a machine without cgroups", { MEMINFO }, 8192000, "the machine (MemAvailable)" },
		{ "not a number", { { "/proc/meminfo", "MemAvailable" } }, UINT64_MAX, "the machine" },
		{ "v2",
		  { MEMINFO,
		    { "/proc/self/cgroup", "0::/a/b\n" },
		    { V2 "/a/b/memory.max", "5000\n" },
		    { V2 "/a/b/memory.current", "2000\n" } },
		  3000,
		  "the memory limit of the cgroup" },
		{ "v2, without a limit",
		  { MEMINFO,
		    { "/proc/self/cgroup", "0::/a/b\n" },
		    { V2 "/a/b/memory.max", "max\n" },
		    { V2 "/a/b/memory.current", "2000\n" } },
		  8192000,
		  "the machine (MemAvailable)" },
		{ "v2, above it",
		  { MEMINFO,
		    { "/proc/self/cgroup", "0::/a/b\n" },
		    { V2 "/a/b/memory.max", "max\n" },
		    { V2 "/a/b/memory.current", "1\n" },
		    { V2 "/a/memory.max", "700\n" },
		    { V2 "/a/memory.current", "100\n" } },
		  600,
		  "the memory limit of the cgroup" },
		{ "v2, in a container that sees only its root",
		  { MEMINFO,
		    { "/proc/self/cgroup", "0::/host/path\n" },
		    { V2 "/memory.max", "700\n" },
		    { V2 "/memory.current", "100\n" } },
		  600,
		  "the memory limit of the cgroup" },
		{ "v2, the root by its own name",
		  { MEMINFO,
		    { "/proc/self/cgroup", "0::/\n" },
		    { V2 "/memory.max", "700\n" },
		    { V2 "/memory.current", "100\n" } },
		  600,
		  "the memory limit of the cgroup" },
		{ "what is cached makes room",
		  { MEMINFO,
		    { "/proc/self/cgroup", "0::/\n" },
		    { V2 "/memory.max", "700\n" },
		    { V2 "/memory.current", "600\n" },
		    { V2 "/memory.stat", "anon 5\nfile 9\ninactive_file 450\n" } },
		  550,
		  "the memory limit of the cgroup" },
		{ "more is used than there may be",
		  { MEMINFO,
		    { "/proc/self/cgroup", "0::/\n" },
		    { V2 "/memory.max", "700\n" },
		    { V2 "/memory.current", "800\n" } },
		  0,
		  "the memory limit of the cgroup" },
		{ "v1",
		  { MEMINFO,
		    { "/proc/self/cgroup", "9:cpu,cpuacct:/x\n8:memory:/a\n" },
		    { V1 "/a/memory.limit_in_bytes", "5000\n" },
		    { V1 "/a/memory.usage_in_bytes", "4000\n" },
		    { V1 "/a/memory.stat", "inactive_file 9\ntotal_inactive_file 100\n" } },
		  1100,
		  "the memory limit of the cgroup" },
		{ "v1, without a limit",
		  { MEMINFO,
		    { "/proc/self/cgroup", "8:memory:/a\n" },
		    { V1 "/a/memory.limit_in_bytes", "9223372036854771712\n" },
		    { V1 "/a/memory.usage_in_bytes", "4000\n" } },
		  8192000,
		  "the machine (MemAvailable)" },
		{ "v1 beside v2",
		  { MEMINFO,
		    { "/proc/self/cgroup", "8:hugetlb,memory:/a\n0::/x\n" },
		    { V1 "/a/memory.limit_in_bytes", "5000\n" },
		    { V1 "/a/memory.usage_in_bytes", "4000\n" } },
		  1000,
		  "the memory limit of the cgroup" },
		{ "a controller of another name",
		  { MEMINFO,
		    { "/proc/self/cgroup", "8:memory2:/a\n" },
		    { V1 "/a/memory.limit_in_bytes", "5000\n" },
		    { V1 "/a/memory.usage_in_bytes", "4000\n" } },
		  8192000,
		  "the machine (MemAvailable)" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__memory_room room;

		make_folder();
		for (size_t file = 0; file < FILES_MOST && rows[i].files[file].name; file++)
			write_file(rows[i].files[file].name, rows[i].files[file].text);
		weir__memory_room(root, NULL, &room);
		if (room.bytes != rows[i].bytes || strcmp(room.where, rows[i].where) != 0) {
			check_fail(__FILE__, __LINE__, rows[i].what);
			printf("# found %" PRIu64 " of %s\n", room.bytes, room.where);
		}
		remove_folder();
	}
}

/* A file that does not exist yet counts by the file system of its directory. */
static void the_file_system_counts(void)
{
	struct weir__memory_room with, without;

	make_folder();
	weir__memory_room(root, "/proc/no-such-file", &with); /* a file system without blocks and without a limit */
	weir__memory_room(root, NULL, &without);
	CHECK_EQ(with.bytes, without.bytes);
	weir__memory_room(root, "/dev/shm/no-such-file", &with);
	CHECK(with.bytes < UINT64_MAX);
	CHECK_TEXT(with.where, "the file system");
	remove_folder();
}

static void this_machine_has_some(void)
{
	struct weir__memory_room room;

	weir__memory_room("", "file", &room);
	CHECK(room.bytes > 0 && room.bytes < UINT64_MAX);
}

TESTS(TEST(the_least_counts), TEST(the_file_system_counts), TEST(this_machine_has_some))
