/* limit_ref.c: parsing of limits and holds in requests. */
#include "engine/limit_ref.h"

#include <weir/clock.h>

#include <inttypes.h>
#include <stdio.h>

#include "core/wide.h"
#include "engine/request_audit.h"
#include "guard/guard.h"

static const uint64_t second = 1000000000; /* in ns */

bool weir__refusal_set(struct weir__refusal *refusal, enum weir__error_number error, const char *why)
{
	refusal->error = error;
	(void)snprintf(refusal->why.text, sizeof(refusal->why.text), "%s", why);
	return false;
}

/* --- limits ----------------------------------------------------------------------------------------------------- */

bool weir__limit_ref_read_text(const char *text, size_t length, struct weir_limit *ret_limit,
			       struct weir__refusal *ret_refusal)
{
	ret_refusal->error = WEIR__ERROR_LIMIT_TEXT;
	return weir_limit_parse(text, length, ret_limit, &ret_refusal->why) == WEIR_OK;
}

/* The name of a limit of the policy without its @ is a frequent mistake. */
static bool read_text_or_hint(const struct weir__context *context, const char *text, size_t length,
			      struct weir_limit *ret_limit, struct weir__refusal *ret_refusal)
{
	const int shown = length < 64 ? (int)length : 64;

	if (weir__limit_ref_read_text(text, length, ret_limit, ret_refusal))
		return true;
	if (context->guard && weir__guard_limit(context->guard, text, length))
		(void)snprintf(ret_refusal->why.text, sizeof(ret_refusal->why.text),
			       "\"%.*s\" is a limit of the policy: write @%.*s", shown, text, shown, text);
	return false;
}

static bool refuse_name(const struct weir__context *context, const char *name, size_t length,
			struct weir__refusal *ret_refusal)
{
	const int shown = length < 64 ? (int)length : 64;

	if (context->guard == NULL)
		return weir__refusal_set(ret_refusal, WEIR__ERROR_NO_POLICY, "");
	ret_refusal->error = WEIR__ERROR_NO_LIMIT;
	(void)snprintf(ret_refusal->why.text, sizeof(ret_refusal->why.text), "@%.*s", shown, name);
	return false;
}

const struct weir_table_limit *weir__limit_ref_find_named(const struct weir__context *context, const char *name,
							  size_t length, struct weir__refusal *ret_refusal)
{
	const struct weir_table_limit *limit = NULL;

	if (context->guard)
		limit = weir__guard_limit(context->guard, name, length);
	if (limit == NULL)
		(void)refuse_name(context, name, length, ret_refusal);
	return limit;
}

/* `name` is without the @. */
static bool read_named(struct weir__context *context, const char *name, size_t length, struct weir__limit_ref *ref,
		       struct weir__refusal *ret_refusal)
{
	struct weir__guard_key key;
	int error = WEIR_ERR_LIMIT;

	if (context->guard)
		error = weir__guard_read_key(context->guard, name, length, ref->key, ref->key_length,
					     context->keys + context->keys_used,
					     sizeof(context->keys) - context->keys_used, &key, &ret_refusal->why);
	if (error == WEIR_ERR_LIMIT)
		return refuse_name(context, name, length, ret_refusal);
	ret_refusal->error = WEIR__ERROR_KEY;
	if (error != WEIR_OK)
		return false;
	ref->named = key.limit;
	ref->key = key.bytes;
	ref->key_length = key.length;
	context->keys_used += key.written;
	return true;
}

bool weir__limit_ref_add_prefix(struct weir__context *context, const struct weir__client *client, const char **key,
				size_t *length, struct weir__refusal *ret_refusal)
{
	struct weir__guard_prefix prefix;

	ret_refusal->error = WEIR__ERROR_KEY;
	return WEIR__LIKELY(!weir__limit_ref_prefix(context, client, &prefix)) ||
	       weir__guard_add_prefix(&prefix, &context->keys_used, key, length, &ret_refusal->why) == WEIR_OK;
}

bool weir__limit_ref_read(struct weir__context *context, const struct weir__client *client, const char *text,
			  size_t length, const char *key, size_t key_length, struct weir__limit_ref *ret_ref,
			  struct weir__refusal *ret_refusal)
{
	*ret_ref = (struct weir__limit_ref){ .key = key, .key_length = key_length };
	if (!(weir__limit_ref_is_named(text, length) ?
		      read_named(context, text + 1, length - 1, ret_ref, ret_refusal) :
		      read_text_or_hint(context, text, length, &ret_ref->limit, ret_refusal)))
		return false;
	return weir__limit_ref_add_prefix(context, client, &ret_ref->key, &ret_ref->key_length, ret_refusal);
}

bool weir__limit_ref_find(struct weir__context *context, const struct weir__client *client, const char *text,
			  size_t length, const char *key, size_t key_length, struct weir_claim *ret_claim,
			  struct weir__refusal *ret_refusal)
{
	struct weir__inline_limits *const limits = &context->limits;
	const struct weir_table_limit *limit = weir__inline_limits_recall(limits, WEIR__SPACE_TEXT, text, length, 0);
	struct weir__limit_ref ref;

