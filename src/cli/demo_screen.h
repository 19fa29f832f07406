/* demo_screen.h: the demo as a picture that is redrawn in place in a terminal.
 *
 * One column of the timelines is a duration of simulated time, and the height of its bar is how many requests passed in
 * it. Between enter and leave the cursor is hidden and long lines are cut. Signals that end or stop the process restore
 * both. */
#ifndef WEIR_CLI_DEMO_SCREEN_H
#define WEIR_CLI_DEMO_SCREEN_H

#include "cli/demo_traffic.h"

enum demo_ink {
	DEMO_INK_NONE, /* reset to normal */
	DEMO_INK_BOLD,
	DEMO_INK_DIM,
	DEMO_INK_HEAD,
	DEMO_INK_THROUGH,
	DEMO_INK_QUEUED,
	DEMO_INK_DENIED,
	DEMO_INK_OVER,
};

struct demo_screen {
	bool coloured;
	unsigned columns, rows; /* size of the terminal when the last frame was drawn */
	unsigned lines;         /* height of that frame; the cursor is below it */
};

/* Returns whether standard output can show the picture: a terminal, not dumb, and large enough. If so, fills
 * `screen`. */
bool weir__demo_screen_init(struct demo_screen *screen);

void weir__demo_screen_enter(void);
void weir__demo_screen_leave(void);

/* Draws over the previous frame. The last frame has no caption. */
void weir__demo_screen_draw(struct demo_screen *screen, struct demo_traffic *traffic);

/* Returns the escape sequence for an ink; empty if not coloured. */
const char *weir__demo_screen_ink(bool coloured, enum demo_ink ink);

#endif
