/* bound_policy.h: a policy with the limit of the table for each of its plans.
 *
 * A limit of the table has one plan, whoever asks. So that no request is decided by the limits of one policy and the
 * numbers of the next, those that differ are changed when the next is in its place: their plans are staged before, and
 * become the limits' right after, one by one. Whoever decides by the new policy meanwhile helps with those that it needs;
 * whoever began by the old one and sees that it is no longer in its place asks the new one, unless it has charged
 * something: then it has seen all limits before, as they were. */
#ifndef WEIR_GUARD_BOUND_POLICY_H
#define WEIR_GUARD_BOUND_POLICY_H

#include <weir/guard.h>

#include <stdatomic.h>

#include "policy/policy.h"
#include "store/table/table.h"

struct weir__bound_policy {
	struct weir_policy *policy;
	_Atomic bool is_settled; /* all that was staged is the limits' */
	uint32_t *places; /* plans by hash of their names: number + 1, or 0; a power of two, at least twice as many */
	uint64_t n_places;
	struct weir__plans_staged *staged; /* of each plan */
	struct weir__ahead *ahead; /* of each limit: what a decision by its own plan looks at. In the policy's pool */
	const struct weir_table_limit *limits[]; /* NULL: unlimited */
};

/* Whether a limit can be where its state is kept beside the table. WEIR_ERR_...: no, and why. */
typedef int weir__bound_policy_check(const struct weir_limit *limit, struct weir_message *ret_message);

/* Takes the policy over, also when it fails. What differs is staged at this time. All limits must pass the check, if there is
 * one, but for those that are decided by the table alone. WEIR_ERR_...: as weir_guard_new; then nothing is. */
int weir__bound_policy_new(struct weir_table *table, struct weir_policy *policy, weir__bound_policy_check *check,
			   weir_ns now, struct weir__bound_policy **ret_bound, struct weir_message *ret_message);

/* Nobody uses it any more. NULL is allowed. */
void weir__bound_policy_free(struct weir__bound_policy *bound);

/* Makes all that was staged the limits', once the policy is in its place. What another process has changed in between is
 * changed again. */
void weir__bound_policy_settle_all(struct weir_table *table, struct weir__bound_policy *bound, weir_ns now);

static inline bool weir__bound_policy_is_settled(const struct weir__bound_policy *bound)
{
	return atomic_load_explicit(&bound->is_settled, memory_order_acquire);
}

/* The limit of a plan, changed to what the policy says. NULL: unlimited. */
static inline const struct weir_table_limit *weir__bound_policy_limit(const struct weir__bound_policy *bound,
								      uint32_t plan)
{
	const struct weir_table_limit *const limit = bound->limits[plan];

	if (WEIR__UNLIKELY(!weir__bound_policy_is_settled(bound)) && bound->staged[plan].claim)
		(void)weir__plans_settle(limit->entry, &bound->staged[plan]);
	return limit;
}

/* The limit that decides when a plan's store fails. NULL: the plan has none for that. */
static inline const struct weir_table_limit *weir__bound_policy_local(const struct weir__bound_policy *bound,
								      uint32_t plan)
{
	const uint32_t local = bound->policy->plans[plan].local;

	return local == WEIR_POLICY_NO_PLAN ? NULL : weir__bound_policy_limit(bound, local);
}

/* The number of the plan of this name, or WEIR_POLICY_NO_PLAN. */
uint32_t weir__bound_policy_plan_named(const struct weir__bound_policy *bound, const char *plan, size_t length);

/* The limit of the plan of this name; NULL: there is none, or it is unlimited. */
const struct weir_table_limit *weir__bound_policy_limit_named(const struct weir__bound_policy *bound, const char *plan,
							      size_t length);

#endif
