/* guard_descriptors.c: checks of descriptors, by a policy in Envoy's form, one store request at a time. */
#include <stdio.h>

#include "core/argument.h"
#include "core/text.h"
#include "core/uninitialized.h"
#include "guard/guard_check.h"
#include "guard/guard_internal.h"
#include "policy/envoy.h"
#include "store/table/decision.h"

enum stage { BEGUN, LOOKING, TAKING, LOOKING_INSTEAD, CHARGING, TAKING_EACH, GIVING_BACK };

typedef struct weir__guard_descriptors_room weir__room;

static bool is_enforced(const struct weir_descriptor_claim *claim)
{
	return claim->applies && claim->mode == WEIR_MODE_ENFORCE && !claim->is_quota && !claim->is_refund;
}

/* Whether the descriptor has a limit to decide. */
static bool is_claimed(const struct weir__guard_descriptors *check, size_t i)
{
	return check->claim_of[i] > 0;
}

static bool is_quota(const struct weir__guard_descriptors *check, const weir__room *room, size_t i)
{
	return is_claimed(check, i) && room->statuses[i].claim.mode == WEIR_MODE_ENFORCE &&
	       room->statuses[i].claim.is_quota && !room->statuses[i].claim.is_refund;
}

static bool is_enforced_claim(const struct weir__guard_descriptors *check, const weir__room *room, size_t i)
{
	return is_claimed(check, i) && is_enforced(&room->statuses[i].claim);
}

/* --- quotas ------------------------------------------------------------------------------------------------------ */

struct target {
	const struct weir_attribute *backend, *model; /* NULL: not named, or empty */
};

static bool is_same_text(const char *a, size_t a_length, const char *b, size_t b_length)
{
	return a_length == b_length && (a_length == 0 || memcmp(a, b, a_length) == 0);
}

static struct target target_of(const struct weir_descriptor *descriptor)
{
	static const char backend[] = "backend_name", model[] = "model_name_override";
	struct target target = { NULL, NULL };

	for (size_t i = 0; i < descriptor->n; i++) {
		const struct weir_attribute *const entry = &descriptor->entries[i];
		const struct weir_attribute *const named = entry->value_length > 0 ? entry : NULL;

		if (is_same_text(entry->name, entry->name_length, backend, sizeof(backend) - 1))
			target.backend = named;
		else if (is_same_text(entry->name, entry->name_length, model, sizeof(model) - 1))
			target.model = named;
	}
	return target;
}

static bool is_same_value(const struct weir_attribute *a, const struct weir_attribute *b)
{
	return a && b ? is_same_text(a->value, a->value_length, b->value, b->value_length) : a == b;
}

static bool is_same_entries(const struct weir_descriptor *a, const struct weir_descriptor *b)
{
	for (size_t i = 0; i < a->n && a->n == b->n; i++)
		if (!is_same_text(a->entries[i].name, a->entries[i].name_length, b->entries[i].name,
				  b->entries[i].name_length) ||
		    !is_same_value(&a->entries[i], &b->entries[i]))
			return false;
	return a->n == b->n;
}

/* Several quotas may limit the same thing: a model at a backend, for a customer and in all. Then the request cannot go
 * there if one of them is used up. Without such names, quotas with the same entries are a group. */
static bool is_same_group(const struct weir_descriptor *a, const struct weir_descriptor *b)
{
	const struct target of_a = target_of(a), of_b = target_of(b);

	if (of_a.backend || of_a.model || of_b.backend || of_b.model)
		return is_same_value(of_a.backend, of_b.backend) && is_same_value(of_a.model, of_b.model);
	return is_same_entries(a, b);
}

/* Now, because the descriptors may be gone when the store replies. */
static void make_groups(struct weir__guard_descriptors *check, const weir__room *room)
{
	for (uint32_t i = 0; i < check->n; i++) {
		check->group_of[i] = (uint8_t)i;
		for (uint32_t j = 0; j < i && room->matched->claims[i].is_quota; j++)
			if (room->matched->claims[j].is_quota &&
			    is_same_group(&check->descriptors[i], &check->descriptors[j])) {
				check->group_of[i] = check->group_of[j];
				break;
			}
	}
}