	if (limit) {
		if (!weir__limit_ref_add_prefix(context, client, &key, &key_length, ret_refusal))
			return false;
		*ret_claim = (struct weir_claim){ limit, key, key_length, 0 };
		return true;
	}
	if (!weir__limit_ref_read(context, client, text, length, key, key_length, &ref, ret_refusal))
		return false;
	*ret_claim = (struct weir_claim){ ref.named, ref.key, ref.key_length, 0 };
	if (ref.named)
		return true;
	ret_refusal->error = WEIR__ERROR_LIMIT;
	if (weir__inline_limits_find(limits, WEIR__SPACE_TEXT, &ref.limit, &limit, &ret_refusal->why) != WEIR_OK)
		return false;
	weir__inline_limits_remember(limits, WEIR__SPACE_TEXT, text, length, 0, limit);
	ret_claim->limit = limit;
	return true;
}

/* --- limits as numbers ------------------------------------------------------------------------------------------ */

_Static_assert(WEIR_TABLE_DURATION_MAX / UINT64_C(86400000000000) == 6671,
	       "CELL_DURATION and THROTTLE_DURATION of errors.h say so");

enum weir__limit_ref_bucket_result weir__limit_ref_bucket(uint64_t burst, uint64_t count, uint64_t period_s,
							  struct weir_limit *ret_limit)
{
	const uint64_t each = weir__saturate(weir__div(weir__mul(period_s, second), count));

	if (each == 0)
		return WEIR__LIMIT_REF_BUCKET_FAST;
	if (weir__mul(burst, each) > WEIR_TABLE_DURATION_MAX)
		return WEIR__LIMIT_REF_BUCKET_LONG;
	*ret_limit = (struct weir_limit){
		.algorithm = WEIR_TOKEN_BUCKET, .count = 1, .period = each, .burst = burst, .segments = 1
	};
	return WEIR__LIMIT_REF_BUCKET_SOUND;
}

bool weir__limit_ref_throttle_quantity(int64_t quantity, struct weir__refusal *ret_refusal)
{
	if (quantity >= 0)
		return true;
	ret_refusal->error = WEIR__ERROR_THROTTLE_NEGATIVE;
	(void)snprintf(ret_refusal->why.text, sizeof(ret_refusal->why.text), "%" PRId64, quantity);
	return false;
}

bool weir__limit_ref_throttle(const int64_t numbers[WEIR__THROTTLE_ARGUMENTS], struct weir_limit *ret_limit,
			      struct weir__refusal *ret_refusal)
{
	if (!weir__limit_ref_throttle_quantity(numbers[3], ret_refusal))
		return false;
	if (numbers[0] <= 0 || numbers[1] <= 0 || numbers[2] <= 0)
		return weir__refusal_set(ret_refusal, WEIR__ERROR_THROTTLE_PARAMETERS, "");
	switch (weir__limit_ref_bucket((uint64_t)numbers[0], (uint64_t)numbers[1], (uint64_t)numbers[2], ret_limit)) {
	case WEIR__LIMIT_REF_BUCKET_FAST:
		return weir__refusal_set(ret_refusal, WEIR__ERROR_THROTTLE_RATE, "");
	case WEIR__LIMIT_REF_BUCKET_LONG:
		return weir__refusal_set(ret_refusal, WEIR__ERROR_THROTTLE_DURATION, "");
	default:
		return true;
	}
}

/* The retry_after of a quantity above the limit, as in throttlecrab. It is not 0, so that a client that sleeps for it
 * and retries does not spin. */
static weir__u128 retry_never(const struct weir_claim *claim, const struct weir_verdict *verdict)
{
	const uint64_t beyond = claim->cost > verdict->limit ? claim->cost - verdict->limit : 0;

	return verdict->reset_after + weir__mul(beyond, weir_table_limit_limit(claim->limit).period);
}

static int64_t whole_seconds(weir__u128 span)
{
	const weir__u128 s = weir__div(span, second);

	return s > INT64_MAX ? INT64_MAX : (int64_t)s;
}

void weir__limit_ref_throttle_numbers(const struct weir_claim *claim, const struct weir_verdict *verdict,
				      int64_t ret_numbers[WEIR__THROTTLE_NUMBERS])
{
	ret_numbers[0] = verdict->allowed;
	ret_numbers[1] = verdict->limit > INT64_MAX ? INT64_MAX : (int64_t)verdict->limit;
	ret_numbers[2] = verdict->remaining > INT64_MAX ? INT64_MAX : (int64_t)verdict->remaining;
	ret_numbers[3] = whole_seconds(verdict->reset_after);
	ret_numbers[4] = whole_seconds(verdict->never ? retry_never(claim, verdict) : verdict->retry_after);
}

/* --- several limits --------------------------------------------------------------------------------------------- */

static const struct weir_table_limit *find_for_refs(struct weir__limit_refs *refs, struct weir__inline_limits *limits,
						    struct weir_message *ret_why)
{
	const size_t last = refs->n;
	const struct weir_limit *const stated = &refs->stated[last];
	const struct weir_table_limit *limit = &refs->made[last];
	int error;

