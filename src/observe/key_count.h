/* key_count.h: how many keys live, for whoever asks often: soon, and right when there are few.
 *
 * A part of a large table tells little of few keys, and 0 of one key mostly. So of few more of the table is looked at, which
 * takes 2 ms: now and then, and in between keys that were added are counted. */
#ifndef WEIR_OBSERVE_KEY_COUNT_H
#define WEIR_OBSERVE_KEY_COUNT_H

#include "store/table/table.h"

/* What was found when more was looked at; of one thread. Begins as zeros. */
struct weir__key_count_cache {
	weir_ns at;
	uint64_t live, inserted;
};

/* `before` is NULL if nothing is remembered: then a part of the table tells of all of it. */
void weir__key_count(struct weir_table *table, struct weir__key_count_cache *before, weir_ns now,
		     struct weir__table_key_count *ret_glance);

#endif