/* Whether the request has groups of quotas, and each of them has a quota that denies. One in shadow never denies. */
static bool are_quotas_used_up(const struct weir__guard_descriptors *check, const weir__room *room)
{
	bool is_any = false, is_over[WEIR_DESCRIPTORS_MAX] = { false };

	for (size_t i = 0; i < check->n; i++)
		is_over[check->group_of[i]] |= is_quota(check, room, i) && !room->statuses[i].verdict.allowed;
	for (size_t i = 0; i < check->n; i++) {
		if (!is_claimed(check, i) || !room->statuses[i].claim.is_quota || room->statuses[i].claim.is_refund)
			continue;
		if (!is_over[check->group_of[i]])
			return false;
		is_any = true;
	}
	return is_any;
}

/* --- inline limits ----------------------------------------------------------------------------------------------- */

static const struct weir_table_limit *find_given(const struct weir_guard *guard, const struct weir_limit *store_request)
{
	const uint32_t n = atomic_load(&guard->n_given);

	for (uint32_t i = 0; i < n; i++)
		if (guard->given[i].store_request.count == store_request->count &&
		    guard->given[i].store_request.period == store_request->period &&
		    guard->given[i].store_request.count_all == store_request->count_all)
			return guard->given[i].limit;
	return NULL;
}

static int add_given(struct weir_guard *guard, const struct weir_limit *store_request,
		     const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	/* No plan's name begins with ~. The text of a window is short enough for a limit's name. */
	char name[WEIR_LIMIT_TEXT_MAX + 8] = "~given ";
	const uint32_t n = atomic_load(&guard->n_given);
	struct weir__text why;
	int error;

	if (n == WEIR_GUARD_GIVEN_MAX) {
		why = weir__text_of_message(ret_message, 0);
		weir__text_add(&why, "more than 64 different inline limits; name them in the policy");
		return WEIR_ERR_FULL;
	}
	(void)weir_limit_print(store_request, name + strlen(name));
	error = guard->check ? guard->check(store_request, WEIR_POLICY_STORE_UNSET, ret_message) : WEIR_OK;
	if (error == WEIR_OK)
		error = weir_table_find_limit(guard->table, name, store_request, &guard->given[n].limit, ret_message);
	if (error != WEIR_OK)
		return error;
	guard->given[n].store_request = *store_request;
	*ret_limit = guard->given[n].limit;
	atomic_store(&guard->n_given, n + 1);
	return WEIR_OK;
}

/* Equal inline limits of different requests share their keys. */
static int take_given(struct weir_guard *guard, const struct weir_limit *store_request,
		      const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	int error = WEIR_OK;

	*ret_limit = find_given(guard, store_request);
	if (*ret_limit)
		return WEIR_OK;
	(void)pthread_mutex_lock(&guard->giving);
	*ret_limit = find_given(guard, store_request);
	if (*ret_limit == NULL)
		error = add_given(guard, store_request, ret_limit, ret_message);
	(void)pthread_mutex_unlock(&guard->giving);
	return error;
}

/* --- claims ------------------------------------------------------------------------------------------------------ */

/* The limit of a descriptor. *ret_limit NULL: nothing to decide. */
static int find_limit(const struct weir__guard_descriptors *check, const weir__room *room,
		      const struct weir_descriptor_claim *of, const struct weir_table_limit **ret_limit,
		      struct weir_message *ret_message)
{
	*ret_limit = NULL;
	if (!of->applies)
		return WEIR_OK;
	if (of->plan == WEIR_POLICY_NO_PLAN && room->give)
		return room->give(room->giver, room->claims, check->n_claims, &of->limit, ret_limit, ret_message);
	if (of->plan == WEIR_POLICY_NO_PLAN)
		return take_given(check->guard, &of->limit, ret_limit, ret_message);
	*ret_limit = weir__bound_policy_limit(check->bound, of->plan);
	return WEIR_OK;
}

