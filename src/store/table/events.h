/* events.h: searches the events of a key without copying them.
 *
 * Instants and running totals both grow from event to event, so each search is a binary one: it reads about 2 log2(n)
 * cells. A cell that cannot be read, or that is not in order, means damage. The search then walks all events, as
 * weir__history_next does.
 *
 * A decision that changes the history is made by a swap of its newest event, which fails if anything has changed since.
 * A decision that changes nothing need only know that its own cells were not overwritten. So a reader that has lost a
 * race reads with care: the oldest event first, then the newest, and the oldest again, which must be the same; then
 * cells, and the oldest event once more. A cell that was overwritten is out of order, so the reader notices. The result
 * is valid for the moment at which it read the newest event, however many events others add meanwhile. */
#ifndef WEIR_STORE_TABLE_EVENTS_H
#define WEIR_STORE_TABLE_EVENTS_H

#include "store/table/history.h"

enum { WEIR__EVENTS_FEW = 1 }; /* the events of a folded key */

/* Instants are absolute. Totals start from 0 before the first event. */
struct weir__events {
	const struct weir__history *history; /* NULL: the events are those in few */
	struct weir__event few[WEIR__EVENTS_FEW];
	uint64_t n;
	uint64_t base;             /* added to the instants of the history */
	uint64_t first_at;         /* instant of the first event, if n is more than 1 */
	struct weir__event newest; /* all zero if n is 0 */
	bool is_careful;
	bool is_lost; /* an event was overwritten before it was read: look again */
};

/* The result of a search: an event, and the total before it. If no event was found, i is n. */
struct weir__found {
	uint64_t i;
	struct weir__event event;
	uint64_t before;
};

enum weir__events_by { WEIR__EVENTS_BY_INSTANT, WEIR__EVENTS_BY_TOTAL };

/* Makes the events of a history searchable. With care, the oldest and the newest event are read again into *history.
 * Returns false if the history is gone. */
bool weir__events_init(struct weir__events *events, struct weir__history *history, uint64_t base, bool is_careful);

/* Finds the first event whose instant or total is at least `least`. */
struct weir__found weir__events_find(struct weir__events *events, enum weir__events_by by, uint64_t least);

/* The event that was found as a point of the history, with the total before it. */
struct weir__point weir__events_point(const struct weir__events *events, const struct weir__found *found);

/* Whether all that was read was there at one moment. The caller has checked after its last search that the slot of the
 * key still refers to the history. */
bool weir__events_hold(const struct weir__events *events);

#endif
