/* guard_changes.c: changes of single limits after their policy was loaded, and by whom and when they were made. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/argument.h"
#include "core/text.h"
#include "guard/guard_internal.h"

static int refuse(struct weir_message *ret_message, int error, const char *words, const char *plan)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, words);
	if (plan)
		weir__text_add_quoted(&why, plan, strlen(plan));
	return error;
}

/* --- noting ------------------------------------------------------------------------------------------------------ */

static bool is_shared(const struct weir__limit_change *change)
{
	return change->version > 0;
}

/* The record of a plan's changes, which is made if it is missing. NULL: no memory. */
static struct weir__plan_changes *changes_of(struct weir__bound_policy *bound, uint32_t plan)
{
	if (bound->changes == NULL)
		bound->changes = calloc(bound->policy->n_plans, sizeof(bound->changes[0]));
	if (bound->changes && bound->changes[plan] == NULL)
		bound->changes[plan] = calloc(1, sizeof(*bound->changes[plan]));
	return bound->changes ? bound->changes[plan] : NULL;
}

/* If memory for the record runs out, the change is still made. */
static void note(struct weir__bound_policy *bound, uint32_t plan, const struct weir__limit_change *change)
{
	struct weir__plan_changes *const changes = changes_of(bound, plan);

	if (changes == NULL)
		return;
	changes->is_here = !is_shared(change);
	*(changes->is_here ? &changes->here : &changes->shared) = *change;
}

/* Only changes of limits write versions, and `changing` serialises changes. */
static uint64_t version_of(const struct weir__bound_policy *bound, uint32_t plan)
{
	return bound->changes && bound->changes[plan] ? bound->changes[plan]->shared.version : 0;
}

bool weir__guard_change_of(const struct weir__bound_policy *bound, uint32_t plan, struct weir__limit_change *ret_change)
{
	const struct weir__plan_changes *const changes = bound->changes ? bound->changes[plan] : NULL;

	if (changes)
		*ret_change = changes->is_here ? changes->here : changes->shared;
	return changes != NULL;
}

/* --- changing ---------------------------------------------------------------------------------------------------- */

static int check_limit(const struct weir_guard *guard, const struct weir__bound_policy *bound, uint32_t plan,
		       const struct weir_limit *to, struct weir_message *ret_message)
{
	return guard->check ? guard->check(to, weir_policy_plan_of(bound->policy, plan)->store, ret_message) : WEIR_OK;
}

/* Call it with `changing` locked. */
static int change_bound(struct weir_guard *guard, struct weir__bound_policy *bound, uint32_t plan,
			const struct weir__limit_change *change, weir_ns now, struct weir_message *ret_message)
{
	const struct weir_table_limit *const limit = weir__bound_policy_limit(bound, plan);
	int error = check_limit(guard, bound, plan, &change->to, ret_message);

	if (error != WEIR_OK)
		return error;
	/* A list sees the limit and the note of its change together, or neither. */
	(void)pthread_mutex_lock(&guard->noting);
	error = weir_table_change_limit(guard->table, limit, &change->to, now, ret_message);
	if (error == WEIR_OK)
		note(bound, plan, change);
	(void)pthread_mutex_unlock(&guard->noting);
	return error;
}

/* The plan with this name, if it has a limit, or WEIR_POLICY_NO_PLAN. */
static uint32_t find_plan(const struct weir__bound_policy *bound, const char *plan)
{
	const uint32_t number = weir__bound_policy_plan_named(bound, plan, strlen(plan));

	return number != WEIR_POLICY_NO_PLAN && bound->limits[number] ? number : WEIR_POLICY_NO_PLAN;
}

int weir__guard_change_limit(struct weir_guard *guard, const char *plan, const struct weir__limit_change *change,
			     uint64_t identity, weir_ns now, bool *ret_is_made, struct weir_limit *ret_before,
			     struct weir_message *ret_message)
{
	struct weir__bound_policy *bound;
	uint32_t number;
	int error = WEIR_OK;

	*ret_is_made = false;
	(void)pthread_mutex_lock(&guard->changing);
	bound = atomic_load(&guard->bound);
	number = find_plan(bound, plan);
	if (is_shared(change) && bound->policy->identity != identity) {
		error = refuse(ret_message, WEIR_ERR_CHANGE, "another policy took effect in the meantime", NULL);
	} else if (number == WEIR_POLICY_NO_PLAN) {
		error = refuse(ret_message, WEIR_ERR_LIMIT, "the policy has no limit ", plan);
	} else if (!is_shared(change) || change->version > version_of(bound, number)) {
		*ret_before = weir_table_limit_limit(bound->limits[number]);
		error = change_bound(guard, bound, number, change, now, ret_message);
		*ret_is_made = error == WEIR_OK;
	}
	(void)pthread_mutex_unlock(&guard->changing);
	return error;
}