/* The kinds of claims, in their order. */
enum kind { TAKES, LOOKS, OTHERS, GIVES_BACK };

/* If each descriptor counts by itself, a look stays in its place: it must not see what later descriptors take. */
static enum kind kind_of(const struct weir__guard_descriptors *check, const struct weir_descriptor_claim *claim)
{
	if (claim->is_refund)
		return GIVES_BACK;
	return !is_enforced(claim) ? OTHERS : claim->cost == 0 && !check->is_each ? LOOKS : TAKES;
}

/* Appends the claims of a kind. */
static int add_claims(struct weir__guard_descriptors *check, const weir__room *room, enum kind kind,
		      struct weir_message *ret_message)
{
	for (uint32_t i = 0; i < check->n; i++) {
		const struct weir_descriptor_claim *const of = &room->matched->claims[i];
		const struct weir_table_limit *limit;
		int error;

		if (kind_of(check, of) != kind)
			continue;
		error = find_limit(check, room, of, &limit, ret_message);
		if (error != WEIR_OK)
			return error;
		room->statuses[i] = (struct weir_guard_status){ *of, { .allowed = true, .granted = of->cost } };
		room->statuses[i].claim.key = NULL;
		room->statuses[i].claim.metadata = NULL;
		check->claim_of[i] = 0;
		if (limit == NULL)
			continue;
		room->claims[check->n_claims++] = (struct weir_claim){ limit, of->key, of->key_length, of->cost };
		check->claim_of[i] = (uint8_t)check->n_claims;
	}
	return WEIR_OK;
}

static int make_claims(struct weir__guard_descriptors *check, const weir__room *room, struct weir_message *ret_message)
{
	int error;

	check->n_claims = 0;
	error = add_claims(check, room, TAKES, ret_message);
	check->n_taking = check->n_claims;
	if (error == WEIR_OK)
		error = add_claims(check, room, LOOKS, ret_message);
	check->n_enforced = check->n_claims;
	if (error == WEIR_OK)
		error = add_claims(check, room, OTHERS, ret_message);
	check->n_taken = check->n_claims;
	if (error == WEIR_OK)
		error = add_claims(check, room, GIVES_BACK, ret_message);
	if (error == WEIR_OK && check->n_enforced > WEIR_TABLE_CLAIMS_MAX && !check->is_each) {
		struct weir__text why = weir__text_of_message(ret_message, 0);

		weir__text_add(&why, "more than 16 limits apply to the request; make fewer apply");
		return WEIR_ERR_LIMIT;
	}
	return error;
}

static void leave(struct weir__guard_descriptors *check)
{
	weir__epoch_leave(&check->guard->epoch, check->phase);
	check->bound = NULL;
}

static int add_prefix(const struct weir__guard_descriptors *check, const weir__room *room,
		      struct weir_message *ret_message)
{
	size_t used = 0;
	int error = WEIR_OK;

	for (uint32_t i = 0; i < check->n && error == WEIR_OK; i++)
		if (room->matched->claims[i].applies)
			error = weir__guard_add_prefix(room->prefix, &used, &room->matched->claims[i].key,
						       &room->matched->claims[i].key_length, ret_message);
	return error;
}

static int match(struct weir__guard_descriptors *check, const weir__room *room, struct weir_message *ret_message)
{
	const struct weir_policy *policy;
	int error;

	check->phase = weir__epoch_enter(&check->guard->epoch);
	check->bound = atomic_load(&check->guard->bound);
	check->epoch_check = (struct weir__epoch_check){ &check->guard->bound, check->bound };
	policy = check->bound->policy;
	error = weir_policy_match_descriptors(policy, check->domain, check->domain_length, check->descriptors, check->n,
					      check->hits, room->matched, ret_message);
	if (error == WEIR_OK && room->prefix)
		error = add_prefix(check, room, ret_message);
	if (error == WEIR_OK) {
		check->is_each = policy->envoy->options & WEIR_ENVOY_COUNT_EACH;
		make_groups(check, room);
		error = make_claims(check, room, ret_message);
	}
	check->stage = BEGUN;
	check->is_allowed = true;
	check->is_charged = check->is_seen = check->is_by_quotas = false;
	if (error != WEIR_OK)
		leave(check);
	return error;
}

