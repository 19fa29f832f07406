/* bound_policy.c: finds a policy's limits in a table, or adds them, and stages their changes. */
#include "guard/bound_policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/notation.h"
#include "core/text.h"

void weir__bound_policy_free(struct weir__bound_policy *bound)
{
	if (bound == NULL)
		return;
	for (uint32_t i = 0; bound->changes && i < bound->policy->n_plans; i++)
		free(bound->changes[i]);
	free(bound->changes);
	weir_policy_free(bound->policy);
	free(bound->places);
	free(bound->staged);
	free(bound->since);
	free(bound);
}

static int no_memory(struct weir_message *ret_message)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, "no memory for a policy");
	errno = ENOMEM;
	return WEIR_ERR_SYSTEM;
}

/* A different table name for a limit whose keys cannot be converted from the limit of the plan's own name. Its keys
 * start full. */
static void name_anew(const struct weir_policy_plan *plan, char ret_name[WEIR_TABLE_NAME_MAX + 1])
{
	const struct weir_limit *const limit = &plan->limit;
	const bool is_bucket = weir__limit_is_bucket(limit);
	const uint64_t what[] = { limit->algorithm, is_bucket ? 0 : limit->period,
				  limit->segments,  limit->refill_interval,
				  limit->shape,     limit->align_first,
				  limit->count_all };

	(void)snprintf(ret_name, WEIR_TABLE_NAME_MAX + 1, "~%016" PRIx64 "%s",
		       weir__policy_hash(3, what, sizeof(what)) ^ weir__policy_hash(4, plan->name, strlen(plan->name)),
		       plan->name);
}

/* Most limits of a policy are new or unchanged. Then there is nothing to stage. */
static int find_limit(struct weir_table *table, const struct weir_policy_plan *plan,
		      const struct weir_table_limit **ret_limit, bool *ret_differs, bool *ret_is_anew,
		      struct weir_message *ret_message)
{
	char name[WEIR_TABLE_NAME_MAX + 1];
	struct weir_table_limit_stats used;
	int error = weir_table_add_limit(table, plan->name, &plan->limit, ret_limit, ret_message);

	*ret_is_anew = false;
	*ret_differs = error == WEIR_ERR_CHANGE;
	if (error == WEIR_ERR_CHANGE)
		error = weir_table_find_limit(table, plan->name, &plan->limit, ret_limit, ret_message);
	if (error != WEIR_ERR_CHANGE)
		return error;
	name_anew(plan, name);
	error = weir_table_find_limit(table, name, &plan->limit, ret_limit, ret_message);
	if (error == WEIR_OK) {
		weir_table_limit_stats(table, *ret_limit, &used);
		*ret_is_anew = used.allowed == 0 && used.denied == 0;
	}
	return error;
}

static int find_limits(struct weir_table *table, struct weir__bound_policy *bound, bool *ret_differs,
		       struct weir_message *ret_message)
{
	const struct weir_policy *const policy = bound->policy;
	bool is_anew;
	int error = WEIR_OK;

	for (uint32_t i = 0; i < policy->n_plans && error == WEIR_OK; i++) {
		if (policy->plans[i].is_unlimited)
			continue;
		error = find_limit(table, &policy->plans[i], &bound->limits[i], &ret_differs[i], &is_anew, ret_message);
		if (is_anew && bound->n_anew < WEIR__BOUND_POLICY_ANEW)
			bound->anew[bound->n_anew] = i;
		bound->n_anew += is_anew;
	}
	return error;
}

static int stage_changes(struct weir_table *table, struct weir__bound_policy *bound, const bool *differs, weir_ns now,
			 struct weir_message *ret_message)
{
	const struct weir_policy *const policy = bound->policy;
	int error = WEIR_OK;

	for (uint32_t i = 0; i < policy->n_plans && error == WEIR_OK; i++)
		if (differs[i])
			error = weir__table_stage_limit(table, bound->limits[i], &policy->plans[i].limit, now, false,
							&bound->staged[i], ret_message);
	for (uint32_t i = 0; i < policy->n_plans && error != WEIR_OK; i++)
		if (bound->staged[i].claim)
			weir__plans_drop(bound->limits[i]->entry, &bound->staged[i]);
	return error;
}

/* Adds or finds all limits first. Changes are staged only if that succeeded. */
static int bind_plans(struct weir_table *table, struct weir__bound_policy *bound, weir_ns now,
		      struct weir_message *ret_message)
{
	const size_t n = bound->policy->n_plans;
	bool *const differs = calloc(n + 1, sizeof(*differs));
	int error;

	bound->staged = calloc(n + 1, sizeof(bound->staged[0]));
	bound->since = calloc(n + 1, sizeof(bound->since[0]));
	for (size_t i = 0; bound->since && i < n; i++)
		bound->since[i] = now;
	error = differs && bound->staged && bound->since ? find_limits(table, bound, differs, ret_message) :
							   no_memory(ret_message);
	if (error == WEIR_OK)
		error = stage_changes(table, bound, differs, now, ret_message);
	free(differs);
	return error;
}

