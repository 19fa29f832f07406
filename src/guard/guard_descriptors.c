/* guard_descriptors.c: decisions on descriptors, by a policy of Envoy's form. */
#include <stdio.h>

#include "core/text.h"
#include "guard/guard_inside.h"
#include "policy/envoy.h"

/* A request, and what comes of it. */
struct request {
	struct weir_guard *guard;
	const struct weir__bound *bound;
	struct weir__seam *seam;      /* NULL: the table decides */
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
	error = guard->check ? guard->check(asked, ret_message) : WEIR_OK;
	if (error == WEIR_OK)
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
	struct weir_verdict *const verdict = &request->statuses[i].verdict;

	if (claim->limit && request->seam)
		(void)weir__seam_ask(request->seam, WEIR__SEAM_PEEK, claim, 1, verdict);
	else if (claim->limit)
		*verdict = weir_table_peek(request->guard->table, claim->limit, claim->key, claim->key_length,
					   request->now, claim->cost);
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
	if (request->seam) {
		(void)weir__seam_ask(request->seam, WEIR__SEAM_TAKE, claim, 1, verdict);
		return;
	}
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
	if (request->seam) {
		(void)weir__seam_ask(request->seam, WEIR__SEAM_TAKE, claims, n, verdicts);
		decision = weir__seam_join(verdicts, n);
	} else if (weir__table_decide_while(&request->premise, request->guard->table, claims, NULL, n, request->now,
					    verdicts, &decision) != WEIR_OK) { /* n was checked */
		request->is_stale = true;
		return false;
	}
	request->is_charged = true;
	for (size_t i = 0; i < n; i++)
		request->statuses[of[i]].verdict = verdicts[i];
	return decision.verdict.allowed;
}

static bool is_not_yet(const struct request *request)
{
	return request->seam && request->seam->is_not_yet;
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
	if (is_not_yet(request))
		return true;
	is_allowed = !are_quotas_used_up(request);
	if (is_allowed)
		is_allowed = decide_joint(request);
	else
		peek_those(request, true);
	for (size_t i = 0; i < request->matched.n && is_allowed && !is_not_yet(request); i++)
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
	weir__guard_write_decider(
		answer, &request->statuses[decider].verdict,
		request->matched.claims[decider].plan == WEIR_POLICY_NO_PLAN ?
			weir_table_limit_name(request->claims[decider].limit) :
			weir_policy_plan_of(request->bound->policy, request->matched.claims[decider].plan)->name);
}

/* What was charged, or denied. If quotas deny, the others were only looked at. */
static void tell(const struct request *request, const struct weir__ear *ear)
{
	const bool is_each = request->bound->policy->envoy->options & WEIR_ENVOY_COUNT_EACH;
	const bool is_by_quotas = !is_each && are_quotas_used_up(request);
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX];
	bool is_allowed = !is_by_quotas;
	size_t n = 0;

	for (size_t i = 0; i < request->matched.n && !is_each && !is_by_quotas; i++)
		if (request->claims[i].limit && is_enforced(request, i)) {
			is_allowed = is_allowed && request->statuses[i].verdict.allowed;
			verdicts[n] = request->statuses[i].verdict;
			claims[n++] = request->claims[i];
		}
	if (n > 0)
		ear->hear(ear->context, claims, verdicts, n, false);
	for (size_t i = 0; i < request->matched.n; i++)
		if (request->claims[i].limit &&
		    (is_each || (is_by_quotas ? is_quota(request, i) : is_allowed && !is_enforced(request, i))))
			ear->hear(ear->context, &request->claims[i], &request->statuses[i].verdict, 1,
				  !is_enforced(request, i) && !is_by_quotas);
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
	if (request->is_stale ||
	    (request->seam == NULL && !request->is_charged && !weir__premise_holds(&request->premise)))
		return false;
	for (size_t i = 0; i < n; i++)
		if (request->matched.claims[i].is_closed) /* its limit is 0, whatever stands for that */
			request->statuses[i].verdict.limit = request->statuses[i].verdict.remaining = 0;
	join_statuses(request, is_allowed, hits, ret_answer);
	return true;
}

int weir__guard_check_descriptors(struct weir_guard *guard, struct weir__seam *seam, const struct weir__ear *ear,
				  const char *domain, size_t domain_length, const struct weir_descriptor *descriptors,
				  size_t n, uint64_t hits, weir_ns now, struct weir_guard_answer *ret_answer,
				  struct weir_guard_status *ret_statuses, struct weir_message *ret_message)
{
	struct request request;
	bool is_decided;
	int error;

	request.guard = guard;
	request.seam = seam;
	request.now = now;
	request.statuses = ret_statuses;
	do {
		uint32_t phase = 0;

		request.bound = weir__guard_enter(guard, seam, &phase);
		request.premise = (struct weir__premise){ &guard->bound, request.bound };
		is_decided = check_descriptors(&request, domain, domain_length, descriptors, n, hits, &error,
					       ret_answer, ret_message);
		weir__guard_leave(guard, seam, request.bound, phase);
	} while (!is_decided);
	if (ear && error == WEIR_OK)
		tell(&request, ear);
	return error;
}

int weir_guard_check_descriptors(struct weir_guard *guard, const char *domain, size_t domain_length,
				 const struct weir_descriptor *descriptors, size_t n, uint64_t hits, weir_ns now,
				 struct weir_guard_answer *ret_answer, struct weir_guard_status *ret_statuses,
				 struct weir_message *ret_message)
{
	return weir__guard_check_descriptors(guard, NULL, NULL, domain, domain_length, descriptors, n, hits, now,
					     ret_answer, ret_statuses, ret_message);
}
