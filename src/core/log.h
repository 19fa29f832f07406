/* log.h: the exact sliding window: every event is remembered for exactly one period.
 *
 * State: a header, then plan->room entries in a ring, oldest first, in order of time. Events of one instant share an
 * entry. An entry holds the running total of units up to and with its own, so that sums over any stretch are one
 * subtraction (totals wrap; differences do not care). */
#ifndef WEIR_CORE_LOG_H
#define WEIR_CORE_LOG_H

#include "core/wide.h"

struct weir__log {
	uint64_t first; /* place of the oldest entry */
	uint64_t entries;
	uint64_t gone; /* running total before the oldest entry */
	struct weir__event {
		weir_ns at;
		uint64_t total;
	} events[];
};

static inline size_t weir__log_size(uint64_t entries)
{
	return sizeof(struct weir__log) + (size_t)entries * sizeof(struct weir__event);
}

#endif
