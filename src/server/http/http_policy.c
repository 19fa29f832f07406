/* http_policy.c: shows, validates and replaces the policy over HTTP.
 *
 * Reading a policy may take long, so the policy loader's thread does it, and the client gets its response when that is
 * done. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/request_audit.h"
#include "policy/source/policy_text.h"
#include "server/http/http_call.h"
#include "server/policy_loader.h"
#include "server/policy_upload.h"

static void add_version(struct weir__http_reply *reply, uint64_t version)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "\"%016" PRIx64 "\"", version);
	weir__reply_add_text(reply, text);
}

/* --- GET -------------------------------------------------------------------------------------------------------- */

static void add_files(struct weir__http_reply *reply, const struct weir__policy_view *view)
{
	WEIR__REPLY_ADD(reply, ",\"hidden\":");
	if (view->hidden)
		weir__reply_add_string(reply, view->hidden, strlen(view->hidden));
	else
		WEIR__REPLY_ADD(reply, "null");
	WEIR__REPLY_ADD(reply, ",\"files\":[");
	for (size_t i = 0; i < view->n; i++) {
		weir__reply_add_text(reply, i == 0 ? "{\"name\":" : ",\n{\"name\":");
		weir__reply_add_string(reply, view->parts[i].file, strlen(view->parts[i].file));
		WEIR__REPLY_ADD(reply, ",\"text\":");
		weir__reply_add_string(reply, view->parts[i].text.at, view->parts[i].text.n);
		WEIR__REPLY_ADD(reply, "}");
	}
	WEIR__REPLY_ADD(reply, "]");
}

static void add_view(void *reply_, const struct weir__policy_view *view)
{
	struct weir__http_reply *const reply = reply_;

	WEIR__REPLY_ADD(reply, "{\"version\":");
	add_version(reply, view->version);
	weir__reply_add_text(reply, view->is_put ? ",\"from\":\"request\"" : ",\"from\":\"file\"");
	add_files(reply, view);
}

void weir__http_get_policy(struct weir__http_call *call)
{
	struct weir__http_reply *const reply = call->reply;
	struct weir__policy_loader_info info;

	if (weir__http_guard(call) == NULL)
		return;
	weir__policy_loader_info(call->context->loader, &info);
	weir__policy_text_look(weir__policy_loader_text(call->context->loader), add_view, reply);
	WEIR__REPLY_ADD(reply, ",\"limits\":");
	weir__reply_add_number(reply, info.limits);
	WEIR__REPLY_ADD(reply, ",\"changes\":");
	weir__reply_add_number(reply, info.changes);
	WEIR__REPLY_ADD(reply, ",\"loaded_at\":");
	weir__reply_add_number(reply, info.loaded_at / 1000000000);
	WEIR__REPLY_ADD(reply, "}\n");
	weir__reply_end(reply, 200, WEIR__TYPE_JSON);
}

/* --- outcome of an upload --------------------------------------------------------------------------------------- */

/* LINE:COLUMN: what is wrong. Without a place, line and column are 1. */
static void add_fault(struct weir__http_reply *reply, const char *line)
{
	char *end;
	const unsigned long number = strtoul(line, &end, 10);
	const unsigned long column = *end == ':' ? strtoul(end + 1, &end, 10) : 0;
	const bool has_place = end > line && end[0] == ':' && end[1] == ' ';
	const char *const what = has_place ? end + 2 : line;

	WEIR__REPLY_ADD(reply, "{\"line\":");
	weir__reply_add_number(reply, has_place ? number : 1);
	WEIR__REPLY_ADD(reply, ",\"column\":");
	weir__reply_add_number(reply, has_place ? column : 1);
	WEIR__REPLY_ADD(reply, ",\"detail\":");
	weir__reply_add_string(reply, what, strlen(what));
	WEIR__REPLY_ADD(reply, "}");
}

static void add_errors(struct weir__http_reply *reply, const struct weir__policy_lines *diagnostics)
{
	const char *line = diagnostics->text;

	WEIR__REPLY_ADD(reply, "\"errors\":[");
	for (uint32_t i = 0; i < diagnostics->n; i++, line += strlen(line) + 1) {
		weir__reply_add_text(reply, i == 0 ? "" : ",\n");
		add_fault(reply, line);
	}
	WEIR__REPLY_ADD(reply, "]");
}

static void add_lines(struct weir__http_reply *reply, const char *what, const char *which,
		      const struct weir__policy_lines *lines)
{
	const char *line = lines->text;

	weir__reply_add_text(reply, what);
	weir__reply_add_number(reply, lines->n + lines->more);
	weir__reply_add_text(reply, which);
	for (uint32_t i = 0; i < lines->n; i++, line += strlen(line) + 1) {
		weir__reply_add_text(reply, i == 0 ? "" : ",");
		weir__reply_add_string(reply, line, strlen(line));
	}
	WEIR__REPLY_ADD(reply, "]}");
}

static void add_names(struct weir__http_reply *reply, const char *what, const struct weir__policy_lines *names)
{
	add_lines(reply, what, ",\"names\":[", names);
}

static void add_warnings(struct weir__http_reply *reply, const struct weir__policy_outcome *outcome)
{
	WEIR__REPLY_ADD(reply, ",\"warnings\":[");
	if (outcome->warning[0] != '\0')
		weir__reply_add_string(reply, outcome->warning, strlen(outcome->warning));
	WEIR__REPLY_ADD(reply, "]");
}