void weir__bound_policy_settle_all(struct weir_table *table, struct weir__bound_policy *bound, weir_ns now)
{
	for (uint32_t i = 0; i < bound->policy->n_plans; i++)
		if (bound->staged[i].claim && !weir__table_settle_limit(table, bound->limits[i], &bound->staged[i]))
			(void)weir_table_change_limit(table, bound->limits[i], &bound->policy->plans[i].limit, now,
						      NULL);
	atomic_store(&bound->is_settled, true);
}

_Static_assert((int)WEIR__AHEAD_BYTES == (int)WEIR__LIMIT_HOT_BYTES, "what decisions look at is fetched ahead");

/* A limit, its entry in the table, and the slot of the key, which depends on the limit's secret, lie far apart. With
 * their addresses known ahead, a decision fetches all three at once. */
static void look_ahead(struct weir__bound_policy *bound)
{
	for (uint32_t i = 0; i < bound->policy->n_limits; i++) {
		const struct weir_table_limit *const limit = bound->limits[bound->policy->limits[i].plan];

		if (limit)
			bound->ahead[i] =
				(struct weir__ahead){ limit, limit->entry, { limit->secret.k0, limit->secret.k1 } };
	}
	weir__rules_look_ahead(&bound->policy->rules, bound->ahead);
}

static bool index_plans(struct weir__bound_policy *bound)
{
	const uint32_t n = weir_policy_plans(bound->policy);

	for (bound->n_places = 2; bound->n_places < 2 * (uint64_t)n;)
		bound->n_places *= 2;
	bound->places = calloc(bound->n_places, sizeof(bound->places[0]));
	for (uint32_t i = 0; bound->places && i < n; i++) {
		const char *const name = weir_policy_plan_of(bound->policy, i)->name;
		uint64_t place = weir__policy_hash(0, name, strlen(name));

		while (bound->places[place % bound->n_places] != 0)
			place++;
		bound->places[place % bound->n_places] = i + 1;
	}
	return bound->places != NULL;
}

uint32_t weir__bound_policy_plan_named(const struct weir__bound_policy *bound, const char *plan, size_t length)
{
	uint64_t place = weir__policy_hash(0, plan, length);
	uint32_t number;

	for (; (number = bound->places[place % bound->n_places]) != 0; place++) {
		const char *const name = weir_policy_plan_of(bound->policy, number - 1)->name;

		if (strlen(name) == length && memcmp(name, plan, length) == 0)
			return number - 1;
	}
	return WEIR_POLICY_NO_PLAN;
}

const struct weir_table_limit *weir__bound_policy_limit_named(const struct weir__bound_policy *bound, const char *plan,
							      size_t length)
{
	const uint32_t number = weir__bound_policy_plan_named(bound, plan, length);

	return number == WEIR_POLICY_NO_PLAN ? NULL : weir__bound_policy_limit(bound, number);
}

void weir__bound_policy_follow(struct weir__bound_policy *bound, const struct weir__bound_policy *before)
{
	for (uint32_t i = 0; i < weir_policy_plans(bound->policy); i++) {
		const char *const name = weir_policy_plan_of(bound->policy, i)->name;
		const uint32_t then = weir__bound_policy_plan_named(before, name, strlen(name));

		if (then != WEIR_POLICY_NO_PLAN && bound->limits[i] == before->limits[then])
			bound->since[i] = before->since[then];
	}
}

/* The message names the limit. */
static int check_plans(const struct weir_policy *policy, weir__bound_policy_check *check,
		       struct weir_message *ret_message)
{
	struct weir_message why;
	struct weir__text text;

	for (uint32_t i = 0; check && i < policy->n_plans; i++) {
		const struct weir_policy_plan *const plan = &policy->plans[i];
		const int error = plan->is_unlimited || plan->is_local ? WEIR_OK :
									 check(&plan->limit, plan->store, &why);

		if (error == WEIR_OK)
			continue;
		text = weir__text_of_message(ret_message, 0);
		weir__text_add(&text, "limit ");
		weir__text_add_quoted(&text, plan->name, strlen(plan->name));
		weir__text_add(&text, ": ");
		weir__text_add(&text, why.text);
		return error;
	}
	return WEIR_OK;
}

int weir__bound_policy_new(struct weir_table *table, struct weir_policy *policy, weir__bound_policy_check *check,
			   weir_ns now, struct weir__bound_policy **ret_bound, struct weir_message *ret_message)
{
	const uint32_t n = weir_policy_plans(policy);
	struct weir__bound_policy *const bound = calloc(1, sizeof(*bound) + n * sizeof(bound->limits[0]));
	int error;

	if (bound == NULL) {
		weir_policy_free(policy);
		return no_memory(ret_message);
	}
	bound->policy = policy;
	atomic_init(&bound->holders, 1);
	bound->ahead = weir__pool_take_lines(&policy->pool, policy->n_limits, sizeof(bound->ahead[0]));
	error = bound->ahead && index_plans(bound) ? check_plans(policy, check, ret_message) : no_memory(ret_message);
	if (error == WEIR_OK)
		error = bind_plans(table, bound, now, ret_message);
	if (error != WEIR_OK) {
		weir__bound_policy_free(bound);
		return error;
	}
	look_ahead(bound);
	*ret_bound = bound;
	return WEIR_OK;
}
