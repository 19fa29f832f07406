/* region_histories.c: recovers the arena of a table in a file. The caller is alone with the file.
 *
 * It determines again which chunks are taken: those that the slots of keys lead to, each chunk for one key only. A slot
 * whose root is missing or belongs to another key is emptied and counted as damaged. It does not check the contents of
 * cells. A reader skips an impossible event, and its units count with the next event. */
#include "os/thread.h"
#include "store/table/history.h"
#include "store/table/region_file.h"
#include "store/table/slot.h"

enum {
	MOVES_MOST = 2, /* a killed thread has left one move, other threads one more */
	TAKEN = 1,      /* any stamp will do for a chunk that is in use */
};

#define REF_IS_EMPTY (UINT32_C(1) << 31) /* see history.c */

/* Takes a chunk. Returns false if no chunk has this number or it is taken already. */
static bool take(const struct weir__arena *arena, uint32_t number)
{
	if (weir__arena_chunk(arena, number) == NULL || atomic_load(&arena->taken[number - 1]) != 0)
		return false;
	atomic_store(&arena->taken[number - 1], TAKEN);
	return true;
}

/* A reference to a chunk that does not exist or is taken already becomes empty: the reference and the chunk were on
 * pages of different ages. */
static void take_refs(const struct weir__arena *arena, _Atomic uint32_t *refs, uint32_t n, uint32_t level)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t number = atomic_load(&refs[i]);

		if (number & REF_IS_EMPTY)
			continue;
		if (!take(arena, number))
			atomic_store(&refs[i], weir__thread_nonce() | REF_IS_EMPTY);
		else if (level > 0)
			take_refs(arena, weir__arena_chunk(arena, number)->refs, WEIR__CHUNK_REFS, level - 1);
	}
}

/* Finds the root that a slot leads to and that belongs to its key. Returns 0 if it is not found. */
static uint32_t find_root(struct weir__arena *arena, struct weir_state slot, struct weir__history *ret_history)
{
	uint32_t number = weir__slot_root(slot);

	for (int moves = 0; moves <= MOVES_MOST; moves++) {
		const union weir__chunk *const chunk = weir__arena_chunk(arena, number);
		uint64_t owner;

		if (chunk == NULL)
			return 0;
		owner = atomic_load(&((struct weir__root *)(void *)(uintptr_t)chunk)->owner);
		if (!weir__root_is_owned_by((const struct weir__root *)(const void *)chunk,
					    weir__slot_fingerprint(slot)))
			return 0;
		switch (weir__history_look(arena, number, owner, ret_history, &number)) {
		case WEIR__HISTORY_THERE:
			return number;
		case WEIR__HISTORY_MOVED:
			break;
		default:
			return 0;
		}
	}
	return 0;
}

static bool take_history(struct weir__arena *arena, struct weir_state *slot)
{
	struct weir__history history;
	const uint32_t number = find_root(arena, *slot, &history);
	uint32_t units;

	if (number == 0 &&
	    weir__history_is_folded(arena, weir__slot_root(*slot), weir__slot_fingerprint(*slot), &units)) {
		*slot = weir__slot_make_folded(weir__slot_fingerprint(*slot), units, weir__slot_level(*slot),
					       weir__slot_full_at(*slot));
		return true;
	}
	if (number == 0 || !take(arena, number))
		return false;
	take_refs(arena, history.root->refs, WEIR__ROOT_REFS, history.shape.depth);
	*slot = weir__slot_make_root(weir__slot_fingerprint(*slot), number, weir__slot_level(*slot),
				     weir__slot_full_at(*slot));
	return true;
}

void weir__region_recover_histories(struct weir__region *region)
{
	struct weir__arena *const arena = &region->arena;

	for (uint32_t i = 0; i < arena->n; i++)
		if (atomic_load(&arena->taken[i]) != 0) /* avoid writing pages that are zero already */
			atomic_store(&arena->taken[i], 0);
	for (uint64_t i = 0; i < region->lines * WEIR__LINE_SLOTS; i++) {
		struct weir_state slot = region->slots[i].state;

		if (weir__slot_tag(slot) != WEIR__SLOT_ARENA || weir__slot_is_folded(slot))
			continue;
		if (!take_history(arena, &slot)) {
			weir__region_count_damage(region, WEIR__DAMAGED_SLOTS, 1);
			slot = (struct weir_state){ 0, 0 };
		}
		region->slots[i].state = slot;
	}
}