int weir__guard_descriptors_begin(struct weir__guard_descriptors *check, struct weir_guard *guard, const char *domain,
				  size_t domain_length, const struct weir_descriptor *descriptors, size_t n,
				  uint64_t hits, const weir__room *room, struct weir_message *ret_message)
{
	check->guard = guard;
	check->domain = domain;
	check->domain_length = domain_length;
	check->descriptors = descriptors;
	check->n = (uint32_t)n;
	check->hits = hits;
	check->is_kept = false;
	return match(check, room, ret_message);
}

/* --- store requests ---------------------------------------------------------------------------------------------- */

/* Fills in the store request of a stage. Returns false if the stage has no claims. */
static bool ask(struct weir__guard_descriptors *check, const weir__room *room, enum stage stage,
		struct weir__store_request *store_request)
{
	const bool are_enforced = stage == TAKING || stage == LOOKING_INSTEAD;
	const uint32_t first = stage == GIVING_BACK                 ? check->n_taken :
			       are_enforced || stage == TAKING_EACH ? 0 :
			       stage == LOOKING                     ? check->n_taking :
								      check->n_enforced;
	const uint32_t end = stage == GIVING_BACK ? check->n_claims : are_enforced ? check->n_enforced : check->n_taken;
	const bool takes = stage == TAKING || stage == CHARGING || stage == TAKING_EACH;

	check->stage = (uint8_t)stage;
	store_request->operation = takes                ? WEIR__STORE_TAKE :
				   stage == GIVING_BACK ? WEIR__STORE_REFUND :
							  WEIR__STORE_PEEK;
	store_request->is_each = stage != TAKING;
	store_request->claims = room->claims + first;
	store_request->verdicts = room->verdicts + first;
	store_request->n = end - first;
	store_request->n_current = 0;
	store_request->hashes = NULL;
	store_request->epoch_check = takes && !check->is_charged && !check->is_kept ? &check->epoch_check : NULL;
	store_request->before = NULL;
	return store_request->n > 0;
}

static bool is_current(const struct weir__guard_descriptors *check)
{
	return check->is_kept || weir__epoch_check_holds(&check->epoch_check);
}

/* Copies the verdicts of the last store request to the statuses of its descriptors. */
static void note_verdicts(const struct weir__guard_descriptors *check, const weir__room *room,
			  const struct weir__store_request *store_request)
{
	const uint32_t first = (uint32_t)(store_request->claims - room->claims);

	for (uint32_t i = 0; i < check->n; i++) {
		const uint32_t claim = check->claim_of[i];

		if (claim > first && claim <= first + store_request->n)
			room->statuses[i].verdict = room->verdicts[claim - 1];
	}
}

/* The next policy changed this limit after other limits of the request were charged, so this one was charged as well.
 * Reports the verdict seen before the change. If it was not seen before, reports the charge with the old policy's
 * numbers. */
static void tell_as_seen(struct weir_guard_status *status, const struct weir_verdict *decided, bool is_seen,
			 const struct weir__bound_policy *bound)
{
	const uint64_t cost = status->claim.cost, plan = status->claim.plan;
	struct weir_verdict *const verdict = &status->verdict; /* as seen before */

	if (is_seen) {
		verdict->granted = verdict->allowed ? cost : 0;
		verdict->remaining -= weir__min(verdict->granted, verdict->remaining);
		return;
	}
	*verdict = *decided;
	if (plan != WEIR_POLICY_NO_PLAN) /* a limit of Envoy's form is a window */
		weir__verdict_as_of(verdict, weir_policy_plan_of(bound->policy, (uint32_t)plan)->limit.count);
}

