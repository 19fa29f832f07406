/* guard_check.c: a policy check, one store request at a time. */
#include "guard/guard_check.h"

#include "core/argument.h"
#include "core/text.h"
#include "core/uninitialized.h"
#include "guard/guard_internal.h"

enum stage { BEGUN, TAKING, TAKEN, SHADOWING };

static void enter(struct weir__guard_check *check)
{
	check->phase = weir__epoch_enter(&check->guard->epoch);
	check->bound = atomic_load(&check->guard->bound);
	check->epoch_check = (struct weir__epoch_check){ &check->guard->bound, check->bound };
}

static void leave(struct weir__guard_check *check)
{
	if (WEIR__LIKELY(check->phase != WEIR__GUARD_HOLDS))
		weir__epoch_leave(&check->guard->epoch, check->phase);
	else
		weir__bound_policy_drop((struct weir__bound_policy *)(uintptr_t)check->bound);
	check->bound = NULL;
}

void weir__guard_check_hold(struct weir__guard_check *check)
{
	struct weir__bound_policy *const bound = (struct weir__bound_policy *)(uintptr_t)check->bound;

	atomic_fetch_add(&bound->holders, 1);
	weir__epoch_leave(&check->guard->epoch, check->phase);
	check->phase = WEIR__GUARD_HOLDS;
}

void weir__guard_check_abandon(struct weir__guard_check *check)
{
	leave(check);
}

bool weir__guard_check_is_shadowing(const struct weir__guard_check *check)
{
	return check->stage == SHADOWING;
}

/* --- claims ------------------------------------------------------------------------------------------------------ */

/* The table's limit for a claim; NULL: unlimited. Most requests match a limit's own plan, which was looked up when the
 * policy was bound. */
static const struct weir_table_limit *limit_of(const struct weir__bound_policy *bound,
					       const struct weir__guard_match *match, size_t claim)
{
	if (match->ahead[claim] && weir__bound_policy_is_settled(bound))
		return match->ahead[claim]->at;
	return weir__bound_policy_limit(bound, match->answer.claims[claim].plan);
}

/* Returns the hash that the table uses for the key. For a limit that was looked up ahead, also prefetches the key's
 * slot. */
static uint64_t hash_ahead(const struct weir_guard *guard, const struct weir__guard_match *match, size_t claim,
			   const struct weir_table_limit *limit)
{
	const struct weir_policy_claim *const of = &match->answer.claims[claim];
	const struct weir__ahead *const ahead = match->ahead[claim];
	struct weir__hash_secret secret;
	uint64_t hash;

	if (ahead == NULL)
		return weir__hash(&limit->secret, of->key, of->key_length);
	secret = (struct weir__hash_secret){ ahead->own[0], ahead->own[1] };
	hash = weir__hash(&secret, of->key, of->key_length);
	weir__table_prefetch_take(guard->table, ahead->line, hash);
	return hash;
}

static void add_claims(struct weir__guard_check *check, const struct weir__guard_match *match, enum weir_mode mode,
		       struct weir_claim *claims)
{
	uint32_t n = check->n;

	for (size_t i = 0; i < match->answer.n; i++) {
		const struct weir_policy_claim *const of = &match->answer.claims[i];
		const struct weir_table_limit *limit;

		if (of->mode != mode)
			continue;
		limit = limit_of(check->bound, match, i);
		if (limit == NULL)
			continue;
		check->plans[n] = of->plan;
		if (mode == WEIR_MODE_ENFORCE)
			check->hashes[n] = hash_ahead(check->guard, match, i, limit);
		claims[n++] = (struct weir_claim){ limit, of->key, of->key_length, of->cost };
	}
	check->n = n;
}

/* No wait helps, as with a request that costs more than its limit has at most. */
static void deny_unmatched(struct weir_guard_answer *answer)
{
	answer->verdict = (struct weir_verdict){ .never = true, .retry_after = WEIR_NEVER };
	memcpy(answer->decided_by, "(unmatched)", sizeof("(unmatched)"));
}

static int add_prefix(struct weir__guard_check *check, struct weir__guard_match *match,
		      struct weir_message *ret_message)
{
	size_t used = 0;
	int error = WEIR_OK;

	for (size_t i = 0; i < match->answer.n && error == WEIR_OK; i++)
		error = weir__guard_add_prefix(check->prefix, &used, &match->answer.claims[i].key,
					       &match->answer.claims[i].key_length, ret_message);
	return error;
}

static int match_request(struct weir__guard_check *check, struct weir__guard_match *match, struct weir_claim *claims,
			 struct weir_message *ret_message)
{
	int error;

