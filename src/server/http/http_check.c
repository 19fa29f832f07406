/* http_check.c: decisions by the policy, and the headers that report them. */
#include <weir/guard.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/duration.h"
#include "core/notation.h"
#include "core/uninitialized.h"
#include "server/denial_body.h"
#include "server/http/http_batch.h"
#include "server/http/http_call.h"
#include "server/http/http_json.h"
#include "server/policy_loader.h"
#include "server/settings.h"
#include "wire/digits.h"

static const uint64_t second_ns = 1000000000;

/* Rounded up to full seconds, so that a client does not retry too early. */
static uint64_t seconds_up(weir_ns span)
{
	return span / second_ns + (span % second_ns != 0);
}

struct weir_guard *weir__http_guard(struct weir__http_call *call)
{
	if (call->context->guard)
		return call->context->guard;
	weir__reply_problem(
		call->reply, 409,
		"no policy is loaded: start weir serve with --policy, or with limits in the configuration file (--config)");
	return NULL;
}

/* --- responses -------------------------------------------------------------------------------------------------- */

/* The seconds in which the full quota comes back: the window, or for a bucket the time to refill the burst. Rounded up,
 * so that a client never expects too much. */
static uint64_t window_of(const struct weir_limit *limit)
{
	const bool is_bucket = weir__limit_is_bucket(limit);
	uint64_t span = limit->period;

	if (is_bucket && limit->burst != limit->count && !__builtin_mul_overflow(limit->burst, limit->period, &span))
		span = span / limit->count + (span % limit->count != 0);
	return seconds_up(span);
}

enum {
	NAME_MOST = sizeof(((struct weir_guard_answer *)NULL)->decided_by) - 1,
	HEADERS_MOST = 128 + 2 * (2 * NAME_MOST + 2) + 7 * WEIR__DIGITS_MOST, /* all headers that report limits */
	MEMBERS_MOST = 256 + 6 * NAME_MOST + 9 * WEIR__DIGITS_MOST,           /* of a decision */
	BATCH_MOST = (int)WEIR__REPLY_HEAD_ROOM + (int)WEIR__BATCH_MAX * ((int)MEMBERS_MOST + 4) + 4,
};

_Static_assert((int)BATCH_MOST <= (int)WEIR__CHECK_MOST, "all answers fit");

/* Writes a name as a String of RFC 8941. Limits have names of letters, digits and signs, but those in Envoy's form may
 * have any bytes. */
static char *put_name(char *to, const char *name)
{
	*to++ = '"';
	for (; *name; name++) {
		if (*name == '"' || *name == '\\')
			*to++ = '\\';
		*to++ = (char)(*name >= 0x20 && *name < 0x7f ? *name : '?');
	}
	*to++ = '"';
	return to;
}

/* RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11. */
static char *put_draft11(char *to, const struct weir_guard_answer *answer, uint64_t reset)
{
	const struct weir_limit limit = weir_table_limit_limit(answer->limit);
	const char *name;
	size_t length;

	to = WEIR__PUT(to, "RateLimit-Policy: ");
	name = to;
	to = put_name(to, answer->decided_by);
	length = (size_t)(to - name);
	to = WEIR__PUT(to, ";q=");
	to = weir__put_digits(to, answer->verdict.limit);
	to = WEIR__PUT(to, ";w=");
	to = weir__put_digits(to, window_of(&limit));
	to = WEIR__PUT(to, "\r\nRateLimit: ");
	to = weir__put(to, name, length);
	to = WEIR__PUT(to, ";r=");
	to = weir__put_digits(to, answer->verdict.remaining);
	to = WEIR__PUT(to, ";t=");
	to = weir__put_digits(to, reset);
	return WEIR__PUT(to, "\r\n");
}

