/* http_take.c: decisions on limits that requests state: POST /v1/take. */
#include <stdio.h>
#include <string.h>

#include "serve/asked.h"
#include "serve/audit.h"
#include "serve/decide.h"
#include "serve/http_call.h"
#include "serve/http_json.h"

static const struct mode {
	const char *word;
	enum weir__seam_operation operation;
} modes[] = {
	{ "take", WEIR__SEAM_TAKE },
	{ "upto", WEIR__SEAM_UPTO },
	{ "peek", WEIR__SEAM_PEEK },
	{ "refund", WEIR__SEAM_REFUND },
};

#define RIGHT_LIMIT "use a limit such as \"100/min burst 20\", or \"@name\" for one of the policy"
#define RIGHT_KEY "use a string: who is limited"
#define RIGHT_MODE "use \"take\", \"upto\", \"peek\" or \"refund\""
#define RIGHT_ALL "use an array of 1 to 16 objects with limit, key and cost"

/* What one request asks. What it points to is in the JSON. */
struct request {
	const struct mode *mode; /* NULL: all of several, or none */
	struct weir__several several;
	struct weir__json_text texts[WEIR_TABLE_CLAIMS_MAX]; /* of the limits */
};

/* --- reading ---------------------------------------------------------------------------------------------------- */

static bool read_mode(const struct weir__json *json, const json_t *object, const struct mode **ret_mode)
{
	const json_t *const value = json_object_get(object, "mode");

	*ret_mode = &modes[0];
	if (value == NULL)
		return true;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]) && json_is_string(value); i++)
		if (strcmp(json_string_value(value), modes[i].word) == 0) {
			*ret_mode = &modes[i];
			return true;
		}
	return weir__json_refuse(json, "mode", value, RIGHT_MODE);
}

/* `prefix` is where the object is, as in "all[2].", or nothing. */
static bool read_claim(const struct weir__json *json, const json_t *object, const char *prefix, struct request *request)
{
	struct weir__several *const several = &request->several;
	const json_t *const cost = json_object_get(object, "cost");
	struct weir__json_text text, key;
	struct weir__refusal refusal;
	struct weir__asked asked;
	uint64_t charge = 1;
	char member[32];

	(void)snprintf(member, sizeof(member), "%skey", prefix);
	if (!weir__json_read_text(json, object, member, RIGHT_KEY, &key))
		return false;
	(void)snprintf(member, sizeof(member), "%scost", prefix);
	if (cost && !weir__json_read_number(json, member, cost, INT64_MAX, &charge))
		return false;
	(void)snprintf(member, sizeof(member), "%slimit", prefix);
	if (!weir__json_read_text(json, object, member, RIGHT_LIMIT, &text))
		return false;
	request->texts[several->n] = text;
	if (weir__asked_read(json->call->commands, text.bytes, text.length, key.bytes, key.length, &asked, &refusal) &&
	    weir__several_add(several, json->call->commands, &asked, charge, &refusal))
		return true;
	if (refusal.error == WEIR__SAY_KEY)
		(void)snprintf(member, sizeof(member), "%skey", prefix);
	return weir__json_refuse_as(json, member, &refusal);
}

static bool read_all(const struct weir__json *json, const json_t *all, struct request *request)
{
	static const char *const members[] = { "limit", "key", "cost", NULL };
	const size_t n = json_array_size(all);
	char item[16], prefix[24];

	if (!json_is_array(all) || n == 0 || n > WEIR_TABLE_CLAIMS_MAX)
		return weir__json_refuse(json, "all", all, RIGHT_ALL);
	for (size_t i = 0; i < n; i++) {
		const json_t *const one = json_array_get(all, i);

		(void)snprintf(item, sizeof(item), "all[%zu]", i);
		(void)snprintf(prefix, sizeof(prefix), "%s.", item);
		if (!weir__json_member_has_only(json, item, one, members) || !read_claim(json, one, prefix, request))
			return false;
	}
	return true;
}

static bool read_request(const struct weir__json *json, const json_t *object, struct request *request)
{
	static const char *const members[] = { "limit", "key", "cost", "mode", "all", NULL };
	const json_t *const all = json_object_get(object, "all");

	weir__asked_begin(json->call->commands);
	request->several.n = 0;
	request->several.claims[0] = (struct weir_claim){ .limit = NULL };
	request->mode = NULL;
	if (!weir__json_has_only(json, object, members))
		return false;
	if (all && json_object_size(object) > 1)
		return weir__json_refuse(json, "all", NULL,
					 "there is more beside it; limit, key and cost go into its items");
	if (all)
		return read_all(json, all, request);
	return read_mode(json, object, &request->mode) && read_claim(json, object, "", request);
}

