/* log_order.h: takes lines of a log, roughly in the order of completion, and returns records in the order of arrival.
 *
 * Lines wait in one bucket for each second until the second is older than the newest line by more than the reorder
 * window. Then the arrivals of its lines are known: lines without a fraction are spread over the second, and durations
 * are subtracted. With durations, records wait once more, by the second of their arrival.
 *
 * Memory: a record takes its attributes, about 60 bytes, and 16 bytes for each attribute. */
#ifndef WEIR_REPLAY_LOG_ORDER_H
#define WEIR_REPLAY_LOG_ORDER_H

#include "replay/log_line.h"

struct weir__log_order;

struct weir__log_order_counts {
	uint64_t records, spread, late, released_early;
	weir_ns latest_late;
};

/* NULL: no memory. */
struct weir__log_order *weir__log_order_new(size_t n_values, weir_ns reorder, size_t held_max);

/* Copies a line. Returns false if memory runs out. */
bool weir__log_order_add(struct weir__log_order *order, const struct weir__log_line *line, uint32_t input,
			 uint64_t number);

/* Call it after the last line: all records become ready. Returns false if memory runs out. */
bool weir__log_order_end(struct weir__log_order *order);

/* Returns up to `most` records that are ready, valid until the next call of this function. */
size_t weir__log_order_take(struct weir__log_order *order, size_t most,
			    const struct weir__log_record *const **ret_records);

const struct weir__log_order_counts *weir__log_order_counts(const struct weir__log_order *order);

void weir__log_order_free(struct weir__log_order *order); /* NULL is allowed */

#endif
