/* guard.c: decisions by a policy that is bound to the limits of a table, and its change for another. */
#include "guard/guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/text.h"
#include "guard/bound.h"
#include "guard/readers.h"
#include "policy/envoy.h"

/* A limit that came with a request, and again with others. */
struct given {
	struct weir_limit asked;
	const struct weir_table_limit *limit;
};

struct weir_guard {
	struct weir__readers readers; /* the first: it is aligned to lines */
	struct weir_table *table;
	void *_Atomic bound; /* struct weir__bound, the one that is in place */
	_Atomic uint64_t changes;
	pthread_mutex_t changing; /* one at a time; those who decide do not look at it */
	pthread_mutex_t giving;   /* for whoever adds one to these */
	struct given given[WEIR_GUARD_GIVEN_MAX];
	_Atomic uint32_t n_given; /* those before it are never changed */
};

int weir_guard_new(struct weir_table *table, struct weir_policy *policy, struct weir_guard **ret_guard,
		   struct weir_message *ret_message)
{
	struct weir_guard *const guard = aligned_alloc(64, (sizeof(*guard) + 63) / 64 * 64);
	const weir_ns now = weir_table_now(table);
	struct weir__bound *bound;
	struct weir__text why;
	int error;

	if (guard == NULL) {
		weir_policy_free(policy);
		why = weir__text_of_message(ret_message, 0);
		weir__text_add(&why, "no memory for a guard");
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	error = weir__bound_new(table, policy, now, &bound, ret_message);
	if (error != WEIR_OK) {
		free(guard);
		return error;
	}
	weir__bound_settle_all(table, bound, now);
	memset(guard, 0, sizeof(*guard));
	guard->table = table;
	atomic_init(&guard->bound, bound);
	(void)pthread_mutex_init(&guard->changing, NULL);
	(void)pthread_mutex_init(&guard->giving, NULL);
	*ret_guard = guard;
	return WEIR_OK;
}

void weir_guard_free(struct weir_guard *guard)
{
	if (guard == NULL)
		return;
	weir__bound_free(atomic_load(&guard->bound));
	(void)pthread_mutex_destroy(&guard->changing);
	(void)pthread_mutex_destroy(&guard->giving);
	free(guard);
}

int weir_guard_change(struct weir_guard *guard, struct weir_policy *policy, weir_ns now,
		      struct weir_message *ret_message)
{
	struct weir__bound *next, *before;
	int error;