/* The headers of most services. The reset is a duration in seconds. */
static char *put_x(char *to, const struct weir_guard_answer *answer, uint64_t reset)
{
	to = WEIR__PUT(to, "X-RateLimit-Limit: ");
	to = weir__put_digits(to, answer->verdict.limit);
	to = WEIR__PUT(to, "\r\nX-RateLimit-Remaining: ");
	to = weir__put_digits(to, answer->verdict.remaining);
	to = WEIR__PUT(to, "\r\nX-RateLimit-Reset: ");
	to = weir__put_digits(to, reset);
	return WEIR__PUT(to, "\r\n");
}

/* A denied client learns when the same request would be allowed (retry_after), others when the limit is full
 * (reset_after). */
static void head_limits(const struct weir__http_call *call, const struct weir_guard_answer *answer)
{
	const struct weir__settings *const settings = call->context->settings;
	const uint64_t which = settings ? settings->ratelimit_headers : WEIR__HEADERS_DRAFT11;
	const struct weir_verdict *const verdict = &answer->verdict;
	const bool waits = !verdict->allowed && !verdict->never;
	const uint64_t reset = seconds_up(waits ? verdict->retry_after : verdict->reset_after);
	char *to = answer->limit ? weir__reply_head_room(call->reply, HEADERS_MOST) : NULL;

	if (to == NULL)
		return;
	if (which == WEIR__HEADERS_DRAFT11 || which == WEIR__HEADERS_BOTH)
		to = put_draft11(to, answer, reset);
	if (which == WEIR__HEADERS_X || which == WEIR__HEADERS_BOTH)
		to = put_x(to, answer, reset);
	if (waits) {
		to = WEIR__PUT(to, "Retry-After: ");
		to = weir__put_digits(to, reset);
		to = WEIR__PUT(to, "\r\n");
	}
	weir__reply_head_wrote(call->reply, to);
}

void weir__http_add_answer(struct weir__http_reply *reply, const struct weir_guard_answer *answer, bool is_all)
{
	const struct weir_verdict *const verdict = &answer->verdict;
	char *to = weir__reply_room(reply, MEMBERS_MOST);

	if (to == NULL)
		return;
	to = verdict->allowed ? WEIR__PUT(to, "\"allowed\":true,\"limit\":") :
				WEIR__PUT(to, "\"allowed\":false,\"limit\":");
	to = weir__put_digits(to, verdict->limit);
	to = WEIR__PUT(to, ",\"remaining\":");
	to = weir__put_digits(to, verdict->remaining);
	to = WEIR__PUT(to, ",\"granted\":");
	to = weir__put_digits(to, verdict->granted);
	to = WEIR__PUT(to, ",\"retry_after_ns\":");
	to = verdict->never ? WEIR__PUT(to, "null") : weir__put_digits(to, verdict->retry_after);
	to = WEIR__PUT(to, ",\"reset_after_ns\":");
	to = weir__put_digits(to, verdict->reset_after);
	to = WEIR__PUT(to, ",\"delay_ns\":");
	to = weir__put_digits(to, verdict->delay);
	if (is_all) {
		to = WEIR__PUT(to, ",\"limits\":");
		to = weir__put_digits(to, answer->limits);
		to = WEIR__PUT(to, ",\"shadow_denied\":");
		to = weir__put_digits(to, answer->shadow_denied);
	}
	to = WEIR__PUT(to, ",\"decided_by\":");
	to = answer->decided_by[0] ? weir__put_string(to, answer->decided_by, strlen(answer->decided_by)) :
				     WEIR__PUT(to, "null");
	weir__reply_wrote(reply, to);
}

/* A proxy can pass on the header, but does not see the body. The header has whole milliseconds, rounded down. */
__attribute__((noinline)) static void add_waited(struct weir__http_reply *reply, const weir_ns *waited)
{
	char header[64];

	weir__reply_add_member(reply, ",\"waited_ns\":", *waited);
	(void)snprintf(header, sizeof(header), "Weir-Waited-Ms: %llu\r\n", (unsigned long long)*waited / 1000000);
	weir__reply_head(reply, header, strlen(header));
}

