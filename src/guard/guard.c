/* guard.c: a policy bound to the limits of a table, and decisions by it. */
#include "guard/guard.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/text.h"
#include "guard/readers.h"
#include "policy/policy.h"

/* A policy with the limit of the table for each of its plans. */
struct bound {
	struct weir_policy *policy;
	uint32_t *places; /* plans by hash of their names: number + 1, or 0; a power of two, at least twice as many */
	uint64_t n_places;
	const struct weir_table_limit *limits[];
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
	free(bound->places);
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

static int find_limit(struct weir_table *table, const struct weir_policy_plan *plan,
		      const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	char name[WEIR_TABLE_NAME_MAX + 1];
	const int error = weir_table_find_limit(table, plan->name, &plan->limit, ret_limit, ret_message);

	if (error != WEIR_ERR_CHANGE)
		return error;
	name_anew(plan, name);
	return weir_table_find_limit(table, name, &plan->limit, ret_limit, ret_message);
}

/* First all limits that the table can have are added or found; only if that went well are those changed that differ. */
static int bind_plans(struct weir_table *table, struct bound *bound, weir_ns now, struct weir_message *ret_message)
{
	const uint32_t n = weir_policy_plans(bound->policy);

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < n; i++) {
			const struct weir_policy_plan *const plan = weir_policy_plan_of(bound->policy, i);
			int error = WEIR_OK;

			if (plan->is_unlimited)
				continue;
			if (pass == 0)
				error = find_limit(table, plan, &bound->limits[i], ret_message);
			else
				error = weir_table_change_limit(table, bound->limits[i], &plan->limit, now,
								ret_message);
			if (error != WEIR_OK)
				return error;
		}
	return WEIR_OK;
}

static bool index_plans(struct bound *bound)
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

static const struct weir_table_limit *limit_named(const struct bound *bound, const char *plan, size_t length)
{
	uint64_t place = weir__policy_hash(0, plan, length);
	uint32_t number;

	for (; (number = bound->places[place % bound->n_places]) != 0; place++) {
		const char *const name = weir_policy_plan_of(bound->policy, number - 1)->name;

		if (strlen(name) == length && memcmp(name, plan, length) == 0)
			return bound->limits[number - 1];
	}
	return NULL;
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
	error = index_plans(bound) ? bind_plans(table, bound, now, ret_message) : no_memory(ret_message);
	if (error == WEIR_OK)
		*ret_bound = bound;
	else
		free_bound(bound);
	return error;
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
	const struct weir_table_limit *limit;
	struct weir__text why;
	int error = WEIR_ERR_LIMIT;

	(void)pthread_mutex_lock(&guard->changing);
	limit = limit_named(atomic_load(&guard->bound), plan, strlen(plan));
	if (limit)
		error = weir_table_change_limit(guard->table, limit, to, now, ret_message);
	(void)pthread_mutex_unlock(&guard->changing);
	if (limit)
		return error;
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

static struct weir_claim claim_of(const struct bound *bound, const struct weir_policy_claim *of)
{
	return (struct weir_claim){ bound->limits[of->plan], of->key, of->key_length, of->cost };
}

static void decide_enforced(const struct weir_guard *guard, const struct bound *bound,
			    const struct weir_policy_answer *matched, weir_ns now, struct weir_guard_answer *answer)
{
	struct weir_claim claims[WEIR_POLICY_CLAIMS_MAX];
	uint32_t plans[WEIR_POLICY_CLAIMS_MAX];
	struct weir_decision decision;
	size_t n = 0;

	for (size_t i = 0; i < matched->n; i++)
		if (matched->claims[i].mode == WEIR_MODE_ENFORCE && bound->limits[matched->claims[i].plan]) {
			plans[n] = matched->claims[i].plan;
			claims[n++] = claim_of(bound, &matched->claims[i]);
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
	strcpy(answer->decided_by, weir_policy_plan_of(bound->policy, plans[decision.decided_by])->name);
}

static void decide_shadows(const struct weir_guard *guard, const struct bound *bound,
			   const struct weir_policy_answer *matched, weir_ns now, struct weir_guard_answer *answer)
{
	for (size_t i = 0; i < matched->n; i++) {
		const struct weir_policy_claim *const of = &matched->claims[i];
		struct weir_verdict verdict;

		if (of->mode != WEIR_MODE_SHADOW || bound->limits[of->plan] == NULL)
			continue;
		verdict = (answer->verdict.allowed ? weir_table_take : weir_table_peek)(
			guard->table, bound->limits[of->plan], of->key, of->key_length, now, of->cost);
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

	error = weir_policy_match(bound->policy, attributes, n, cost, &matched, ret_message);
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

/* --- what there is ---------------------------------------------------------------------------------------------- */

const struct weir_table_limit *weir__guard_limit(struct weir_guard *guard, const char *plan, size_t length)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct weir_table_limit *const limit = limit_named(atomic_load(&guard->bound), plan, length);

	weir__readers_leave(&guard->readers, phase);
	return limit;
}

uint32_t weir__guard_limits(struct weir_guard *guard)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const uint32_t n = weir_policy_limits(atomic_load(&guard->bound)->policy);

	weir__readers_leave(&guard->readers, phase);
	return n;
}

/* Of which limit a plan is. Those of a limit's overrides come behind its own, before that of the next limit. */
static const struct weir__policy_limit *limit_of_plan(const struct weir_policy *policy, uint32_t plan)
{
	uint32_t low = 0, high = policy->n_limits;

	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;

		if (policy->limits[middle].plan <= plan)
			low = middle;
		else
			high = middle;
	}
	return &policy->limits[low];
}

static void describe(const struct bound *bound, uint32_t plan, struct weir__guard_row *row)
{
	const struct weir_policy *const policy = bound->policy;
	const struct weir__policy_limit *limit;
	size_t length = 0;

	*row = (struct weir__guard_row){ .name = weir_policy_plan_of(policy, plan)->name,
					 .limit = bound->limits[plan] };
	if (policy->n_limits == 0) /* a dialect that has plans alone */
		return;
	limit = limit_of_plan(policy, plan);
	row->mode = limit->mode;
	for (uint32_t i = 0; i < limit->overrides.n && plan != limit->plan; i++)
		if (limit->instead[i].plan == plan)
			row->mode = limit->instead[i].mode;
	for (unsigned i = 0; i < limit->n_parts && length < sizeof(row->key); i++)
		length += (size_t)snprintf(row->key + length, sizeof(row->key) - length, "%s%s", i ? "," : "",
					   policy->attributes.of[limit->parts[i].attribute].name.at);
}

void weir__guard_list(struct weir_guard *guard, uint32_t first, uint32_t most, void (*begin)(void *context, uint32_t n),
		      void (*tell)(void *context, const struct weir__guard_row *row), void *context)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct bound *const bound = atomic_load(&guard->bound);
	const uint32_t all = weir_policy_plans(bound->policy), left = first < all ? all - first : 0;
	const uint32_t n = left < most ? left : most;
	struct weir__guard_row row;

	begin(context, n);
	for (uint32_t i = first; i < first + n; i++) {
		describe(bound, i, &row);
		tell(context, &row);
	}
	weir__readers_leave(&guard->readers, phase);
}