	(void)pthread_mutex_lock(&guard->changing);
	error = weir__bound_new(guard->table, policy, now, &next, ret_message);
	if (error == WEIR_OK) {
		before = atomic_exchange(&guard->bound, next);
		weir__bound_settle_all(guard->table, next, now);
		atomic_fetch_add(&guard->changes, 1);
		weir__readers_wait(&guard->readers);
		weir__bound_free(before);
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
	limit = weir__bound_limit_named(atomic_load(&guard->bound), plan, strlen(plan));
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

static bool is_own_plan(const struct weir__bound *bound, const struct weir_policy_claim *of)
{
	return bound->policy->envoy == NULL && bound->policy->limits[of->limit].plan == of->plan;
}

/* The limit of the table; NULL: unlimited. Most requests meet a limit's own plan, which was looked up ahead. */
static const struct weir_table_limit *limit_of(const struct weir__bound *bound, const struct weir_policy_claim *of)
{
	if (is_own_plan(bound, of) && weir__bound_is_settled(bound))
		return bound->ahead[of->limit].at;
	return weir__bound_limit(bound, of->plan);
}

/* As the table hashes it. If what is needed for that is known ahead, so is what will be needed then. */
static uint64_t hash_ahead(const struct weir_guard *guard, const struct weir__bound *bound,
			   const struct weir_policy_claim *of, const struct weir_table_limit *limit)
{
	const struct weir__ahead *ahead;
	struct weir__hash_secret secret;
	uint64_t hash;

	if (!is_own_plan(bound, of))
		return weir__hash(&limit->secret, of->key, of->key_length);
	ahead = &bound->ahead[of->limit];
	secret = (struct weir__hash_secret){ ahead->own[0], ahead->own[1] };
	hash = weir__hash(&secret, of->key, of->key_length);
	weir__table_prefetch_take(guard->table, ahead->line, hash);
	return hash;
}

/* The name of a plan is that of its limit, which was just looked at, unless that had to be another (name_anew). */
static const char *name_of(const struct weir__bound *bound, const struct weir_table_limit *limit, uint32_t plan)
{
	const char *const name = weir_table_limit_name(limit);

	return name[0] == '~' ? weir_policy_plan_of(bound->policy, plan)->name : name;
}

/* Names of plans are as short as those of limits, and the answer has room for those. */
static void write_decider(struct weir_guard_answer *answer, const char *name)
{
	memcpy(answer->decided_by, name, strlen(name) + 1);
}

/* False: the policy is no longer in its place, and nothing was decided. */
static bool decide_enforced(const struct weir_guard *guard, const struct weir__bound *bound,
			    const struct weir_policy_answer *matched, weir_ns now, struct weir_guard_answer *answer)
{
	const struct weir__premise premise = { &guard->bound, bound };
	struct weir_claim claims[WEIR_POLICY_CLAIMS_MAX];
	uint32_t plans[WEIR_POLICY_CLAIMS_MAX];
	struct weir_decision decision;
	uint64_t hashes[WEIR_POLICY_CLAIMS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < matched->n; i++) {
		const struct weir_policy_claim *const of = &matched->claims[i];
		const struct weir_table_limit *const limit = limit_of(bound, of);

		if (of->mode == WEIR_MODE_ENFORCE && limit) {
			plans[n] = of->plan;
			hashes[n] = hash_ahead(guard, bound, of, limit);
			claims[n++] = (struct weir_claim){ limit, of->key, of->key_length, of->cost };
		}
	}
	if (n == 0)
		return true;
	decision.decided_by = 0;
	if (n == 1 ? !weir__table_take_while(&premise, guard->table, claims[0].limit, hashes[0], now, claims[0].cost,
					     &decision.verdict) :
		     weir__table_decide_while(&premise, guard->table, claims, hashes, n, now, NULL, &decision) !=
			     WEIR_OK)
		return false;
	answer->verdict = decision.verdict;
	answer->is_limited = true;
	answer->limit = claims[decision.decided_by].limit;
	write_decider(answer, name_of(bound, claims[decision.decided_by].limit, plans[decision.decided_by]));
	return true;
}

/* A limit that the next policy has changed by now is charged all the same, but what it says would be that policy's. */
static void decide_shadows(const struct weir_guard *guard, const struct weir__bound *bound,
			   const struct weir_policy_answer *matched, weir_ns now, struct weir_guard_answer *answer)
{
	const struct weir__premise premise = { &guard->bound, bound };

	for (size_t i = 0; i < matched->n; i++) {
		const struct weir_policy_claim *const of = &matched->claims[i];
		const struct weir_table_limit *const limit = limit_of(bound, of);
		struct weir_verdict verdict;

		if (of->mode != WEIR_MODE_SHADOW || limit == NULL)
			continue;
		verdict = (answer->verdict.allowed ? weir_table_take : weir_table_peek)(guard->table, limit, of->key,
											of->key_length, now, of->cost);
		answer->shadow_denied += !verdict.allowed && weir__premise_holds(&premise);
	}
}

int weir_guard_check(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n, uint64_t cost,
		     weir_ns now, struct weir_guard_answer *ret_answer, struct weir_message *ret_message)
{
	struct weir_policy_answer matched;
	bool is_decided;
	int error;

	do {
		const uint32_t phase = weir__readers_enter(&guard->readers);
		const struct weir__bound *const bound = atomic_load(&guard->bound);

		is_decided = true;
		error = weir__policy_match(bound->policy, attributes, n, cost, bound->ahead, &matched, ret_message);
		if (error == WEIR_OK) {
			ret_answer->verdict = (struct weir_verdict){ .allowed = true, .granted = cost };
			ret_answer->limits = matched.n;
			ret_answer->shadow_denied = 0;
			ret_answer->is_limited = false;
			ret_answer->decided_by[0] = '\0';
			ret_answer->limit = NULL;
			is_decided = decide_enforced(guard, bound, &matched, now, ret_answer);
			if (is_decided)
				decide_shadows(guard, bound, &matched, now, ret_answer);
		}
		weir__readers_leave(&guard->readers, phase);
	} while (!is_decided);
	return error;
}

/* --- descriptors ------------------------------------------------------------------------------------------------ */

/* A request, and what comes of it. */
struct request {
	struct weir_guard *guard;
	const struct weir__bound *bound;
	struct weir__premise premise; /* that the policy is in its place */
	bool is_seen;                 /* each limit that is not enforced has been looked at */
	bool is_charged, is_stale;    /* something is, or was decided; nothing, and the premise does not hold */
	weir_ns now;
	struct weir_descriptors_answer matched;
	struct weir_claim claims[WEIR_DESCRIPTORS_MAX]; /* .limit NULL: nothing is to be decided */
	struct weir_guard_status *statuses;
};

static bool is_enforced(const struct request *request, size_t i)
{
	return request->claims[i].limit && request->matched.claims[i].mode == WEIR_MODE_ENFORCE &&
	       !request->matched.claims[i].is_quota;
}

static bool is_quota(const struct request *request, size_t i)
{
	return request->claims[i].limit && request->matched.claims[i].mode == WEIR_MODE_ENFORCE &&
	       request->matched.claims[i].is_quota;
}

static const struct weir_table_limit *find_given(const struct weir_guard *guard, const struct weir_limit *asked)
{
	const uint32_t n = atomic_load(&guard->n_given);

	for (uint32_t i = 0; i < n; i++)
		if (guard->given[i].asked.count == asked->count && guard->given[i].asked.period == asked->period &&
		    guard->given[i].asked.count_all == asked->count_all)
			return guard->given[i].limit;
	return NULL;
}

static int add_given(struct weir_guard *guard, const struct weir_limit *asked,
		     const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	char name[WEIR_LIMIT_TEXT_MAX + 8] = "~given "; /* as no plan of a policy begins; windows are short */
	const uint32_t n = atomic_load(&guard->n_given);
	struct weir__text why;
	int error;

	if (n == WEIR_GUARD_GIVEN_MAX) {
		why = weir__text_of_message(ret_message, 0);
		weir__text_add(&why, "more than 64 different limits have come with requests; name them in the policy");
		return WEIR_ERR_FULL;
	}
	(void)weir_limit_print(asked, name + strlen(name));
	error = weir_table_find_limit(guard->table, name, asked, &guard->given[n].limit, ret_message);
	if (error != WEIR_OK)
		return error;
	guard->given[n].asked = *asked;
	*ret_limit = guard->given[n].limit;
	atomic_store(&guard->n_given, n + 1);
	return WEIR_OK;
}

/* The same limit has the same keys, whichever request it comes with. */
static int take_given(struct weir_guard *guard, const struct weir_limit *asked,
		      const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	int error = WEIR_OK;

	*ret_limit = find_given(guard, asked);
	if (*ret_limit)
		return WEIR_OK;
	(void)pthread_mutex_lock(&guard->giving);
	*ret_limit = find_given(guard, asked);
	if (*ret_limit == NULL)
		error = add_given(guard, asked, ret_limit, ret_message);
	(void)pthread_mutex_unlock(&guard->giving);
	return error;
}

static int make_claims(struct request *request, struct weir_message *ret_message)
{
	size_t enforced = 0;

	for (size_t i = 0; i < request->matched.n; i++) {
		const struct weir_descriptor_claim *const of = &request->matched.claims[i];
		const struct weir_table_limit *limit = NULL;
		int error;

		if (of->applies && of->plan != WEIR_POLICY_NO_PLAN) {
			limit = weir__bound_limit(request->bound, of->plan);
		} else if (of->applies) {
			error = take_given(request->guard, &of->limit, &limit, ret_message);
			if (error != WEIR_OK)
				return error;
		}
		request->claims[i] = (struct weir_claim){ limit, of->key, of->key_length, of->cost };
		request->statuses[i] = (struct weir_guard_status){ *of, { .allowed = true, .granted = of->cost } };
		request->statuses[i].claim.key = NULL;
		enforced += is_enforced(request, i);
	}
	if (enforced > WEIR_TABLE_CLAIMS_MAX && !(request->bound->policy->envoy->options & WEIR_ENVOY_COUNT_EACH)) {
		struct weir__text why = weir__text_of_message(ret_message, 0);

		weir__text_add(&why, "more than 16 limits apply: so many are decided together at most");
		return WEIR_ERR_LIMIT;
	}
	return WEIR_OK;
}

static void peek_one(struct request *request, size_t i)
{
	const struct weir_claim *const claim = &request->claims[i];

	if (claim->limit)
		request->statuses[i].verdict = weir_table_peek(request->guard->table, claim->limit, claim->key,
							       claim->key_length, request->now, claim->cost);
}

/* A limit that the next policy has changed since others were charged is charged, too; what is told of it is what was seen
 * before that, or else its numbers as they were. */
static void charge_late(struct request *request, size_t i, const struct weir_verdict *seen)
{
	const struct weir_claim *const claim = &request->claims[i];
	const uint32_t plan = request->matched.claims[i].plan;
	struct weir_verdict *const verdict = &request->statuses[i].verdict;

	*verdict = weir_table_take(request->guard->table, claim->limit, claim->key, claim->key_length, request->now,
				   claim->cost);
	if (request->is_seen) {
		*verdict = *seen;
		verdict->granted = seen->allowed ? claim->cost : 0;
		verdict->remaining -= verdict->granted < seen->remaining ? verdict->granted : seen->remaining;
	} else if (plan != WEIR_POLICY_NO_PLAN) { /* of Envoy's limits, which are windows */
		weir__verdict_as_of(verdict, weir_policy_plan_of(request->bound->policy, plan)->limit.count);
	}
}

static void charge_one(struct request *request, size_t i)
{
	const struct weir_claim *const claim = &request->claims[i];
	struct weir_verdict *const verdict = &request->statuses[i].verdict;
	const struct weir_verdict seen = *verdict;

	if (claim->limit == NULL || request->is_stale)
		return;
	if (!weir__table_take_while(&request->premise, request->guard->table, claim->limit,
				    weir__hash(&claim->limit->secret, claim->key, claim->key_length), request->now,
				    claim->cost, verdict)) {
		request->is_stale = !request->is_charged;
		if (request->is_charged)
			charge_late(request, i, &seen);
	}
	request->is_charged = !request->is_stale;
}

/* There are some, and each denies. */
static bool are_quotas_used_up(const struct request *request)
{
	bool is_any = false;

	for (size_t i = 0; i < request->matched.n; i++) {
		if (is_quota(request, i) && request->statuses[i].verdict.allowed)
			return false;
		is_any |= is_quota(request, i);
	}
	return is_any;
}

static bool decide_each(struct request *request)
{
	bool is_allowed = true;

	for (size_t i = 0; i < request->matched.n; i++) {
		charge_one(request, i);
		is_allowed = is_allowed && (!is_enforced(request, i) || request->statuses[i].verdict.allowed);
	}
	return is_allowed && !are_quotas_used_up(request);
}

/* The enforced ones, all or none; false: denied. */
static bool decide_joint(struct request *request)
{
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX];
	size_t of[WEIR_TABLE_CLAIMS_MAX], n = 0;
	struct weir_decision decision;

	for (size_t i = 0; i < request->matched.n; i++)
		if (is_enforced(request, i)) {
			of[n] = i;
			claims[n++] = request->claims[i];
		}
	if (n == 0)
		return true;
	if (weir__table_decide_while(&request->premise, request->guard->table, claims, NULL, n, request->now, verdicts,
				     &decision) != WEIR_OK) { /* n was checked */
		request->is_stale = true;
		return false;
	}
	request->is_charged = true;
	for (size_t i = 0; i < n; i++)
		request->statuses[of[i]].verdict = verdicts[i];
	return decision.verdict.allowed;
}

/* Looks at those that are enforced, or at those that are not. */
static void peek_those(struct request *request, bool are_enforced)
{
	for (size_t i = 0; i < request->matched.n; i++)
		if (is_enforced(request, i) == are_enforced)
			peek_one(request, i);
}

/* Quotas are looked at first, since what all of them deny is counted nowhere. One that is used up in between by others is
 * not exact to the last request: it denies nothing by itself. */
static bool decide_together(struct request *request)
{
	bool is_allowed;

	peek_those(request, false);
	request->is_seen = true;
	is_allowed = !are_quotas_used_up(request);
	if (is_allowed)
		is_allowed = decide_joint(request);
	else
		peek_those(request, true);
	for (size_t i = 0; i < request->matched.n && is_allowed; i++)
		if (!is_enforced(request, i))
			charge_one(request, i);
	return is_allowed;
}

/* Whether a verdict says more of the whole than another: it denies, and longer; or has less left. */
static bool says_more(const struct weir_verdict *a, const struct weir_verdict *b)
{
	if (a->allowed != b->allowed)
		return !a->allowed;
	return a->allowed ? a->remaining < b->remaining : a->retry_after > b->retry_after;
}

static void join_statuses(const struct request *request, bool is_allowed, uint64_t hits,
			  struct weir_guard_answer *answer)
{
	struct weir_verdict verdicts[WEIR_DESCRIPTORS_MAX];
	const bool is_by_quotas = !is_allowed && are_quotas_used_up(request);
	size_t n = 0, decider = 0;

