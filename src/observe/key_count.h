/* key_count.h: the number of live keys, fast enough for frequent callers, and accurate when there are few.
 *
 * A small sample of a large table says little about a few live keys. When few keys are live, a larger part of the table
 * is scanned, which takes 2 ms. This happens only now and then. In between, the keys inserted since are added to the
 * last result. */
#ifndef WEIR_OBSERVE_KEY_COUNT_H
#define WEIR_OBSERVE_KEY_COUNT_H

#include "store/table/table.h"

/* The result of the last large scan. Used by one thread. Starts as zeros. */
struct weir__key_count_cache {
	weir_ns at;
	uint64_t live, inserted;
};

/* The parts that are counted in `damaged`, in words. */
extern const char *const weir__damage_words[WEIR__DAMAGES];

/* `before` NULL: no large scans, the count is always estimated from a part of the table. */
void weir__key_count(struct weir_table *table, struct weir__key_count_cache *before, weir_ns now,
		     struct weir__table_key_count *ret_count);

#endif
