/* top_draw.h: draws the view of weir top, as a screen or once as a plain table. */
#ifndef WEIR_CLI_TOP_DRAW_H
#define WEIR_CLI_TOP_DRAW_H

#include "cli/top_screen.h"
#include "cli/top_view.h"

/* State of weir top itself, not from the server. */
struct weir__top_state {
	const char *where;     /* the server's address */
	char trouble[512];     /* why the last request failed; empty: it succeeded */
	bool is_paused, helps; /* helps: the list of keyboard commands is shown */
	bool is_typing;        /* a filter is being typed */
	unsigned interval_ms;
};

/* Returns a bit mask of the columns that fit into `room` terminal columns. */
unsigned weir__top_draw_shown(unsigned room);

/* Draws a frame. The caller calls weir__top_screen_begin before it and weir__top_screen_show after it. */
void weir__top_draw(struct weir__top_screen *screen, const struct weir__top_view *view,
		    const struct weir__top_state *state);

/* Prints all limits, and the keys of the selected one. */
void weir__top_print(const struct weir__top_view *view, const char *where, bool is_utf8);

#endif
