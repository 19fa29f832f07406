/* text_file_test.c: which files are read, and which are rejected because they would block the reader. */
#include "os/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "test_folder.h"

static char folder[TEST_FOLDER_SIZE];

static const char *path_of(const char *name)
{
	static char path[TEST_FOLDER_SIZE + 32];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int read_it(const char *path, size_t most)
{
	size_t length;
	char *text;
	const int error = weir__text_file_read(path, most, &text, &length);

	if (error != 0)
		return error;
	CHECK_EQ(length, strlen(text));
	free(text);
	return 0;
}

static void regular_files_are_read(void)
{
	const int file = open(path_of("file"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	char by_descriptor[64];

	CHECK_EQ(write(file, "four", 4), 4);
	CHECK_EQ(read_it(path_of("file"), 4), 0);
	CHECK_EQ(read_it(path_of("file"), 3), EFBIG);
	CHECK_EQ(symlink("file", path_of("link")), 0);
	CHECK_EQ(read_it(path_of("link"), 4), 0);
	(void)snprintf(by_descriptor, sizeof(by_descriptor), "/proc/self/fd/%d", file);
	CHECK_EQ(read_it(by_descriptor, 4), 0);
	CHECK_EQ(read_it("/dev/null", 4), 0);
	CHECK_EQ(read_it(path_of("none"), 4), ENOENT);
	CHECK_EQ(weir__text_file_check(path_of("none")), ENOENT);
	CHECK_EQ(weir__text_file_check(path_of("link")), 0);
	close(file);
	unlink(path_of("file"));
	unlink(path_of("link"));
}

static void others_are_not_waited_for(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_EQ(mkfifo(path_of("fifo"), 0600), 0);
	CHECK_EQ(read_it(path_of("fifo"), 4), ENXIO);
	CHECK_EQ(weir__text_file_check(path_of("fifo")), ENXIO);
	CHECK_EQ(symlink("fifo", path_of("link")), 0);
	CHECK_EQ(read_it(path_of("link"), 4), ENXIO);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path_of("socket"));
	CHECK_EQ(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(read_it(path_of("socket"), 4), ENXIO);
	CHECK_EQ(read_it("/dev/zero", 4), ENXIO);
	CHECK_EQ(read_it(folder, 4), EISDIR);
	CHECK(strstr(weir__text_file_error(ENXIO), "not a regular file") != NULL);
	CHECK_TEXT(weir__text_file_error(ENOENT), strerror(ENOENT));
	close(listener);
	unlink(path_of("fifo"));
	unlink(path_of("link"));
	unlink(path_of("socket"));
}

static void pipes_that_the_caller_gave_are_read(void)
{
	char path[64];
	int ends[2];

	if (!CHECK_EQ(pipe(ends), 0))
		return;
	CHECK_EQ(write(ends[1], "four", 4), 4);
	close(ends[1]);
	(void)snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	CHECK_EQ(read_it(path, 4), 0);
	close(ends[0]);
}

static void a_file_is_replaced_at_once(void)
{
	char path[200], long_path[5000], *text;
	struct stat status;
	size_t length;

	(void)snprintf(path, sizeof(path), "%s/replaced", folder);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(weir__text_file_replace(path, i ? 0644 : 0600, i ? "second" : "first", i ? 6 : 5), 0);
		CHECK_EQ(stat(path, &status), 0);
		CHECK_EQ(status.st_mode & 0777, i ? 0644 : 0600);
	}
	CHECK_EQ(weir__text_file_read(path, 100, &text, &length), 0);
	CHECK_TEXT(text, "second");
	free(text);
	CHECK_EQ(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/missing/file", folder);
	CHECK_EQ(weir__text_file_replace(path, 0600, "a", 1), ENOENT);
	memset(long_path, 'a', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	CHECK_EQ(weir__text_file_replace(long_path, 0600, "a", 1), ENAMETOOLONG);
}

int main(void)
{
	static const struct check_test tests[] = { TEST(regular_files_are_read), TEST(others_are_not_waited_for),
						   TEST(pipes_that_the_caller_gave_are_read),
						   TEST(a_file_is_replaced_at_once) };
	int failed;

	test_folder_new(folder, "text_file");
	failed = check_run(tests, sizeof(tests) / sizeof(tests[0]));
	rmdir(folder);
	return failed;
}
