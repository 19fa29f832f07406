/* http_live.c: the live document, and what each limit would decide about a request. */
#include <stdio.h>
#include <string.h>

#include "core/hex.h"
#include "guard/guard.h"
#include "observe/top_keys.h"
#include "server/http/http_call.h"
#include "server/live.h"

void weir__http_live(struct weir__http_call *call)
{
	struct weir__http_query question;
	const char *fault = weir__http_read_query(call->request->query, &question);
	struct weir__live_query query;
	struct weir__refusal refusal;
	char detail[160];

	weir__live_query_init(&query);
	for (size_t i = 0; fault == NULL && i < question.n; i++)
		fault = weir__live_query_set(&query, question.attributes[i].name, question.attributes[i].name_length,
					     question.attributes[i].value, question.attributes[i].value_length);
	if (fault) {
		(void)snprintf(detail, sizeof(detail), "%s%s", strncmp(fault, "the query: ", 11) ? "the query: " : "",
			       fault);
		weir__reply_problem(call->reply, 400, detail);
	} else if (weir__live_write(call->context, &query, call->reply)) {
		weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
	} else {
		refusal.why.text[0] = '\0';
		(void)weir__limit_ref_find_named(call->context, query.limit, query.limit_length, &refusal);
		(void)weir__http_refuse_as(call, "the query: ", &refusal);
	}
}

/* --- /v1/live/key ------------------------------------------------------------------------------------------------ */

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
	weir__reply_add_word(reply, ",\"mode\":", weir__limit_ref_mode_word(view->mode));
	weir__reply_add_word(reply, ",\"limit\":", text);
	if (view->limit)
		weir__reply_add_word(reply, ",\"algorithm\":", weir_algorithm_name(limit.algorithm));
	else
		WEIR__REPLY_ADD(reply, ",\"algorithm\":null");
	weir__reply_add_word(reply, ",\"key\":", view->key);
	weir__reply_add_member(reply, ",\"cost\":", view->cost);
	add_verdict(reply, &view->verdict);
	weir__reply_add_text(reply, view->applies ? ",\"applies\":true}" : ",\"applies\":false}");
	if (view->applies && view->mode == WEIR_MODE_ENFORCE)
		views->is_allowed = views->is_allowed && view->verdict.allowed;
}

/* A limit and the bytes of one of its keys, as in the live document. */
struct pointed {
	struct weir__guard_chosen chosen;
	bool is_limited;
	char key[WEIR__TOP_KEY_KEY_SIZE]; /* the live document has no raw bytes of longer keys */
};

/* Returns NULL, or what would be right. */
static const char *read_raw(const struct weir_attribute *raw, struct pointed *pointed)
{
	const size_t length = raw->value_length / 2;

	if (raw->value_length % 2 || length > sizeof(pointed->key))
		return "the query: raw: use two hexadecimal digits for each byte of a key, up to 64 bytes";
	for (size_t i = 0; i < length; i++) {
		const int high = weir__hex_digit(raw->value[2 * i]), low = weir__hex_digit(raw->value[2 * i + 1]);

		if (high < 0 || low < 0)
			return "the query: raw: use hexadecimal, two digits for each byte of a key";
		pointed->key[i] = (char)(high << 4 | low);
	}
	pointed->chosen.key = pointed->key;
	pointed->chosen.key_length = length;
	return NULL;
}

/* Removes an attribute from a query. Returns false if it has none of this name. */
static bool take_out(struct weir__http_query *question, const char *name, struct weir_attribute *ret_attribute)
{
	for (size_t i = 0; i < question->n; i++)
		if (question->attributes[i].name_length == strlen(name) &&
		    memcmp(question->attributes[i].name, name, strlen(name)) == 0) {
			*ret_attribute = question->attributes[i];
			question->n--;
			memmove(&question->attributes[i], &question->attributes[i + 1],
				(question->n - i) * sizeof(question->attributes[0]));
			return true;
		}
	return false;
}

static void note_mode(void *pointed_, const struct weir__guard_row *row)
{
	struct pointed *const pointed = pointed_;

	pointed->is_limited = row->limit != NULL;
	pointed->chosen.mode = row->mode;
}

/* Finds the limit and the key that `limit` and `raw` of the query name. Without `raw`, `limit` is an attribute like any
 * other, and *ret_chosen is NULL. Returns false after writing the error response. */
static bool find_pointed(struct weir__http_call *call, struct weir_guard *guard, struct weir__http_query *question,
			 struct pointed *pointed, const struct weir__guard_chosen **ret_chosen)
{
	struct weir__refusal refusal;
	struct weir_attribute raw, limit;
	const char *fault;

	*ret_chosen = NULL;
	if (!take_out(question, "raw", &raw))
		return true;
	fault = take_out(question, "limit", &limit) ?
			read_raw(&raw, pointed) :
			"the query: raw: needs limit, the name of the limit that the key belongs to";
	if (fault) {
		weir__reply_problem(call->reply, 400, fault);
		return false;
	}
	pointed->chosen.plan = limit.value;
	pointed->chosen.plan_length = limit.value_length;
	if (weir__guard_row(guard, limit.value, limit.value_length, note_mode, pointed) && pointed->is_limited) {
		*ret_chosen = &pointed->chosen;
		return true;
	}
	refusal.why.text[0] = '\0';
	(void)weir__limit_ref_find_named(call->context, limit.value, limit.value_length, &refusal);
	(void)weir__http_refuse_as(call, "the query: ", &refusal);
	return false;
}

static void write_views(struct weir__request *request, void *call_)
{
	struct weir__look *const look = (struct weir__look *)(void *)request;
	struct weir__http_call *const call = call_;
	struct views views = { call->reply, 0, !look->look.is_denied };

	WEIR__REPLY_ADD(call->reply, "{\"limits\":[\n");
	weir__look_tell(look, add_view, &views);
	weir__reply_add_text(call->reply, views.is_allowed ? "],\"allowed\":true}\n" : "],\"allowed\":false}\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}

void weir__http_live_key(struct weir__http_call *call)
{
	struct weir__http_query question;
	struct weir_guard *const guard = weir__http_guard_and_query(call, &question);
	const struct weir__guard_chosen *chosen;
	struct pointed pointed;
	struct weir_message why;
	struct weir__look look;

	if (guard == NULL || !find_pointed(call, guard, &question, &pointed, &chosen))
		return;
	weir__look_init(&look, call->context, call->client, write_views);
	weir__http_begin(call, &look.request);
	weir__http_end_run(call,
			   weir__look_run(&look, guard, question.attributes, question.n, question.cost, chosen, &why),
			   &look.request, &why);
}
