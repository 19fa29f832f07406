/* top_text.h: lines of a terminal that are as wide as they are meant to be, whatever is in them.
 *
 * Names and keys come from a server, and may be anything: what a terminal would obey, what it would not show, and what has no
 * width never reach it. */
#ifndef WEIR_CLI_TOP_TEXT_H
#define WEIR_CLI_TOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__TOP_LINE_SIZE = 4096 };

/* A line that is being written. What does not fit is left out. */
struct weir__top_text {
	char *bytes; /* WEIR__TOP_LINE_SIZE of them, with a NUL */
	size_t length;
	unsigned columns; /* that it takes */
	bool is_utf8;     /* what the terminal reads; else ASCII */
};

static inline struct weir__top_text weir__top_text_of(char bytes[WEIR__TOP_LINE_SIZE], bool is_utf8)
{
	bytes[0] = '\0';
	return (struct weir__top_text){ bytes, 0, 0, is_utf8 };
}

/* Whether the terminal reads UTF-8, as the locale says, which this sets. */
bool weir__top_text_locale(void);

/* Ours: as it is. The first takes no columns; the second as many as are said. */
void weir__top_text_ink(struct weir__top_text *text, const char *escape);
void weir__top_text_put(struct weir__top_text *text, const char *bytes, unsigned columns);

/* Anybody's, in so many columns: cut if it is longer, filled up if it is shorter. */
void weir__top_text_cell(struct weir__top_text *text, const char *bytes, unsigned columns);

/* Anybody's, as long as it is, up to so many columns. */
void weir__top_text_add(struct weir__top_text *text, const char *bytes, unsigned columns);

/* Ours, of ASCII, at the right end of so many columns. */
void weir__top_text_right(struct weir__top_text *text, const char *bytes, unsigned columns);

/* Blanks up to this column. */
void weir__top_text_to(struct weir__top_text *text, unsigned column);

/* A part of the whole as a bar of so many columns; a height of 0 to 8 as one. */
void weir__top_text_bar(struct weir__top_text *text, unsigned thousandths, unsigned columns);
void weir__top_text_height(struct weir__top_text *text, unsigned eighths);

/* Numbers as people read them: 12.3, 12345, 123k, 12.3M. */
enum { WEIR__TOP_NUMBER_SIZE = 48 };
void weir__top_number(uint64_t number, char text[WEIR__TOP_NUMBER_SIZE]);
void weir__top_tenths(uint64_t tenths, char text[WEIR__TOP_NUMBER_SIZE]);

/* Seconds as 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
void weir__top_age(uint64_t seconds, char text[WEIR__TOP_NUMBER_SIZE]);

#endif