/* Visitors see other limits, and limits in shadow, only if the settings say so. */
static bool reveals_all(const struct weir__http_call *call, const struct weir__http_decision *decision)
{
	const struct weir__settings *const settings = call->context->settings;

	return !decision->is_for_visitors || (settings && settings->denial_reveals == WEIR__REVEALS_ALL);
}

static void say_allowed(struct weir__http_call *call, const struct weir__http_decision *decision)
{
	const struct weir_guard_answer *const answer = decision->answer;

	WEIR__REPLY_ADD(call->reply, "{");
	weir__http_add_answer(call->reply, answer, reveals_all(call, decision));
	weir__reply_add_text(call->reply, decision->more);
	if (WEIR__UNLIKELY(decision->waited != NULL))
		add_waited(call->reply, decision->waited);
	WEIR__REPLY_ADD(call->reply, "}\n");
	head_limits(call, answer);
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}

/* nginx does not pass on the body of a denial, but can copy it from a header. So the problem is one line. It reports
 * 429 to the client, whatever status the proxy wants. */
static void head_problem(struct weir__http_reply *reply)
{
	WEIR__REPLY_HEAD(reply, "Weir-Problem: ");
	weir__reply_head(reply, reply->bytes + WEIR__REPLY_HEAD_ROOM, reply->body_length);
	WEIR__REPLY_HEAD(reply, "\r\n");
}

static void add_problem(struct weir__http_call *call, const struct weir__http_decision *decision)
{
	const struct weir_guard_answer *const answer = decision->answer;
	struct weir__http_reply *const reply = call->reply;

	WEIR__REPLY_ADD(reply, "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
			       "\"title\":\"Too Many Requests\",\"status\":429,\"detail\":\"the limit ");
	weir__reply_add_escaped(reply, answer->decided_by, strlen(answer->decided_by));
	if (answer->verdict.never) {
		WEIR__REPLY_ADD(reply, " is smaller than the cost: no wait will help");
	} else {
		WEIR__REPLY_ADD(reply, " denied the request; retry in ");
		weir__reply_add_number(reply, seconds_up(answer->verdict.retry_after));
		WEIR__REPLY_ADD(reply, " s");
	}
	WEIR__REPLY_ADD(reply, "\",\"violated-policies\":[");
	weir__reply_add_string(reply, answer->decided_by, strlen(answer->decided_by));
	WEIR__REPLY_ADD(reply, "],");
	weir__http_add_answer(reply, answer, reveals_all(call, decision));
	weir__reply_add_text(reply, decision->more);
	if (decision->waited)
		add_waited(reply, decision->waited);
	WEIR__REPLY_ADD(reply, "}");
}

/* Ends the response after the problem. A response for visitors has the body of the settings, if that is set. */
static void end_denied(struct weir__http_call *call, const struct weir__http_decision *decision)
{
	struct weir__http_reply *const reply = call->reply;
	const char *type = WEIR__TYPE_PROBLEM;

	if (decision->denied_status != 429)
		head_problem(reply);
	WEIR__REPLY_ADD(reply, "\n");
	if (decision->is_for_visitors && call->context->denial_body) {
		reply->body_length = 0;
		type = weir__denial_body_write(call->context->denial_body, decision->answer, reply);
	}
	weir__reply_end(reply, decision->denied_status, type);
}

static void say_denied(struct weir__http_call *call, const struct weir__http_decision *decision)
{
	add_problem(call, decision);
	head_limits(call, decision->answer);
	end_denied(call, decision);
}

/* 429 like every denial, so that proxies and clients treat it as one. It has no Retry-After, since no wait helps. */
static void say_unmatched(struct weir__http_call *call, const struct weir__http_decision *decision)
{
	const struct weir_guard_answer *const answer = decision->answer;
	struct weir__http_reply *const reply = call->reply;

	WEIR__REPLY_ADD(reply,
			"{\"type\":\"about:blank\",\"title\":\"Too Many Requests\",\"status\":429,\"detail\":"
			"\"no limit of the policy applies to this request, and the policy says unmatched: deny\",");
	weir__http_add_answer(reply, answer, reveals_all(call, decision));
	WEIR__REPLY_ADD(reply, "}");
	end_denied(call, decision);
}