static void say_wrong(struct weir__http_reply *reply, const struct weir__policy_outcome *outcome)
{
	WEIR__REPLY_ADD(reply, "{\"type\":\"about:blank\",\"title\":\"Unprocessable Content\",\"status\":422,"
			       "\"detail\":\"the policy has errors, and nothing was changed\",");
	add_errors(reply, &outcome->diagnostics);
	WEIR__REPLY_ADD(reply, "}\n");
	weir__reply_end(reply, 422, WEIR__TYPE_PROBLEM);
}

/* A policy that was sent to the policy loader's thread. */
struct sent {
	struct weir__request request;
	struct weir__policy_upload *upload;
};

static void write_put(struct weir__request *request, void *call)
{
	const struct weir__policy_outcome *const outcome =
		&((const struct sent *)(const void *)request)->upload->outcome;
	struct weir__http_reply *const reply = ((struct weir__http_call *)call)->reply;

	if (!outcome->is_good && outcome->diagnostics.n == 0) {
		weir__reply_problem(reply, 503, "the server is shutting down, and nothing was changed");
		return;
	}
	if (!outcome->is_good) {
		say_wrong(reply, outcome);
		return;
	}
	WEIR__REPLY_ADD(reply, "{\"version\":");
	add_version(reply, outcome->version);
	WEIR__REPLY_ADD(reply, ",\"limits\":");
	weir__reply_add_number(reply, outcome->limits);
	add_names(reply, ",\"added\":{\"count\":", &outcome->added);
	add_names(reply, ",\"removed\":{\"count\":", &outcome->removed);
	add_names(reply, ",\"changed\":{\"count\":", &outcome->changed);
	add_lines(reply, ",\"anew\":{\"count\":", ",\"why\":[", &outcome->anew);
	add_warnings(reply, outcome);
	WEIR__REPLY_ADD(reply, "}\n");
	weir__reply_end(reply, 200, WEIR__TYPE_JSON);
}

/* 200 also for an invalid policy: the validation itself succeeded. */
static void write_valid(struct weir__request *request, void *call)
{
	const struct weir__policy_outcome *const outcome =
		&((const struct sent *)(const void *)request)->upload->outcome;
	struct weir__http_reply *const reply = ((struct weir__http_call *)call)->reply;

	weir__reply_add_text(reply, outcome->is_good ? "{\"valid\":true,\"limits\":" : "{\"valid\":false,\"limits\":");
	weir__reply_add_number(reply, outcome->limits);
	WEIR__REPLY_ADD(reply, ",");
	add_errors(reply, &outcome->diagnostics);
	add_warnings(reply, outcome);
	WEIR__REPLY_ADD(reply, "}\n");
	weir__reply_end(reply, 200, WEIR__TYPE_JSON);
}

/* --- sending ---------------------------------------------------------------------------------------------------- */

/* The upload continues, and is freed when it returns. */
static bool cancel_sent(struct weir__request *request)
{
	struct sent *const sent = (struct sent *)(void *)request;

	sent->upload->request = NULL;
	sent->upload = NULL;
	return true;
}

static void fini_sent(struct weir__request *request)
{
	struct sent *const sent = (struct sent *)(void *)request;

	if (sent->upload)
		sent->upload->task.free(&sent->upload->task);
}

static const struct weir__request_kind sent_kind = { .cancel = cancel_sent, .fini = fini_sent };

/* Returns false if memory runs out, or too many requests are in flight. */
static bool begin(struct weir__http_call *call, bool replaces, struct sent **ret_sent)
{
	const struct weir__http_slice body = call->request->body;
	struct weir__policy_upload *const upload = call->context->mailbox ?
							   weir__policy_upload_new(body.bytes, body.length, replaces) :
							   NULL;
	struct sent sent = { .upload = upload };

	if (upload == NULL)
		return false;
	upload->log = call->context->log;
	weir__audit_who_of(call->client, WEIR__PROTOCOL_HTTP, &upload->who);
	weir__request_init(&sent.request, sizeof(sent), &sent_kind, call->context, call->client);
	sent.request.write = replaces ? write_put : write_valid;
	sent.request.n_claims = 0;
	weir__http_begin(call, &sent.request);
	*ret_sent = (struct sent *)(void *)weir__request_move(&sent.request);
	if (*ret_sent == NULL) {
		upload->task.free(&upload->task);
		return false;
	}
	upload->request = &(*ret_sent)->request;
	return true;
}

static void send(struct weir__http_call *call, bool replaces)
{
	struct weir__policy_upload *upload;
	struct sent *sent;

	if (weir__http_guard(call) == NULL)
		return;
	if (!begin(call, replaces, &sent)) {
		weir__reply_problem(call->reply, 503, "too many requests are in flight, or memory ran out; retry");
		return;
	}
	upload = sent->upload;
	weir__mailbox_send(call->context->mailbox, &upload->task);
	if (weir__policy_loader_send(call->context->loader, upload))
		return;
	weir__requests_abandon(call->client); /* this request is the only one */
	weir__mailbox_cancel(&upload->task);
	WEIR__REPLY_HEAD(call->reply, "Retry-After: 1\r\n");
	weir__reply_problem(call->reply, 503, "16 policies are waiting to be read; retry in 1 s");
}

void weir__http_put_policy(struct weir__http_call *call)
{
	send(call, true);
}

void weir__http_validate_policy(struct weir__http_call *call)
{
	send(call, false);
}
