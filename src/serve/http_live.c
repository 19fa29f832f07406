/* http_live.c: what the server sees now, and what it would say to a request. */
#include <stdio.h>
#include <string.h>

#include "guard/guard.h"
#include "serve/asked.h"
#include "serve/http_call.h"
#include "serve/live.h"

void weir__http_live(struct weir__http_call *call)
{
	struct weir__question question;
	const char *fault = weir__http_read_query(call->request->query, &question);
	struct weir__live_query query;
	struct weir__refusal refusal;
	char detail[96];

	weir__live_query_init(&query);
	for (size_t i = 0; fault == NULL && i < question.n; i++)
		fault = weir__live_query_set(&query, question.attributes[i].name, question.attributes[i].name_length,
					     question.attributes[i].value, question.attributes[i].value_length);
	if (fault) {
		(void)snprintf(detail, sizeof(detail), "%s%s", strncmp(fault, "the query: ", 11) ? "the query: " : "",
			       fault);
		weir__reply_problem(call->reply, 400, detail);
	} else if (weir__live_write(call->commands, &query, call->reply)) {
		weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
	} else {
		refusal.why.text[0] = '\0';
		(void)weir__asked_find_named(call->commands, query.limit, query.limit_length, &refusal);
		(void)weir__http_refuse_as(call, "the query: ", &refusal);
	}
}

/* --- what would be said ------------------------------------------------------------------------------------------ */

/* The limits that apply to a request, one by one. */
struct views {
	struct weir__http_reply *reply;
	size_t n;
	bool is_allowed;
};

static void add_seconds(struct weir__http_reply *reply, const char *name, weir_ns span)
{
	char fraction[16];

	weir__reply_add_member(reply, name, span / 1000000000);
	(void)snprintf(fraction, sizeof(fraction), ".%09u", (unsigned)(span % 1000000000));
	weir__reply_add_text(reply, fraction);
}

static void add_verdict(struct weir__http_reply *reply, const struct weir_verdict *verdict)
{
	weir__reply_add_member(reply, ",\"capacity\":", verdict->limit);
	weir__reply_add_member(reply, ",\"remaining\":", verdict->remaining);
	weir__reply_add_text(reply, verdict->allowed ? ",\"denied\":false" : ",\"denied\":true");
	if (verdict->never)
		WEIR__REPLY_ADD(reply, ",\"retry_after_s\":null");
	else
		add_seconds(reply, ",\"retry_after_s\":", verdict->allowed ? 0 : verdict->retry_after);
	add_seconds(reply, ",\"reset_after_s\":", verdict->reset_after);
	add_seconds(reply, ",\"delay_s\":", verdict->delay);
}

static void add_view(void *views_, const struct weir__guard_view *view)
{
	struct views *const views = views_;
	struct weir__http_reply *const reply = views->reply;
	char text[WEIR_LIMIT_TEXT_MAX] = "unlimited";
	struct weir_limit limit;

	if (view->limit) {
		limit = weir_table_limit_limit(view->limit);
		(void)weir_limit_print(&limit, text);
	}
	weir__reply_add_text(reply, views->n++ ? ",\n" : "");
	weir__reply_add_word(reply, "{\"name\":", view->name);
	weir__reply_add_word(reply, ",\"mode\":", weir__asked_mode_word(view->mode));
	weir__reply_add_word(reply, ",\"limit\":", text);
	if (view->limit)
		weir__reply_add_word(reply, ",\"algorithm\":", weir_algorithm_name(limit.algorithm));
	else
		WEIR__REPLY_ADD(reply, ",\"algorithm\":null");
	weir__reply_add_word(reply, ",\"key\":", view->key);
	weir__reply_add_member(reply, ",\"cost\":", view->cost);
	add_verdict(reply, &view->verdict);
	WEIR__REPLY_ADD(reply, "}");
	if (view->mode == WEIR_MODE_ENFORCE)
		views->is_allowed = views->is_allowed && view->verdict.allowed;
}

void weir__http_live_key(struct weir__http_call *call)
{
	struct views views = { call->reply, 0, true };
	struct weir__question question;
	struct weir_guard *const guard = weir__http_ask_by_query(call, &question);
	struct weir_message why;

	if (guard == NULL)
		return;
	WEIR__REPLY_ADD(call->reply, "{\"limits\":[\n");
	if (weir__guard_view(guard, call->commands->seam, question.attributes, question.n, question.cost,
			     weir_table_now(call->commands->table), add_view, &views, &why) != WEIR_OK) {
		weir__reply_problem(call->reply, 400, why.text);
		return;
	}
	weir__reply_add_text(call->reply, views.is_allowed ? "],\"allowed\":true}\n" : "],\"allowed\":false}\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}
