/* plans.h: the last plans of a limit, where all processes of a table read them.
 *
 * A limit that has been changed n times has plan n; plans are kept in a ring. Whoever changes it claims the right to
 * (`change` of its entry), writes the next plan and then, by one swap, counts up n and ends its claim. That swap may come
 * later, and from another thread, so that several limits can be changed when all their plans are written. Anybody may take
 * a claim over, since its owner then fails to count: one that was killed keeps nobody. A late writer cannot spoil the plan
 * of the one who took over, as each word of a plan is swapped together with the mark of who wrote it, and only for what
 * was there while the claim was its own. */
#ifndef WEIR_STORE_TABLE_PLANS_H
#define WEIR_STORE_TABLE_PLANS_H

#include "store/table/region.h"

/* For libweir-policy, too, which is a library of its own: see weir.map. */
#define WEIR__BETWEEN_LIBRARIES WEIR_API

/* A limit as of one of its changes. */
struct weir__plans_limit {
	struct weir_limit limit;
	weir_ns changed_at;       /* to this limit; of the first one 0 */
	struct weir_state absent; /* what a key owes that was never used: see view.h. Only of the newest is it kept */
};

/* How often it has been changed. */
static inline uint64_t weir__plans_number(const struct weir__region_limit *entry)
{
	return __atomic_load_n(&entry->change.state.lo, __ATOMIC_ACQUIRE);
}

/* Where the plan with this number is, or will be. */
static inline struct weir__region_plan *weir__plans_place(const struct weir__region *region,
							  struct weir__region_limit *entry, uint64_t number)
{
	const uint64_t place = number % WEIR__PLANS;

	return place == 0 ? &entry->first : &region->plans[entry - region->limits].later[place - 1];
}

/* The first plan. Whoever adds the limit writes it, and all write the same. */
void weir__plans_begin(struct weir__region_limit *entry, const struct weir_limit *limit);

/* Without `absent`. False: it is no longer there, or never was, or somebody scribbled over it. It need not be a limit that
 * can be. */
bool weir__plans_read(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number,
		      struct weir__plans_limit *ret_limit);

/* The newest. False: somebody scribbled over it. */
bool weir__plans_read_last(const struct weir__region *region, struct weir__region_limit *entry, uint64_t *ret_number,
			   struct weir__plans_limit *ret_limit);

/* A plan that is written, but not yet the limit's. */
struct weir__plans_staged {
	uint64_t number; /* of the plan before it */
	uint64_t claim;  /* 0: none is staged */
};

/* Writes it as the plan after that of the number. False: somebody else has changed the limit meanwhile. */
bool weir__plans_stage(const struct weir__region *region, struct weir__region_limit *entry, uint64_t number,
		       const struct weir__plans_limit *to, struct weir__plans_staged *ret_staged);

/* Makes the staged plan the limit's. False: it is already, or somebody else has changed the limit instead. */
WEIR__BETWEEN_LIBRARIES bool weir__plans_settle(struct weir__region_limit *entry,
						const struct weir__plans_staged *staged);

/* Gives the staged plan up. */
WEIR__BETWEEN_LIBRARIES void weir__plans_drop(struct weir__region_limit *entry,
					      const struct weir__plans_staged *staged);

#endif
