/* http_hold.c: costs that are estimated now and settled later, over HTTP. */
#include <stdio.h>
#include <string.h>

#include "serve/asked.h"
#include "serve/http_call.h"
#include "serve/http_json.h"

#define RIGHT_LIMIT "use a limit such as \"100000/min\", or \"@name\" for one of the policy"
#define RIGHT_ID "use a string of 1 to 64 bytes, of your own choice"

static bool read_needed(const struct weir__json *json, const json_t *object, const char *member, json_int_t least,
			json_int_t most, uint64_t *ret_number)
{
	const json_t *const value = json_object_get(object, member);
	const json_int_t number = json_integer_value(value);
	char right[96];

	if (json_is_integer(value) && number >= least && number <= most) {
		*ret_number = (uint64_t)number;
		return true;
	}
	(void)snprintf(right, sizeof(right), "%suse a whole number, %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT,
		       value ? "" : "missing; ", least, most);
	return weir__json_refuse(json, member, value, right);
}

/* --- taking ----------------------------------------------------------------------------------------------------- */

/* What a hold says; what it points to is in the JSON. */
struct hold {
	struct weir__json_text id, key, text;
	struct weir__asked asked;
	struct weir__hold_request request;
};

static bool read_hold(const struct weir__json *json, const json_t *object, struct hold *hold)
{
	static const char *const members[] = { "id", "key", "limit", "cost", "ttl_ms", NULL };
	struct weir__hold_request *const request = &hold->request;
	struct weir__refusal refusal;
	uint64_t lasts_ms = 0;

	*request = (struct weir__hold_request){ .asked = &hold->asked.limit };
	if (!weir__json_has_only(json, object, members) ||
	    !weir__json_read_text(json, object, "id", RIGHT_ID, &hold->id) ||
	    !weir__json_read_text(json, object, "key", "use a string: who is limited", &hold->key) ||
	    !weir__json_read_text(json, object, "limit", RIGHT_LIMIT, &hold->text) ||
	    !read_needed(json, object, "cost", 0, INT64_MAX, &request->cost) ||
	    !read_needed(json, object, "ttl_ms", 1, WEIR__HOLD_MS_MAX, &lasts_ms))
		return false;
	request->id = hold->id.bytes;
	request->id_length = hold->id.length;
	weir__asked_begin(json->call->commands);
	if (!weir__asked_read(json->call->commands, hold->text.bytes, hold->text.length, hold->key.bytes,
			      hold->key.length, &hold->asked, &refusal))
		return weir__json_refuse_as(json, refusal.error == WEIR__SAY_KEY ? "key" : "limit", &refusal);
	request->key = hold->asked.key;
	request->key_length = hold->asked.key_length;
	request->named = hold->asked.named;
	return weir__asked_check_hold(request, lasts_ms, &refusal) || weir__json_refuse_as(json, NULL, &refusal);
}

/* The headers of a limit want a handle of it. */
static void say_hold(struct weir__http_call *call, const struct hold *hold, const struct weir_verdict *verdict)
{
	struct weir_guard_answer answer = { .verdict = *verdict,
					    .reset_after = verdict->reset_after,
					    .limits = 1,
					    .is_limited = true,
					    .limit = hold->asked.named };
	const size_t sign = answer.limit ? 1 : 0;
	struct weir_message why;

	if (answer.limit == NULL)
		(void)weir__limits_find(&call->commands->limits, WEIR__SPACE_TEXT, &hold->asked.limit, &answer.limit,
					&why);
	(void)snprintf(answer.decided_by, sizeof(answer.decided_by), "%s", hold->text.bytes + sign);
	weir__http_say(call, &answer, 429);
}

void weir__http_hold(struct weir__http_call *call)
{
	const struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };
	json_t *const root = weir__json_of_body(call);
	struct weir__refusal refusal;
	struct weir_verdict verdict;
	struct hold hold;

	if (root && read_hold(&json, root, &hold)) {
		if (weir__asked_hold(call->commands, &hold.request, &verdict, &refusal))
			say_hold(call, &hold, &verdict);
		else
			(void)weir__http_refuse_as(call, "", &refusal);
	}
	json_decref(root);
}

/* --- settling --------------------------------------------------------------------------------------------------- */

static void say_settlement(struct weir__http_call *call, const struct weir__settlement *settlement)
{
	const struct {
		const char *name;
		uint64_t number;
	} members[] = {
		{ "{\"held\":", settlement->held },
		{ ",\"actual\":", settlement->actual },
		{ ",\"charged\":", settlement->charged },
		{ ",\"refunded\":", settlement->refunded },
		{ ",\"beyond\":", settlement->beyond },
		{ ",\"limit\":", settlement->verdict.limit },
		{ ",\"remaining\":", settlement->verdict.remaining },
		{ ",\"reset_after_ns\":", settlement->verdict.reset_after },
	};

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		weir__reply_add_text(call->reply, members[i].name);
		weir__reply_add_number(call->reply, members[i].number);
	}
	WEIR__REPLY_ADD(call->reply, "}\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}

static void settle(struct weir__http_call *call, const struct weir__json_text *id, uint64_t actual)
{
	struct weir__settlement settlement;
	struct weir__refusal refusal;

	if (weir__asked_check_id(id->length, &refusal) &&
	    weir__asked_settle(call->commands, id->bytes, id->length, actual, &settlement, &refusal))
		say_settlement(call, &settlement);
	else
		(void)weir__http_refuse_as(call, "", &refusal);
}

void weir__http_settle(struct weir__http_call *call)
{
	static const char *const members[] = { "id", "actual", NULL };
	const struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };
	json_t *const root = weir__json_of_body(call);
	struct weir__json_text id;
	uint64_t actual = 0;

	if (root && weir__json_has_only(&json, root, members) &&
	    weir__json_read_text(&json, root, "id", RIGHT_ID, &id) &&
	    read_needed(&json, root, "actual", 0, INT64_MAX, &actual))
		settle(call, &id, actual);
	json_decref(root);
}

void weir__http_release(struct weir__http_call *call)
{
	static const char *const members[] = { "id", NULL };
	const struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };
	json_t *const root = weir__json_of_body(call);
	struct weir__json_text id;

	if (root && weir__json_has_only(&json, root, members) && weir__json_read_text(&json, root, "id", RIGHT_ID, &id))
		settle(call, &id, 0);
	json_decref(root);
}
