/* top_text.h: lines of a terminal with an exact width, whatever their content.
 *
 * Names and keys come from a server and may contain any bytes. Control characters, unprintable characters and
 * characters without width never reach the terminal. */
#ifndef WEIR_CLI_TOP_TEXT_H
#define WEIR_CLI_TOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__TOP_LINE_SIZE = 4096 };

/* A line that is being written. What does not fit is dropped. */
struct weir__top_text {
	char *bytes; /* WEIR__TOP_LINE_SIZE bytes, with a NUL */
	size_t length;
	unsigned columns; /* its width so far */
	bool is_utf8;     /* the terminal reads UTF-8; else ASCII */
	unsigned most;    /* columns of the terminal: what would be beyond them is dropped */
};

static inline struct weir__top_text weir__top_text_of(char bytes[WEIR__TOP_LINE_SIZE], bool is_utf8)
{
	bytes[0] = '\0';
	return (struct weir__top_text){ bytes, 0, 0, is_utf8, UINT32_MAX };
}

/* Sets the locale from the environment. Returns whether its encoding is UTF-8. */
bool weir__top_text_locale(void);

/* Trusted text, added unchanged. An ink takes no columns; put takes as many as the caller says. Of text with a byte for
 * each column, what fits is added. */
void weir__top_text_ink(struct weir__top_text *text, const char *escape);
void weir__top_text_put(struct weir__top_text *text, const char *bytes, unsigned columns);

/* Untrusted text in a cell of `columns`: cut if it is longer, padded if it is shorter. */
void weir__top_text_cell(struct weir__top_text *text, const char *bytes, unsigned columns);

/* Untrusted text, cut at `columns`, not padded. */
void weir__top_text_add(struct weir__top_text *text, const char *bytes, unsigned columns);

/* Trusted ASCII text, right-aligned in `columns`. */
void weir__top_text_right(struct weir__top_text *text, const char *bytes, unsigned columns);

/* Adds blanks up to this column. */
void weir__top_text_to(struct weir__top_text *text, unsigned column);

/* A horizontal bar of `columns`, filled by thousandths; a vertical bar in one column, 0 to 8 high. */
void weir__top_text_bar(struct weir__top_text *text, unsigned thousandths, unsigned columns);
void weir__top_text_height(struct weir__top_text *text, unsigned eighths);

/* Numbers in short form: 12.3, 12345, 123k, 12.3M. */
enum { WEIR__TOP_NUMBER_SIZE = 48 };
void weir__top_number(uint64_t number, char text[WEIR__TOP_NUMBER_SIZE]);
void weir__top_tenths(uint64_t tenths, char text[WEIR__TOP_NUMBER_SIZE]);

/* A duration in seconds as 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h. */
void weir__top_age(uint64_t seconds, char text[WEIR__TOP_NUMBER_SIZE]);

#endif
