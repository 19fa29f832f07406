/* http_keys.c: what is known of a key, and forgetting it. The path has the limit, as text or by @name, and the key. */

#include "serve/asked.h"
#include "serve/audit.h"
#include "serve/decide.h"
#include "serve/http_call.h"

/* False: that was answered. */
static bool read_path(struct weir__http_call *call, struct weir_claim *ret_claim)
{
	const struct weir__http_slice *const text = &call->parameters[0], *const key = &call->parameters[1];
	struct weir__refusal refusal;

	weir__asked_begin(call->commands);
	return weir__asked_find(call->commands, text->bytes, text->length, key->bytes, key->length, ret_claim,
				&refusal) ||
	       weir__http_refuse_as(call, "the path: ", &refusal);
}

void weir__http_get_key(struct weir__http_call *call)
{
	struct weir__http_reply *const reply = call->reply;
	char text[WEIR_LIMIT_TEXT_MAX];
	struct weir_table_key key;
	struct weir_limit stated;
	struct weir_claim claim;

	if (!read_path(call, &claim))
		return;
	key = weir__decide_inspect(call->commands, &claim);
	stated = weir_table_limit_limit(claim.limit);
	(void)weir_limit_print(&stated, text);
	weir__reply_add_text(reply, key.is_stored ? "{\"is_stored\":true" : "{\"is_stored\":false");
	weir__reply_add_member(reply, ",\"whole_at_ns\":", key.whole_at);
	weir__reply_add_member(reply, ",\"limit\":", key.verdict.limit);
	weir__reply_add_member(reply, ",\"remaining\":", key.verdict.remaining);
	weir__reply_add_member(reply, ",\"reset_after_ns\":", key.verdict.reset_after);
	weir__reply_add_word(reply, ",\"algorithm\":", weir_algorithm_name(stated.algorithm));
	weir__reply_add_word(reply, ",\"text\":", text);
	WEIR__REPLY_ADD(reply, "}\n");
	weir__reply_end(reply, 200, WEIR__TYPE_JSON);
}

void weir__http_delete_key(struct weir__http_call *call)
{
	struct weir_verdict verdict;
	struct weir_claim claim;

	if (!read_path(call, &claim))
		return;
	verdict = weir__decide_one(call->commands, WEIR__SEAM_RESET, &claim);
	weir__audit_key(call->commands, call->client, WEIR__WIRE_HTTP, WEIR__SEAM_RESET, &claim, &verdict);
	weir__reply_add_text(call->reply, verdict.allowed ? "{\"reset\":true}\n" : "{\"reset\":false}\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}
