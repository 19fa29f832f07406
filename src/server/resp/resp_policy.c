/* resp_policy.c: commands about the policy and its limits, and the live document. */
#include "server/resp/resp_command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/limit_row.h"
#include "engine/request_audit.h"
#include "server/live.h"
#include "server/policy_loader.h"
#include "server/shared_changes.h"
#include "server/user_reload.h"

enum {
	ROWS_MAX = 50,          /* of WEIR.LIMITS in one reply */
	LINES_SIZE = 32 * 1024, /* bytes, of WEIR.EXPLAIN */
	NAME_MOST = 63,         /* bytes, of a limit */
};

/* --- explain ----------------------------------------------------------------------------------------------------- */

/* A reply of as many lines as fit. */
struct lines {
	char text[LINES_SIZE];
	size_t length, n, left_out;
};

static void add_line(void *lines_, const char *line)
{
	struct lines *const lines = lines_;
	const size_t size = strlen(line) + 1;

	if (lines->left_out > 0 || size > sizeof(lines->text) - lines->length) {
		lines->left_out++;
		return;
	}
	memcpy(lines->text + lines->length, line, size);
	lines->length += size;
	lines->n++;
}

void weir__explain_command(struct weir__call *call)
{
	struct weir_attribute attributes[WEIR__RESP_ATTRIBUTES_MAX];
	struct weir_guard *const guard = weir__guard_of(call);
	struct lines lines;
	char more[64];
	size_t n;

	if (guard == NULL || !weir__read_attributes(call, attributes, &n))
		return;
	lines.length = lines.n = lines.left_out = 0;
	weir__guard_explain(guard, attributes, n, add_line, &lines);
	weir__resp_write_array(call->writer, lines.n + (lines.left_out > 0));
	for (const char *line = lines.text; line < lines.text + lines.length; line += strlen(line) + 1)
		weir__say_word(call, line);
	if (lines.left_out > 0) {
		(void)snprintf(more, sizeof(more), "and %zu more", lines.left_out);
		weir__say_word(call, more);
	}
}

/* --- limits by name --------------------------------------------------------------------------------------------- */

static void begin_rows(void *call_, uint32_t n, uint32_t all)
{
	const struct weir__call *const call = call_;

	(void)all;
	weir__resp_write_array(call->writer, n);
}

static void say_row(void *call_, const struct weir__guard_row *row)
{
	const struct weir__call *const call = call_;
	struct weir__limit_row shown;

	weir__limit_row(call->context, row, &shown);
	weir__answer_pairs(call->writer, 12);
	weir__say_word(call, "name");
	weir__say_word(call, shown.name);
	weir__say_word(call, "limit");
	weir__say_word(call, shown.text);
	weir__say_word(call, "mode");
	weir__say_word(call, shown.mode);
	weir__say_word(call, "key");
	weir__say_word(call, shown.key);
	weir__say_word(call, "allowed");
	weir__resp_write_integer(call->writer, weir__signed_of(shown.allowed));
	weir__say_word(call, "denied");
	weir__resp_write_integer(call->writer, weir__signed_of(shown.denied));
	weir__say_word(call, "changed");
	weir__say_word(call, shown.changed);
	weir__say_word(call, "changed_by");
	weir__say_word(call, shown.changed_by);
	weir__say_word(call, "changed_at");
	weir__resp_write_integer(call->writer, weir__signed_of(shown.changed_at_s));
	weir__say_word(call, "store");
	weir__say_word(call, shown.store);
	weir__say_word(call, "wait");
	weir__resp_write_integer(call->writer, weir__signed_of(shown.wait));
	weir__say_word(call, "consistency");
	weir__say_word(call, shown.consistency);
}

_Static_assert((int)ROWS_MAX *((int)NAME_MOST + (int)WEIR_LIMIT_TEXT_MAX + (int)WEIR__GUARD_KEY_SIZE +
			       (int)WEIR__CHANGE_BY_SIZE + 256) <= (int)WEIR__ANSWER_MOST,
	       "all rows fit an answer");

void weir__limits_command(struct weir__call *call)
{
	struct weir_guard *const guard = weir__guard_of(call);
	uint64_t first = 0;

	if (guard == NULL || (call->n > 1 && !weir__read_number(call, 1, UINT32_MAX, WEIR__ERROR_LIMITS_FIRST, &first)))
		return;
	weir__guard_list(guard, (uint32_t)first, ROWS_MAX, begin_rows, say_row, call);
}

static void write_shared(struct weir__request *request, void *writer)
{
	const struct weir__shared_change *const change = ((const struct weir__change_request *)(void *)request)->change;
	char text[512];
	int length;

	if (change->is_made) {
		weir__resp_write_simple(writer, "OK", 2);
		return;
	}
	length = snprintf(text, sizeof(text), "%s%s", weir__error_rows[change->refusal.error].text,
			  change->refusal.why.text);
	weir__resp_write_error(writer, text, weir__min((size_t)length, sizeof(text) - 1));
}