/* 503, since the denial is not due to the client: its usage is unknown. decided_by may be another limit, which denies
 * for longer. */
static void say_closed(struct weir__http_call *call, const struct weir__http_decision *decision)
{
	const struct weir_guard_answer *const answer = decision->answer;
	struct weir__http_reply *const reply = call->reply;

	WEIR__REPLY_ADD(reply,
			"{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,"
			"\"detail\":\"the store does not reply, and a limit that applies fails closed; retry in ");
	weir__reply_add_number(reply, seconds_up(answer->verdict.retry_after));
	WEIR__REPLY_ADD(reply, " s\",");
	weir__http_add_answer(reply, answer, reveals_all(call, decision));
	weir__reply_add_text(reply, decision->more);
	if (decision->waited)
		add_waited(reply, decision->waited);
	WEIR__REPLY_ADD(reply, "}\n");
	head_limits(call, answer);
	weir__reply_end(reply, 503, WEIR__TYPE_PROBLEM);
}

void weir__http_begin(const struct weir__http_call *call, struct weir__request *request)
{
	request->says_keep_alive = call->reply->says_keep_alive;
	request->is_without_body = call->reply->is_without_body;
}

void weir__http_end_run(struct weir__http_call *call, enum weir__run_result result, struct weir__request *request,
			const struct weir_message *why)
{
	if (result == WEIR__RUN_DONE)
		request->write(request, call);
	else if (result == WEIR__RUN_REFUSED)
		weir__reply_problem(call->reply, 400, why->text);
}

void weir__http_say(struct weir__http_call *call, const struct weir__http_decision *decision)
{
	if (decision->answer->verdict.allowed)
		say_allowed(call, decision);
	else if (decision->answer->is_unmatched)
		say_unmatched(call, decision);
	else if (decision->denied_status == 429 && decision->is_closed)
		say_closed(call, decision);
	else
		say_denied(call, decision);
}

/* The form of a response. */
enum { FOR_SERVICES, FOR_VISITORS };

static void write_check(struct weir__request *request, void *call)
{
	const struct weir__check *const check = (const struct weir__check *)(const void *)request;

	weir__http_say(call, &(struct weir__http_decision){ &check->check.answer, request->status, check->is_closed,
							    request->form == FOR_VISITORS, "", NULL });
}

void weir__http_run_check(struct weir__http_call *call, struct weir_guard *guard,
			  const struct weir_attribute *attributes, size_t n, uint64_t cost, unsigned denied_status,
			  bool is_for_visitors)
{
	struct weir__check check WEIR__UNINITIALIZED;
	struct weir_message why WEIR__UNINITIALIZED;

	weir__check_init(&check, call->context, call->client, write_check);
	weir__http_begin(call, &check.request);
	check.request.status = (uint16_t)denied_status;
	check.request.form = is_for_visitors ? FOR_VISITORS : FOR_SERVICES;
	weir__http_end_run(call, weir__check_run(&check, guard, attributes, n, cost, &why), &check.request, &why);
}

static void write_check_wait(struct weir__request *request, void *call)
{
	const struct weir__check_wait *const wait = (const struct weir__check_wait *)(const void *)request;

	weir__http_say(call, &(struct weir__http_decision){ &wait->check.check.answer, request->status,
							    wait->check.is_closed, request->form == FOR_VISITORS, "",
							    wait->may_wait ? &wait->waited : NULL });
}

