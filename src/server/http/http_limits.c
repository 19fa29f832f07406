/* http_limits.c: lists the limits of the policy, shows one of them, and changes one. */
#include <string.h>

#include "core/decimal.h"
#include "engine/limit_row.h"
#include "engine/request_audit.h"
#include "guard/guard.h"
#include "server/http/http_call.h"
#include "server/http/http_json.h"
#include "server/shared_changes.h"

enum { ROWS_MAX = 50 };

/* Names and keys in Envoy's form may have any bytes, and a byte may become six in JSON. */
_Static_assert((int)ROWS_MAX *(6 * (64 + (int)WEIR__GUARD_KEY_SIZE + (int)WEIR__CHANGE_BY_SIZE) +
			       (int)WEIR_LIMIT_TEXT_MAX + 256) +
			       (int)WEIR__REPLY_HEAD_ROOM <=
		       256 * 1024,
	       "all rows fit what the route says");

/* --- rows ------------------------------------------------------------------------------------------------------- */

static void add_row(struct weir__http_call *call, const struct weir__guard_row *row)
{
	struct weir__http_reply *const reply = call->reply;
	struct weir__limit_row shown;

	weir__limit_row(call->context, row, &shown);
	weir__reply_add_word(reply, "{\"name\":", shown.name);
	weir__reply_add_word(reply, ",\"limit\":", shown.text);
	weir__reply_add_word(reply, ",\"mode\":", shown.mode);
	weir__reply_add_word(reply, ",\"key\":", shown.key);
	weir__reply_add_word(reply, ",\"store\":", shown.store);
	weir__reply_add_word(reply, ",\"consistency\":", shown.consistency);
	weir__reply_add_member(reply, ",\"wait_ns\":", shown.wait);
	weir__reply_add_member(reply, ",\"allowed\":", shown.allowed);
	weir__reply_add_member(reply, ",\"denied\":", shown.denied);
	if (*shown.changed) {
		weir__reply_add_word(reply, ",\"changed\":{\"servers\":", shown.changed);
		weir__reply_add_word(reply, ",\"by\":", shown.changed_by);
		weir__reply_add_member(reply, ",\"at\":", shown.changed_at_s);
		WEIR__REPLY_ADD(reply, "}}");
	} else {
		WEIR__REPLY_ADD(reply, ",\"changed\":null}");
	}
}

struct listing {
	struct weir__http_call *call;
	uint32_t n, told;
};

static void begin_rows(void *listing_, uint32_t n, uint32_t all)
{
	struct listing *const listing = listing_;

	(void)all;
	listing->n = n;
}

/* The guard lists one row more than is written, so that the response can say whether there are more. */
static void tell_row(void *listing_, const struct weir__guard_row *row)
{
	struct listing *const listing = listing_;

	if (listing->told == ROWS_MAX)
		return;
	weir__reply_add_text(listing->call->reply, listing->told == 0 ? "" : ",\n");
	add_row(listing->call, row);
	listing->told++;
}

/* --- routes ----------------------------------------------------------------------------------------------------- */

/* `first` is the only parameter of the query. */
static bool read_first(struct weir__http_call *call, uint32_t *ret_first)
{
	static const char name[] = "first=";
	const struct weir__http_slice query = call->request->query;
	uint64_t first = 0;

	*ret_first = 0;
	if (query.length == 0)
		return true;
	if (query.length < sizeof(name) || memcmp(query.bytes, name, sizeof(name) - 1) != 0 ||
	    !weir__decimal_read(query.bytes + sizeof(name) - 1, query.length - (sizeof(name) - 1), UINT32_MAX,
				&first)) {
		weir__reply_problem(call->reply, 400, "the query: use first=N, the number of a limit, 0 to 4294967295");
		return false;
	}
	*ret_first = (uint32_t)first;
	return true;
}