	*answer = (struct weir_guard_answer){ .verdict = { .allowed = true, .granted = hits } };
	for (size_t i = 0; i < request->matched.n; i++) {
		const struct weir_guard_status *const status = &request->statuses[i];

		answer->limits += status->claim.applies;
		answer->shadow_denied += status->claim.mode == WEIR_MODE_SHADOW && !status->verdict.allowed;
		if (!is_enforced(request, i) && !(is_by_quotas && is_quota(request, i)))
			continue;
		if (n == 0 || says_more(&status->verdict, &request->statuses[decider].verdict))
			decider = i;
		verdicts[n++] = status->verdict;
	}
	if (n == 0)
		return;
	answer->verdict = weir_verdict_join(verdicts, n);
	answer->verdict.allowed = is_allowed; /* who lost a race is denied, although nobody denies by now */
	if (!is_allowed)
		answer->verdict.granted = 0;
	answer->is_limited = true;
	answer->limit = request->claims[decider].limit;
	write_decider(answer,
		      request->matched.claims[decider].plan == WEIR_POLICY_NO_PLAN ?
			      weir_table_limit_name(request->claims[decider].limit) :
			      weir_policy_plan_of(request->bound->policy, request->matched.claims[decider].plan)->name);
}

/* By the policy that is in place. False: it no longer is, and nothing was decided. */
static bool check_descriptors(struct request *request, const char *domain, size_t domain_length,
			      const struct weir_descriptor *descriptors, size_t n, uint64_t hits, int *ret_error,
			      struct weir_guard_answer *ret_answer, struct weir_message *ret_message)
{
	const struct weir_policy *const policy = request->bound->policy;
	bool is_allowed;

