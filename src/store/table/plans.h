/* plans.h: the last plans of a limit, where all processes of a table read them.
 *
 * A limit that has been changed n times has plan n. Plans are kept in a ring. A thread that changes the limit claims it
 * (`change` of its entry), writes the next plan and then, by one swap, increments n and ends its claim. That swap may
 * come later and from another thread, so that several limits can be changed once all their plans are written.
 *
 * Any thread may take a claim over, since the swap of its owner then fails. So a thread that was killed blocks no
 * other. A late writer cannot corrupt the plan of the thread that took over. Each word of a plan is swapped together
 * with a mark that identifies its writer, and the swap expects the word that was there while the writer still held the
 * claim. */
#ifndef WEIR_STORE_TABLE_PLANS_H
#define WEIR_STORE_TABLE_PLANS_H

#include "store/table/region.h"

/* Exported for libweir-policy, which is a separate library: see weir.map. */
#define WEIR__BETWEEN_LIBRARIES WEIR_API

/* A limit as of one of its changes. */
struct weir__plans_limit {
	struct weir_limit limit;
	weir_ns changed_at;       /* when the limit was changed to this; 0 for the first */
	struct weir_state absent; /* state of a key without a slot: see view.h. Kept for the newest only */
};

/* How often the limit has been changed. Acquire. */
static inline uint64_t weir__plans_number(const struct weir__region_limit *entry)
{
	return __atomic_load_n(&entry->change.state.lo, __ATOMIC_ACQUIRE);
}

/* Where the plan with this number is or will be. */
static inline struct weir__region_plan *weir__plans_place(const struct weir__region *region,
							  struct weir__region_limit *entry, uint64_t number)
{
	const uint64_t place = number % WEIR__PLANS;

	return place == 0 ? &entry->first : &region->plans[entry - region->limits].later[place - 1];
}

/* Writes the first plan. Every thread that adds the limit calls it, and all write the same. */
void weir__plans_begin(struct weir__region_limit *entry, const struct weir_limit *limit);

/* Reads a plan, all but `absent`. Returns false if the plan has been overwritten, was never written or is corrupt. The
 * limit that is read may be invalid. */
bool weir__plans_read(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number,
		      struct weir__plans_limit *ret_limit);

/* Reads the newest plan. Returns false if it is corrupt. */
bool weir__plans_read_last(const struct weir__region *region, struct weir__region_limit *entry, uint64_t *ret_number,
			   struct weir__plans_limit *ret_limit);

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
