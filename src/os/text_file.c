/* text_file.c: reads to the end of the file; the size from stat is only a hint. */
#include "os/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
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

int weir__text_file_read(const char *path, size_t most, char **ret_text, size_t *ret_length)
{
	const int file = open(path, O_RDONLY | O_CLOEXEC);
	struct reading reading = { .size = ROOM_LEAST };
	struct stat status;
	int error;

	if (file < 0)
		return errno;
	if (fstat(file, &status) == 0 && status.st_size > 0 && (uint64_t)status.st_size <= most)
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
