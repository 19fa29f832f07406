/* step.h: a step for the stores of this repository only. The public steps are in weir/step.h. */
#ifndef WEIR_CORE_STEP_H
#define WEIR_CORE_STEP_H

#include <weir/step.h>

/* A charge that was made: when, and how many units. */
struct weir__charge {
	weir_ns at;
	uint64_t cost;
};

/* Gives back up to n units of a charge, as far as they still count. verdict.granted is their number. For a smooth
 * bucket, the last of them may have refilled in part. The state is then as if the charge had been that much smaller
 * from the start, so an undo never allows more than the limit.
 * - Bucket: at most the cost minus all that has refilled since the charge.
 * - Window, sliding counter: from the window or sub-window of the charge, while it counts.
 * - Log: from the event of the charge, while it counts.
 * - With count all: nothing.
 * A charge made by a clock that was behind the window, sub-window or event it was counted in is not found, and nothing
 * is given back. A log finds it if that event is at most WEIR__CLOCKS_DIFFER_MAX later. */
struct weir_verdict weir__step_undo(const struct weir_plan *plan, void *state, weir_ns now,
				    const struct weir__charge *charge, uint64_t n);

#endif
