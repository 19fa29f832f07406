/* leaf_hints.c: see leaf_hints.h. A hint holds the numbers of two chunks, and for each the last bits of its leaf's
 * number. Those bits show whether the hint must change. */
#include "store/table/leaf_hints.h"

#include <stdlib.h>

#include "core/wide.h"

enum {
	CHUNK_BITS = 27,
	LEAF_BITS = 5,
	OLDEST_SHIFT = CHUNK_BITS,
	NEWEST_LEAF_SHIFT = 2 * CHUNK_BITS,
	OLDEST_LEAF_SHIFT = NEWEST_LEAF_SHIFT + LEAF_BITS,
	CHUNK_MASK = (1 << CHUNK_BITS) - 1,
	LEAF_MASK = (1 << LEAF_BITS) - 1,
};

_Static_assert((int)WEIR__CHUNKS_MOST <= (int)CHUNK_MASK, "the number of a chunk fits");
_Static_assert(OLDEST_LEAF_SHIFT + LEAF_BITS == 64, "a hint is a word");

void weir__leaf_hints_init(struct weir__leaf_hints *hints, uint64_t slots, uint32_t chunks)
{
	const uint64_t few = chunks ? UINT64_C(1) << (31 - __builtin_clz(chunks)) : 0;
	const uint64_t n = weir__min(slots, few);

	hints->mask = n == slots ? UINT64_MAX : n - 1;
	hints->at = n ? calloc((size_t)n, sizeof(*hints->at)) : NULL;
}

void weir__leaf_hints_free(struct weir__leaf_hints *hints)
{
	free(hints->at);
}

static void fetch(const struct weir__arena *arena, uint64_t number)
{
	const union weir__chunk *const leaf = weir__arena_chunk(arena, (uint32_t)number & CHUNK_MASK);

	if (leaf)
		__builtin_prefetch(leaf, 1);
}

void weir__leaf_hint_fetch(const struct weir__arena *arena, _Atomic uint64_t *hint)
{
	const uint64_t leaves = atomic_load_explicit(hint, memory_order_relaxed);

	fetch(arena, leaves);
	fetch(arena, leaves >> OLDEST_SHIFT);
}

/* 0: this leaf does not exist yet. */
static uint64_t chunk_of(const struct weir__history *history, uint32_t leaf)
{
	const uint32_t number = weir__history_leaf(history, leaf);

	return number <= CHUNK_MASK ? number : 0;
}

void weir__leaf_hint_set(_Atomic uint64_t *hint, const struct weir__history *history, uint32_t newest, uint32_t oldest)
{
	const uint64_t before = atomic_load_explicit(hint, memory_order_relaxed);
	const uint32_t newest_leaf = weir__shape_leaf(&history->shape, newest);
	const uint32_t oldest_leaf = weir__shape_leaf(&history->shape, oldest);
	const uint64_t leaves = (uint64_t)(newest_leaf & LEAF_MASK) << NEWEST_LEAF_SHIFT |
				(uint64_t)(oldest_leaf & LEAF_MASK) << OLDEST_LEAF_SHIFT;

	if (before >> NEWEST_LEAF_SHIFT == leaves >> NEWEST_LEAF_SHIFT && (before & CHUNK_MASK) != 0)
		return;
	atomic_store_explicit(hint,
			      leaves | chunk_of(history, newest_leaf) | chunk_of(history, oldest_leaf) << OLDEST_SHIFT,
			      memory_order_relaxed);
}