void weir__http_run_check_wait(struct weir__http_call *call, struct weir_guard *guard,
			       const struct weir_attribute *attributes, size_t n, uint64_t cost, unsigned denied_status,
			       bool is_for_visitors, const weir_ns *patience)
{
	struct weir__check_wait wait WEIR__UNINITIALIZED;
	struct weir__refusal refusal WEIR__UNINITIALIZED;

	weir__check_wait_init(&wait, call->context, call->client, write_check_wait);
	weir__http_begin(call, &wait.check.request);
	wait.check.request.status = (uint16_t)denied_status;
	wait.check.request.form = is_for_visitors ? FOR_VISITORS : FOR_SERVICES;
	switch (weir__check_wait_run(&wait, guard, attributes, n, cost, patience, &refusal)) {
	case WEIR__RUN_DONE:
		write_check_wait(&wait.check.request, call);
		break;
	case WEIR__RUN_REFUSED:
		(void)weir__http_refuse_as(call, "", &refusal);
		break;
	default:
		break;
	}
}

static void run_query(struct weir__http_call *call, struct weir_guard *guard, const struct weir__http_query *question)
{
	if (WEIR__LIKELY(!question->has_wait))
		weir__http_run_check(call, guard, question->attributes, question->n, question->cost, 429, false);
	else
		weir__http_run_check_wait(call, guard, question->attributes, question->n, question->cost, 429, false,
					  &question->wait);
}

/* --- GET -------------------------------------------------------------------------------------------------------- */

static bool read_cost(const struct weir__http_slice *text, uint64_t *ret_cost)
{
	uint64_t cost = 0;

	for (size_t i = 0; i < text->length; i++) {
		const unsigned digit = (unsigned)(text->bytes[i] - '0');

		if (digit > 9 || __builtin_mul_overflow(cost, 10, &cost) || __builtin_add_overflow(cost, digit, &cost))
			return false;
	}
	*ret_cost = cost;
	return text->length > 0 && cost <= INT64_MAX;
}

static const char *blame(struct weir__http_query *question, struct weir__http_slice name, const char *words)
{
	(void)snprintf(question->why, sizeof(question->why), "the query: %.*s: %s",
		       name.length < 40 ? (int)name.length : 40, name.bytes, words);
	return question->why;
}

static bool was_said(const struct weir__http_query *question, struct weir__http_slice name)
{
	for (size_t i = 0; i < question->n; i++)
		if (question->attributes[i].name_length == name.length &&
		    memcmp(question->attributes[i].name, name.bytes, name.length) == 0)
			return true;
	return false;
}

static const char *take_cost(struct weir__http_query *question, struct weir__http_slice name,
			     struct weir__http_slice value)
{
	if (question->has_cost)
		return blame(question, name, "given twice; use it once");
	question->has_cost = true;
	return read_cost(&value, &question->cost) ? NULL :
						    "the query: cost: use a whole number, 0 to 9223372036854775807";
}

static const char *take_wait(struct weir__http_query *question, struct weir__http_slice name,
			     struct weir__http_slice value)
{
	if (question->has_wait)
		return blame(question, name, "given twice; use it once");
	question->has_wait = true;
	return weir__duration_read(value.bytes, value.length, WEIR__WAIT_MAX, &question->wait) ?
		       NULL :
		       "the query: wait: " WEIR__HTTP_RIGHT_WAIT;
}

/* Takes a name and its value. Returns NULL, or what is wrong. A name that occurs twice is an error: a proxy or a
 * service that reads the same query may use the other value. */
static const char *take_pair(struct weir__http_query *question, struct weir__http_slice name,
			     struct weir__http_slice value)
{
	if (!weir__http_decode(&name) || !weir__http_decode(&value))
		return "the query: % must be followed by two hexadecimal digits";
	if (name.length == 0)
		return "the query: an attribute needs a name before its =";
	if (memchr(name.bytes, '\0', name.length) || memchr(value.bytes, '\0', value.length))
		return blame(question, name, "it contains a NUL byte; leave it out");
	if (name.length == 4 && memcmp(name.bytes, "cost", 4) == 0)
		return take_cost(question, name, value);
	if (name.length == 4 && memcmp(name.bytes, "wait", 4) == 0)
		return take_wait(question, name, value);
	if (was_said(question, name))
		return blame(question, name, "given twice; use it once");
	if (question->n == WEIR__HTTP_ATTRIBUTES_MAX)
		return "the query: too many attributes; use at most 32";
	question->attributes[question->n++] = (struct weir_attribute){ name.bytes, name.length, value.bytes,
								       value.length };
	return NULL;
}

