/* asked.c: limits that requests state, and costs that they hold. */
#include "serve/asked.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/wide.h"
#include "guard/guard.h"
#include "serve/audit.h"
#include "serve/policies.h"

static const uint64_t second = 1000000000; /* in ns */

bool weir__refusal_set(struct weir__refusal *refusal, enum weir__said_error error, const char *why)
{
	refusal->error = error;
	(void)snprintf(refusal->why.text, sizeof(refusal->why.text), "%s", why);
	return false;
}

/* --- limits ----------------------------------------------------------------------------------------------------- */

bool weir__asked_read_text(const char *text, size_t length, struct weir_limit *ret_limit,
			   struct weir__refusal *ret_refusal)
{
	ret_refusal->error = WEIR__SAY_LIMIT_TEXT;
	return weir_limit_parse(text, length, ret_limit, &ret_refusal->why) == WEIR_OK;
}

static bool refuse_name(const struct weir__context *context, const char *name, size_t length,
			struct weir__refusal *ret_refusal)
{
	const int shown = length < 64 ? (int)length : 64;

	if (context->policies == NULL)
		return weir__refusal_set(ret_refusal, WEIR__SAY_NO_POLICY, "");
	ret_refusal->error = WEIR__SAY_NO_LIMIT;
	(void)snprintf(ret_refusal->why.text, sizeof(ret_refusal->why.text), "@%.*s", shown, name);
	return false;
}

const struct weir_table_limit *weir__asked_find_named(const struct weir__context *context, const char *name,
						      size_t length, struct weir__refusal *ret_refusal)
{
	const struct weir_table_limit *limit = NULL;

	if (context->policies)
		limit = weir__guard_limit(weir__policies_guard(context->policies), name, length);
	if (limit == NULL)
		(void)refuse_name(context, name, length, ret_refusal);
	return limit;
}

/* `name` comes without its @. */
static bool read_named(struct weir__context *context, const char *name, size_t length, struct weir__asked *asked,
		       struct weir__refusal *ret_refusal)
{
	struct weir__guard_key key;
	int error = WEIR_ERR_LIMIT;

	if (context->policies)
		error = weir__guard_read_key(weir__policies_guard(context->policies), name, length, asked->key,
					     asked->key_length, context->keys + context->keys_used,
					     sizeof(context->keys) - context->keys_used, &key, &ret_refusal->why);
	if (error == WEIR_ERR_LIMIT)
		return refuse_name(context, name, length, ret_refusal);
	ret_refusal->error = WEIR__SAY_KEY;
	if (error != WEIR_OK)
		return false;
	asked->named = key.limit;
	asked->key = key.bytes;
	asked->key_length = key.length;
	context->keys_used += key.written;
	return true;
}

bool weir__asked_read(struct weir__context *context, const char *text, size_t length, const char *key,
		      size_t key_length, struct weir__asked *ret_asked, struct weir__refusal *ret_refusal)
{
	*ret_asked = (struct weir__asked){ .key = key, .key_length = key_length };
	if (weir__asked_is_named(text, length))
		return read_named(context, text + 1, length - 1, ret_asked, ret_refusal);
	return weir__asked_read_text(text, length, &ret_asked->limit, ret_refusal);
}

bool weir__asked_find(struct weir__context *context, const char *text, size_t length, const char *key,
		      size_t key_length, struct weir_claim *ret_claim, struct weir__refusal *ret_refusal)
{
	struct weir__limits *const limits = &context->limits;
	const struct weir_table_limit *limit = weir__limits_recall(limits, WEIR__SPACE_TEXT, text, length, 0);
	struct weir__asked asked;

	*ret_claim = (struct weir_claim){ limit, key, key_length, 0 };
	if (limit)
		return true;
	if (!weir__asked_read(context, text, length, key, key_length, &asked, ret_refusal))
		return false;
	if (asked.named) {
		*ret_claim = (struct weir_claim){ asked.named, asked.key, asked.key_length, 0 };
		return true;
	}
	ret_refusal->error = WEIR__SAY_LIMIT;
	if (weir__limits_find(limits, WEIR__SPACE_TEXT, &asked.limit, &limit, &ret_refusal->why) != WEIR_OK)
		return false;
	weir__limits_remember(limits, WEIR__SPACE_TEXT, text, length, 0, limit);
	ret_claim->limit = limit;
	return true;
}

