/* operations.c: the operations, as small state machines. */
#include "engine/operations.h"

#include "core/uninitialized.h"
#include "engine/given_limits.h"
#include "engine/unmatched.h"
#include "observe/counters.h"
#include "observe/limit_stats.h"
#include "observe/tracer.h"
#include "os/pause.h"

/* --- shared by all operations ------------------------------------------------------------------------------------ */

/* Times one in WEIR__LIMIT_STATS_TIMED of the decisions that the store completes at once. */
static void time_decision(const struct weir__request *request)
{
	struct weir__context *const context = request->context;
	weir_ns now;

	if (request->has_moved || !weir__limit_stats_is_timed(context->stats))
		return;
	now = weir_table_now(context->table);
	weir__limit_stats_histogram_add(&context->stats->histograms[WEIR__DURATION_DECISION],
					now > request->store_request.now ? now - request->store_request.now : 0, 1);
}

/* Submits all claims in one store request. */
static bool ask(struct weir__request *request, enum weir__store_operation operation, bool is_each)
{
	struct weir__store_request *const store_request = &request->store_request;

	store_request->operation = operation;
	store_request->is_each = is_each;
	store_request->n = request->n_claims;
	store_request->claims = request->claims;
	store_request->verdicts = request->verdicts;
	store_request->hashes = NULL;
	store_request->epoch_check = NULL;
	store_request->before = NULL;
	store_request->now = weir_table_now(request->context->table);
	store_request->fallback_nodes = 0;
	request->stage = 1;
	return weir__request_submit(request);
}

static void observe_each(struct weir__request *request)
{
	if (WEIR__UNLIKELY(request->trace_context != NULL))
		weir__request_swap_trace_context(request);
	weir__limit_stats_each(request->context->stats, request->claims, request->verdicts, request->n_claims,
			       weir__request_decided_at(request));
	if (WEIR__UNLIKELY(request->trace_context != NULL))
		weir__request_swap_trace_context(request);
}

static void observe_together(struct weir__request *request)
{
	weir__request_swap_trace_context(request);
	weir__limit_stats_together(request->context->stats, request->claims, request->verdicts, request->n_claims,
				   false, weir__request_decided_at(request));
	weir__request_swap_trace_context(request);
}

/* --- claims ------------------------------------------------------------------------------------------------------ */

static bool advance_each(struct weir__request *request)
{
	observe_each(request);
	return true;
}

static const struct weir__request_kind take_each_kind = { .advance = advance_each };

void weir__take_each_init(struct weir__request *request, size_t size, struct weir__context *context,
			  struct weir_claim *claims, struct weir_verdict *verdicts)
{
	weir__request_init(request, size, &take_each_kind, context, NULL);
	request->claims = claims;
	request->verdicts = verdicts;
	request->store_request = (struct weir__store_request){
		.operation = WEIR__STORE_TAKE, .is_each = true, .claims = claims, .verdicts = verdicts
	};
}

bool weir__take_each_run(struct weir__request *request, struct weir__client *client, uint32_t n)
{
	request->client = client;
	request->n_claims = request->n_replies = request->store_request.n = n;
	request->store_request.now = weir_table_now(request->context->table);
	if (!weir__request_submit(request))
		return false;
	time_decision(request);
	weir__limit_stats_each(request->context->stats, request->claims, request->verdicts, n,
			       request->store_request.now);
	return true;
}

static void take_decision(struct weir__decide *decide)
{
	const struct weir__store_request *const store_request = &decide->request.store_request;

	decide->is_closed = store_request->is_closed;
	if (decide->operation == WEIR__STORE_INSPECT) { /* stores set these for INSPECT only */
		decide->is_stored = store_request->is_stored;
		decide->full_at = store_request->full_at;
	}
	decide->decided_by = store_request->n > 1 ? store_request->decision.decided_by : 0;
	decide->verdict = store_request->n > 1 ? store_request->decision.verdict : store_request->verdicts[0];
}

/* Records who requested the change, while the client is still connected. */
static void know_who(struct weir__decide *decide)
{
	const struct weir__request *const request = &decide->request;

	decide->is_audited = request->context->log != NULL;
	if (decide->is_audited)
		weir__audit_who_of(request->client, decide->protocol, &decide->who);
}

static void audit(struct weir__decide *decide)
{
	const struct weir__request *const request = &decide->request;

	if (!request->has_moved)
		know_who(decide);
	if (decide->is_audited)
		weir__audit_key(request->context, &decide->who, decide->operation, request->claims, request->verdicts);
}

static bool advance_decide(struct weir__request *request)
{
	struct weir__decide *const decide = (struct weir__decide *)(void *)request;
	const enum weir__store_operation operation = decide->operation;

	if (request->stage == 0) {
		if (!ask(request, operation, false))
			return false;
		if (weir__store_charges(operation))
			time_decision(request);
	}
	take_decision(decide);
	if (request->n_claims > 1)
		observe_together(request);
	else if (weir__store_charges(operation))
		observe_each(request);
	if (operation == WEIR__STORE_REFUND || operation == WEIR__STORE_RESET)
		audit(decide);
	return true;
}