static void note_charges(const struct weir__guard_descriptors *check, const weir__room *room,
			 const struct weir__store_request *store_request)
{
	const uint32_t first = (uint32_t)(store_request->claims - room->claims);
	const uint32_t n_current = is_current(check)          ? store_request->n :
				   store_request->epoch_check ? store_request->n_current :
								0;

	for (uint32_t i = 0; i < check->n; i++) {
		const uint32_t claim = check->claim_of[i];

		if (claim <= first || claim > first + store_request->n)
			continue;
		if (claim <= first + n_current)
			room->statuses[i].verdict = room->verdicts[claim - 1];
		else
			tell_as_seen(&room->statuses[i], &room->verdicts[claim - 1], check->is_seen, check->bound);
	}
}

/* A cost of 0 asks whether anything is left. The store would allow it even then. */
static void deny_looks(const struct weir__guard_descriptors *check, const weir__room *room, bool also_enforced)
{
	for (uint32_t i = 0; i < check->n; i++) {
		struct weir_verdict *const verdict = &room->statuses[i].verdict;

		if (!is_claimed(check, i) || room->statuses[i].claim.cost > 0 || room->statuses[i].claim.is_refund ||
		    (verdict->remaining > 0 && !room->statuses[i].claim.is_closed) ||
		    (!also_enforced && is_enforced_claim(check, room, i)))
			continue;
		verdict->allowed = false;
		verdict->retry_after = verdict->reset_after;
	}
}

static bool do_enforced_allow(const struct weir__guard_descriptors *check, const weir__room *room)
{
	for (size_t i = 0; i < check->n; i++)
		if (is_enforced_claim(check, room, i) && !room->statuses[i].verdict.allowed)
			return false;
	return true;
}

/* Reads the store's verdicts. Returns the next stage; BEGUN: no more stages. */
static enum stage take_answer(struct weir__guard_descriptors *check, const weir__room *room,
			      const struct weir__store_request *store_request)
{
	switch (check->stage) {
	case LOOKING:
		note_verdicts(check, room, store_request);
		deny_looks(check, room, true);
		check->is_seen = true;
		check->is_by_quotas = are_quotas_used_up(check, room);
		check->is_allowed = do_enforced_allow(check, room) && !check->is_by_quotas;
		return check->is_allowed ? TAKING : LOOKING_INSTEAD;
	case TAKING:
		note_verdicts(check, room, store_request);
		if (store_request->n > 0) {
			check->is_charged = true;
			check->is_allowed = store_request->n == 1 ? room->verdicts[0].allowed :
								    store_request->decision.verdict.allowed;
		}
		return check->is_allowed ? CHARGING : BEGUN;
	case LOOKING_INSTEAD:
		note_verdicts(check, room, store_request);
		deny_looks(check, room, true);
		return BEGUN;
	case TAKING_EACH:
		note_charges(check, room, store_request);
		deny_looks(check, room, true);
		check->is_charged = store_request->n > 0;
		check->is_by_quotas = are_quotas_used_up(check, room);
		check->is_allowed = do_enforced_allow(check, room) && !check->is_by_quotas;
		return BEGUN;
	case GIVING_BACK:
		note_verdicts(check, room, store_request);
		check->is_charged = true;
		return BEGUN;
	default:
		note_charges(check, room, store_request);
		deny_looks(check, room, false); /* what this request took itself denies none of the enforced ones */
		check->is_charged |= store_request->n > 0;
		return BEGUN;
	}
}

/* --- the end ----------------------------------------------------------------------------------------------------- */

