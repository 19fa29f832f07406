/* text_file.c: reads to the end of the file. The size from stat is only a hint. */
#include "os/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { ROOM_LEAST = 16 * 1024 };

struct reading {
	char *text;
	size_t length, size;
};

/* Reads once. Returns 0 or an errno; *ret_is_all is set at the end of the file. */
static int read_more(int file, struct reading *reading, size_t most, bool *ret_is_all)
{
	ssize_t n;

	if (reading->length + 1 >= reading->size) {
		const size_t size = reading->size * 2;
		char *const text = realloc(reading->text, size);

		if (text == NULL)
			return ENOMEM;
		reading->text = text;
		reading->size = size;
	}
	n = read(file, reading->text + reading->length, reading->size - 1 - reading->length);
	if (n < 0)
		return errno == EINTR ? 0 : errno;
	*ret_is_all = n == 0;
	reading->length += (size_t)n;
	return reading->length > most ? EFBIG : 0;
}

static int read_all(int file, struct reading *reading, size_t most)
{
	bool is_all = false;
	int error = 0;

	while (error == 0 && !is_all)
		error = read_more(file, reading, most, &is_all);
	return error;
}

static bool is_own_descriptor(const char *path)
{
	return strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
	       strncmp(path, "/proc/self/fd/", 14) == 0;
}

static bool is_null_device(const struct stat *status)
{
	return S_ISCHR(status->st_mode) && status->st_rdev == makedev(1, 3);
}

/* O_NONBLOCK, because opening a FIFO waits for a writer, and opening a file with a lease waits for its holder. */
static int open_regular(const char *path, int *ret_file, struct stat *ret_status)
{
	const bool is_own = is_own_descriptor(path);
	const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (is_own ? 0 : O_NONBLOCK));
	int error = 0;

	if (file < 0)
		return errno;
	if (fstat(file, ret_status) != 0)
		error = errno;
	else if (S_ISDIR(ret_status->st_mode))
		error = EISDIR;
	else if (!is_own && !S_ISREG(ret_status->st_mode) && !is_null_device(ret_status))
		error = ENXIO;
	if (error == 0)
		*ret_file = file;
	else
		(void)close(file);
	return error;
}

int weir__text_file_check(const char *path)
{
	struct stat status;
	int file = -1, error = open_regular(path, &file, &status);

	if (error == 0)
		(void)close(file);
	return error;
}

static int write_all(int file, const char *bytes, size_t length)
{
	while (length > 0) {
		const ssize_t n = write(file, bytes, length);

		if (n < 0 && errno != EINTR)
			return errno;
		bytes += n > 0 ? n : 0;
		length -= n > 0 ? (size_t)n : 0;
	}
	return fsync(file) == 0 ? 0 : errno;
}

int weir__text_file_replace(const char *path, unsigned mode, const char *text, size_t length)
{
	char beside[PATH_MAX];
	int file, error;

	if (snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= (int)sizeof(beside))
		return ENAMETOOLONG;
	file = mkostemp(beside, O_CLOEXEC);
	if (file < 0)
		return errno;
	error = write_all(file, text, length);
	if (error == 0 && fchmod(file, mode) != 0)
		error = errno;
	if (close(file) != 0 && error == 0)
		error = errno;
	if (error == 0 && rename(beside, path) != 0)
		error = errno;
	if (error != 0)
		(void)unlink(beside);
	return error;
}

const char *weir__text_file_error(int error)
{
	return error == ENXIO ? "not a regular file; use a file, or a link to one" : strerror(error);
}

int weir__text_file_read(const char *path, size_t most, char **ret_text, size_t *ret_length)
{
	struct reading reading = { .size = ROOM_LEAST };
	struct stat status = { 0 };
	int file = -1, error = open_regular(path, &file, &status);

	if (error != 0)
		return error;
	if (status.st_size > 0 && (uint64_t)status.st_size <= most)
		reading.size += (size_t)status.st_size;
	reading.text = malloc(reading.size);
	error = reading.text ? read_all(file, &reading, most) : ENOMEM;
	(void)close(file);
	if (error != 0) {
		free(reading.text);
		return error;
	}
	reading.text[reading.length] = '\0';
	*ret_text = reading.text;
	*ret_length = reading.length;
	return 0;
}
