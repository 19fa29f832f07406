/* algorithm.h: the functions that each kind of plan must provide. step.c builds the public steps from them.
 *
 * `state` points to weir_plan_state_size bytes. Functions with a const state change nothing, and may be called only
 * after `notice` at the same now. */
#ifndef WEIR_CORE_ALGORITHM_H
#define WEIR_CORE_ALGORITHM_H

#include "core/step.h"
#include "core/wide.h"

struct weir__algorithm {
	/* Detects a new clock, and cuts the usage to one burst or window from now. */
	void (*notice)(const struct weir_plan *plan, void *state, weir_ns now);

	/* Decides, and charges cost if allowed. Calls notice itself. */
	bool (*allow)(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

	/* Decides without charging. NULL for kinds with a struct weir_state, where step.c calls allow on a copy
	 * instead. */
	bool (*fits)(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost);

	/* Returns the time until cost fits. Call it only if cost does not fit now and is at most plan->most. */
	weir_ns (*retry_after)(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost);

	/* Fills in remaining and reset_after. */
	void (*level)(const struct weir_plan *plan, const void *state, weir_ns now, struct weir_verdict *verdict);

	/* Counts a denied cost. NULL for buckets. */
	void (*count_denied)(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);

	void (*refund)(const struct weir_plan *plan, void *state, weir_ns now, uint64_t n);

	/* Gives back up to n units of one charge, and returns their number. n is at most the cost of the charge. Call
	 * it after notice. */
	uint64_t (*undo)(const struct weir_plan *plan, void *state, weir_ns now, const struct weir__charge *charge,
			 uint64_t n);

	void (*convert)(const struct weir_plan *from, const struct weir_plan *to, void *state, weir_ns now);
};

extern const struct weir__algorithm weir__bucket_algorithm;
extern const struct weir__algorithm weir__interval_algorithm;
extern const struct weir__algorithm weir__window_algorithm;
extern const struct weir__algorithm weir__counter_algorithm;
extern const struct weir__algorithm weir__segments_algorithm;
extern const struct weir__algorithm weir__log_algorithm;

#endif