/* --- deciding --------------------------------------------------------------------------------------------------- */

/* A limit is called as it was asked for, as far as there is room. */
static void name_decider(const struct weir__json_text *text, struct weir_guard_answer *answer)
{
	const size_t sign = weir__asked_is_named(text->bytes, text->length) ? 1 : 0;

	(void)snprintf(answer->decided_by, sizeof(answer->decided_by), "%s", text->bytes + sign);
}

/* Returns which of several has decided, from 1 on. */
static size_t decide(struct weir__http_call *call, const struct request *request, struct weir_guard_answer *ret_answer)
{
	const struct weir__several *const several = &request->several;
	struct weir_decision decision = { .decided_by = 0 };
	weir_ns reset_after;

	if (request->mode) {
		decision.verdict = weir__decide_one(call->commands, request->mode->operation, &several->claims[0]);
		weir__audit_key(call->commands, call->client, WEIR__WIRE_HTTP, request->mode->operation,
				&several->claims[0], &decision.verdict);
		reset_after = decision.verdict.reset_after;
	} else {
		decision = weir__decide_all(call->commands, several->claims, several->n, &reset_after);
	}
	*ret_answer = (struct weir_guard_answer){ .verdict = decision.verdict,
						  .reset_after = reset_after,
						  .limits = several->n,
						  .is_limited = true,
						  .limit = several->claims[decision.decided_by].limit };
	name_decider(&request->texts[decision.decided_by], ret_answer);
	return decision.decided_by + 1;
}

enum { MORE_SIZE = 48 };

static void write_more(const struct request *request, size_t decider, char more[MORE_SIZE])
{
	more[0] = '\0';
	if (request->mode == NULL)
		(void)snprintf(more, MORE_SIZE, ",\"decided_by_item\":%zu", decider - 1);
}

static bool check_batch(struct weir__http_call *call, const json_t *array, struct request *request)
{
	const struct weir__json whole = { call, WEIR__JSON_NO_ITEM, NULL };
	struct weir__json json = { call, 0, NULL };

	if (json_array_size(array) > WEIR__BATCH_MAX)
		return weir__json_refuse(&whole, NULL, array, "there are 1000 at most");
	for (; json.item < json_array_size(array); json.item++)
		if (!read_request(&json, json_array_get(array, json.item), request))
			return false;
	return true;
}

/* The policy may change after all were looked at, and a limit be gone: that ends it. */
static void say_batch(struct weir__http_call *call, const json_t *array, struct request *request)
{
	struct weir__http_reply *const reply = call->reply;
	struct weir__json json = { call, 0, NULL };
	struct weir_guard_answer answer;
	char more[MORE_SIZE];

	for (; json.item < json_array_size(array); json.item++) {
		weir__reply_add_text(reply, json.item == 0 ? "[{" : ",\n{");
		if (!read_request(&json, json_array_get(array, json.item), request)) {
			weir__reply_problem(reply, 409,
					    "the policy changed while it was asked; some of it was decided");
			return;
		}
		weir__http_next_item(call, json.item);
		write_more(request, decide(call, request, &answer), more);
		weir__http_add_answer(reply, &answer);
		weir__reply_add_text(reply, more);
		WEIR__REPLY_ADD(reply, "}");
	}
	weir__reply_add_text(reply, json.item == 0 ? "[]\n" : "]\n");
	weir__reply_end(reply, 200, WEIR__TYPE_JSON);
}

static void say_one(struct weir__http_call *call, const struct request *request)
{
	struct weir_guard_answer answer;
	char more[MORE_SIZE];

	write_more(request, decide(call, request, &answer), more);
	weir__http_say_more(call, &answer, 429, more);
}

void weir__http_take(struct weir__http_call *call)
{
	const struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };
	json_t *const root = weir__json_of_body(call);
	struct request request;

	if (root == NULL)
		return;
	if (!json_is_array(root)) {
		if (read_request(&json, root, &request))
			say_one(call, &request);
	} else if (check_batch(call, root, &request)) {
		say_batch(call, root, &request);
	}
	json_decref(root);
}