void weir__http_get_limits(struct weir__http_call *call)
{
	struct weir_guard *const guard = weir__http_guard(call);
	struct listing listing = { .call = call };
	uint32_t first;

	if (guard == NULL || !read_first(call, &first))
		return;
	WEIR__REPLY_ADD(call->reply, "{\"limits\":[");
	weir__guard_list(guard, first, ROWS_MAX + 1, begin_rows, tell_row, &listing);
	WEIR__REPLY_ADD(call->reply, "],\"next\":");
	if (listing.n > ROWS_MAX)
		weir__reply_add_number(call->reply, (uint64_t)first + ROWS_MAX);
	else
		WEIR__REPLY_ADD(call->reply, "null");
	WEIR__REPLY_ADD(call->reply, "}\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}

static void tell_one(void *call_, const struct weir__guard_row *row)
{
	struct weir__http_call *const call = call_;

	add_row(call, row);
	WEIR__REPLY_ADD(call->reply, "\n");
}

/* The name may have an @ before it, as elsewhere. */
static struct weir__http_slice name_of(const struct weir__http_call *call)
{
	struct weir__http_slice name = call->parameters[0];

	if (weir__limit_ref_is_named(name.bytes, name.length)) {
		name.bytes++;
		name.length--;
	}
	return name;
}

static void say_limit(struct weir__http_call *call, struct weir_guard *guard, struct weir__http_slice name)
{
	struct weir__refusal refusal;

	if (weir__guard_row(guard, name.bytes, name.length, tell_one, call)) {
		weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
	} else {
		(void)weir__limit_ref_find_named(call->context, name.bytes, name.length, &refusal);
		(void)weir__http_refuse_as(call, "the path: ", &refusal);
	}
}

void weir__http_get_limit(struct weir__http_call *call)
{
	struct weir_guard *const guard = weir__http_guard(call);

	if (guard)
		say_limit(call, guard, name_of(call));
}

/* Returns false after writing the error response. */
static bool read_change(struct weir__http_call *call, const json_t *root, struct weir_limit *ret_limit)
{
	static const char *const members[] = { "limit", NULL };
	const struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };
	struct weir__json_text text;
	struct weir__refusal refusal;

	if (!weir__json_has_only(&json, root, members) ||
	    !weir__json_read_text(&json, root, "limit", "use a limit such as \"100/min burst 20\"", &text))
		return false;
	return weir__limit_ref_read_text(text.bytes, text.length, ret_limit, &refusal) ||
	       weir__json_refuse_as(&json, "limit", &refusal);
}

/* The query is empty, or here=true. Returns false after writing the error response. */
static bool read_here(struct weir__http_call *call, bool *ret_is_here)
{
	static const char yes[] = "here=true", no[] = "here=false";
	const struct weir__http_slice query = call->request->query;

	*ret_is_here = query.length == sizeof(yes) - 1 && memcmp(query.bytes, yes, query.length) == 0;
	if (query.length == 0 || *ret_is_here ||
	    (query.length == sizeof(no) - 1 && memcmp(query.bytes, no, query.length) == 0))
		return true;
	weir__reply_problem(call->reply, 400, "the query: use here=true to change only this server, or no query");
	return false;
}

static void write_shared(struct weir__request *request, void *call_)
{
	struct weir__shared_change *const change = ((struct weir__change_request *)(void *)request)->change;
	struct weir__http_call *const call = call_;

	if (change->is_made)
		say_limit(call, call->context->guard, (struct weir__http_slice){ change->plan, strlen(change->plan) });
	else
		(void)weir__http_refuse_as(call, "", &change->refusal);
}

/* The response comes when the store has the change. */
static void change_all(struct weir__http_call *call, const struct weir__audit_who *who, struct weir__http_slice name,
		       const struct weir_limit *to)
{
	struct weir__change_request request;
	struct weir__refusal refusal;

	if (weir__change_request_init(&request, call->context, call->client, who, name.bytes, name.length, to,
				      &refusal)) {
		request.request.write = write_shared;
		weir__http_begin(call, &request.request);
		if (weir__change_request_send(&request, &refusal))
			return;
	}
	(void)weir__http_refuse_as(call, "", &refusal);
}

void weir__http_put_limit(struct weir__http_call *call)
{
	struct weir_guard *const guard = weir__http_guard(call);
	const struct weir__http_slice name = name_of(call);
	struct weir__audit_who who;
	struct weir__refusal refusal;
	struct weir_limit to;
	bool is_here;
	json_t *const root = guard && read_here(call, &is_here) ? weir__json_of_body(call) : NULL;

	if (root && read_change(call, root, &to)) {
		weir__audit_who_of(call->client, WEIR__PROTOCOL_HTTP, &who);
		if (call->context->changes && !is_here)
			change_all(call, &who, name, &to);
		else if (weir__limit_ref_change(call->context, &who, name.bytes, name.length, &to, &refusal))
			say_limit(call, guard, name);
		else
			(void)weir__http_refuse_as(call, "", &refusal);
	}
	json_decref(root);
}
