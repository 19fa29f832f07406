/* guard.c: creating a guard, replacing its policy, and looking up its plans. */
#include <errno.h>
#include <stdlib.h>

#include "core/argument.h"
#include "core/text.h"
#include "guard/guard_internal.h"

/* Tells the store how each plan of the policy decides while the store fails. Call it before the policy becomes the
 * current one, so that each limit has its rule from the first decision on. */
static void set_rules(struct weir_store *store, const struct weir__bound_policy *bound)
{
	for (uint32_t i = 0; store && i < bound->policy->n_plans; i++) {
		const struct weir_policy_plan *const plan = &bound->policy->plans[i];
		struct weir__store_rule rule = { .fallback = { .budget = plan->store_budget },
						 .since = bound->since[i],
						 .is_in_table = plan->store == WEIR_POLICY_STORE_TABLE };

		rule.is_set = weir__store_fallback_mode(plan->on_store_failure, &rule.fallback.mode);
		if (plan->local != WEIR_POLICY_NO_PLAN)
			rule.fallback.local = bound->limits[plan->local];
		weir__store_set_rules(store, &bound->limits[i], &rule, 1);
	}
}

/* store: NULL if the table decides. */
static int new_guard(struct weir_table *table, struct weir_store *store, struct weir_policy *policy,
		     weir__bound_policy_check *check, struct weir_guard **ret_guard, struct weir_message *ret_message)
{
	struct weir_guard *const guard = aligned_alloc(64, (sizeof(*guard) + 63) / 64 * 64);
	const weir_ns now = weir_table_now(table);
	struct weir__bound_policy *bound;
	struct weir__text why;
	int error;

	if (guard == NULL) {
		weir_policy_free(policy);
		why = weir__text_of_message(ret_message, 0);
		weir__text_add(&why, "no memory for a guard");
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	error = weir__bound_policy_new(table, policy, check, now, &bound, ret_message);
	if (error != WEIR_OK) {
		free(guard);
		return error;
	}
	set_rules(store, bound);
	weir__bound_policy_settle_all(table, bound, now);
	memset(guard, 0, sizeof(*guard));
	guard->table = table;
	guard->store = store;
	guard->check = check;
	atomic_init(&guard->bound, bound);
	(void)pthread_mutex_init(&guard->changing, NULL);
	(void)pthread_mutex_init(&guard->ending, NULL);
	(void)pthread_mutex_init(&guard->giving, NULL);
	(void)pthread_mutex_init(&guard->noting, NULL);
	*ret_guard = guard;
	return WEIR_OK;
}

int weir__guard_new(struct weir_table *table, struct weir_policy *policy, weir__bound_policy_check *check,
		    struct weir_guard **ret_guard, struct weir_message *ret_message)
{
	return new_guard(table, NULL, policy, check, ret_guard, ret_message);
}

/* Frees a policy that cannot be used, since the guard took ownership of it. */
static int drop(struct weir_policy *policy, int error)
{
	weir_policy_free(policy);
	return error;
}

int weir_guard_new_on(struct weir_store *store, struct weir_policy *policy, struct weir_guard **ret_guard,
		      struct weir_message *ret_message)
{
	if (store == NULL)
		return drop(policy, weir__argument_null(__func__, "store", ret_message));
	WEIR__NOT_NULL(policy, ret_message);
	if (ret_guard == NULL)
		return drop(policy, weir__argument_null(__func__, "ret_guard", ret_message));

	const struct weir__store_kind *const kind = store->kind;

	return new_guard(store->table, kind ? store : NULL, policy, kind ? kind->check_limit : NULL, ret_guard,
			 ret_message);
}

int weir_guard_new(struct weir_table *table, struct weir_policy *policy, struct weir_guard **ret_guard,
		   struct weir_message *ret_message)
{
	if (table == NULL)
		return drop(policy, weir__argument_null(__func__, "table", ret_message));
	WEIR__NOT_NULL(policy, ret_message);
	if (ret_guard == NULL)
		return drop(policy, weir__argument_null(__func__, "ret_guard", ret_message));
	return weir__guard_new(table, policy, NULL, ret_guard, ret_message);
}

void weir_guard_free(struct weir_guard *guard)
{
	if (guard == NULL)
		return;
	weir__bound_policy_drop(atomic_load(&guard->bound));
	(void)pthread_mutex_destroy(&guard->changing);
	(void)pthread_mutex_destroy(&guard->ending);
	(void)pthread_mutex_destroy(&guard->giving);
	(void)pthread_mutex_destroy(&guard->noting);
	free(guard);
}

/* Ends a policy that was replaced. Waits for the threads that still use it, then frees it, unless submitted requests
 * hold it. */
static void end_bound(struct weir_guard *guard, struct weir__bound_policy *bound)
{
	if (bound == NULL)
		return;
	(void)pthread_mutex_lock(&guard->ending);
	weir__epoch_wait(&guard->epoch);
	(void)pthread_mutex_unlock(&guard->ending);
	weir__bound_policy_drop(bound);
}

int weir_guard_change(struct weir_guard *guard, struct weir_policy *policy, weir_ns now,
		      struct weir_message *ret_message)
{
	if (guard == NULL)
		return drop(policy, weir__argument_null(__func__, "guard", ret_message));
	WEIR__NOT_NULL(policy, ret_message);

	struct weir__bound_policy *next, *before = NULL;
	int error;

	(void)pthread_mutex_lock(&guard->changing);
	error = weir__bound_policy_new(guard->table, policy, guard->check, now, &next, ret_message);
	if (error == WEIR_OK) {
		weir__bound_policy_follow(next, atomic_load(&guard->bound));
		set_rules(guard->store, next);
		before = atomic_exchange(&guard->bound, next);
		weir__bound_policy_settle_all(guard->table, next, now);
		atomic_fetch_add(&guard->changes, 1);
	}
	(void)pthread_mutex_unlock(&guard->changing);
	end_bound(guard, before);
	return error;
}

bool weir__guard_compare(struct weir_guard *guard, const struct weir_policy *next, weir__policy_compare_report *report,
			 void *context)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const bool is_done = weir__policy_compare(bound->policy, next, NULL, report, context);

	weir__epoch_leave(&guard->epoch, phase);
	return is_done;
}