	*ret_error = weir_policy_match_descriptors(policy, domain, domain_length, descriptors, n, hits,
						   &request->matched, ret_message);
	if (*ret_error == WEIR_OK)
		*ret_error = make_claims(request, ret_message);
	if (*ret_error != WEIR_OK)
		return true;
	request->is_seen = request->is_charged = request->is_stale = false;
	is_allowed = (policy->envoy->options & WEIR_ENVOY_COUNT_EACH ? decide_each : decide_together)(request);
	/* Where nothing was charged, what was looked at is as of the policy if that is in place after all of it. */
	if (request->is_stale || (!request->is_charged && !weir__premise_holds(&request->premise)))
		return false;
	for (size_t i = 0; i < n; i++)
		if (request->matched.claims[i].is_closed) /* its limit is 0, whatever stands for that */
			request->statuses[i].verdict.limit = request->statuses[i].verdict.remaining = 0;
	join_statuses(request, is_allowed, hits, ret_answer);
	return true;
}

int weir_guard_check_descriptors(struct weir_guard *guard, const char *domain, size_t domain_length,
				 const struct weir_descriptor *descriptors, size_t n, uint64_t hits, weir_ns now,
				 struct weir_guard_answer *ret_answer, struct weir_guard_status *ret_statuses,
				 struct weir_message *ret_message)
{
	struct request request;
	bool is_decided;
	int error;

