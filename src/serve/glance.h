/* glance.h: how many keys live, for whoever asks often: soon, and right when there are few.
 *
 * A part of a large table tells little of few keys, and 0 of one key mostly. So of few more of the table is looked at, which
 * takes 2 ms: now and then, and in between keys that were added are counted. */
#ifndef WEIR_SERVE_GLANCE_H
#define WEIR_SERVE_GLANCE_H

#include "serve/context.h"
#include "store/table.h"

/* What was found when more was looked at; of one thread. Begins as zeros. */
struct weir__glanced {
	weir_ns at;
	uint64_t live, inserted;
};

void weir__glance(const struct weir__context *context, weir_ns now, struct weir__table_glance *ret_glance);

#endif