bool weir__decide_is_unreset(const struct weir__decide *decide, enum weir__error_number *ret_error)
{
	const struct weir__store_request *const store_request = &decide->request.store_request;

	if (decide->operation != WEIR__STORE_RESET || weir__store_fallback_nodes(store_request) == 0)
		return false;
	*ret_error = store_request->is_uncertain ? WEIR__ERROR_UNRESET_PERHAPS : WEIR__ERROR_UNRESET;
	return true;
}

static void decide_moved(struct weir__request *request)
{
	struct weir__decide *const decide = (struct weir__decide *)(void *)request;

	if (decide->operation == WEIR__STORE_REFUND || decide->operation == WEIR__STORE_RESET)
		know_who(decide);
}

static const struct weir__request_kind decide_kind = { .advance = advance_decide, .moved = decide_moved };

void weir__decide_init(struct weir__decide *decide, struct weir__context *context, struct weir__client *client,
		       enum weir__protocol protocol, void (*write)(struct weir__request *request, void *to))
{
	weir__request_init(&decide->request, offsetof(struct weir__decide, claims), &decide_kind, context, client);
	decide->request.write = write;
	decide->protocol = protocol;
}

enum weir__run_result weir__decide_run(struct weir__decide *decide, enum weir__store_operation operation,
				       const struct weir_claim *claims, size_t n)
{
	memcpy(decide->claims, claims, n * sizeof(*claims));
	decide->operation = operation;
	decide->request.claims = decide->claims;
	decide->request.verdicts = decide->verdicts;
	decide->request.n_claims = (uint32_t)n;
	return weir__request_run(&decide->request) ? WEIR__RUN_DONE : WEIR__RUN_LATER;
}

/* --- checks by the policy ---------------------------------------------------------------------------------------- */

/* The tracer joins all claims of a request into one span. A request that has not moved was opened earlier, with its
 * attributes. */
static void open_whole(struct weir__request *request)
{
	if (!request->has_moved)
		return;
	weir__request_swap_trace_context(request);
	weir__tracer_open(request->context->tracer, NULL, 0);
}

static void close_whole(struct weir__request *request, const struct weir_guard_answer *answer)
{
	weir__tracer_close(request->context->tracer, answer);
	if (request->has_moved)
		weir__request_swap_trace_context(request);
}

static void observe_check(struct weir__check *check)
{
	struct weir__request *const request = &check->request;
	struct weir__limit_stats *const stats = request->context->stats;
	const bool is_heard = request->context->tracer != NULL;
	const uint32_t n_enforced = check->check.n_enforced;
	weir_ns now;

	if (stats == NULL)
		return;
	now = weir__request_decided_at(request);
	if (WEIR__UNLIKELY(is_heard))
		open_whole(request);
	if (WEIR__LIKELY(n_enforced > 0))
		weir__limit_stats_together(stats, request->claims, request->verdicts, n_enforced, false, now);
	else
		weir__limit_stats_without_limit(stats, check->check.answer.verdict.allowed, now);
	if (weir__guard_check_takes_shadows(&check->check))
		for (uint32_t i = n_enforced; i < check->check.n; i++)
			weir__limit_stats_together(stats, &request->claims[i], &request->verdicts[i], 1, true, now);
	if (WEIR__UNLIKELY(is_heard))
		close_whole(request, &check->check.answer);
}

/* Verdicts of limits in shadow do not change the reply. */
static void note_closed(struct weir__check *check)
{
	check->is_closed |= check->request.store_request.is_closed && !check->request.store_request.is_each;
}

static void note_unmatched(const struct weir__check *check)
{
	const struct weir__request *const request = &check->request;
	const struct weir__recorder_attributes attributes = { .at = check->check.attributes,
							      .n = check->check.n_attributes,
							      .cost = check->check.cost };
	const bool is_denied = !check->check.answer.verdict.allowed;

	weir__unmatched_note(request, attributes.at, attributes.n, is_denied);
	if (WEIR__UNLIKELY(weir__recorder_is_on(request->context->recorder)))
		weir__recorder_unmatched(request->context->recorder, attributes, is_denied, request->store_request.now);
}

/* Returns WEIR_OK or the guard's error. *ret_is_done is false if the request waits for the store. */
static int go_on_with_check(struct weir__check *check, bool *ret_is_done, struct weir_message *ret_why)
{
	struct weir__request *const request = &check->request;
	int error;

	*ret_is_done = true;
	while (weir__guard_check_next(&check->check, check->match, request->claims, request->verdicts,
				      &request->store_request, &error, ret_why)) {
		request->n_claims = check->check.n;
		if (!weir__request_submit(request)) {
			*ret_is_done = false;
			return WEIR_OK;
		}
		note_closed(check);
	}
	if (error == WEIR_OK) {
		time_decision(request);
		observe_check(check);
		if (WEIR__UNLIKELY(check->check.answer.is_unmatched))
			note_unmatched(check);
	}
	return error;
}