	request.guard = guard;
	request.now = now;
	request.statuses = ret_statuses;
	do {
		const uint32_t phase = weir__readers_enter(&guard->readers);

		request.bound = atomic_load(&guard->bound);
		request.premise = (struct weir__premise){ &guard->bound, request.bound };
		is_decided = check_descriptors(&request, domain, domain_length, descriptors, n, hits, &error,
					       ret_answer, ret_message);
		weir__readers_leave(&guard->readers, phase);
	} while (!is_decided);
	return error;
}

void weir_guard_explain(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
			weir_policy_report *report, void *context)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct weir__bound *const bound = atomic_load(&guard->bound);

	weir_policy_explain(bound->policy, attributes, n, report, context);
	weir__readers_leave(&guard->readers, phase);
}

/* --- what there is ---------------------------------------------------------------------------------------------- */

const struct weir_table_limit *weir__guard_limit(struct weir_guard *guard, const char *plan, size_t length)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct weir_table_limit *const limit = weir__bound_limit_named(atomic_load(&guard->bound), plan, length);

	weir__readers_leave(&guard->readers, phase);
	return limit;
}

uint32_t weir__guard_limits(struct weir_guard *guard)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct weir__bound *const bound = atomic_load(&guard->bound);
	const uint32_t n = weir_policy_limits(bound->policy);

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

