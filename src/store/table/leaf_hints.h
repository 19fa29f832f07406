/* leaf_hints.h: which leaves the next decision for a key will need, as far as this process knows.
 *
 * The leaves of a history are found by way of its root. So a decision waits for memory three times: for the slot, the
 * root and a leaf. With a hint for the slot, root and leaves are prefetched together. A wrong hint does no harm: if the
 * slot has another key, or another process has moved on, the prefetch is wasted. */
#ifndef WEIR_STORE_TABLE_LEAF_HINTS_H
#define WEIR_STORE_TABLE_LEAF_HINTS_H

#include "store/table/history.h"

struct weir__leaf_hints {
	_Atomic uint64_t *at; /* NULL: there are none */
	uint64_t mask;        /* slots that differ only in higher bits of their index share a hint */
};

/* Makes one hint for each slot, or for each chunk if there are fewer chunks, rounded down to a power of two. If memory
 * runs out, there are no hints. */
void weir__leaf_hints_init(struct weir__leaf_hints *hints, uint64_t slots, uint32_t chunks);

void weir__leaf_hints_free(struct weir__leaf_hints *hints);

/* The hint for the slot with this index. NULL: the table has no hints. */
static inline _Atomic uint64_t *weir__leaf_hint(const struct weir__leaf_hints *hints, uint64_t slot)
{
	return hints->at ? &hints->at[slot & hints->mask] : NULL;
}

/* Prefetches the leaves of a hint. */
void weir__leaf_hint_fetch(const struct weir__arena *arena, _Atomic uint64_t *hint);

/* Sets the hint to the leaves of these two positions of the history. */
void weir__leaf_hint_set(_Atomic uint64_t *hint, const struct weir__history *history, uint32_t newest, uint32_t oldest);

#endif