/* --- limits in numbers ------------------------------------------------------------------------------------------ */

_Static_assert(WEIR_TABLE_SPAN_MAX / UINT64_C(86400000000000) == 6671,
	       "CELL_SPAN and THROTTLE_SPAN of errors.h say so");

enum weir__bucket_fault weir__asked_bucket(uint64_t burst, uint64_t count, uint64_t period_s,
					   struct weir_limit *ret_limit)
{
	const uint64_t each = weir__saturate(weir__div(weir__mul(period_s, second), count));

	if (each == 0)
		return WEIR__BUCKET_FAST;
	if (weir__mul(burst, each) > WEIR_TABLE_SPAN_MAX)
		return WEIR__BUCKET_LONG;
	*ret_limit = (struct weir_limit){
		.algorithm = WEIR_TOKEN_BUCKET, .count = 1, .period = each, .burst = burst, .segments = 1
	};
	return WEIR__BUCKET_SOUND;
}

bool weir__asked_throttle_quantity(int64_t quantity, struct weir__refusal *ret_refusal)
{
	if (quantity >= 0)
		return true;
	ret_refusal->error = WEIR__SAY_THROTTLE_NEGATIVE;
	(void)snprintf(ret_refusal->why.text, sizeof(ret_refusal->why.text), "%" PRId64, quantity);
	return false;
}

bool weir__asked_throttle(const int64_t numbers[WEIR__THROTTLE_ASKED], struct weir_limit *ret_limit,
			  struct weir__refusal *ret_refusal)
{
	if (!weir__asked_throttle_quantity(numbers[3], ret_refusal))
		return false;
	if (numbers[0] <= 0 || numbers[1] <= 0 || numbers[2] <= 0)
		return weir__refusal_set(ret_refusal, WEIR__SAY_THROTTLE_PARAMETERS, "");
	switch (weir__asked_bucket((uint64_t)numbers[0], (uint64_t)numbers[1], (uint64_t)numbers[2], ret_limit)) {
	case WEIR__BUCKET_FAST:
		return weir__refusal_set(ret_refusal, WEIR__SAY_THROTTLE_RATE, "");
	case WEIR__BUCKET_LONG:
		return weir__refusal_set(ret_refusal, WEIR__SAY_THROTTLE_SPAN, "");
	default:
		return true;
	}
}

/* Of a quantity above the limit: as throttlecrab, that nobody who sleeps for so long and asks again asks all the time. */
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

void weir__asked_throttle_numbers(const struct weir_claim *claim, const struct weir_verdict *verdict,
				  int64_t ret_numbers[WEIR__THROTTLE_NUMBERS])
{
	ret_numbers[0] = verdict->allowed;
	ret_numbers[1] = verdict->limit > INT64_MAX ? INT64_MAX : (int64_t)verdict->limit;
	ret_numbers[2] = verdict->remaining > INT64_MAX ? INT64_MAX : (int64_t)verdict->remaining;
	ret_numbers[3] = whole_seconds(verdict->reset_after);
	ret_numbers[4] = whole_seconds(verdict->never ? retry_never(claim, verdict) : verdict->retry_after);
}

/* --- several ---------------------------------------------------------------------------------------------------- */

static const struct weir_table_limit *find_for_several(struct weir__several *several, struct weir__limits *limits,
						       struct weir_message *ret_why)
{
	const size_t last = several->n;
	const struct weir_limit *const asked = &several->asked[last];
	const struct weir_table_limit *limit = &several->made[last];
	int error;

