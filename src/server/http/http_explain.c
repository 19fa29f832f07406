/* http_explain.c: why each limit of the policy applies to a request, or why it does not. Limits that apply come first,
 * since there may be too many limits for one response. */
#include <string.h>

#include "guard/guard.h"
#include "server/http/http_call.h"
#include "server/http/http_json.h"

enum { LINES_MOST = 40 * 1024 }; /* bytes */

struct lines {
	struct weir__http_reply *reply;
	size_t told, left_out;
};

static void add_line(void *lines_, const char *line)
{
	struct lines *const lines = lines_;

	if (lines->left_out > 0 || lines->reply->body_length + strlen(line) > LINES_MOST) {
		lines->left_out++;
		return;
	}
	weir__reply_add_text(lines->reply, lines->told++ == 0 ? "" : ",\n");
	weir__reply_add_string(lines->reply, line, strlen(line));
}

static void explain(struct weir__http_call *call, struct weir_guard *guard, const struct weir__http_query *question)
{
	struct lines lines = { .reply = call->reply };

	WEIR__REPLY_ADD(call->reply, "{\"lines\":[");
	weir__guard_explain(guard, question->attributes, question->n, add_line, &lines);
	WEIR__REPLY_ADD(call->reply, "],\"left_out\":");
	weir__reply_add_number(call->reply, lines.left_out);
	WEIR__REPLY_ADD(call->reply, "}\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}

void weir__http_get_explain(struct weir__http_call *call)
{
	struct weir__http_query question;
	struct weir_guard *const guard = weir__http_guard_and_query(call, &question);

	if (guard)
		explain(call, guard, &question);
}

void weir__http_post_explain(struct weir__http_call *call)
{
	static const char *const members[] = { "attributes", NULL };
	const struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };
	struct weir_guard *const guard = weir__http_guard(call);
	json_t *const root = guard ? weir__json_of_body(call) : NULL;
	struct weir__http_query question;

	if (root && weir__json_has_only(&json, root, members) &&
	    weir__json_read_attributes(&json, json_object_get(root, "attributes"), &question))
		explain(call, guard, &question);
	json_decref(root);
}