/* Only enforced limits decide. Quotas decide only when all of them are used up. */
static void join_statuses(struct weir__guard_descriptors *check, const weir__room *room)
{
	struct weir_verdict verdicts[WEIR_DESCRIPTORS_MAX];
	const bool is_by_quotas = !check->is_allowed && are_quotas_used_up(check, room);
	struct weir_guard_answer *const answer = &check->answer;
	const struct weir_guard_status *decider;
	const struct weir_table_limit *limit;
	struct weir_decision decision;
	size_t of[WEIR_DESCRIPTORS_MAX], n = 0; /* of: the descriptor that each verdict belongs to */

	*answer = (struct weir_guard_answer){ .verdict = { .allowed = true, .granted = check->hits } };
	for (size_t i = 0; i < check->n; i++) {
		const struct weir_guard_status *const status = &room->statuses[i];

		answer->limits += status->claim.applies;
		answer->shadow_denied += status->claim.mode == WEIR_MODE_SHADOW && !status->verdict.allowed;
		if (!is_enforced_claim(check, room, i) && !(is_by_quotas && is_quota(check, room, i)))
			continue;
		of[n] = i;
		verdicts[n++] = status->verdict;
	}
	if (n == 0)
		return;
	decision = weir__decision_of(verdicts, n);
	answer->verdict = decision.verdict;
	/* A request that lost a race is denied, even if each limit would allow it now. */
	answer->verdict.allowed = check->is_allowed;
	if (!check->is_allowed)
		answer->verdict.granted = answer->verdict.delay = 0;
	decider = &room->statuses[of[decision.decided_by]];
	limit = room->claims[check->claim_of[of[decision.decided_by]] - 1].limit;
	weir__guard_write_decider(answer, limit,
				  decider->claim.plan == WEIR_POLICY_NO_PLAN ?
					  weir_table_limit_name(limit) :
					  weir_policy_plan_of(check->bound->policy, decider->claim.plan)->name);
}

static void end(struct weir__guard_descriptors *check, const weir__room *room)
{
	for (size_t i = 0; i < check->n; i++)
		if (room->statuses[i].claim.is_closed) /* its limit is 0; the table's limit is a stand-in */
			room->statuses[i].verdict.limit = room->statuses[i].verdict.remaining = 0;
	join_statuses(check, room);
	leave(check);
}

/* The policy changed before anything was charged, so the new policy decides. */
static bool start_over(struct weir__guard_descriptors *check, const weir__room *room, int *ret_error,
		       struct weir_message *ret_message)
{
	leave(check);
	*ret_error = match(check, room, ret_message);
	return *ret_error == WEIR_OK;
}

/* Quotas are peeked at first, because a request that all of them deny is counted nowhere, and so are limits with a cost of
 * 0. If other requests use up a quota in between, it may be exceeded by the last requests, since a single quota denies
 * nothing. */
bool weir__guard_descriptors_next(struct weir__guard_descriptors *check, const weir__room *room,
				  struct weir__store_request *store_request, int *ret_error,
				  struct weir_message *ret_message)
{
	enum stage next;

	*ret_error = WEIR_OK;
	for (;;) {
		if (check->stage == BEGUN) {
			next = check->is_each ? TAKING_EACH : LOOKING;
		} else if (store_request->n > 0 && store_request->outcome == WEIR__STORE_STALE) {
			if (!start_over(check, room, ret_error, ret_message))
				return false;
			continue;
		} else {
			next = take_answer(check, room, store_request);
		}
		if (next == BEGUN) {
			/* If nothing was charged, the verdicts are consistent only if the policy is still current. */
			if (!check->is_charged && !is_current(check)) {
				if (!start_over(check, room, ret_error, ret_message))
					return false;
				continue;
			}
			if (check->stage == GIVING_BACK || check->n_taken == check->n_claims)
				break;
			next = GIVING_BACK;
		}
		if (ask(check, room, next, store_request))
			return true;
	}
	end(check, room);
	return false;
}

bool weir__guard_descriptors_cancel(struct weir__guard_descriptors *check,
				    const struct weir__store_request *store_request)
{
	if (check->is_charged || store_request->operation == WEIR__STORE_PEEK)
		return false;
	leave(check);
	return true;
}

