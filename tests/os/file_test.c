/* file_test.c: files that are created before they have a name, and locks that belong to an open file description. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "test_folder.h"

/* If set, open_hooked acts as a file system without O_TMPFILE. */
static bool names_all_files;

static int open_hooked(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	if (names_all_files && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return open(path, flags, mode);
}

#define open(path, ...) open_hooked(path, __VA_ARGS__, 0)
#include "os/file.c"
#undef open

enum { SIZE = 1 << 16 };

static char folder_path[TEST_FOLDER_SIZE], path[TEST_FOLDER_SIZE + 16];

static size_t files_in_folder(void)
{
	char command[128];
	FILE *listing;
	char line[200];
	size_t n = 0;

	(void)snprintf(command, sizeof(command), "ls -A %s", folder_path);
	listing = popen(command, "r");
	while (listing && fgets(line, sizeof(line), listing))
		n++;
	if (listing)
		pclose(listing);
	return n;
}

static void a_file_has_its_name_when_it_is_whole(void)
{
	for (int named = 0; named < 2; named++) {
		struct weir__new_file first, second;
		struct stat status;

		names_all_files = named;
		CHECK_EQ(weir__file_new(path, SIZE, 0640, &first), 0);
		CHECK_EQ(weir__file_new(path, SIZE, 0640, &second), 0);
		CHECK_EQ(access(path, F_OK), -1);
		CHECK_EQ(files_in_folder(), named ? 2 : 0);
		CHECK_EQ(weir__file_publish(&first, path), 0);
		CHECK_EQ(weir__file_publish(&second, path), EEXIST);
		weir__file_drop(&second);
		CHECK_EQ(files_in_folder(), 1);
		CHECK_EQ(stat(path, &status), 0);
		CHECK_EQ(status.st_size, SIZE);
		CHECK_EQ(status.st_mode & 07777, 0640);
		CHECK(status.st_blocks * 512 >= SIZE);
		weir__file_close(first.file);
		CHECK_EQ(unlink(path), 0);
	}
	names_all_files = false;
}

static void what_cannot_be_made_leaves_nothing(void)
{
	struct weir__new_file made;

	for (int named = 0; named < 2; named++) {
		names_all_files = named;
		CHECK_EQ(weir__file_new(path, (size_t)1 << 62, 0600, &made), ENOSPC);
		CHECK_EQ(files_in_folder(), 0);
		CHECK_EQ(weir__file_new("/there/is/no/such/folder", SIZE, 0600, &made), ENOENT);
	}
	names_all_files = false;
}

/* Between two open file descriptions, also in one process. */
static void locks_belong_to_an_opening(void)
{
	const int first = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), second = open(path, O_RDWR | O_CLOEXEC);

	CHECK_EQ(weir__file_lock(first, 0, WEIR__FILE_SHARED), 0);
	CHECK_EQ(weir__file_lock(second, 0, WEIR__FILE_SHARED), 0);
	CHECK_EQ(weir__file_lock(first, 0, WEIR__FILE_EXCLUSIVE), EAGAIN);
	CHECK_EQ(weir__file_lock(first, 1, WEIR__FILE_EXCLUSIVE), 0); /* another byte */
	CHECK_EQ(weir__file_lock_within(second, 1, WEIR__FILE_SHARED, 20), EAGAIN);
	CHECK_EQ(weir__file_lock(first, 1, WEIR__FILE_UNLOCKED), 0);
	CHECK_EQ(weir__file_lock_within(second, 1, WEIR__FILE_SHARED, 20), 0);
	weir__file_close(second);
	CHECK_EQ(weir__file_lock(first, 0, WEIR__FILE_EXCLUSIVE), 0);
	weir__file_close(first);
	CHECK_EQ(unlink(path), 0);
}

static void forks_are_counted(void)
{
	const uint32_t before = weir__file_forks();
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(weir__file_forks() == before);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK(weir__file_forks() != before);
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(a_file_has_its_name_when_it_is_whole),
		TEST(what_cannot_be_made_leaves_nothing),
		TEST(locks_belong_to_an_opening),
		TEST(forks_are_counted),
	};
	int failed;

	test_folder_new(folder_path, "file");
	(void)snprintf(path, sizeof(path), "%s/file", folder_path);
	failed = check_run(tests, sizeof(tests) / sizeof(tests[0]));
	rmdir(folder_path);
	return failed;
}
