/* bound_policy.h: a policy with the table's limit for each of its plans.
 *
 * A limit of the table has one plan at a time, for all requests. No request may be decided by the rules of one policy
 * and the numbers of the next. So the plans that differ are staged first, then the new policy becomes the current one,
 * and then the staged plans take effect, one by one. A thread that decides by the new policy in the meantime applies
 * the staged plans that it needs. A thread that began with the old policy and finds that it was replaced starts over
 * with the new one, unless it has already charged something. In that case it read all its limits before they
 * changed. */
#ifndef WEIR_GUARD_BOUND_POLICY_H
#define WEIR_GUARD_BOUND_POLICY_H

#include <weir/guard.h>

#include <stdatomic.h>

#include "policy/policy.h"
#include "store/table/table.h"

enum { WEIR__BOUND_POLICY_ANEW = 10 };

struct weir__plan_changes;

struct weir__bound_policy {
	struct weir_policy *policy;
	/* For each plan, its changes since the policy was loaded, or NULL. The array itself is NULL until the first
	 * change. Protected by the guard's lock `noting`. */
	struct weir__plan_changes **changes;
	_Atomic uint32_t holders; /* the guard, and requests that were submitted and are not complete */
	_Atomic bool is_settled;  /* all staged plans have taken effect */
	/* Plans by hash of their names: number + 1, or 0. The size is a power of two, at least twice the number of
	 * plans. */
	uint32_t *places;
	uint64_t n_places;
	struct weir__plans_staged *staged; /* for each plan */
	weir_ns *since;                    /* for each plan: when it got its limit of the table, on the table's clock */
	/* The first plans whose keys start over, because the table has another limit of the same name that cannot be
	 * converted, and the number of all such plans. */
	uint32_t anew[WEIR__BOUND_POLICY_ANEW], n_anew;
	/* For each limit, what a decision by the limit's own plan reads. In the policy's pool. */
	struct weir__ahead *ahead;
	const struct weir_table_limit *limits[]; /* for each plan; NULL: unlimited */
};

/* Whether the store that will keep the state of a limit exists and can hold it. Returns WEIR_OK, or an error and the
 * reason. */
typedef int weir__bound_policy_check(const struct weir_limit *limit, enum weir_policy_store store,
				     struct weir_message *ret_message);

/* Takes ownership of the policy, even on failure. Plans that differ from the table's are staged as of `now`. All limits
 * must pass `check`, unless it is NULL, except unlimited limits and limits that only the table decides (is_local).
 * Returns errors as weir_guard_new does. On an error nothing stays staged, but some limits may have been added to the
 * table. */
int weir__bound_policy_new(struct weir_table *table, struct weir_policy *policy, weir__bound_policy_check *check,
			   weir_ns now, struct weir__bound_policy **ret_bound, struct weir_message *ret_message);

/* Copies `since` for plans that had the same limit of the table in the previous policy. Call it before the policy
 * becomes the current one. */
void weir__bound_policy_follow(struct weir__bound_policy *bound, const struct weir__bound_policy *before);

/* No thread may use it any more. NULL is allowed. */
void weir__bound_policy_free(struct weir__bound_policy *bound);

/* Ends the use of one holder. The last one frees it. */
static inline void weir__bound_policy_drop(struct weir__bound_policy *bound)
{
	if (atomic_fetch_sub(&bound->holders, 1) == 1)
		weir__bound_policy_free(bound);
}

/* Makes all staged plans take effect, once the policy is the current one. A limit that another process changed in the
 * meantime is changed again. */
void weir__bound_policy_settle_all(struct weir_table *table, struct weir__bound_policy *bound, weir_ns now);

static inline bool weir__bound_policy_is_settled(const struct weir__bound_policy *bound)
{
	return atomic_load_explicit(&bound->is_settled, memory_order_acquire);
}

/* The limit of a plan, after its staged plan has taken effect. NULL: unlimited. */
static inline const struct weir_table_limit *weir__bound_policy_limit(const struct weir__bound_policy *bound,
								      uint32_t plan)
{
	const struct weir_table_limit *const limit = bound->limits[plan];

	if (WEIR__UNLIKELY(!weir__bound_policy_is_settled(bound)) && bound->staged[plan].claim)
		(void)weir__plans_settle(limit->entry, &bound->staged[plan]);
	return limit;
}

/* The limit that decides when the store of a plan fails. NULL: the plan has no such limit. */
static inline const struct weir_table_limit *weir__bound_policy_local(const struct weir__bound_policy *bound,
								      uint32_t plan)
{
	const uint32_t local = bound->policy->plans[plan].local;

	return local == WEIR_POLICY_NO_PLAN ? NULL : weir__bound_policy_limit(bound, local);
}

/* Returns the number of the plan with this name, or WEIR_POLICY_NO_PLAN. */
uint32_t weir__bound_policy_plan_named(const struct weir__bound_policy *bound, const char *plan, size_t length);

/* Returns the limit of the plan with this name. NULL: unknown plan, or unlimited. */
const struct weir_table_limit *weir__bound_policy_limit_named(const struct weir__bound_policy *bound, const char *plan,
							      size_t length);

#endif
