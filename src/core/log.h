/* log.h: the exact sliding window: every event is remembered for exactly one period.
 *
 * State: a header, then a ring of plan->room entries in order of time, oldest first. Events of the same instant share
 * an entry. An entry holds the running total of units up to and including its own, so that the sum over any range is
 * one subtraction. Totals may wrap. Their differences stay right. */
#ifndef WEIR_CORE_LOG_H
#define WEIR_CORE_LOG_H

#include "core/wide.h"

struct weir__log {
	uint64_t first; /* index of the oldest entry */
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
