/* plans.h: the plans of a limit, where all processes of a table read them.
 *
 * A limit that has been changed n times has plan n. A thread that changes the limit claims it (`change` of its entry),
 * writes the next plan and then, by one swap, increments n and ends its claim. That swap may come later and from
 * another thread, so that several limits can be changed once all their plans are written.
 *
 * Any thread may take a claim over, since the swap of its owner then fails. So a thread that was killed blocks no
 * other. A late writer cannot corrupt the plan of the thread that took over. Each word of a plan is swapped together
 * with a mark that identifies its writer, and the swap expects the word that was there while the writer still held the
 * claim.
 *
 * The entry has room for two plans: the newest and the one that is being written. Before a plan is overwritten there,
 * it is copied to the old plans, which all limits of the table share, so that the keys that it packed can still be
 * read. A plan may be in one of the OLD_PLANS_SET places of its set. If all are taken, the plan is overwritten whose
 * keys are full first, and the last plans of each limit after all others. Each place is claimed and written in the same
 * way as the plans of an entry. */
#ifndef WEIR_STORE_TABLE_PLANS_H
#define WEIR_STORE_TABLE_PLANS_H

#include "store/table/region.h"

/* Exported for libweir-policy and libweir-redis, which are separate libraries: see weir.map. */
#define WEIR__BETWEEN_LIBRARIES WEIR_API

/* A limit as of one of its changes. */
struct weir__plans_limit {
	struct weir_limit limit;
	weir_ns changed_at; /* when the limit was changed to this; 0 for the first */
	bool in_arena;      /* its keys have histories, although those of the first plan were in slots */
};

/* How often the limit has been changed. Acquire. */
static inline uint64_t weir__plans_number(const struct weir__region_limit *entry)
{
	return __atomic_load_n(&entry->change.state.lo, __ATOMIC_ACQUIRE);
}

/* Writes the first plan. Every thread that adds the limit calls it, and all write the same. */
void weir__plans_begin(struct weir__region_limit *entry, const struct weir_limit *limit);

/* Reads a plan. Returns false if the plan has been overwritten, was never written or is corrupt. The limit that is read
 * may be invalid. */
bool weir__plans_read(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number,
		      struct weir__plans_limit *ret_limit);

/* Reads the newest plan. Returns false if it is corrupt. */
WEIR__BETWEEN_LIBRARIES bool weir__plans_read_last(const struct weir__region *region, struct weir__region_limit *entry,
						   uint64_t *ret_number, struct weir__plans_limit *ret_limit);

/* The longest time that a key takes from all used to nothing used. WEIR_NEVER: the limit is invalid. */
weir_ns weir__plans_longest(const struct weir_limit *limit);

/* For recovery, by a process that has the file to itself. */
enum weir__plans_state {
	WEIR__PLANS_FREE,
	WEIR__PLANS_SOUND,
	WEIR__PLANS_UNWRITTEN, /* left by a thread that was killed, or of no use: may be emptied */
	WEIR__PLANS_DAMAGED,
};

/* Whether the newest plan of a limit is one that the limit can have, if `first` was the limit when it was added. */
enum weir__plans_state weir__plans_check(const struct weir__region *region, struct weir__region_limit *entry,
					 const struct weir_limit *first);

enum weir__plans_state weir__plans_check_old(const struct weir__region *region, struct weir__region_old_plan *old);

/* A plan that is written but not yet in force. */
struct weir__plans_staged {
	uint64_t number; /* of the plan before it */
	uint64_t claim;  /* 0: nothing is staged */
};

/* Writes `to` as the plan after plan `number`. Returns false if another thread has changed the limit meanwhile. */
bool weir__plans_stage(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number,
		       const struct weir__plans_limit *to, struct weir__plans_staged *ret_staged);

/* Puts the staged plan into force. Returns false if it is in force already, or if another thread has changed the limit
 * instead. */
WEIR__BETWEEN_LIBRARIES bool weir__plans_settle(struct weir__region_limit *entry,
						const struct weir__plans_staged *staged);

/* Abandons the staged plan. */
WEIR__BETWEEN_LIBRARIES void weir__plans_drop(struct weir__region_limit *entry,
					      const struct weir__plans_staged *staged);

#endif
