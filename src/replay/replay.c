/* replay.c: decides by a guard on a table of its own, in batches. First it matches all requests of a batch, which
 * prefetches the slots of their keys. Then it decides them in order. */
#include "replay/replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/text.h"
#include "core/uninitialized.h"
#include "guard/guard_check.h"
#include "policy/policy.h"
#include "store/store.h"

enum { KEYS = 4000000 };

/* A request of the batch. */
struct request {
	struct weir__guard_check check;
	struct weir__guard_match match;
	struct weir_claim claims[WEIR_POLICY_CLAIMS_MAX];
	struct weir_verdict verdicts[WEIR_POLICY_CLAIMS_MAX];
	struct weir_message message;
};

struct weir__replay {
	struct weir_table *table;
	struct weir_guard *guard;
	const struct weir_policy *policy;
	/* For each attribute that the guard gets: its name, and which value of a record it is. */
	size_t n;
	struct weir_attribute attributes[WEIR__LOG_VALUES_MAX];
	uint8_t values[WEIR__LOG_VALUES_MAX];
	struct request requests[WEIR__REPLAY_BATCH];
};

size_t weir__replay_names(const struct weir_policy *policy, struct weir__slice *ret_names)
{
	size_t n = 0;

	for (unsigned i = 0; i < policy->attributes.n && n < WEIR__LOG_VALUES_MAX; i++)
		if (policy->used & UINT32_C(1) << i)
			ret_names[n++] = policy->attributes.of[i].name;
	return n;
}

/* --- making it --------------------------------------------------------------------------------------------------- */

/* The arena for the limit that needs the most, if all of these keys use all of it. */
static size_t arena_for(const struct weir_policy *policy, uint64_t keys)
{
	const size_t most = (size_t)4 << 30;
	size_t largest = 0;

	for (uint32_t i = 0; i < policy->n_plans; i++) {
		const struct weir_policy_plan *const plan = &policy->plans[i];
		const bool is_keyed = weir__policy_limit_of_plan(policy, i)->n_parts > 0;
		size_t size;

		if (plan->is_local || plan->is_unlimited || plan->is_closed)
			continue;
		size = weir_table_arena_size(&plan->limit, is_keyed ? keys : 1, 0);
		if (size > largest)
			largest = size;
	}
	return largest < most ? largest : most;
}

static int make_table(struct weir__replay *replay, const struct weir_policy *policy,
		      const struct weir__replay_options *options, struct weir_message *ret_message)
{
	const uint64_t keys = options->keys ? options->keys : KEYS;
	const uint32_t limits_max = policy->n_plans > 64 ? policy->n_plans : 64;
	/* Few keys use all of a sliding log, so the arena has room for a tenth of them. */
	const size_t arena = arena_for(policy, keys / 10 + 1);
	const struct weir_table_options table = { .size_bytes = weir_table_size(keys, limits_max) + arena,
						  .limits_max = limits_max,
						  .arena_bytes = arena,
						  .made_at = options->begins ? options->begins : 1 };

	return weir_table_new(&table, &replay->table, ret_message);
}

/* Chooses the values that the policy uses. */
static void choose_attributes(struct weir__replay *replay, const struct weir__replay_options *options)
{
	for (size_t i = 0; i < options->n_names && i < WEIR__LOG_VALUES_MAX; i++) {
		const int attribute = weir__attributes_find(&replay->policy->attributes, options->names[i]);

		if (attribute < 0 || !(replay->policy->used & UINT32_C(1) << attribute))
			continue;
		replay->values[replay->n] = (uint8_t)i;
		replay->attributes[replay->n++] = (struct weir_attribute){ .name = options->names[i].at,
									   .name_length = options->names[i].n };
	}
}

int weir__replay_new(struct weir_policy *policy, const struct weir__replay_options *options,
		     struct weir__replay **ret_replay, struct weir_message *ret_message)
{
	struct weir__replay *replay;
	int error;