/* A check that has moved cannot fail with an error any more. */
static bool advance_check(struct weir__request *request)
{
	struct weir__check *const check = (struct weir__check *)(void *)request;
	bool is_done;

	note_closed(check);
	(void)go_on_with_check(check, &is_done, NULL);
	return is_done;
}

static void check_moved(struct weir__request *request)
{
	struct weir__check *const check = (struct weir__check *)(void *)request;

	weir__guard_check_kept(&check->check);
	check->match = NULL;
}

/* The first call of the store has them. */
static struct weir__recorder_attributes check_attributes(const struct weir__request *request)
{
	const struct weir__check *const check = (const struct weir__check *)(const void *)request;
	const bool is_shadow = weir__guard_check_is_shadowing(&check->check);
	const bool is_first = !check->check.is_kept && (!is_shadow || request->store_request.claims == request->claims);

	return (struct weir__recorder_attributes){ .at = check->check.attributes,
						   .n = is_first ? check->check.n_attributes : 0,
						   .cost = check->check.cost,
						   .is_shadow = is_shadow };
}

const struct weir__request_kind weir__check_kind = { .advance = advance_check,
						     .moved = check_moved,
						     .attributes = check_attributes };

enum weir__run_result weir__check_run(struct weir__check *check, struct weir_guard *guard,
				      const struct weir_attribute *attributes, size_t n, uint64_t cost,
				      struct weir_message *ret_why)
{
	struct weir__context *const context = check->request.context;
	struct weir_verdict verdicts[WEIR_POLICY_CLAIMS_MAX] WEIR__UNINITIALIZED;
	struct weir_claim claims[WEIR_POLICY_CLAIMS_MAX] WEIR__UNINITIALIZED;
	struct weir__guard_match match WEIR__UNINITIALIZED;
	struct weir__guard_prefix prefix;
	bool is_done = true;
	int error;

	check->match = &match;
	check->request.claims = claims;
	check->request.verdicts = verdicts;
	check->request.store_request.now = weir_table_now(context->table);
	if (WEIR__UNLIKELY(check->request.client && check->request.client->peer))
		attributes = weir__context_with_peer(context, check->request.client, attributes, &n);
	if (WEIR__UNLIKELY(context->tracer != NULL))
		weir__tracer_open(context->tracer, attributes, n);
	error = weir__guard_check_begin(
		&check->check, guard, &match, attributes, n, cost,
		WEIR__UNLIKELY(weir__limit_ref_prefix(context, check->request.client, &prefix)) ? &prefix : NULL,
		claims, ret_why);
	if (error == WEIR_OK)
		error = go_on_with_check(check, &is_done, ret_why);
	if (error != WEIR_OK || !is_done)
		weir__tracer_close(context->tracer, NULL);
	if (error != WEIR_OK)
		return WEIR__RUN_REFUSED;
	return is_done ? WEIR__RUN_DONE : WEIR__RUN_LATER;
}

/* --- descriptors ------------------------------------------------------------------------------------------------- */

struct observing {
	struct weir__limit_stats *stats;
	weir_ns now;
};

static void observe_claims(void *observing_, const struct weir_claim *claims, const struct weir_verdict *verdicts,
			   size_t n, bool is_shadow)
{
	const struct observing *const observing = observing_;

	weir__limit_stats_together(observing->stats, claims, verdicts, n, is_shadow, observing->now);
}

static int go_on_with_descriptors(struct weir__descriptors_check *check, bool *ret_is_done,
				  struct weir_message *ret_why)
{
	struct weir__request *const request = &check->request;
	const struct weir__guard_descriptors_room room = { check->matched,  request->claims, request->verdicts,
							   check->statuses, check->prefix,   weir__give_limit,
							   check->giver };
	struct observing observing = { request->context->stats, 0 };
	int error;

	*ret_is_done = true;
	while (weir__guard_descriptors_next(&check->check, &room, &request->store_request, &error, ret_why)) {
		request->n_claims = check->check.n_claims;
		if (WEIR__UNLIKELY(request->has_moved) && request->client == NULL &&
		    weir__guard_descriptors_cancel(&check->check, &request->store_request))
			return WEIR_OK;
		if (!weir__request_submit(request)) {
			*ret_is_done = false;
			return WEIR_OK;
		}
	}
	if (error == WEIR_OK && observing.stats) {
		time_decision(request);
		observing.now = weir__request_decided_at(request);
		open_whole(request);
		weir__guard_descriptors_tell(&check->check, &room, observe_claims, &observing);
		close_whole(request, &check->check.answer);
	}
	return error;
}

static bool advance_descriptors(struct weir__request *request)
{
	bool is_done;

	(void)go_on_with_descriptors((struct weir__descriptors_check *)(void *)request, &is_done, NULL);
	return is_done;
}

static void descriptors_moved(struct weir__request *request)
{
	struct weir__descriptors_check *const check = (struct weir__descriptors_check *)(void *)request;

	weir__guard_descriptors_kept(&check->check);
	check->matched = NULL;
	check->prefix = NULL;
	check->giver = NULL;
}

