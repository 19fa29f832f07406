/* top_screen.h: the terminal of weir top. It uses the alternate screen and reads keys as they are pressed. The terminal
 * is restored when the program ends, is stopped, or is killed by a signal that can be caught.
 *
 * Writes only the lines that changed since the last frame, to save bytes on slow connections. */
#ifndef WEIR_CLI_TOP_SCREEN_H
#define WEIR_CLI_TOP_SCREEN_H

#include "cli/top_text.h"

enum {
	WEIR__TOP_ROWS_MAX = 200,
	WEIR__TOP_COLUMNS_MAX = 400,
	WEIR__TOP_ROWS_LEAST = 5,
	WEIR__TOP_COLUMNS_LEAST = 20,
};

/* Large: the program has one. */
struct weir__top_screen {
	bool is_utf8, is_coloured;
	unsigned columns, rows;
	unsigned n; /* lines of the current frame so far */
	char lines[WEIR__TOP_ROWS_MAX][WEIR__TOP_LINE_SIZE];
	char shown[WEIR__TOP_ROWS_MAX][WEIR__TOP_LINE_SIZE];
};

/* Returns whether standard output is a terminal that is not dumb. */
bool weir__top_screen_init(struct weir__top_screen *screen);

void weir__top_screen_enter(void);
void weir__top_screen_leave(void);

/* Begins a frame in the terminal's current size. */
void weir__top_screen_begin(struct weir__top_screen *screen);

/* Returns the next line of the frame. After the last row, returns a line that is never shown. */
struct weir__top_text weir__top_screen_line(struct weir__top_screen *screen);

/* Shows the frame. Returns false if the terminal is gone. */
bool weir__top_screen_show(struct weir__top_screen *screen);

enum weir__top_key {
	WEIR__TOP_KEY_NONE = 0, /* no key was pressed in this time, or a signal arrived, such as a change of size */
	/* Keys that are characters have the character's value. */
	WEIR__TOP_KEY_ENTER = '\n',
	WEIR__TOP_KEY_ESCAPE = 27,
	WEIR__TOP_KEY_ERASE = 127,
	WEIR__TOP_KEY_UP = 256,
	WEIR__TOP_KEY_DOWN,
	WEIR__TOP_KEY_PAGE_UP,
	WEIR__TOP_KEY_PAGE_DOWN,
	WEIR__TOP_KEY_FIRST,
	WEIR__TOP_KEY_LAST,
	WEIR__TOP_KEY_END, /* end of input */
};

/* Waits for a key, for at most wait_ms. */
int weir__top_screen_key(unsigned wait_ms);

#endif
