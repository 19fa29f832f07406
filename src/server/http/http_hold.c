/* http_hold.c: holds over HTTP: an estimated cost is held now and settled later. */
#include <stdio.h>
#include <string.h>

#include "server/http/http_call.h"
#include "server/http/http_json.h"

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

/* A hold, which points into the JSON. */
struct hold {
	struct weir__json_text id, key, text;
	struct weir__limit_ref ref;
	struct weir__hold_request request;
};

static bool read_hold(const struct weir__json *json, const json_t *object, struct hold *hold)
{
	static const char *const members[] = { "id", "key", "limit", "cost", "ttl_ms", NULL };
	struct weir__hold_request *const request = &hold->request;
	struct weir__refusal refusal;
	uint64_t lasts_ms = 0;

	*request = (struct weir__hold_request){ .stated = &hold->ref.limit };
	if (!weir__json_has_only(json, object, members) ||
	    !weir__json_read_text(json, object, "id", RIGHT_ID, &hold->id) ||
	    !weir__json_read_text(json, object, "key", "use a string: who is limited", &hold->key) ||
	    !weir__json_read_text(json, object, "limit", RIGHT_LIMIT, &hold->text) ||
	    !read_needed(json, object, "cost", 0, INT64_MAX, &request->cost) ||
	    !read_needed(json, object, "ttl_ms", 1, WEIR__HOLD_MS_MAX, &lasts_ms))
		return false;
	request->id = hold->id.bytes;
	request->id_length = hold->id.length;
	weir__limit_ref_begin(json->call->context);
	if (!weir__limit_ref_read(json->call->context, json->call->client, hold->text.bytes, hold->text.length,
				  hold->key.bytes, hold->key.length, &hold->ref, &refusal))
		return weir__json_refuse_as(json, refusal.error == WEIR__ERROR_KEY ? "key" : "limit", &refusal);
	request->key = hold->ref.key;
	request->key_length = hold->ref.key_length;
	request->named = hold->ref.named;
	return weir__limit_ref_check_hold(request, lasts_ms, &refusal) || weir__json_refuse_as(json, NULL, &refusal);
}

static void end_run(struct weir__http_call *call, enum weir__run_result result, struct weir__request *request,
		    const struct weir__refusal *refusal)
{
	if (result == WEIR__RUN_DONE)
		request->write(request, call);
	else if (result == WEIR__RUN_REFUSED)
		(void)weir__http_refuse_as(call, "", refusal);
}

static void write_hold(struct weir__request *request, void *call)
{
	const struct weir__hold_take *const take = (const struct weir__hold_take *)(const void *)request;
	struct weir_guard_answer answer = {
		.verdict = take->verdict, .limits = 1, .is_limited = true, .limit = request->claims[0].limit
	};

	(void)snprintf(answer.decided_by, sizeof(answer.decided_by), "%s", take->decided_by);
	weir__http_say(call, &(struct weir__http_decision){ &answer, 429, take->is_closed, false, "", NULL });
}

void weir__http_hold(struct weir__http_call *call)
{
	const struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };
	json_t *const root = weir__json_of_body(call);
	struct weir__hold_take take;
	struct weir__refusal refusal;
	struct hold hold;

	if (root && read_hold(&json, root, &hold)) {
		weir__hold_take_init(&take, call->context, call->client, write_hold);
		weir__http_begin(call, &take.request);
		(void)snprintf(take.decided_by, sizeof(take.decided_by), "%s",
			       hold.text.bytes + (hold.ref.named ? 1 : 0));
		end_run(call, weir__hold_take_run(&take, &hold.request, &refusal), &take.request, &refusal);
	}
	json_decref(root);
}

/* --- settling --------------------------------------------------------------------------------------------------- */

static void write_settlement(struct weir__request *request, void *call_)
{
	const struct weir__settlement *const settlement =
		&((const struct weir__hold_settle *)(const void *)request)->settlement;
	struct weir__http_call *const call = call_;
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
	struct weir__hold_settle settle;
	struct weir__refusal refusal;

	if (!weir__limit_ref_check_id(id->length, &refusal)) {
		(void)weir__http_refuse_as(call, "", &refusal);
		return;
	}
	weir__hold_settle_init(&settle, call->context, call->client, write_settlement);
	weir__http_begin(call, &settle.request);
	end_run(call, weir__hold_settle_run(&settle, id->bytes, id->length, actual, &refusal), &settle.request,
		&refusal);
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
