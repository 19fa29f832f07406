/* http_keys.c: shows the state of a key, and resets it. The path has the limit, as text or by @name, and the key. */
#include "server/http/http_call.h"

#include "core/uninitialized.h"

/* Returns false after writing the error response. */
static bool read_path(struct weir__http_call *call, struct weir_claim *ret_claim)
{
	const struct weir__http_slice *const text = &call->parameters[0], *const key = &call->parameters[1];
	struct weir__refusal refusal WEIR__UNINITIALIZED;

	weir__limit_ref_begin(call->context);
	return weir__limit_ref_find(call->context, call->client, text->bytes, text->length, key->bytes, key->length,
				    ret_claim, &refusal) ||
	       weir__http_refuse_as(call, "the path: ", &refusal);
}

static void write_key(struct weir__request *request, void *call_)
{
	const struct weir__decide *const decide = (const struct weir__decide *)(const void *)request;
	const struct weir_limit stated = weir_table_limit_limit(request->claims[0].limit);
	struct weir__http_call *const call = call_;
	struct weir__http_reply *const reply = call->reply;
	char text[WEIR_LIMIT_TEXT_MAX];

	(void)weir_limit_print(&stated, text);
	weir__reply_add_text(reply, decide->is_stored ? "{\"is_stored\":true" : "{\"is_stored\":false");
	weir__reply_add_member(reply, ",\"full_at_ns\":", decide->full_at);
	weir__reply_add_member(reply, ",\"limit\":", decide->verdict.limit);
	weir__reply_add_member(reply, ",\"remaining\":", decide->verdict.remaining);
	weir__reply_add_member(reply, ",\"reset_after_ns\":", decide->verdict.reset_after);
	weir__reply_add_word(reply, ",\"algorithm\":", weir_algorithm_name(stated.algorithm));
	weir__reply_add_word(reply, ",\"text\":", text);
	WEIR__REPLY_ADD(reply, "}\n");
	weir__reply_end(reply, 200, WEIR__TYPE_JSON);
}

static void write_reset(struct weir__request *request, void *call_)
{
	const struct weir__decide *const decide = (const struct weir__decide *)(const void *)request;
	struct weir__http_call *const call = call_;
	struct weir__refusal refusal = { .why = { .text = "" } };

	if (weir__decide_is_unreset(decide, &refusal.error)) {
		(void)weir__http_refuse_as(call, "", &refusal);
		return;
	}
	weir__reply_add_text(call->reply, decide->verdict.allowed ? "{\"reset\":true}\n" : "{\"reset\":false}\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}

static void run(struct weir__http_call *call, enum weir__store_operation operation,
		void (*write)(struct weir__request *request, void *call))
{
	struct weir__decide decide WEIR__UNINITIALIZED;
	struct weir_claim claim;

	if (!read_path(call, &claim))
		return;
	weir__decide_init(&decide, call->context, call->client, WEIR__PROTOCOL_HTTP, write);
	weir__http_begin(call, &decide.request);
	if (weir__decide_run(&decide, operation, &claim, 1) == WEIR__RUN_DONE)
		write(&decide.request, call);
}

void weir__http_get_key(struct weir__http_call *call)
{
	run(call, WEIR__STORE_INSPECT, write_key);
}

void weir__http_delete_key(struct weir__http_call *call)
{
	run(call, WEIR__STORE_RESET, write_reset);
}
