/* http_check.c: decisions by the policy, and the headers that tell of them. */
#include <weir/guard.h>

#include <stdio.h>
#include <string.h>

#include "core/wide.h"
#include "serve/http_call.h"
#include "serve/policies.h"

enum { ATTRIBUTES_MAX = 32 };

static const uint64_t second_ns = 1000000000;

/* Whole seconds, never before the instant itself. */
static uint64_t seconds_up(weir_ns span)
{
	return span / second_ns + (span % second_ns != 0);
}

/* NULL: there is none, and that was answered. */
static struct weir_guard *guard_of(struct weir__http_call *call)
{
	if (call->commands->policies)
		return weir__policies_guard(call->commands->policies);
	weir__reply_problem(
		call->reply, 409,
		"there is no policy: start weir serve with --policy, or with limits in the file of --config");
	return NULL;
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

/* In how many seconds as much as there can be at once comes back: those of the window, or those in which the rate makes a
 * burst. Rounded up, so that nobody expects more than there is. */
static uint64_t window_of(const struct weir_limit *limit)
{
	const bool is_bucket = limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;
	uint64_t span = limit->period;

	if (is_bucket && limit->burst != limit->count && !__builtin_mul_overflow(limit->burst, limit->period, &span))
		span = span / limit->count + (span % limit->count != 0);
	return seconds_up(span);
}

/* A name as a String of RFC 8941. Names of limits have letters, digits and signs alone; those of Envoy's form may have
 * anything in them. */
static void head_name(struct weir__http_reply *reply, const char *name)
{
	char text[2 * sizeof(((struct weir_guard_answer *)NULL)->decided_by)];
	size_t n = 0;

	text[n++] = '"';
	for (; *name; name++) {
		if (*name == '"' || *name == '\\')
			text[n++] = '\\';
		text[n++] = (char)(*name >= 0x20 && *name < 0x7f ? *name : '?');
	}
	text[n++] = '"';
	weir__reply_head(reply, text, n);
}

/* RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11. */
static void head_draft11(struct weir__http_reply *reply, const struct weir_guard_answer *answer, uint64_t reset)
{
	const struct weir_limit limit = weir_table_limit_limit(answer->limit);

	WEIR__REPLY_HEAD(reply, "RateLimit-Policy: ");
	head_name(reply, answer->decided_by);
	WEIR__REPLY_HEAD(reply, ";q=");
	weir__reply_head_number(reply, answer->verdict.limit);
	WEIR__REPLY_HEAD(reply, ";w=");
	weir__reply_head_number(reply, window_of(&limit));
	WEIR__REPLY_HEAD(reply, "\r\nRateLimit: ");
	head_name(reply, answer->decided_by);
	WEIR__REPLY_HEAD(reply, ";r=");
	weir__reply_head_number(reply, answer->verdict.remaining);
	WEIR__REPLY_HEAD(reply, ";t=");
	weir__reply_head_number(reply, reset);
	WEIR__REPLY_HEAD(reply, "\r\n");
}

/* Who is denied may come back after retry_after: that is when there is more; others learn when all of it is there. */
static void head_limits(struct weir__http_reply *reply, const struct weir_guard_answer *answer)
{
	const struct weir_verdict *const verdict = &answer->verdict;
	const bool waits = !verdict->allowed && !verdict->never;
	const uint64_t reset = seconds_up(waits ? verdict->retry_after : verdict->reset_after);

	if (answer->limit == NULL)
		return;
	head_draft11(reply, answer, reset);
	if (waits) {
		WEIR__REPLY_HEAD(reply, "Retry-After: ");
		weir__reply_head_number(reply, reset);
		WEIR__REPLY_HEAD(reply, "\r\n");
	}
}

/* The members of an answer, from the brace on to the last. */
static void add_members(struct weir__http_reply *reply, const struct weir_guard_answer *answer)
{
	const struct weir_verdict *const verdict = &answer->verdict;

	if (verdict->allowed)
		WEIR__REPLY_ADD(reply, "\"allowed\":true,\"limit\":");
	else
		WEIR__REPLY_ADD(reply, "\"allowed\":false,\"limit\":");
	weir__reply_add_number(reply, verdict->limit);
	WEIR__REPLY_ADD(reply, ",\"remaining\":");
	weir__reply_add_number(reply, verdict->remaining);
	WEIR__REPLY_ADD(reply, ",\"granted\":");
	weir__reply_add_number(reply, verdict->granted);
	if (verdict->never) {
		WEIR__REPLY_ADD(reply, ",\"retry_after_ns\":null,\"reset_after_ns\":");
	} else {
		WEIR__REPLY_ADD(reply, ",\"retry_after_ns\":");
		weir__reply_add_number(reply, verdict->retry_after);
		WEIR__REPLY_ADD(reply, ",\"reset_after_ns\":");
	}
	weir__reply_add_number(reply, verdict->reset_after);
	WEIR__REPLY_ADD(reply, ",\"delay_ns\":");
	weir__reply_add_number(reply, verdict->delay);
	WEIR__REPLY_ADD(reply, ",\"limits\":");
	weir__reply_add_number(reply, answer->limits);
	WEIR__REPLY_ADD(reply, ",\"shadow_denied\":");
	weir__reply_add_number(reply, answer->shadow_denied);
	WEIR__REPLY_ADD(reply, ",\"decided_by\":");
	if (answer->is_limited)
		weir__reply_add_string(reply, answer->decided_by, strlen(answer->decided_by));
	else
		WEIR__REPLY_ADD(reply, "null");
}

static void say_allowed(struct weir__http_call *call, const struct weir_guard_answer *answer)
{
	WEIR__REPLY_ADD(call->reply, "{");
	add_members(call->reply, answer);
	WEIR__REPLY_ADD(call->reply, "}\n");
	head_limits(call->reply, answer);
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}

static void say_denied(struct weir__http_call *call, const struct weir_guard_answer *answer)
{
	struct weir__http_reply *const reply = call->reply;

	WEIR__REPLY_ADD(reply, "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
			       "\"title\":\"Too Many Requests\",\"status\":429,\"detail\":\"");
	if (answer->verdict.never) {
		WEIR__REPLY_ADD(reply, "it costs more than the limit ever has at once: no wait will help");
	} else {
		WEIR__REPLY_ADD(reply, "the limit has denied it; come back in ");
		weir__reply_add_number(reply, seconds_up(answer->verdict.retry_after));
		WEIR__REPLY_ADD(reply, " s");
	}
	WEIR__REPLY_ADD(reply, "\",\"violated-policies\":[");
	weir__reply_add_string(reply, answer->decided_by, strlen(answer->decided_by));
	WEIR__REPLY_ADD(reply, "],");
	add_members(reply, answer);
	WEIR__REPLY_ADD(reply, "}\n");
	head_limits(reply, answer);
	weir__reply_end(reply, 429, WEIR__TYPE_PROBLEM);
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

/* What a request says of itself. */
struct question {
	struct weir_attribute attributes[ATTRIBUTES_MAX];
	size_t n;
	uint64_t cost;
};

/* NULL, or what is wrong with a name and its value. */
static const char *take_pair(struct question *question, struct weir__http_slice name, struct weir__http_slice value)
{
	if (!weir__http_decode(&name) || !weir__http_decode(&value))
		return "the query: a % is followed by two hexadecimal digits";
	if (name.length == 0)
		return "the query: an attribute has a name before its =";
	if (name.length == 4 && memcmp(name.bytes, "cost", 4) == 0)
		return read_cost(&value, &question->cost) ?
			       NULL :
			       "the query: cost is a whole number, 0 to 9223372036854775807";
	if (question->n == ATTRIBUTES_MAX)
		return "the query: there are 32 attributes at most";
	question->attributes[question->n++] = (struct weir_attribute){ name.bytes, name.length, value.bytes,
								       value.length };
	return NULL;
}

/* NULL, or what is wrong. Names and values are decoded where they lie. */
static const char *read_query(struct weir__http_slice query, struct question *question)
{
	char *at = query.bytes, *const end = query.bytes + query.length;
	const char *fault = NULL;

	question->n = 0;
	question->cost = 1;
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

void weir__http_get_check(struct weir__http_call *call)
{
	struct weir_guard *const guard = guard_of(call);
	struct weir_guard_answer answer;
	struct weir_message why;
	struct question question;
	const char *fault;

	if (guard == NULL)
		return;
	fault = read_query(call->request->query, &question);
	if (fault == NULL && weir_guard_check(guard, question.attributes, question.n, question.cost,
					      weir_table_now(call->commands->table), &answer, &why) != WEIR_OK)
		fault = why.text;
	if (fault)
		weir__reply_problem(call->reply, 400, fault);
	else if (answer.verdict.allowed)
		say_allowed(call, &answer);
	else
		say_denied(call, &answer);
}