const char *weir__http_read_query(struct weir__http_slice query, struct weir__http_query *question)
{
	char *at = query.bytes, *const end = query.bytes + query.length;
	const char *fault = NULL;

	question->n = 0;
	question->cost = 1;
	question->has_cost = question->has_wait = false;
	while (at < end && fault == NULL) {
		char *const next = memchr(at, '&', (size_t)(end - at)), *const stop = next ? next : end;
		char *const sign = memchr(at, '=', (size_t)(stop - at)), *const name_end = sign ? sign : stop;
		char *const value = sign ? sign + 1 : stop;

		if (stop > at)
			fault = take_pair(question, (struct weir__http_slice){ at, (size_t)(name_end - at) },
					  (struct weir__http_slice){ value, (size_t)(stop - value) });
		at = stop + 1;
	}
	return fault;
}

struct weir_guard *weir__http_guard_and_query(struct weir__http_call *call, struct weir__http_query *ret_question)
{
	struct weir_guard *const guard = weir__http_guard(call);
	const char *const fault = guard ? weir__http_read_query(call->request->query, ret_question) : NULL;

	if (fault == NULL)
		return guard;
	weir__reply_problem(call->reply, 400, fault);
	return NULL;
}

void weir__http_get_check(struct weir__http_call *call)
{
	struct weir__http_query question WEIR__UNINITIALIZED;
	struct weir_guard *const guard = weir__http_guard_and_query(call, &question);

	if (guard)
		run_query(call, guard, &question);
}

/* --- POST ------------------------------------------------------------------------------------------------------- */

bool weir__json_read_attributes(const struct weir__json *json, json_t *object, struct weir__http_query *question)
{
	const char *name;
	json_t *value;

	question->n = 0;
	if (object == NULL)
		return weir__json_refuse(json, "attributes", NULL, "missing; use an object of strings");
	if (!json_is_object(object))
		return weir__json_refuse(json, "attributes", object, "use an object of strings");
	if (json_object_size(object) > WEIR__HTTP_ATTRIBUTES_MAX)
		return weir__json_refuse(json, "attributes", NULL, "use at most 32");
	json_object_foreach(object, name, value)
	{
		if (!json_is_string(value))
			return weir__json_refuse(json, "attributes", value, "use strings only");
		if (*name == '\0')
			return weir__json_refuse(json, "attributes", NULL, "an attribute needs a name");
		question->attributes[question->n++] = (struct weir_attribute){ name, strlen(name),
									       json_string_value(value),
									       json_string_length(value) };
	}
	return true;
}

/* Returns false after writing the error response. The result points into the JSON. */
static bool read_question(const struct weir__json *json, json_t *object, struct weir__http_query *question)
{
	static const char *const members[] = { "attributes", "cost", "wait", NULL };
	json_t *cost;

	question->cost = 1;
	question->n = 0;
	if (!weir__json_has_only(json, object, members))
		return false;
	cost = json_object_get(object, "cost");
	return (cost == NULL || weir__json_read_number(json, "cost", cost, INT64_MAX, &question->cost)) &&
	       weir__json_read_wait(json, object, &question->has_wait, &question->wait) &&
	       weir__json_read_attributes(json, json_object_get(object, "attributes"), question);
}

/* --- batches ----------------------------------------------------------------------------------------------------- */

/* The items of a batch. All are read before the first is decided, so that a batch with any error charges nothing. */
struct questions {
	size_t n_attributes, room;
	struct weir_attribute *attributes; /* of all items, one after another */
	struct {
		size_t first, n;
		uint64_t cost;
	} of[];
};