uint32_t weir__guard_list_anew(struct weir_guard *guard, void (*tell)(void *context, const char *plan), void *context)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint32_t n = bound->n_anew;

	for (uint32_t i = 0; i < n && i < WEIR__BOUND_POLICY_ANEW; i++)
		tell(context, bound->policy->plans[bound->anew[i]].name);
	weir__epoch_leave(&guard->epoch, phase);
	return n;
}

uint64_t weir_guard_changes(const struct weir_guard *guard)
{
	return atomic_load(&guard->changes);
}

/* --- lookups ---------------------------------------------------------------------------------------------------- */

const struct weir_table_limit *weir__guard_limit(struct weir_guard *guard, const char *plan, size_t length)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir_table_limit *const limit = weir__bound_policy_limit_named(atomic_load(&guard->bound), plan,
										    length);

	weir__epoch_leave(&guard->epoch, phase);
	return limit;
}

weir_ns weir__guard_limit_since(struct weir_guard *guard, const char *plan, size_t length,
				const struct weir_table_limit *limit)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint32_t number = weir__bound_policy_plan_named(bound, plan, length);
	const weir_ns since = number != WEIR_POLICY_NO_PLAN && bound->limits[number] == limit ? bound->since[number] :
												0;

	weir__epoch_leave(&guard->epoch, phase);
	return since;
}

void weir__guard_failure(struct weir_guard *guard, const char *plan, size_t length,
			 struct weir__guard_failure *ret_failure)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint32_t number = weir__bound_policy_plan_named(bound, plan, length);

	*ret_failure = (struct weir__guard_failure){ .mode = WEIR_STORE_FAILURE_UNSET };
	if (number != WEIR_POLICY_NO_PLAN) {
		const struct weir_policy_plan *const what = weir_policy_plan_of(bound->policy, number);

		*ret_failure = (struct weir__guard_failure){ what->on_store_failure,
							     weir__bound_policy_local(bound, number),
							     what->store_budget };
	}
	weir__epoch_leave(&guard->epoch, phase);
}

