/* guard.c: a policy bound to the limits of a table, and decisions by it. */
#include <weir/guard.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/text.h"
#include "guard/readers.h"
#include "policy/policy.h"
#include "store/table.h"

/* A policy with the limit of the table for each of its plans. */
struct bound {
	struct weir_policy *policy;
	struct weir__ahead *ahead; /* of each limit: what a decision by its own plan looks at. In the policy's pool */
	const struct weir_table_limit *limits[]; /* NULL: unlimited */
};

struct weir_guard {
	struct weir_table *table;
	struct bound *_Atomic bound;
	struct weir__readers readers;
	_Atomic uint64_t changes;
	pthread_mutex_t changing; /* one at a time; those who decide do not look at it */
};

static void free_bound(struct bound *bound)
{
	if (bound == NULL)
		return;
	weir_policy_free(bound->policy);
	free(bound);
}

static int no_memory(struct weir_message *ret_message)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, "no memory for a policy");
	errno = ENOMEM;
	return WEIR_ERR_SYSTEM;
}

/* Another name for a limit whose keys cannot be carried over to it from the one of its own name: its keys start anew. */
static void name_anew(const struct weir_policy_plan *plan, char ret_name[WEIR_TABLE_NAME_MAX + 1])
{
	const struct weir_limit *const limit = &plan->limit;
	const bool is_bucket = limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;
	const uint64_t what[] = { limit->algorithm, is_bucket ? 0 : limit->period,
				  limit->segments,  limit->refill_interval,
				  limit->shape,     limit->align_first,
				  limit->count_all };

	(void)snprintf(ret_name, WEIR_TABLE_NAME_MAX + 1, "~%016" PRIx64 "%s",
		       weir__policy_hash(3, what, sizeof(what)) ^ weir__policy_hash(4, plan->name, strlen(plan->name)),
		       plan->name);
}

/* Most limits of a policy are new, or as they were: then there is nothing to change. */
static int find_limit(struct weir_table *table, const struct weir_policy_plan *plan,
		      const struct weir_table_limit **ret_limit, bool *ret_differs, struct weir_message *ret_message)
{
	char name[WEIR_TABLE_NAME_MAX + 1];
	int error = weir_table_add_limit(table, plan->name, &plan->limit, ret_limit, ret_message);

	*ret_differs = error == WEIR_ERR_CHANGE;
	if (error == WEIR_ERR_CHANGE)
		error = weir_table_find_limit(table, plan->name, &plan->limit, ret_limit, ret_message);
	if (error != WEIR_ERR_CHANGE)
		return error;
	name_anew(plan, name);
	return weir_table_find_limit(table, name, &plan->limit, ret_limit, ret_message);
}

/* First all limits that the table can have are added or found; only if that went well are those changed that differ. */
static int bind_plans(struct weir_table *table, struct bound *bound, weir_ns now, struct weir_message *ret_message)
{
	const struct weir_policy *const policy = bound->policy;
	bool *const differs = calloc((size_t)policy->n_plans + 1, sizeof(*differs));
	int error = differs ? WEIR_OK : no_memory(ret_message);

	for (uint32_t i = 0; i < policy->n_plans && error == WEIR_OK; i++)
		if (!policy->plans[i].is_unlimited)
			error = find_limit(table, &policy->plans[i], &bound->limits[i], &differs[i], ret_message);
	for (uint32_t i = 0; i < policy->n_plans && error == WEIR_OK; i++)
		if (differs[i])
			error = weir_table_change_limit(table, bound->limits[i], &policy->plans[i].limit, now,
							ret_message);
	free(differs);
	return error;
}

/* A limit, and what the table knows of it, lie far apart: both are to be on their way at once. */
static void look_ahead(struct bound *bound)
{
	for (uint32_t i = 0; i < bound->policy->n_limits; i++) {
		const struct weir_table_limit *const limit = bound->limits[bound->policy->limits[i].plan];

		if (limit)
			bound->ahead[i] = (struct weir__ahead){ limit, limit->entry };
	}
}