static void free_questions(struct questions *questions)
{
	if (questions)
		free(questions->attributes);
	free(questions);
}

static bool add_question(struct questions *questions, size_t item, const struct weir__http_query *question)
{
	const size_t needed = questions->n_attributes + question->n;

	if (needed > questions->room) {
		struct weir_attribute *const grown = realloc(questions->attributes, 2 * needed * sizeof(*grown));

		if (grown == NULL)
			return false;
		questions->attributes = grown;
		questions->room = 2 * needed;
	}
	if (question->n > 0)
		memcpy(questions->attributes + questions->n_attributes, question->attributes,
		       question->n * sizeof(question->attributes[0]));
	questions->of[item].first = questions->n_attributes;
	questions->of[item].n = question->n;
	questions->of[item].cost = question->cost;
	questions->n_attributes = needed;
	return true;
}

/* Returns NULL after writing the error response. */
static struct questions *read_questions(struct weir__http_call *call, json_t *array)
{
	struct weir__json json = { call, 0, NULL };
	const size_t n = json_array_size(array);
	struct questions *const questions = calloc(1, sizeof(*questions) + n * sizeof(questions->of[0]));
	struct weir__http_query question WEIR__UNINITIALIZED;

	if (questions == NULL) {
		weir__reply_problem(call->reply, 503, "out of memory; send fewer items at once");
		return NULL;
	}
	for (; json.item < n; json.item++) {
		if (!read_question(&json, json_array_get(array, json.item), &question))
			break;
		if (!add_question(questions, json.item, &question)) {
			weir__reply_problem(call->reply, 503, "out of memory; send fewer items at once");
			break;
		}
	}
	if (json.item == n)
		return questions;
	free_questions(questions);
	return NULL;
}

struct item {
	struct weir__check check;
	size_t number;
};

static void note_item(struct weir__request *request)
{
	const struct item *const item = (const struct item *)(const void *)request;
	struct weir__http_batch *const batch = weir__http_batch_of(request);

	batch->items[item->number].answer = item->check.check.answer;
	weir__http_batch_item_done(batch);
}

static void run_item(struct weir__http_batch *batch, struct weir_guard *guard, const struct questions *questions,
		     size_t number)
{
	struct item item = { .number = number };
	struct weir_message why WEIR__UNINITIALIZED;

	weir__check_init(&item.check, batch->request.context, batch->request.client, NULL);
	weir__http_batch_add(batch, &item.check.request, sizeof(item), note_item);
	switch (weir__check_run(&item.check, guard, questions->attributes + questions->of[number].first,
				questions->of[number].n, questions->of[number].cost, &why)) {
	case WEIR__RUN_DONE:
		note_item(&item.check.request);
		break;
	case WEIR__RUN_REFUSED:
		weir__http_batch_refuse(batch, number, why.text);
		break;
	default:
		break;
	}
}

static void check_batch(struct weir__http_call *call, struct weir_guard *guard, json_t *array)
{
	struct questions *const questions = weir__http_batch_fits(call, array) ? read_questions(call, array) : NULL;
	struct weir__http_batch *const batch =
		questions ? weir__http_batch_new(call, array, json_array_size(array), false) : NULL;

	for (size_t i = 0; batch && i < batch->n; i++)
		run_item(batch, guard, questions, i);
	if (batch)
		weir__http_batch_end(call, batch);
	free_questions(questions);
}

void weir__http_post_check(struct weir__http_call *call)
{
	const struct weir__json json = { call, WEIR__JSON_NO_ITEM, NULL };
	struct weir_guard *const guard = weir__http_guard(call);
	json_t *const root = guard ? weir__json_of_body(call) : NULL;
	struct weir__http_query question WEIR__UNINITIALIZED;

	if (root == NULL)
		return;
	if (json_is_array(root))
		check_batch(call, guard, root);
	else if (read_question(&json, root, &question))
		run_query(call, guard, &question);
	json_decref(root);
}