enum weir_policy_store weir__guard_store(struct weir_guard *guard, const char *plan, size_t length)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint32_t number = weir__bound_policy_plan_named(bound, plan, length);
	const enum weir_policy_store store = number == WEIR_POLICY_NO_PLAN ?
						     WEIR_POLICY_STORE_UNSET :
						     weir_policy_plan_of(bound->policy, number)->store;

	weir__epoch_leave(&guard->epoch, phase);
	return store;
}

static bool has(const struct weir_policy_plan *plan, enum weir_policy_consistency consistency)
{
	return plan->consistency == consistency && plan->store != WEIR_POLICY_STORE_TABLE && !plan->is_local;
}

static uint32_t stranded_of(const struct weir_policy_plan *plan)
{
	return has(plan, WEIR_POLICY_LEASE) ? plan->stranded : 0;
}

struct weir__guard_eventual weir__guard_eventual(struct weir_guard *guard, const char *plan, size_t length)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint32_t number = weir__bound_policy_plan_named(bound, plan, length);
	struct weir__guard_eventual eventual = { 0, 0, 0 };

	if (number != WEIR_POLICY_NO_PLAN) {
		const struct weir_policy_plan *const of = weir_policy_plan_of(bound->policy, number);

		if (has(of, WEIR_POLICY_EVENTUAL))
			eventual = (struct weir__guard_eventual){ of->ahead, of->sync, of->store_budget };
	}
	weir__epoch_leave(&guard->epoch, phase);
	return eventual;
}

uint32_t weir__guard_stranded(struct weir_guard *guard, const char *plan, size_t length)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint32_t number = weir__bound_policy_plan_named(bound, plan, length);
	const uint32_t stranded = number == WEIR_POLICY_NO_PLAN ?
					  0 :
					  stranded_of(weir_policy_plan_of(bound->policy, number));

	weir__epoch_leave(&guard->epoch, phase);
	return stranded;
}

bool weir__guard_has_lease(struct weir_guard *guard)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	bool has_any = false;

	for (uint32_t i = 0; i < weir_policy_plans(bound->policy) && !has_any; i++) {
		const struct weir_policy_plan *const plan = weir_policy_plan_of(bound->policy, i);

		has_any = has(plan, WEIR_POLICY_LEASE) || has(plan, WEIR_POLICY_EVENTUAL);
	}
	weir__epoch_leave(&guard->epoch, phase);
	return has_any;
}

bool weir__guard_has_table_store(struct weir_guard *guard)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	bool has = false;

	for (uint32_t i = 0; i < weir_policy_plans(bound->policy) && !has; i++)
		has = weir_policy_plan_of(bound->policy, i)->store == WEIR_POLICY_STORE_TABLE;
	weir__epoch_leave(&guard->epoch, phase);
	return has;
}

bool weir__guard_denies_unmatched(struct weir_guard *guard)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const bool denies = weir__policy_denies_unmatched(bound->policy);

	weir__epoch_leave(&guard->epoch, phase);
	return denies;
}

size_t weir__guard_find_misspelled(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
				   char ret_meant[WEIR__ATTRIBUTE_NAME_MAX + 1])
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	struct weir__slice meant;
	const size_t found = weir__policy_find_misspelled(bound->policy, attributes, n, &meant);

	if (found < n) {
		memcpy(ret_meant, meant.at, meant.n);
		ret_meant[meant.n] = '\0';
	}
	weir__epoch_leave(&guard->epoch, phase);
	return found;
}

uint32_t weir__guard_limits(struct weir_guard *guard)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint32_t n = weir_policy_limits(bound->policy);

	weir__epoch_leave(&guard->epoch, phase);
	return n;
}