	for (size_t i = 0; i < last; i++)
		if (weir__inline_limits_is_same(&refs->stated[i], stated))
			return refs->claims[i].limit;
	if (weir__inline_limits_will_drop(limits, WEIR__SPACE_TEXT, stated))
		error = weir__inline_limits_make(limits, WEIR__SPACE_TEXT, stated, &refs->made[last], ret_why);
	else
		error = weir__inline_limits_find(limits, WEIR__SPACE_TEXT, stated, &limit, ret_why);
	return error == WEIR_OK ? limit : NULL;
}

/* A named limit gets a `stated` with count 0, which equals no inline limit. */
bool weir__limit_refs_add(struct weir__limit_refs *refs, struct weir__context *context,
			  const struct weir__limit_ref *ref, uint64_t cost, struct weir__refusal *ret_refusal)
{
	struct weir_claim *const added = &refs->claims[refs->n];

	refs->stated[refs->n] = ref->named ? (struct weir_limit){ .count = 0 } : ref->limit;
	*added = (struct weir_claim){ ref->named, ref->key, ref->key_length, cost };
	ret_refusal->error = WEIR__ERROR_LIMIT;
	if (added->limit == NULL)
		added->limit = find_for_refs(refs, &context->limits, &ret_refusal->why);
	refs->n += added->limit != NULL;
	return added->limit != NULL;
}

/* --- changes ---------------------------------------------------------------------------------------------------- */

/* Copies the name of a limit that exists, so that it fits. */
static void copy_name(const char *name, size_t length, char ret_plan[WEIR_TABLE_NAME_MAX + 1])
{
	memcpy(ret_plan, name, length);
	ret_plan[length] = '\0';
}

bool weir__limit_ref_change(struct weir__context *context, const struct weir__audit_who *who, const char *name,
			    size_t length, const struct weir_limit *to, struct weir__refusal *ret_refusal)
{
	struct weir__limit_change change = { .to = *to, .at = weir_clock_now() };
	char plan[WEIR_TABLE_NAME_MAX + 1];
	struct weir_limit before = *to;
	bool is_made;

	if (weir__limit_ref_find_named(context, name, length, ret_refusal) == NULL)
		return false;
	copy_name(name, length, plan);
	(void)snprintf(change.user, sizeof(change.user), "%s", who->user);
	(void)snprintf(change.peer, sizeof(change.peer), "%s", who->peer);
	ret_refusal->error = WEIR__ERROR_LIMIT;
	(void)weir__guard_change_limit(context->guard, plan, &change, 0, weir_table_now(context->table), &is_made,
				       &before, &ret_refusal->why);
	weir__audit_change(context->log, who, plan, &before, to, false, is_made ? NULL : ret_refusal->why.text);
	return is_made;
}

bool weir__limit_ref_check_change(struct weir__context *context, const struct weir__audit_who *who, const char *name,
				  size_t length, const struct weir_limit *to, struct weir__refusal *ret_refusal)
{
	const struct weir_table_limit *const limit = weir__limit_ref_find_named(context, name, length, ret_refusal);
	char plan[WEIR_TABLE_NAME_MAX + 1];
	struct weir_limit before;

	if (limit == NULL)
		return false;
	copy_name(name, length, plan);
	ret_refusal->error = WEIR__ERROR_LIMIT;
	if (weir__guard_check_change(context->guard, plan, to, weir_table_now(context->table), &ret_refusal->why) ==
	    WEIR_OK)
		return true;
	before = weir_table_limit_limit(limit);
	weir__audit_change(context->log, who, plan, &before, to, true, ret_refusal->why.text);
	return false;
}

/* --- holds ------------------------------------------------------------------------------------------------------ */

bool weir__limit_ref_check_id(size_t length, struct weir__refusal *ret_refusal)
{
	return (length >= 1 && length <= WEIR__HOLD_ID_MAX) || weir__refusal_set(ret_refusal, WEIR__ERROR_HOLD_ID, "");
}

bool weir__limit_ref_check_hold(struct weir__hold_request *request, uint64_t lasts_ms,
				struct weir__refusal *ret_refusal)
{
	if (!weir__limit_ref_check_id(request->id_length, ret_refusal))
		return false;
	if (request->key_length > WEIR__HOLD_KEY_MAX)
		return weir__refusal_set(ret_refusal, WEIR__ERROR_HOLD_KEY, "");
	if (lasts_ms == 0 || lasts_ms > WEIR__HOLD_MS_MAX)
		return weir__refusal_set(ret_refusal, WEIR__ERROR_HOLD_TIME, "");
	request->lasts = lasts_ms * 1000000;
	return true;
}

const char *weir__limit_ref_mode_word(enum weir_mode mode)
{
	static const char *const words[] = {
		[WEIR_MODE_ENFORCE] = "enforce", [WEIR_MODE_SHADOW] = "shadow", [WEIR_MODE_OFF] = "off"
	};

	return words[mode];
}