static const struct weir__request_kind descriptors_kind = { .advance = advance_descriptors,
							    .moved = descriptors_moved };

void weir__descriptors_init(struct weir__descriptors_check *check, struct weir__context *context,
			    struct weir__client *client, void (*write)(struct weir__request *request, void *to))
{
	weir__request_init(&check->request, sizeof(*check), &descriptors_kind, context, client);
	check->request.write = write;
}

enum weir__run_result weir__descriptors_run(struct weir__descriptors_check *check, struct weir_guard *guard,
					    const struct weir__descriptors *descriptors, struct weir_message *ret_why)
{
	struct weir__context *const context = check->request.context;
	struct weir_verdict verdicts[WEIR_DESCRIPTORS_MAX] WEIR__UNINITIALIZED;
	struct weir_claim claims[WEIR_DESCRIPTORS_MAX] WEIR__UNINITIALIZED;
	struct weir_descriptors_answer matched WEIR__UNINITIALIZED;
	struct weir_table_limit made[WEIR__GIVEN_MAX] WEIR__UNINITIALIZED;
	struct weir__guard_prefix prefix;
	struct weir__giver giver = { context, made };
	const struct weir__guard_descriptors_room room = {
		&matched,
		claims,
		verdicts,
		check->statuses,
		weir__limit_ref_prefix(context, check->request.client, &prefix) ? &prefix : NULL,
		weir__give_limit,
		&giver
	};
	bool is_done = true;
	int error;

	check->matched = &matched;
	check->prefix = room.prefix;
	check->giver = &giver;
	check->request.claims = claims;
	check->request.verdicts = verdicts;
	check->request.store_request.now = weir_table_now(context->table);
	check->request.size = (uint32_t)(offsetof(struct weir__descriptors_check, statuses) +
					 weir__min(descriptors->n, WEIR_DESCRIPTORS_MAX) * sizeof(check->statuses[0]));
	weir__tracer_open(context->tracer, NULL, 0);
	error = weir__guard_descriptors_begin(&check->check, guard, descriptors->domain, descriptors->domain_length,
					      descriptors->at, descriptors->n, descriptors->hits, &room, ret_why);
	if (error == WEIR_OK)
		error = go_on_with_descriptors(check, &is_done, ret_why);
	if (error != WEIR_OK || !is_done)
		weir__tracer_close(context->tracer, NULL);
	if (error != WEIR_OK)
		return WEIR__RUN_REFUSED;
	return is_done ? WEIR__RUN_DONE : WEIR__RUN_LATER;
}

uint64_t weir__descriptors_reset_s(const struct weir__descriptors_check *check, size_t descriptor)
{
	const struct weir_guard_status *const status = &check->statuses[descriptor];
	const weir_ns period = status->claim.limit.period, second = 1000000000;
	const weir_ns left = status->verdict.reset_after > 0 ?
				     status->verdict.reset_after :
				     period - weir__request_decided_at(&check->request) % period;

	return left / second + (left % second != 0);
}

/* --- explaining -------------------------------------------------------------------------------------------------- */

static bool advance_look(struct weir__request *request)
{
	struct weir__look *const look = (struct weir__look *)(void *)request;

	while (weir__guard_look_next(&look->look, request->claims, request->verdicts, &request->store_request))
		if (!weir__request_submit(request))
			return false;
	return true;
}

/* Discards the views of a look that is freed without being reported. Ending the look leaves the policy's epoch. */
static void tell_nobody(void *context, const struct weir__guard_view *view)
{
	(void)context;
	(void)view;
}

static void look_fini(struct weir__request *request)
{
	struct weir__look *const look = (struct weir__look *)(void *)request;

	if (look->look.bound)
		weir__look_tell(look, tell_nobody, NULL);
}

static const struct weir__request_kind look_kind = { .advance = advance_look, .fini = look_fini };

void weir__look_init(struct weir__look *look, struct weir__context *context, struct weir__client *client,
		     void (*write)(struct weir__request *request, void *to))
{
	weir__request_init(&look->request, offsetof(struct weir__look, claims), &look_kind, context, client);
	look->request.write = write;
}

enum weir__run_result weir__look_run(struct weir__look *look, struct weir_guard *guard,
				     const struct weir_attribute *attributes, size_t n, uint64_t cost,
				     const struct weir__guard_chosen *chosen, struct weir_message *ret_why)
{
	look->request.claims = look->claims;
	look->request.verdicts = look->verdicts;
	look->request.store_request.now = weir_table_now(look->request.context->table);
	if (weir__guard_look_begin(&look->look, guard, &look->matched, attributes, n, cost, chosen, look->claims,
				   ret_why) != WEIR_OK)
		return WEIR__RUN_REFUSED;
	look->request.n_claims = look->look.n;
	return weir__request_run(&look->request) ? WEIR__RUN_DONE : WEIR__RUN_LATER;
}