static int bind_policy(struct weir_table *table, struct weir_policy *policy, weir_ns now, struct bound **ret_bound,
		       struct weir_message *ret_message)
{
	const uint32_t n = weir_policy_plans(policy);
	struct bound *const bound = calloc(1, sizeof(*bound) + n * sizeof(bound->limits[0]));
	int error;

	if (bound == NULL) {
		weir_policy_free(policy);
		return no_memory(ret_message);
	}
	bound->policy = policy;
	bound->ahead = weir__pool_take_array(&policy->pool, policy->n_limits, sizeof(bound->ahead[0]));
	error = bound->ahead ? bind_plans(table, bound, now, ret_message) : no_memory(ret_message);
	if (error != WEIR_OK) {
		free_bound(bound);
		return error;
	}
	look_ahead(bound);
	*ret_bound = bound;
	return WEIR_OK;
}

int weir_guard_new(struct weir_table *table, struct weir_policy *policy, struct weir_guard **ret_guard,
		   struct weir_message *ret_message)
{
	struct weir_guard *const guard = aligned_alloc(64, (sizeof(*guard) + 63) / 64 * 64);
	struct bound *bound;
	int error;

	if (guard == NULL) {
		weir_policy_free(policy);
		return no_memory(ret_message);
	}
	error = bind_policy(table, policy, weir_table_now(table), &bound, ret_message);
	if (error != WEIR_OK) {
		free(guard);
		return error;
	}
	memset(guard, 0, sizeof(*guard));
	guard->table = table;
	atomic_init(&guard->bound, bound);
	(void)pthread_mutex_init(&guard->changing, NULL);
	*ret_guard = guard;
	return WEIR_OK;
}

void weir_guard_free(struct weir_guard *guard)
{
	if (guard == NULL)
		return;
	free_bound(atomic_load(&guard->bound));
	(void)pthread_mutex_destroy(&guard->changing);
	free(guard);
}

int weir_guard_change(struct weir_guard *guard, struct weir_policy *policy, weir_ns now,
		      struct weir_message *ret_message)
{
	struct bound *next, *before;
	int error;

	(void)pthread_mutex_lock(&guard->changing);
	error = bind_policy(guard->table, policy, now, &next, ret_message);
	if (error == WEIR_OK) {
		before = atomic_exchange(&guard->bound, next);
		atomic_fetch_add(&guard->changes, 1);
		weir__readers_wait(&guard->readers);
		free_bound(before);
	}
	(void)pthread_mutex_unlock(&guard->changing);
	return error;
}

int weir_guard_change_limit(struct weir_guard *guard, const char *plan, const struct weir_limit *to, weir_ns now,
			    struct weir_message *ret_message)
{
	const struct bound *bound;
	struct weir__text why;
	int error = WEIR_ERR_LIMIT;

	(void)pthread_mutex_lock(&guard->changing);
	bound = atomic_load(&guard->bound);
	for (uint32_t i = 0; i < weir_policy_plans(bound->policy) && error == WEIR_ERR_LIMIT; i++)
		if (bound->limits[i] && strcmp(weir_policy_plan_of(bound->policy, i)->name, plan) == 0) {
			error = weir_table_change_limit(guard->table, bound->limits[i], to, now, ret_message);
			(void)pthread_mutex_unlock(&guard->changing);
			return error;
		}
	(void)pthread_mutex_unlock(&guard->changing);
	why = weir__text_of_message(ret_message, 0);
	weir__text_add(&why, "the policy has no limit ");
	weir__text_add_quoted(&why, plan, strlen(plan));
	return error;
}

uint64_t weir_guard_changes(const struct weir_guard *guard)
{
	return atomic_load(&guard->changes);
}

/* --- decisions -------------------------------------------------------------------------------------------------- */

