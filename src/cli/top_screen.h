/* top_screen.h: the terminal of weir top: another screen than the shell's, keys as they are pressed, and all of it as it was
 * found when the program ends, is stopped or is killed by a signal that can be caught.
 *
 * Only lines that differ from those before are written: few bytes, for terminals that are far away. */
#ifndef WEIR_CLI_TOP_SCREEN_H
#define WEIR_CLI_TOP_SCREEN_H

#include "cli/top_text.h"

enum {
	WEIR__TOP_ROWS_MAX = 200,
	WEIR__TOP_COLUMNS_MAX = 400,
	WEIR__TOP_ROWS_LEAST = 15,
	WEIR__TOP_COLUMNS_LEAST = 60,
};

/* Large: one for the program. */
struct weir__top_screen {
	bool is_utf8, is_coloured;
	unsigned columns, rows;
	unsigned n; /* lines of the frame that is being drawn */
	char lines[WEIR__TOP_ROWS_MAX][WEIR__TOP_LINE_SIZE];
	char shown[WEIR__TOP_ROWS_MAX][WEIR__TOP_LINE_SIZE];
};

/* Whether standard output can show it: a terminal, and not a dumb one. */
bool weir__top_screen_init(struct weir__top_screen *screen);

void weir__top_screen_enter(void);
void weir__top_screen_leave(void);

/* Begins a frame, of the size that the terminal has now. */
void weir__top_screen_begin(struct weir__top_screen *screen);

/* The next line of it; behind the last row there is one that nobody sees. */
struct weir__top_text weir__top_screen_line(struct weir__top_screen *screen);

/* Shows it. False: the terminal is gone. */
bool weir__top_screen_show(struct weir__top_screen *screen);

enum weir__top_key {
	WEIR__TOP_KEY_NONE = 0, /* in this time none was pressed, or something else happened, as another size */
	/* What has a character is that. */
	WEIR__TOP_KEY_ENTER = '\n',
	WEIR__TOP_KEY_ESCAPE = 27,
	WEIR__TOP_KEY_ERASE = 127,
	WEIR__TOP_KEY_UP = 256,
	WEIR__TOP_KEY_DOWN,
	WEIR__TOP_KEY_PAGE_UP,
	WEIR__TOP_KEY_PAGE_DOWN,
	WEIR__TOP_KEY_FIRST,
	WEIR__TOP_KEY_LAST,
	WEIR__TOP_KEY_END, /* there will be no more */
};

/* Waits for a key, so many ms at most. */
int weir__top_screen_key(unsigned wait_ms);

#endif