void weir__look_tell(struct weir__look *look, void (*tell)(void *context, const struct weir__guard_view *view),
		     void *context)
{
	weir__guard_look_tell(&look->look, look->request.claims, look->request.verdicts, tell, context);
}

/* --- holds ------------------------------------------------------------------------------------------------------- */

enum { TRIES_MOST = 1000 };

/* `other` is the error for WEIR__HOLD_OTHER. */
static enum weir__run_result refuse_hold(enum weir__hold_result result, enum weir__error_number other,
					 struct weir__refusal *ret_refusal)
{
	static const enum weir__error_number errors[] = { [WEIR__HOLD_FULL] = WEIR__ERROR_HOLD_FULL,
							  [WEIR__HOLD_BUSY] = WEIR__ERROR_HOLD_BUSY,
							  [WEIR__HOLD_UNKNOWN] = WEIR__ERROR_HOLD_UNKNOWN };

	(void)weir__refusal_set(ret_refusal, result == WEIR__HOLD_OTHER ? other : errors[result], "");
	return WEIR__RUN_REFUSED;
}

/* With a store that completes at once, a hold is busy only for a moment, so retrying is worthwhile. */
static bool is_worth_another_try(const struct weir__context *context, enum weir__hold_result result, int tries)
{
	if (result != WEIR__HOLD_BUSY || context->store->table == NULL || tries >= TRIES_MOST)
		return false;
	weir__yield();
	return true;
}

static bool advance_hold(struct weir__request *request)
{
	struct weir__hold_take *const take = (struct weir__hold_take *)(void *)request;

	if (request->stage == 0 && !ask(request, WEIR__STORE_TAKE, false))
		return false;
	take->verdict = request->verdicts[0];
	take->is_closed = request->store_request.is_closed;
	weir__holds_took(request->context->holds, take->hold, &request->store_request);
	observe_each(request);
	return true;
}

static const struct weir__request_kind hold_kind = { .advance = advance_hold };

void weir__hold_take_init(struct weir__hold_take *take, struct weir__context *context, struct weir__client *client,
			  void (*write)(struct weir__request *request, void *to))
{
	weir__request_init(&take->request, offsetof(struct weir__hold_take, claim), &hold_kind, context, client);
	take->request.write = write;
	take->request.claims = &take->claim;
	take->request.verdicts = &take->of_claim;
	take->request.n_claims = 1;
	take->is_closed = false;
}

/* Finds the named limit, or the inline limit. */
static bool find_limit(struct weir__context *context, const struct weir_table_limit *named,
		       const struct weir_limit *store_request, const struct weir_table_limit **ret_limit,
		       struct weir__refusal *ret_refusal)
{
	*ret_limit = named;
	ret_refusal->error = WEIR__ERROR_LIMIT;
	return named || weir__inline_limits_find(&context->limits, WEIR__SPACE_TEXT, store_request, ret_limit,
						 &ret_refusal->why) == WEIR_OK;
}

/* The id of a hold, with the prefix of the user in front. */
static const void *write_id(const struct weir__user *user, const void *id, size_t length, char room[WEIR__HOLD_ID_ROOM],
			    size_t *ret_length)
{
	*ret_length = length;
	if (user == NULL || user->prefix_length == 0 || length > WEIR__HOLD_ID_MAX)
		return id;
	memcpy(room, user->key_prefix, user->prefix_length);
	memcpy(room + user->prefix_length, id, length);
	*ret_length = user->prefix_length + length;
	return room;
}

enum weir__run_result weir__hold_take_run(struct weir__hold_take *take, const struct weir__hold_request *request,
					  struct weir__refusal *ret_refusal)
{
	struct weir__context *const context = take->request.context;
	const struct weir__user *const user = take->request.client->user;
	struct weir__hold_request owned = *request;
	char id[WEIR__HOLD_ID_ROOM];
	const struct weir_table_limit *limit;
	enum weir__hold_result result = WEIR__HOLD_FULL;
	int tries = 0;

	if (!find_limit(context, request->named, request->stated, &limit, ret_refusal))
		return WEIR__RUN_REFUSED;
	owned.owner = user ? user->name : NULL;
	owned.id = write_id(user, request->id, request->id_length, id, &owned.id_length);
	take->claim = (struct weir_claim){ limit, request->key, request->key_length, request->cost };
	do {
		if (context->holds)
			result = weir__holds_take(context->holds, &owned, weir_table_now(context->table), &take->hold,
						  &take->verdict);
	} while (is_worth_another_try(context, result, tries++));
	if (result == WEIR__HOLD_REPEATED)
		return WEIR__RUN_DONE;
	if (result != WEIR__HOLD_BEGUN)
		return refuse_hold(result, WEIR__ERROR_HOLD_OTHER, ret_refusal);
	return weir__request_run(&take->request) ? WEIR__RUN_DONE : WEIR__RUN_LATER;
}

