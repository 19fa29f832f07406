/* segments.h: a sliding counter over n sub-windows, or with counts that need 64 bits.
 *
 * State: a header, then a ring of n + 1 counts. The sub-window with number k is at k % (n + 1). The place of a
 * sub-window without a request holds the count of an older one until something is counted again. Compare with `newest`
 * to tell them apart. */
#ifndef WEIR_CORE_SEGMENTS_H
#define WEIR_CORE_SEGMENTS_H

#include "core/wide.h"

struct weir__segments {
	uint64_t newest; /* number of the newest sub-window in which something was counted */
	uint64_t counts[];
};

static inline size_t weir__segments_size(uint64_t sub_windows)
{
	return sizeof(struct weir__segments) + ((size_t)sub_windows + 1) * sizeof(uint64_t);
}

/* Turns the plan of a plain sliding counter into one with room for any count. */
void weir__segments_widen(struct weir_plan *plan);

/* Converts the state of a plain sliding counter to its widened plan, in place: 24 bytes instead of 16. */
void weir__segments_from_counter(void *state);

#endif