void weir__guard_descriptors_tell(const struct weir__guard_descriptors *check, const weir__room *room,
				  void (*tell)(void *context, const struct weir_claim *claims,
					       const struct weir_verdict *verdicts, size_t n, bool is_shadow),
				  void *context)
{
	const bool is_by_quotas = !check->is_each && check->is_by_quotas;
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX];
	bool is_allowed = !is_by_quotas;
	size_t n = 0;

	for (size_t i = 0; i < check->n && !check->is_each && !is_by_quotas; i++)
		if (is_enforced_claim(check, room, i)) {
			is_allowed = is_allowed && room->statuses[i].verdict.allowed;
			verdicts[n] = room->statuses[i].verdict;
			claims[n++] = room->claims[check->claim_of[i] - 1];
		}
	if (n > 0)
		tell(context, claims, verdicts, n, false);
	for (size_t i = 0; i < check->n; i++) {
		const bool is_one_enforced = is_enforced_claim(check, room, i);

		if (is_claimed(check, i) && !room->statuses[i].claim.is_refund &&
		    (check->is_each || (is_by_quotas ? is_quota(check, room, i) : is_allowed && !is_one_enforced)))
			tell(context, &room->claims[check->claim_of[i] - 1], &room->statuses[i].verdict, 1,
			     !is_one_enforced && !is_by_quotas);
	}
}

void weir__guard_describe_descriptors(struct weir_guard *guard, const char *domain, size_t domain_length,
				      const struct weir_descriptor *descriptors, size_t n,
				      void (*describe)(void *context, const struct weir_descriptor_claim *claims),
				      void *context)
{
	struct weir_descriptors_answer matched WEIR__UNINITIALIZED;
	const uint32_t phase = weir__epoch_enter(&guard->epoch);
	const struct weir__bound_policy *const bound = atomic_load(&guard->bound);
	struct weir_message why;

	if (weir_policy_match_descriptors(bound->policy, domain, domain_length, descriptors, n, 1, &matched, &why) !=
	    WEIR_OK)
		for (size_t i = 0; i < n; i++)
			matched.claims[i].applies = false;
	describe(context, matched.claims);
	weir__epoch_leave(&guard->epoch, phase);
}

int weir_guard_check_descriptors(struct weir_guard *guard, const char *domain, size_t domain_length,
				 const struct weir_descriptor *descriptors, size_t n, uint64_t hits, weir_ns now,
				 struct weir_guard_answer *ret_answer, struct weir_guard_status *ret_statuses,
				 struct weir_message *ret_message)
{
	WEIR__NOT_NULL(guard, ret_message);
	if (domain_length > 0)
		WEIR__NOT_NULL(domain, ret_message);
	if (n > 0)
		WEIR__NOT_NULL(descriptors, ret_message);
	WEIR__NOT_NULL(ret_answer, ret_message);
	WEIR__NOT_NULL(ret_statuses, ret_message);

	struct weir_verdict verdicts[WEIR_DESCRIPTORS_MAX] WEIR__UNINITIALIZED;
	struct weir_claim claims[WEIR_DESCRIPTORS_MAX] WEIR__UNINITIALIZED;
	struct weir_descriptors_answer matched WEIR__UNINITIALIZED;
	const weir__room room = { &matched, claims, verdicts, ret_statuses, NULL, NULL, NULL };
	struct weir__guard_descriptors check WEIR__UNINITIALIZED;
	struct weir__store_request store_request WEIR__UNINITIALIZED;
	struct weir_guard_answer fallback = { .fallback_nodes = 0 };
	int error = weir__guard_descriptors_begin(&check, guard, domain, domain_length, descriptors, n, hits, &room,
						  ret_message);

	if (error != WEIR_OK)
		return error;
	store_request.now = now;
	while (weir__guard_descriptors_next(&check, &room, &store_request, &error, ret_message)) {
		if (guard->store == NULL) {
			weir__table_store_decide(guard->table, &store_request);
			continue;
		}
		error = weir__guard_call_store(guard, &store_request, &fallback, ret_message);
		if (error != WEIR_OK) {
			leave(&check);
			return error;
		}
	}
	if (error != WEIR_OK)
		return error;
	*ret_answer = check.answer;
	ret_answer->fallback_nodes = fallback.fallback_nodes;
	ret_answer->is_closed = fallback.is_closed;
	return WEIR_OK;
}
