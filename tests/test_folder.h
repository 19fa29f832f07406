/* test_folder.h: a directory for the files of one test, in $TMPDIR or /tmp. */
#ifndef WEIR_TESTS_TEST_FOLDER_H
#define WEIR_TESTS_TEST_FOLDER_H

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Leaves room for the path of a socket, which has at most 107 bytes. */
#define TEST_FOLDER_SIZE 64

/* Makes an empty directory and writes its path into FOLDER. Ends the test program if that fails. */
static inline void test_folder_new(char folder[static TEST_FOLDER_SIZE], const char *name)
{
	const char *const parent = getenv("TMPDIR");
	const int length = snprintf(folder, TEST_FOLDER_SIZE, "%s/weir-%s-XXXXXX", parent ? parent : "/tmp", name);

	if (length < 0 || length >= TEST_FOLDER_SIZE)
		errx(1, "TMPDIR is too long: '%s'; a test's directory has at most %d bytes", parent,
		     TEST_FOLDER_SIZE - 1);
	if (mkdtemp(folder) == NULL)
		err(1, "%s", folder);
}

#endif