	enter(check);
	error = weir__policy_match(check->bound->policy, check->attributes, check->n_attributes, check->cost,
				   &match->answer, match->ahead, ret_message);
	if (WEIR__UNLIKELY(check->prefix != NULL) && error == WEIR_OK)
		error = add_prefix(check, match, ret_message);
	if (error != WEIR_OK) {
		leave(check);
		return error;
	}
	check->stage = BEGUN;
	check->n = 0;
	add_claims(check, match, WEIR_MODE_ENFORCE, claims);
	check->n_enforced = check->n;
	if (WEIR__UNLIKELY(check->n < match->answer.n))
		add_claims(check, match, WEIR_MODE_SHADOW, claims);
	check->answer.verdict = (struct weir_verdict){ .allowed = true, .granted = check->cost };
	check->answer.limits = match->answer.n;
	check->answer.shadow_denied = 0;
	check->answer.is_limited = false;
	check->answer.decided_by[0] = '\0';
	check->answer.limit = NULL;
	check->answer.is_unmatched = match->answer.is_unmatched;
	if (WEIR__UNLIKELY(match->answer.is_unmatched) && check->bound->policy->unmatched == WEIR__UNMATCHED_DENY)
		deny_unmatched(&check->answer);
	return WEIR_OK;
}

int weir__guard_check_begin(struct weir__guard_check *check, struct weir_guard *guard, struct weir__guard_match *match,
			    const struct weir_attribute *attributes, size_t n, uint64_t cost,
			    const struct weir__guard_prefix *prefix, struct weir_claim *claims,
			    struct weir_message *ret_message)
{
	check->guard = guard;
	check->prefix = prefix;
	check->attributes = attributes;
	check->n_attributes = n;
	check->cost = cost;
	check->is_kept = false;
	return match_request(check, match, claims, ret_message);
}

/* --- store requests ---------------------------------------------------------------------------------------------- */

static bool ask_enforced(struct weir__guard_check *check, struct weir_claim *claims, struct weir_verdict *verdicts,
			 struct weir__store_request *store_request)
{
	check->stage = TAKING;
	store_request->operation = WEIR__STORE_TAKE;
	store_request->is_each = false;
	store_request->claims = claims;
	store_request->verdicts = verdicts;
	store_request->n = check->n_enforced;
	store_request->hashes = check->hashes;
	store_request->epoch_check = &check->epoch_check;
	store_request->before = NULL;
	return true;
}

static bool ask_shadows(struct weir__guard_check *check, struct weir_claim *claims, struct weir_verdict *verdicts,
			struct weir__store_request *store_request)
{
	check->stage = SHADOWING;
	store_request->operation = check->answer.verdict.allowed ? WEIR__STORE_TAKE : WEIR__STORE_PEEK;
	store_request->is_each = true;
	store_request->claims = claims + check->n_enforced;
	store_request->verdicts = verdicts + check->n_enforced;
	store_request->n = check->n - check->n_enforced;
	store_request->hashes = NULL;
	store_request->epoch_check = NULL;
	store_request->before = NULL;
	return true;
}

/* The plan's name equals the limit's, which is in the cache by now, unless the limit has another name in the table
 * (name_anew). */
static const char *name_of(const struct weir__guard_check *check, const struct weir_table_limit *limit, size_t claim)
{
	const char *const name = weir_table_limit_name(limit);

	return name[0] == '~' ? weir_policy_plan_of(check->bound->policy, check->plans[claim])->name : name;
}

static void take_answer(struct weir__guard_check *check, const struct weir_claim *claims,
			const struct weir_verdict *verdicts, const struct weir__store_request *store_request)
{
	const size_t decider = check->n_enforced == 1 ? 0 : store_request->decision.decided_by;
	const struct weir_table_limit *const limit = claims[decider].limit;

	check->answer.verdict = check->n_enforced == 1 ? verdicts[0] : store_request->decision.verdict;
	weir__guard_write_decider(&check->answer, limit, name_of(check, limit, decider));
}

bool weir__guard_check_patience(const struct weir__guard_check *check, const struct weir_claim *claims,
				weir_ns *ret_patience)
{
	weir_ns patience = WEIR_NEVER;

	if (WEIR__LIKELY(!check->bound->policy->has_waits))
		return false;
	for (uint32_t i = 0; i < check->n_enforced; i++) {
		const weir_ns wait = weir_policy_plan_of(check->bound->policy, check->plans[i])->wait;

		if (wait > 0 && claims[i].limit->first.plan.flags & WEIR_PLAN_SHAPE)
			patience = weir__min(patience, wait);
	}
	*ret_patience = patience;
	return patience != WEIR_NEVER;
}