	if (policy->envoy) {
		struct weir__text why = weir__text_of_message(ret_message, 0);

		weir__text_add(
			&why, "a policy in Envoy's format decides descriptors, which a log does not have; use a policy "
			      "in Weir's own format");
		weir_policy_free(policy);
		return WEIR_ERR_UNSUPPORTED;
	}
	replay = aligned_alloc(64, (sizeof(*replay) + 63) / 64 * 64);
	if (replay == NULL) {
		weir_policy_free(policy);
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	memset(replay, 0, sizeof(*replay));
	replay->policy = policy;
	choose_attributes(replay, options);
	error = make_table(replay, policy, options, ret_message);
	if (error != WEIR_OK)
		weir_policy_free(policy);
	else
		error = weir_guard_new(replay->table, policy, &replay->guard, ret_message);
	if (error != WEIR_OK) {
		weir__replay_free(replay);
		return error;
	}
	*ret_replay = replay;
	return WEIR_OK;
}

void weir__replay_free(struct weir__replay *replay)
{
	if (replay == NULL)
		return;
	weir_guard_free(replay->guard);
	weir_table_free(replay->table);
	free(replay);
}

/* --- deciding ---------------------------------------------------------------------------------------------------- */

/* Matches a request and prefetches the slots of its keys. */
static bool begin(struct weir__replay *replay, struct request *request, const struct weir__log_record *record)
{
	struct weir_attribute attributes[WEIR__LOG_VALUES_MAX] WEIR__UNINITIALIZED;
	size_t n = 0;
	int error;

	for (size_t i = 0; i < replay->n; i++) {
		const struct weir__slice value = record->values[replay->values[i]];

		if (value.at == NULL)
			continue;
		attributes[n] = replay->attributes[i];
		attributes[n].value = value.at;
		attributes[n++].value_length = value.n;
	}
	error = weir__guard_check_begin(&request->check, replay->guard, &request->match, attributes, n, record->cost,
					NULL, request->claims, &request->message);
	weir__guard_check_kept(&request->check);
	return error == WEIR_OK;
}

/* For keys that are not in their first cache line, which has arrived by now: prefetches the other slots that may have
 * them. */
static void fetch(const struct weir__replay *replay, const struct request *request)
{
	for (uint32_t i = 0; i < request->check.n_enforced; i++)
		weir__table_prefetch_rest(replay->table, request->claims[i].limit, request->check.hashes[i]);
}

static void decide(struct weir__replay *replay, struct request *request, weir_ns now,
		   struct weir__replay_answer *answer)
{
	struct weir__guard_check *const check = &request->check;
	struct weir__store_request store_request WEIR__UNINITIALIZED;
	uint32_t decider = WEIR__REPLAY_NO_CLAIM;
	int error;

	store_request.now = now;
	while (weir__guard_check_next(check, &request->match, request->claims, request->verdicts, &store_request,
				      &error, &request->message)) {
		const bool is_enforced = !weir__guard_check_is_shadowing(check);

		weir__table_store_decide(replay->table, &store_request);
		if (is_enforced)
			decider = store_request.n == 1 ? 0 : (uint32_t)store_request.decision.decided_by;
	}
	*answer = (struct weir__replay_answer){ .is_decided = true,
						.is_unmatched = check->answer.is_unmatched,
						.n_enforced = check->n_enforced,
						.n = check->n,
						.decider = decider,
						.verdict = check->answer.verdict,
						.claims = request->claims,
						.verdicts = request->verdicts,
						.plans = check->plans,
						.hashes = check->hashes };
}

void weir__replay_decide(struct weir__replay *replay, const struct weir__log_record *const *records, size_t n,
			 struct weir__replay_answer *ret_answers)
{
	bool is_begun[WEIR__REPLAY_BATCH];

	for (size_t i = 0; i < n; i++)
		is_begun[i] = begin(replay, &replay->requests[i], records[i]);
	for (size_t i = 0; i < n; i++)
		if (is_begun[i])
			fetch(replay, &replay->requests[i]);
	for (size_t i = 0; i < n; i++) {
		struct request *const request = &replay->requests[i];

		if (is_begun[i])
			decide(replay, request, records[i]->arrival, &ret_answers[i]);
		else
			ret_answers[i] = (struct weir__replay_answer){ .decider = WEIR__REPLAY_NO_CLAIM,
								       .error = request->message.text };
	}
}

const struct weir_policy *weir__replay_policy(const struct weir__replay *replay)
{
	return replay->policy;
}

struct weir_guard *weir__replay_guard(struct weir__replay *replay)
{
	return replay->guard;
}

void weir__replay_table_stats(const struct weir__replay *replay, weir_ns now, struct weir_table_stats *ret_stats)
{
	weir_table_stats(replay->table, now, ret_stats);
}