static bool advance_settle(struct weir__request *request)
{
	struct weir__hold_settle *const settle = (struct weir__hold_settle *)(void *)request;

	if (request->stage == 0) {
		request->store_request.charged_at = settle->question.charged_at;
		request->store_request.charged_cost = settle->question.charged_cost;
		request->store_request.charged_nodes = settle->question.charged_nodes;
		if (!ask(request, settle->question.operation, false))
			return false;
	}
	weir__holds_settled(request->context->holds, settle->hold, &settle->question, settle->actual,
			    &request->verdicts[0], &settle->settlement);
	return true;
}

static const struct weir__request_kind settle_kind = { .advance = advance_settle };

void weir__hold_settle_init(struct weir__hold_settle *settle, struct weir__context *context,
			    struct weir__client *client, void (*write)(struct weir__request *request, void *to))
{
	weir__request_init(&settle->request, offsetof(struct weir__hold_settle, claim), &settle_kind, context, client);
	settle->request.write = write;
	settle->request.claims = &settle->claim;
	settle->request.verdicts = &settle->of_claim;
	settle->request.n_claims = 1;
}

enum weir__run_result weir__hold_settle_run(struct weir__hold_settle *settle, const void *id, size_t id_length,
					    uint64_t actual, struct weir__refusal *ret_refusal)
{
	struct weir__context *const context = settle->request.context;
	const struct weir__user *const user = settle->request.client->user;
	/* A user who may refund may settle any hold, since settling gives back no more than a refund. */
	const char *const owner = user && !weir__user_may(user, WEIR__OP_REFUND) ? user->name : NULL;
	struct weir__hold_store_call *const question = &settle->question;
	enum weir__hold_result result = WEIR__HOLD_UNKNOWN;
	char room[WEIR__HOLD_ID_ROOM];
	const struct weir_table_limit *limit;
	int tries = 0;

	id = write_id(user, id, id_length, room, &id_length);
	do {
		if (context->holds)
			result = weir__holds_settle(context->holds, owner, id, id_length, actual,
						    weir_table_now(context->table), &settle->hold, question,
						    &settle->settlement);
	} while (is_worth_another_try(context, result, tries++));
	if (result == WEIR__HOLD_ANSWERED)
		return WEIR__RUN_DONE;
	if (result != WEIR__HOLD_BEGUN)
		return refuse_hold(result, WEIR__ERROR_HOLD_SETTLED, ret_refusal);
	if (!find_limit(context, question->named, &question->stated, &limit, ret_refusal)) {
		weir__holds_settle_not(context->holds, settle->hold);
		return WEIR__RUN_REFUSED;
	}
	settle->actual = actual;
	settle->claim = (struct weir_claim){ limit, question->key, question->key_length, question->cost };
	return weir__request_run(&settle->request) ? WEIR__RUN_DONE : WEIR__RUN_LATER;
}

/* --- waiting ----------------------------------------------------------------------------------------------------- */

static void count_waiting(const struct weir__context *context, int64_t n)
{
	if (context->counters)
		weir__counters_add(&context->counters->waiting, n);
}

/* Adds a finished wait to the statistics. */
static void note_waited(struct weir__context *context, const struct weir__wait_outcome *outcome, uint32_t n)
{
	struct weir__limit_stats *const stats = context->stats;
	bool is_delayed = false;

	count_waiting(context, -1);
	if (stats == NULL)
		return;
	weir__limit_stats_histogram_add(&stats->histograms[WEIR__DURATION_WAIT], outcome->waited, 1);
	for (uint32_t i = 0; i < n; i++)
		is_delayed = is_delayed || outcome->verdicts[i].delay > 0;
	stats->throttled += outcome->verdict.allowed && !is_delayed; /* others count by their verdicts */
}

static enum weir__run_result refuse_wait(const struct weir__context *context, struct weir__refusal *ret_refusal)
{
	if (context->counters)
		weir__counters_add(&context->counters->waits_refused, 1);
	(void)weir__refusal_set(ret_refusal, WEIR__ERROR_WAITERS, "");
	return WEIR__RUN_REFUSED;
}

/* --- takes that wait --------------------------------------------------------------------------------------------- */

static void take_wait(struct weir__wait *wait, const struct weir__wait_outcome *outcome)
{
	struct weir__request *const request = &wait->request;

	wait->waiter = NULL;
	wait->verdict = outcome->verdict;
	wait->decided_by = outcome->decided_by;
	wait->is_closed = outcome->is_closed;
	wait->waited = outcome->waited;
	memcpy(request->verdicts, outcome->verdicts, request->n_claims * sizeof(request->verdicts[0]));
	if (request->n_claims > 1)
		observe_together(request);
	else
		observe_each(request);
}

static bool cancel_wait(struct weir__request *request)
{
	struct weir__wait *const wait = (struct weir__wait *)(void *)request;
	struct weir__wait_outcome outcome;

	weir__waiting_give_up(wait->waiter, weir_table_now(request->context->table), &outcome);
	note_waited(request->context, &outcome, request->n_claims);
	take_wait(wait, &outcome);
	return true;
}

static const struct weir__request_kind wait_kind = { .cancel = cancel_wait };

