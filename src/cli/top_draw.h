/* top_draw.h: what weir top shows of a view: as a screen, or once as a plain table. */
#ifndef WEIR_CLI_TOP_DRAW_H
#define WEIR_CLI_TOP_DRAW_H

#include "cli/top_screen.h"
#include "cli/top_view.h"

/* What is not of the server. */
struct weir__top_state {
	const char *where;     /* the server is */
	char trouble[512];     /* why there is no answer; empty: there is one */
	bool is_paused, helps; /* that its keys are explained */
	bool is_typing;        /* the filter */
	unsigned interval_ms;
};

/* Which columns there is room for: bits, one for each. */
unsigned weir__top_draw_shown(unsigned room);

/* Draws a frame; begin and show are the caller's. */
void weir__top_draw(struct weir__top_screen *screen, const struct weir__top_view *view,
		    const struct weir__top_state *state);

/* Prints all limits, and the keys of the selected one. */
void weir__top_print(const struct weir__top_view *view, const char *where, bool is_utf8);

#endif
