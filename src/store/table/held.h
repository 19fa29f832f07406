/* held.h: additional slots for a key, for leased units and for units of eventual limits that wait.
 *
 * The place of such a slot follows from the hash of the key and a salt. For leases, the salt depends on everything that
 * makes the slot useless when it changes: the plan of the limit, the duration, the start of the process. So such slots
 * are never removed: after a change nothing finds them, and they are reused after their end, or evicted before, like
 * any slot.
 *
 * full_at is the end, by CLOCK_BOOTTIME plus the anchor in the header, which is close to the table's clock. The
 * difference only affects when the slot can be reused. */
#ifndef WEIR_STORE_TABLE_HELD_H
#define WEIR_STORE_TABLE_HELD_H

#include "store/table/table.h"

static inline uint64_t weir__held_hash(uint64_t hash, uint64_t salt)
{
	uint64_t mixed = (hash ^ salt) * UINT64_C(0xbf58476d1ce4e5b9); /* each step has an inverse: no two keys meet */

	mixed = (mixed ^ mixed >> 32) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ mixed >> 31;
}

/* Finds the slot with this fingerprint, even after the limit was changed. ret_place->slot is NULL if there is none. */
static inline void weir__held_find_made(const struct weir_table *table, uint64_t hash, uint32_t fingerprint,
					struct weir__place *ret_place)
{
	union weir__atomic16 *lines[WEIR__LINES];

	*ret_place = weir__line_find(weir__table_home(table, hash), fingerprint, NULL);
	if (WEIR__LIKELY(ret_place->slot != NULL))
		return;
	weir__table_lines(table, hash, lines);
	for (unsigned i = 1; i < WEIR__LINES && ret_place->slot == NULL; i++)
		*ret_place = weir__line_find(lines[i], fingerprint, NULL);
}

/* Of no era of the limit: changes of the limit must not hide what waits. The salt of a lot has the plan. */
static inline uint32_t weir__held_fingerprint(const struct weir_table_limit *limit, uint64_t hash)
{
	return weir__fingerprint_in(hash, limit->group_mark);
}

static inline void weir__held_find(const struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				   struct weir__place *ret_place)
{
	weir__held_find_made(table, hash, weir__held_fingerprint(limit, hash), ret_place);
}

static inline struct weir_state weir__held_slot(const struct weir_table *table, const struct weir_table_limit *limit,
						uint64_t hash, uint32_t own, weir_ns end)
{
	return weir__slot_make(weir__held_fingerprint(limit, hash), own, end - table->epoch, 0);
}

static inline weir_ns weir__held_end(const struct weir_table *table, struct weir_state slot)
{
	return weir__slot_full_at(slot) + table->epoch;
}

/* Puts this content into the slot that was found, or into a new one. Returns false if something changed: find again. */
static inline bool weir__held_put(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				  const struct weir__place *place, struct weir_state next, weir_ns now)
{
	union weir__atomic16 *slot;
	struct weir__key key;

	if (WEIR__LIKELY(place->slot != NULL))
		return weir__atomic16_swap(place->slot, place->seen, next);
	weir__key_init(&key, table, limit, hash);
	key.fingerprint = weir__slot_fingerprint(next);
	key.view.n_eras = 0;
	return weir__table_claim(&key, next, weir__table_clamp(table, now), &slot);
}

#endif
