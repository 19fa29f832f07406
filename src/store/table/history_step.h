/* history_step.h: the steps of sliding logs and of sub-windows on a key's events, by searches instead of a copy.
 *
 * The results equal those of core's steps (src/core/log.c, src/core/segments.c) on a state with the same events. The
 * caller puts the change into effect. A clock that was set back by more than WEIR__STEP_BACK_MAX needs core itself. */
#ifndef WEIR_STORE_TABLE_HISTORY_STEP_H
#define WEIR_STORE_TABLE_HISTORY_STEP_H

#include "core/step.h"
#include "store/table/events.h"

enum weir__history_operation { WEIR__HISTORY_TAKE, WEIR__HISTORY_UPTO, WEIR__HISTORY_PEEK };

/* What to add to the events of a key. */
struct weir__addition {
	uint64_t units; /* 0: nothing is added */
	uint64_t at;    /* the instant, or the number of the sub-window; not before the newest event */
	uint64_t used;  /* what counts then */
	/* The first event that counts, and the first to keep after the addition. The two differ if more than the limit
	 * was counted. If i is the number of events, no old event counts or is kept, only the new one. */
	struct weir__found live, kept;
};

/* Whether the clock is so far behind the newest event that it is a new one. */
bool weir__history_step_is_new_clock(const struct weir_plan *plan, const struct weir__events *events, weir_ns now);

struct weir_verdict weir__history_step(const struct weir_plan *plan, struct weir__events *events,
				       enum weir__history_operation operation, weir_ns now, uint64_t cost,
				       struct weir__addition *ret_addition);

/* Units to take out of the events of a key: those after the total `after`. Events before `first` are forgotten. */
struct weir__removal {
	struct weir__found first;
	uint64_t after, units;
};

/* What a refund of n units takes out: the newest ones, as far as they count. */
struct weir__removal weir__history_step_refund(const struct weir_plan *plan, struct weir__events *events, weir_ns now,
					       uint64_t n);

/* What undoing n units of a charge takes out: see weir__step_undo. */
struct weir__removal weir__history_step_undo(const struct weir_plan *plan, struct weir__events *events, weir_ns now,
					     const struct weir__charge *charge, uint64_t n);

/* Takes these units out of the event at `at`, if it has that many. */
struct weir__removal weir__history_step_take_out(const struct weir_plan *plan, struct weir__events *events, uint64_t at,
						 uint64_t units);

/* Fills in remaining and reset_after. */
void weir__history_step_level(const struct weir_plan *plan, struct weir__events *events, weir_ns now,
			      struct weir_verdict *verdict);

#endif