int weir_guard_change_limit(struct weir_guard *guard, const char *plan, const struct weir_limit *to, weir_ns now,
			    struct weir_message *ret_message)
{
	WEIR__NOT_NULL(guard, ret_message);
	WEIR__NOT_NULL(plan, ret_message);
	WEIR__NOT_NULL(to, ret_message);

	const struct weir__limit_change change = { .to = *to };
	struct weir_limit before;
	bool is_made;

	return weir__guard_change_limit(guard, plan, &change, 0, now, &is_made, &before, ret_message);
}

/* Stages the change, which checks everything, and drops it. */
int weir__guard_check_change(struct weir_guard *guard, const char *plan, const struct weir_limit *to, weir_ns now,
			     struct weir_message *ret_message)
{
	struct weir__plans_staged staged = { .claim = 0 };
	struct weir__bound_policy *bound;
	uint32_t number;
	int error;

	(void)pthread_mutex_lock(&guard->changing);
	bound = atomic_load(&guard->bound);
	number = find_plan(bound, plan);
	if (number == WEIR_POLICY_NO_PLAN)
		error = refuse(ret_message, WEIR_ERR_LIMIT, "the policy has no limit ", plan);
	else
		error = check_limit(guard, bound, number, to, ret_message);
	if (error == WEIR_OK)
		error = weir__table_stage_limit(guard->table, weir__bound_policy_limit(bound, number), to, now, false,
						&staged, ret_message);
	if (error == WEIR_OK && staged.claim)
		weir__plans_drop(bound->limits[number]->entry, &staged);
	(void)pthread_mutex_unlock(&guard->changing);
	return error;
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

uint64_t weir__guard_identity(struct weir_guard *guard)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint64_t identity = bound->policy->identity;

	weir__epoch_leave(&guard->epoch, phase);
	return identity;
}

/* Copies each change, so that `tell` runs without the lock. */
void weir__guard_list_shared(struct weir_guard *guard, uint64_t identity,
			     void (*tell)(void *context, const char *plan, const struct weir__limit_change *change),
			     void *context)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	const uint32_t n = bound->policy->identity == identity ? bound->policy->n_plans : 0;
	struct weir__limit_change change;

	for (uint32_t i = 0; i < n; i++) {
		(void)pthread_mutex_lock(&guard->noting);
		if (bound->changes == NULL) {
			(void)pthread_mutex_unlock(&guard->noting);
			break;
		}
		change.version = 0;
		if (bound->changes[i])
			change = bound->changes[i]->shared;
		(void)pthread_mutex_unlock(&guard->noting);
		if (change.version > 0)
			tell(context, bound->policy->plans[i].name, &change);
	}
	weir__epoch_leave(&guard->epoch, phase);
}

uint32_t weir__guard_changed(struct weir_guard *guard)
{
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	uint32_t n = 0;

	(void)pthread_mutex_lock(&guard->noting);
	for (uint32_t i = 0; bound->changes && i < bound->policy->n_plans; i++)
		n += bound->changes[i] != NULL;
	(void)pthread_mutex_unlock(&guard->noting);
	weir__epoch_leave(&guard->epoch, phase);
	return n;
}

/* --- as text ----------------------------------------------------------------------------------------------------- */

static bool is_known(const char *word)
{
	return word[0] != '\0' && strcmp(word, "-") != 0;
}

void weir__limit_change_by(const struct weir__limit_change *change, char ret_by[WEIR__CHANGE_BY_SIZE])
{
	const bool has_user = is_known(change->user), has_peer = is_known(change->peer);

	(void)snprintf(ret_by, WEIR__CHANGE_BY_SIZE, "%s%s%s%s", has_user ? change->user : "",
		       has_user && has_peer ? " (" : "", has_peer ? change->peer : "", has_user && has_peer ? ")" : "");
}

void weir__limit_change_at(const struct weir__limit_change *change, char ret_at[WEIR__CHANGE_AT_SIZE])
{
	const time_t at_s = (time_t)(change->at / 1000000000);
	struct tm broken;

	ret_at[0] = '\0';
	if (at_s > 0 && gmtime_r(&at_s, &broken))
		(void)strftime(ret_at, WEIR__CHANGE_AT_SIZE, "%Y-%m-%dT%H:%M:%SZ", &broken);
}