/* The reply comes when the store has the change. */
static bool change_all(struct weir__call *call, const struct weir__audit_who *who, const char *name, size_t length,
		       const struct weir_limit *to, struct weir__refusal *ret_refusal)
{
	struct weir__change_request request;

	if (!weir__change_request_init(&request, call->context, call->client, who, name, length, to, ret_refusal))
		return false;
	request.request.write = write_shared;
	return weir__change_request_send(&request, ret_refusal);
}

/* The name may have an @ before it, as elsewhere. */
void weir__change(struct weir__call *call)
{
	const struct weir__resp_slice *const name = &call->arguments[1];
	const size_t sign = weir__limit_ref_is_named(name->bytes, name->length) ? 1 : 0;
	const bool is_here = call->n > 3 && weir__is_word(&call->arguments[3], "HERE");
	struct weir__audit_who who;
	struct weir__refusal refusal;
	struct weir_limit to;
	bool is_begun;

	if (weir__guard_of(call) == NULL || !weir__read_limit(call, 2, &to))
		return;
	if (call->n > 3 && !is_here) {
		weir__refuse(call, WEIR__ERROR_CHANGE_WORD);
		return;
	}
	weir__audit_who_of(call->client, WEIR__PROTOCOL_RESP, &who);
	if (call->context->changes == NULL || is_here) {
		is_begun = weir__limit_ref_change(call->context, &who, name->bytes + sign, name->length - sign, &to,
						  &refusal);
		if (is_begun)
			weir__say_ok(call);
	} else {
		is_begun = change_all(call, &who, name->bytes + sign, name->length - sign, &to, &refusal);
	}
	if (!is_begun)
		(void)weir__refuse_as(call, &refusal);
}

void weir__reload(struct weir__call *call)
{
	struct weir__audit_who who;
	struct weir__log_line line;

	if (weir__guard_of(call) == NULL)
		return;
	if (call->context->user_reload)
		weir__user_reload_reload(call->context->user_reload);
	weir__resp_write_integer(call->writer, weir__signed_of(weir__policy_loader_reload(call->context->loader)));
	weir__audit_who_of(call->client, WEIR__PROTOCOL_RESP, &who);
	weir__audit_begin(&line, call->context->log, &who, "reload_asked");
	weir__audit_end(&line, call->context->log, NULL);
}

/* --- the live document ------------------------------------------------------------------------------------------- */

/* Reads seconds, then options by name. Returns false after writing the error reply. */
static bool read_query(struct weir__call *call, struct weir__live_query *query)
{
	const uint32_t first = call->n % 2 == 0 ? 2 : 1;
	const char *fault = NULL;

	weir__live_query_init(query);
	if (first == 2)
		fault = weir__live_query_set(query, "seconds", 7, call->arguments[1].bytes, call->arguments[1].length);
	for (uint32_t i = first; fault == NULL && i < call->n; i += 2) {
		const struct weir__resp_slice *const name = &call->arguments[i], *const value = name + 1;
		char letters[8] = "";

		for (size_t j = 0; j < name->length && j + 1 < sizeof(letters); j++)
			letters[j] = (char)tolower((unsigned char)name->bytes[j]);
		fault = weir__live_query_set(query, letters, name->length, value->bytes, value->length);
	}
	if (fault)
		weir__refuse_with(call, WEIR__ERROR_LIVE, fault);
	return fault == NULL;
}

void weir__live_command(struct weir__call *call)
{
	char *const room = malloc(WEIR__ANSWER_LONG);
	struct weir__refusal refusal = { .error = WEIR__ERROR_LIVE };
	struct weir__http_reply reply;
	struct weir__live_query query;

	if (room == NULL) {
		weir__refuse_with(call, WEIR__ERROR_LIVE, "no memory for it");
		return;
	}
	/* 32 bytes are for the bulk header before the document. */
	weir__reply_init(&reply, room, WEIR__ANSWER_LONG - 32, NULL);
	if (read_query(call, &query)) {
		if (!weir__live_write(call->context, &query, &reply)) {
			refusal.why.text[0] = '\0';
			(void)weir__limit_ref_find_named(call->context, query.limit, query.limit_length, &refusal);
			(void)weir__refuse_as(call, &refusal);
		} else if (reply.is_full) {
			weir__refuse_with(call, WEIR__ERROR_LIVE, "the reply would be too long: request fewer keys");
		} else {
			weir__resp_write_bulk(call->writer, room + WEIR__REPLY_HEAD_ROOM, reply.body_length);
		}
	}
	free(room);
}
