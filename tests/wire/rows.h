/* rows.h: bytes, and what a reader makes of them in any split. */
#ifndef WEIR_TESTS_WIRE_ROWS_H
#define WEIR_TESTS_WIRE_ROWS_H

#include "check.h"
#include "pieces.h"

struct row {
	const char *bytes;
	size_t size;
	const char *expected;
};

#define ROW(bytes, expected)                                                                                           \
	{                                                                                                              \
		bytes, sizeof(bytes) - 1, expected                                                                     \
	}

/* Returns what was read, as text. */
typedef const char *read_pieces(const char *bytes, size_t size, struct pieces pieces);

static inline void check_split(read_pieces *read, const struct row *row, struct pieces pieces)
{
	const char *const text = read(row->bytes, row->size, pieces);

	if (strcmp(text, row->expected) != 0)
		printf("# in pieces of %zu and %zu:\n", pieces.first, pieces.each);
	CHECK_TEXT(text, row->expected);
}

/* Reads the row at once, in two pieces with every length of the first, and in equal pieces of every length. */
static inline void check_row(read_pieces *read, const struct row *row)
{
	check_split(read, row, at_once);
	for (size_t n = 1; n < row->size; n++) {
		check_split(read, row, (struct pieces){ n, SIZE_MAX });
		check_split(read, row, (struct pieces){ n, n });
		check_split(read, row, (struct pieces){ n, 1 });
	}
}

static inline void check_rows(read_pieces *read, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_row(read, &rows[i]);
}

#define CHECK_ROWS(read, rows) check_rows(read, rows, sizeof(rows) / sizeof((rows)[0]))

#endif
