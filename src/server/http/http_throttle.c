/* http_throttle.c: POST /throttle, as in throttlecrab: the status is 200 even for a denial and 500 for an invalid
 * limit, and unknown members are ignored. */
#include <stdio.h>
#include <string.h>

#include "core/uninitialized.h"
#include "server/http/http_call.h"
#include "server/http/http_json.h"

enum { QUANTITY = WEIR__THROTTLE_ARGUMENTS - 1 };

static const char *const members[WEIR__THROTTLE_ARGUMENTS] = { "max_burst", "count_per_period", "period", "quantity" };

/* Returns false after writing the error response. Only the quantity may be missing. */
static bool read_types(struct weir__http_call *call, const json_t *object, int64_t numbers[WEIR__THROTTLE_ARGUMENTS])
{
	char text[96] = "the body.key: use a string";

	numbers[QUANTITY] = 1;
	for (int i = 0; i < WEIR__THROTTLE_ARGUMENTS && json_is_string(json_object_get(object, "key")); i++) {
		const json_t *const value = json_object_get(object, members[i]);

		if (json_is_integer(value)) {
			numbers[i] = json_integer_value(value);
		} else if (i < QUANTITY || (value && !json_is_null(value))) {
			(void)snprintf(text, sizeof(text), "the body.%s: use a whole number", members[i]);
			break;
		}
		if (i == QUANTITY)
			return true;
	}
	weir__reply_problem(call->reply, 422, text);
	return false;
}

/* Leaves out the error code, which is for RESP. */
static void say_refusal(struct weir__http_call *call, const struct weir__refusal *refusal)
{
	const char *const said = weir__error_rows[refusal->error].text;
	char text[sizeof(refusal->why.text) + 256];

	(void)snprintf(text, sizeof(text), "Internal server error: %s%s", said + strcspn(said, " ") + 1,
		       refusal->why.text);
	WEIR__REPLY_ADD(call->reply, "{\"error\":");
	weir__reply_add_string(call->reply, text, strlen(text));
	WEIR__REPLY_ADD(call->reply, "}");
	weir__reply_end(call->reply, 500, WEIR__TYPE_JSON);
}

/* Returns NULL after writing the error response. */
static const struct weir_table_limit *find(struct weir__http_call *call,
					   const int64_t numbers[WEIR__THROTTLE_ARGUMENTS])
{
	const struct weir_table_limit *limit;
	struct weir__refusal refusal WEIR__UNINITIALIZED;
	struct weir_limit asked;

	if (weir__limit_ref_throttle(numbers, &asked, &refusal)) {
		if (weir__inline_limits_find(&call->context->limits, WEIR__SPACE_THROTTLE, &asked, &limit,
					     &refusal.why) == WEIR_OK)
			return limit;
		refusal.error = WEIR__ERROR_LIMIT;
	}
	say_refusal(call, &refusal);
	return NULL;
}

static void write_throttle(struct weir__request *request, void *call_)
{
	static const char *const names[WEIR__THROTTLE_NUMBERS] = { NULL, ",\"limit\":", ",\"remaining\":",
								   ",\"reset_after\":", ",\"retry_after\":" };
	const struct weir__decide *const decide = (const struct weir__decide *)(const void *)request;
	struct weir__http_call *const call = call_;
	int64_t numbers[WEIR__THROTTLE_NUMBERS];

	weir__limit_ref_throttle_numbers(&request->claims[0], &decide->verdict, numbers);
	weir__reply_add_text(call->reply, numbers[0] ? "{\"allowed\":true" : "{\"allowed\":false");
	for (int i = 1; i < WEIR__THROTTLE_NUMBERS; i++) {
		weir__reply_add_text(call->reply, names[i]);
		weir__reply_add_number(call->reply, (uint64_t)numbers[i]);
	}
	WEIR__REPLY_ADD(call->reply, "}");
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}

static void run(struct weir__http_call *call, const json_t *object)
{
	const json_t *const key = json_object_get(object, "key");
	struct weir__decide decide WEIR__UNINITIALIZED;
	struct weir_claim claim;
	struct weir__refusal refusal;
	const char *text;
	int64_t numbers[WEIR__THROTTLE_ARGUMENTS];

	if (!read_types(call, object, numbers))
		return;
	claim = (struct weir_claim){ find(call, numbers), json_string_value(key), json_string_length(key),
				     (uint64_t)numbers[QUANTITY] };
	if (claim.limit == NULL)
		return;
	weir__limit_ref_begin(call->context);
	text = claim.key;
	if (!weir__limit_ref_add_prefix(call->context, call->client, &text, &claim.key_length, &refusal)) {
		say_refusal(call, &refusal);
		return;
	}
	claim.key = text;
	weir__decide_init(&decide, call->context, call->client, WEIR__PROTOCOL_HTTP, write_throttle);
	weir__http_begin(call, &decide.request);
	if (weir__decide_run(&decide, WEIR__STORE_TAKE, &claim, 1) == WEIR__RUN_DONE)
		write_throttle(&decide.request, call);
}

void weir__http_throttle(struct weir__http_call *call)
{
	json_t *const root = weir__json_of_body(call);

	if (root)
		run(call, root);
	json_decref(root);
}