/* The limit of the table; NULL: unlimited. Most requests meet a limit's own plan, which was looked up ahead. */
static const struct weir_table_limit *limit_of(const struct bound *bound, const struct weir_policy_claim *of)
{
	return bound->policy->limits[of->limit].plan == of->plan ? bound->ahead[of->limit].at : bound->limits[of->plan];
}

/* The name of a plan is that of its limit, which was just looked at, unless that had to be another (name_anew). */
static const char *name_of(const struct bound *bound, const struct weir_table_limit *limit, uint32_t plan)
{
	const char *const name = weir_table_limit_name(limit);

	return name[0] == '~' ? weir_policy_plan_of(bound->policy, plan)->name : name;
}

static void decide_enforced(const struct weir_guard *guard, const struct bound *bound,
			    const struct weir_policy_answer *matched, weir_ns now, struct weir_guard_answer *answer)
{
	struct weir_claim claims[WEIR_POLICY_CLAIMS_MAX];
	uint32_t plans[WEIR_POLICY_CLAIMS_MAX];
	struct weir_decision decision;
	size_t n = 0;

	for (size_t i = 0; i < matched->n; i++) {
		const struct weir_policy_claim *const of = &matched->claims[i];
		const struct weir_table_limit *const limit = limit_of(bound, of);

		if (of->mode == WEIR_MODE_ENFORCE && limit) {
			plans[n] = of->plan;
			claims[n++] = (struct weir_claim){ limit, of->key, of->key_length, of->cost };
		}
	}
	if (n == 0)
		return;
	if (n == 1) {
		decision.verdict = weir_table_take(guard->table, claims[0].limit, claims[0].key, claims[0].key_length,
						   now, claims[0].cost);
		decision.decided_by = 0;
	} else {
		(void)weir_table_decide(guard->table, claims, n, now, NULL, &decision); /* n is in its bounds */
	}
	answer->verdict = decision.verdict;
	answer->is_limited = true;
	strcpy(answer->decided_by, name_of(bound, claims[decision.decided_by].limit, plans[decision.decided_by]));
}

static void decide_shadows(const struct weir_guard *guard, const struct bound *bound,
			   const struct weir_policy_answer *matched, weir_ns now, struct weir_guard_answer *answer)
{
	for (size_t i = 0; i < matched->n; i++) {
		const struct weir_policy_claim *const of = &matched->claims[i];
		const struct weir_table_limit *const limit = limit_of(bound, of);
		struct weir_verdict verdict;

		if (of->mode != WEIR_MODE_SHADOW || limit == NULL)
			continue;
		verdict = (answer->verdict.allowed ? weir_table_take : weir_table_peek)(guard->table, limit, of->key,
											of->key_length, now, of->cost);
		answer->shadow_denied += !verdict.allowed;
	}
}

int weir_guard_check(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n, uint64_t cost,
		     weir_ns now, struct weir_guard_answer *ret_answer, struct weir_message *ret_message)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct bound *const bound = atomic_load(&guard->bound);
	struct weir_policy_answer matched;
	int error;

	error = weir__policy_match(bound->policy, attributes, n, cost, bound->ahead, &matched, ret_message);
	if (error == WEIR_OK) {
		ret_answer->verdict = (struct weir_verdict){ .allowed = true, .granted = cost };
		ret_answer->limits = matched.n;
		ret_answer->shadow_denied = 0;
		ret_answer->is_limited = false;
		ret_answer->decided_by[0] = '\0';
		decide_enforced(guard, bound, &matched, now, ret_answer);
		decide_shadows(guard, bound, &matched, now, ret_answer);
	}
	weir__readers_leave(&guard->readers, phase);
	return error;
}

void weir_guard_explain(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
			weir_policy_report *report, void *context)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);

	weir_policy_explain(atomic_load(&guard->bound)->policy, attributes, n, report, context);
	weir__readers_leave(&guard->readers, phase);
}