	for (size_t i = 0; i < last; i++)
		if (weir__limits_is_same(&several->asked[i], asked))
			return several->claims[i].limit;
	if (weir__limits_will_drop(limits, WEIR__SPACE_TEXT, asked))
		error = weir__limits_make(limits, WEIR__SPACE_TEXT, asked, &several->made[last], ret_why);
	else
		error = weir__limits_find(limits, WEIR__SPACE_TEXT, asked, &limit, ret_why);
	return error == WEIR_OK ? limit : NULL;
}

/* No text says the same as the limit of a name, whose count is 0 here. */
bool weir__several_add(struct weir__several *several, struct weir__context *context, const struct weir__asked *asked,
		       uint64_t cost, struct weir__refusal *ret_refusal)
{
	struct weir_claim *const added = &several->claims[several->n];

	several->asked[several->n] = asked->named ? (struct weir_limit){ .count = 0 } : asked->limit;
	*added = (struct weir_claim){ asked->named, asked->key, asked->key_length, cost };
	ret_refusal->error = WEIR__SAY_LIMIT;
	if (added->limit == NULL)
		added->limit = find_for_several(several, &context->limits, &ret_refusal->why);
	several->n += added->limit != NULL;
	return added->limit != NULL;
}

/* --- changes ---------------------------------------------------------------------------------------------------- */

static void audit_change(const struct weir__context *context, const struct weir__audit_who *who, const char *plan,
			 const struct weir_limit *from, const struct weir_limit *to, const char *why_not)
{
	char before[WEIR_LIMIT_TEXT_MAX], after[WEIR_LIMIT_TEXT_MAX];
	struct weir__log_line line;

	(void)weir_limit_print(from, before);
	(void)weir_limit_print(to, after);
	weir__audit_begin(&line, context->log, who, "limit_changed");
	weir__log_word(&line, "limit", plan);
	weir__log_word(&line, "before", before);
	weir__log_word(&line, "after", after);
	weir__audit_end(&line, context->log, why_not);
}

bool weir__asked_change(struct weir__context *context, const struct weir__audit_who *who, const char *name,
			size_t length, const struct weir_limit *to, struct weir__refusal *ret_refusal)
{
	const struct weir_table_limit *const limit = weir__asked_find_named(context, name, length, ret_refusal);
	char plan[WEIR_TABLE_NAME_MAX + 1];
	struct weir_limit before;
	bool is_done;

	if (limit == NULL)
		return false;
	memcpy(plan, name, length); /* there is one of this name: so it fits */
	plan[length] = '\0';
	ret_refusal->error = WEIR__SAY_LIMIT;
	before = weir_table_limit_limit(limit);
	is_done = weir_guard_change_limit(weir__policies_guard(context->policies), plan, to,
					  weir_table_now(context->table), &ret_refusal->why) == WEIR_OK;
	audit_change(context, who, plan, &before, to, is_done ? NULL : ret_refusal->why.text);
	return is_done;
}

/* --- holds ------------------------------------------------------------------------------------------------------ */

bool weir__asked_check_id(size_t length, struct weir__refusal *ret_refusal)
{
	return (length >= 1 && length <= WEIR__HOLD_ID_MAX) || weir__refusal_set(ret_refusal, WEIR__SAY_HOLD_ID, "");
}

bool weir__asked_check_hold(struct weir__hold_request *request, uint64_t lasts_ms, struct weir__refusal *ret_refusal)
{
	if (!weir__asked_check_id(request->id_length, ret_refusal))
		return false;
	if (request->key_length > WEIR__HOLD_KEY_MAX)
		return weir__refusal_set(ret_refusal, WEIR__SAY_HOLD_KEY, "");
	if (lasts_ms == 0 || lasts_ms > WEIR__HOLD_MS_MAX)
		return weir__refusal_set(ret_refusal, WEIR__SAY_HOLD_TIME, "");
	request->lasts = lasts_ms * 1000000;
	return true;
}

const char *weir__asked_mode_word(enum weir_mode mode)
{
	static const char *const words[] = {
		[WEIR_MODE_ENFORCE] = "enforce", [WEIR_MODE_SHADOW] = "shadow", [WEIR_MODE_OFF] = "off"
	};

	return words[mode];
}