void weir__wait_init(struct weir__wait *wait, struct weir__context *context, struct weir__client *client,
		     void (*write)(struct weir__request *request, void *to))
{
	weir__request_init(&wait->request, offsetof(struct weir__wait, claims), &wait_kind, context, client);
	wait->request.is_barrier = true;
	wait->request.write = write;
	wait->request.claims = wait->claims;
	wait->request.verdicts = wait->verdicts;
	wait->waiter = NULL;
}

enum weir__run_result weir__wait_run(struct weir__wait *wait, const struct weir_claim *claims, size_t n,
				     weir_ns patience, struct weir__refusal *ret_refusal)
{
	struct weir__request *const request = &wait->request;
	struct weir__context *const context = request->context;
	const struct weir__wait_request asked = { claims, (uint32_t)n, patience, wait, false, { .n = 0 } };
	const weir_ns now = weir_table_now(context->table);
	enum weir__wait_result result = WEIR__WAIT_FULL;
	struct weir__wait_outcome outcome;
	struct weir__wait *moved;

	memcpy(wait->claims, claims, n * sizeof(*claims));
	request->n_claims = (uint32_t)n;
	request->store_request.now = now;
	if (context->waiting)
		result = weir__waiting_begin(context->waiting, &asked, now, &outcome, &wait->waiter);
	if (result == WEIR__WAIT_OVER) {
		take_wait(wait, &outcome);
		return WEIR__RUN_DONE;
	}
	moved = result == WEIR__WAIT_BEGUN ? (struct weir__wait *)(void *)weir__request_move(request) : NULL;
	if (moved) {
		weir__waiting_set_owner(moved->waiter, moved);
		count_waiting(context, 1);
		return WEIR__RUN_LATER;
	}
	if (result == WEIR__WAIT_BEGUN)
		weir__waiting_give_up(wait->waiter, now, &outcome);
	return refuse_wait(context, ret_refusal);
}

/* --- checks that wait -------------------------------------------------------------------------------------------- */

static void take_check_wait(struct weir__check_wait *wait, const struct weir__wait_outcome *outcome)
{
	struct weir__check *const check = &wait->check;
	struct weir__request *const request = &check->request;

	wait->waiter = NULL;
	wait->waited = outcome->waited;
	check->is_closed = outcome->is_closed;
	memcpy(request->verdicts, outcome->verdicts, check->check.n_enforced * sizeof(request->verdicts[0]));
	weir__guard_check_decided(&check->check, request->claims, outcome->decided_by, &outcome->verdict);
}

/* After the wait, the store may still be deciding limits in shadow. Then the store completes the check. */
static bool cancel_check_wait(struct weir__request *request)
{
	struct weir__check_wait *const wait = (struct weir__check_wait *)(void *)request;
	struct weir__wait_outcome outcome;

	if (wait->waiter == NULL)
		return false;
	weir__waiting_give_up(wait->waiter, weir_table_now(request->context->table), &outcome);
	note_waited(request->context, &outcome, wait->check.check.n_enforced);
	take_check_wait(wait, &outcome);
	observe_check(&wait->check);
	weir__guard_check_abandon(&wait->check.check);
	return true;
}

static const struct weir__request_kind check_wait_kind = {
	.advance = advance_check, .moved = check_moved, .cancel = cancel_check_wait, .attributes = check_attributes
};

void weir__check_wait_init(struct weir__check_wait *wait, struct weir__context *context, struct weir__client *client,
			   void (*write)(struct weir__request *request, void *to))
{
	weir__check_init(&wait->check, context, client, write);
	wait->check.request.kind = &check_wait_kind;
	wait->check.request.size = sizeof(*wait);
	wait->waiter = NULL;
	wait->may_wait = false;
	wait->waited = 0;
}

/* Waits by a copy of the check, which holds the policy. The policy may change meanwhile. */
static enum weir__run_result leave_waiting(struct weir__check_wait *wait, struct weir__refusal *ret_refusal)
{
	struct weir__request *const request = &wait->check.request;
	struct weir__wait_outcome outcome;
	struct weir__check_wait *moved;

	weir__guard_check_hold(&wait->check.check);
	request->is_barrier = true;
	moved = (struct weir__check_wait *)(void *)weir__request_move(request);
	if (moved) {
		weir__waiting_set_owner(moved->waiter, moved);
		count_waiting(request->context, 1);
		return WEIR__RUN_LATER;
	}
	weir__waiting_give_up(wait->waiter, request->store_request.now, &outcome);
	weir__guard_check_abandon(&wait->check.check);
	return refuse_wait(request->context, ret_refusal);
}

static enum weir__run_result begin_check_wait(struct weir__check_wait *wait, weir_ns patience,
					      struct weir__refusal *ret_refusal)
{
	struct weir__check *const check = &wait->check;
	struct weir__request *const request = &check->request;
	struct weir__context *const context = request->context;
	const struct weir__wait_request asked = {
		request->claims, check->check.n_enforced, patience, wait, true, check_attributes(request)
	};
	struct weir__wait_outcome outcome;
	bool is_done;

