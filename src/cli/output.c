/* output.c: files that weir replay and weir tune write. */
#include "cli/output.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool weir__output_is_same(const char *path, const char *other)
{
	struct stat status, others;
	const bool is_there = stat(path, &status) == 0, is_other_there = stat(other, &others) == 0;

	if (!is_there && !is_other_there)
		return strcmp(path, other) == 0;
	return is_there && is_other_there && S_ISREG(status.st_mode) && status.st_dev == others.st_dev &&
	       status.st_ino == others.st_ino;
}

bool weir__output_is_input(const char *path, const char *const *inputs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (inputs[i] && weir__output_is_same(path, inputs[i]))
			return true;
	return false;
}

/* Sets the mode, because a file that exists may have a different mode. But not of a device or pipe: a new mode of
 * /dev/null, for example, would affect the whole machine. */
static bool restrict_mode(int file)
{
	struct stat status;

	return fstat(file, &status) == 0 && (!S_ISREG(status.st_mode) || fchmod(file, S_IRUSR | S_IWUSR) == 0);
}

FILE *weir__output_open_private(const char *path)
{
	const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, S_IRUSR | S_IWUSR);
	FILE *out = NULL;

	if (file < 0)
		return NULL;
	if (restrict_mode(file))
		out = fdopen(file, "w");
	if (out == NULL)
		(void)close(file);
	return out;
}
