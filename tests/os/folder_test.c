/* folder_test.c: which files of a directory are found, and in which order. */
#include "os/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "test_folder.h"

static char folder[TEST_FOLDER_SIZE];

static void add(const char *name)
{
	char path[TEST_FOLDER_SIZE + 32];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void files_come_by_their_names(void)
{
	static const char *const names[] = { "b.yaml",    "B.yaml", "a.yml",     ".hidden.yaml",
					     "notes.txt", ".yaml",  "c.yaml.bak" };
	static const char *const endings[] = { ".yaml", ".yml", NULL };
	static const char *const found[] = { "B.yaml", "a.yml", "b.yaml" }; /* by bytes: capitals first */
	struct weir__folder_files files;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		add(names[i]);
	CHECK_EQ(weir__folder_read(folder, endings, &files), 0);
	if (CHECK_EQ(files.n, 3))
		for (size_t i = 0; i < 3; i++)
			CHECK_TEXT(files.paths[i] + strlen(folder) + 1, found[i]);
	weir__folder_free(&files);
	CHECK_EQ(files.n, 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[TEST_FOLDER_SIZE + 32];

		(void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	CHECK_EQ(weir__folder_read(folder, endings, &files), 0);
	CHECK_EQ(files.n, 0);
	weir__folder_free(&files);
}

static void what_is_not_a_directory_is_an_error(void)
{
	static const char *const endings[] = { ".yaml", NULL };
	struct weir__folder_files files;

	CHECK(weir__folder_is(folder));
	CHECK(!weir__folder_is("/nowhere/at/all"));
	CHECK_EQ(weir__folder_read("/nowhere/at/all", endings, &files), ENOENT);
	CHECK_EQ(weir__folder_read("/dev/null", endings, &files), ENOTDIR);
}

int main(void)
{
	static const struct check_test tests[] = { TEST(files_come_by_their_names),
						   TEST(what_is_not_a_directory_is_an_error) };
	int failed;

	test_folder_new(folder, "folder");
	failed = check_run(tests, sizeof(tests) / sizeof(tests[0]));
	rmdir(folder);
	return failed;
}