	request->n_claims = check->check.n;
	switch (context->waiting ? weir__waiting_begin(context->waiting, &asked, request->store_request.now, &outcome,
						       &wait->waiter) :
				   WEIR__WAIT_FULL) {
	case WEIR__WAIT_BEGUN:
		return leave_waiting(wait, ret_refusal);
	case WEIR__WAIT_OVER:
		take_check_wait(wait, &outcome);
		(void)go_on_with_check(check, &is_done, &ret_refusal->why); /* decided: it can no longer fail */
		return is_done ? WEIR__RUN_DONE : WEIR__RUN_LATER;
	default:
		weir__guard_check_abandon(&check->check);
		return refuse_wait(context, ret_refusal);
	}
}

enum weir__run_result weir__check_wait_run(struct weir__check_wait *wait, struct weir_guard *guard,
					   const struct weir_attribute *attributes, size_t n, uint64_t cost,
					   const weir_ns *patience, struct weir__refusal *ret_refusal)
{
	struct weir__check *const check = &wait->check;
	struct weir__context *const context = check->request.context;
	struct weir_verdict verdicts[WEIR_POLICY_CLAIMS_MAX] WEIR__UNINITIALIZED;
	struct weir_claim claims[WEIR_POLICY_CLAIMS_MAX] WEIR__UNINITIALIZED;
	struct weir__guard_match match WEIR__UNINITIALIZED;
	enum weir__run_result result = WEIR__RUN_REFUSED;
	weir_ns longest = patience ? *patience : 0;
	struct weir__guard_prefix prefix;
	bool is_done = true;

	ret_refusal->error = WEIR__ERROR_LIMIT;
	check->match = &match;
	check->request.claims = claims;
	check->request.verdicts = verdicts;
	check->request.store_request.now = weir_table_now(context->table);
	attributes = weir__context_with_peer(context, check->request.client, attributes, &n);
	weir__tracer_open(context->tracer, attributes, n);
	if (weir__guard_check_begin(&check->check, guard, &match, attributes, n, cost,
				    weir__limit_ref_prefix(context, check->request.client, &prefix) ? &prefix : NULL,
				    claims, &ret_refusal->why) == WEIR_OK) {
		wait->may_wait = patience || weir__guard_check_patience(&check->check, claims, &longest);
		if (wait->may_wait && check->check.n_enforced > 0)
			result = begin_check_wait(wait, longest, ret_refusal);
		else if (go_on_with_check(check, &is_done, &ret_refusal->why) == WEIR_OK)
			result = is_done ? WEIR__RUN_DONE : WEIR__RUN_LATER;
	}
	if (result != WEIR__RUN_DONE)
		weir__tracer_close(context->tracer, NULL);
	return result;
}

/* --- the end of waits -------------------------------------------------------------------------------------------- */

/* NULL: the request is not a wait, or its wait is over. */
static struct weir__waiter *waiter_of(const struct weir__request *request)
{
	if (request->kind == &wait_kind)
		return ((const struct weir__wait *)(const void *)request)->waiter;
	return request->kind == &check_wait_kind ? ((const struct weir__check_wait *)(const void *)request)->waiter :
						   NULL;
}

void weir__wait_over(void *request_, const struct weir__wait_outcome *outcome)
{
	struct weir__request *const request = request_;
	bool is_done = true;

	if (request->kind == &wait_kind) {
		note_waited(request->context, outcome, request->n_claims);
		take_wait((struct weir__wait *)(void *)request, outcome);
	} else {
		struct weir__check_wait *const wait = (struct weir__check_wait *)(void *)request;

		note_waited(request->context, outcome, wait->check.check.n_enforced);
		take_check_wait(wait, outcome);
		(void)go_on_with_check(&wait->check, &is_done, NULL);
	}
	if (is_done)
		weir__request_finish(request);
}

/* The client's connection now has to notice if the client leaves. */
void weir__wait_goes_on(void *request_)
{
	const struct weir__request *const request = request_;

	if (request == request->client->first && request->context->ready)
		request->context->ready(request->context->worker, request->client);
}

bool weir__wait_is_under_way(const struct weir__request *request)
{
	const struct weir__waiter *const waiter = waiter_of(request);

	if (waiter)
		return weir__waiting_is_under_way(waiter);
	return request->kind == &check_wait_kind && !request->is_done;
}

void weir__waits_end(struct weir__context *context)
{
	if (weir__waiting_n(context->waiting) > 0)
		weir__waiting_do_due(context->waiting, weir_table_now(context->table));
}

/* A wait whose store call is under way ends when the store replies, since no wait continues after this call. */
void weir__waits_deny(struct weir__context *context, struct weir__client *client)
{
	for (struct weir__request *request = client->first, *next; request; request = next) {
		struct weir__waiter *const waiter = waiter_of(request);
		struct weir__wait_outcome outcome;

		next = request->next;
		if (waiter == NULL || weir__waiting_is_under_way(waiter))
			continue;
		weir__waiting_give_up(waiter, weir_table_now(context->table), &outcome);
		weir__wait_over(request, &outcome);
	}
}