static void describe(const struct weir__bound *bound, uint32_t plan, struct weir__guard_row *row)
{
	const struct weir_policy *const policy = bound->policy;
	const struct weir_policy_plan *const what = weir_policy_plan_of(policy, plan);
	const struct weir__policy_limit *limit;
	size_t length = 0;

	*row = (struct weir__guard_row){ .name = what->name,
					 .limit = weir__bound_limit(bound, plan),
					 .on_store_failure = what->on_store_failure,
					 .is_local = what->is_local,
					 .store_budget = what->store_budget };
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

bool weir__guard_row(struct weir_guard *guard, const char *plan, size_t length,
		     void (*tell)(void *context, const struct weir__guard_row *row), void *context)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct weir__bound *const bound = atomic_load(&guard->bound);
	const uint32_t number = weir__bound_plan_named(bound, plan, length);
	struct weir__guard_row row;

	if (number != WEIR_POLICY_NO_PLAN) {
		describe(bound, number, &row);
		tell(context, &row);
	}
	weir__readers_leave(&guard->readers, phase);
	return number != WEIR_POLICY_NO_PLAN;
}

void weir__guard_list(struct weir_guard *guard, uint32_t first, uint32_t most, void (*begin)(void *context, uint32_t n),
		      void (*tell)(void *context, const struct weir__guard_row *row), void *context)
{
	const uint32_t phase = weir__readers_enter(&guard->readers);
	const struct weir__bound *const bound = atomic_load(&guard->bound);
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