void weir__guard_check_decided(struct weir__guard_check *check, const struct weir_claim *claims, size_t decider,
			       const struct weir_verdict *verdict)
{
	const struct weir_table_limit *const limit = claims[decider].limit;

	check->stage = TAKEN;
	check->answer.verdict = *verdict;
	weir__guard_write_decider(&check->answer, limit, name_of(check, limit, decider));
}

/* If the next policy is already current, its changed limits were still charged. But their verdicts may use the next
 * policy's numbers, so they are not counted. */
static void count_shadows(struct weir__guard_check *check, const struct weir_verdict *verdicts)
{
	if (!check->is_kept && !weir__epoch_check_holds(&check->epoch_check))
		return;
	for (uint32_t i = check->n_enforced; i < check->n; i++)
		check->answer.shadow_denied += !verdicts[i].allowed;
}

bool weir__guard_check_next(struct weir__guard_check *check, struct weir__guard_match *match, struct weir_claim *claims,
			    struct weir_verdict *verdicts, struct weir__store_request *store_request, int *ret_error,
			    struct weir_message *ret_message)
{
	*ret_error = WEIR_OK;
	if (check->stage == TAKING) {
		if (WEIR__LIKELY(store_request->outcome != WEIR__STORE_STALE)) {
			take_answer(check, claims, verdicts, store_request);
		} else {
			leave(check);
			*ret_error = match_request(check, match, claims, ret_message);
			if (*ret_error != WEIR_OK)
				return false;
		}
	}
	if (check->stage == BEGUN && check->n_enforced > 0)
		return ask_enforced(check, claims, verdicts, store_request);
	if (WEIR__UNLIKELY(check->n > check->n_enforced)) {
		if (check->stage < SHADOWING)
			return ask_shadows(check, claims, verdicts, store_request);
		count_shadows(check, verdicts);
	}
	leave(check);
	return false;
}

int weir__guard_call_store(const struct weir_guard *guard, struct weir__store_request *request,
			   struct weir_guard_answer *answer, struct weir_message *ret_message)
{
	struct weir__store_request called = { .operation = request->operation,
					      .is_each = request->is_each,
					      .n = request->n,
					      .claims = request->claims,
					      .verdicts = request->verdicts };
	const int error = weir__store_call(guard->store, &called);

	request->outcome = called.outcome;
	request->decision = called.decision;
	if (error != WEIR_OK) {
		struct weir__text why = weir__text_of_message(ret_message, 0);

		weir__text_add(&why, weir_strerror(error));
	} else if (answer) {
		weir__guard_note_fallback(answer, &called);
	}
	return error;
}

int weir_guard_check(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n, uint64_t cost,
		     weir_ns now, struct weir_guard_answer *ret_answer, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(guard, ret_message);
	WEIR__NOT_NULL(ret_answer, ret_message);
	if (n > 0)
		WEIR__NOT_NULL(attributes, ret_message);

	struct weir_verdict verdicts[WEIR_POLICY_CLAIMS_MAX] WEIR__UNINITIALIZED;
	struct weir_claim claims[WEIR_POLICY_CLAIMS_MAX] WEIR__UNINITIALIZED;
	struct weir__store_request store_request WEIR__UNINITIALIZED;
	struct weir__guard_match match WEIR__UNINITIALIZED;
	struct weir__guard_check check WEIR__UNINITIALIZED;
	int error = weir__guard_check_begin(&check, guard, &match, attributes, n, cost, NULL, claims, ret_message);

	if (error != WEIR_OK)
		return error;
	check.answer.fallback_nodes = 0;
	check.answer.is_closed = false;
	store_request.now = now;
	while (weir__guard_check_next(&check, &match, claims, verdicts, &store_request, &error, ret_message)) {
		if (WEIR__LIKELY(guard->store == NULL)) {
			weir__table_store_decide(guard->table, &store_request);
			continue;
		}
		error = weir__guard_call_store(guard, &store_request,
					       weir__guard_check_is_shadowing(&check) ? NULL : &check.answer,
					       ret_message);
		if (error != WEIR_OK) {
			weir__guard_check_abandon(&check);
			if (!weir__guard_check_is_shadowing(&check))
				return error;
			error = WEIR_OK;
			break;
		}
	}
	if (error == WEIR_OK)
		*ret_answer = check.answer;
	return error;
}
