/* commands_check.c: commands that ask the policy. */
#include "serve/command.h"

#include <stdio.h>

#include "guard/guard.h"
#include "serve/asked.h"
#include "serve/audit.h"
#include "serve/decide.h"
#include "serve/policies.h"
#include "serve/witness.h"

enum {
	ATTRIBUTES_MAX = 32,
	ROWS_MAX = 50,          /* of WEIR.LIMITS in one answer */
	LINES_SIZE = 32 * 1024, /* of WEIR.EXPLAIN */
	NAME_MOST = 63,         /* of a plan */
};

static struct weir_guard *guard_of(struct weir__call *call)
{
	if (call->commands->policies)
		return weir__policies_guard(call->commands->policies);
	weir__refuse(call, WEIR__SAY_NO_POLICY);
	return NULL;
}

/* --- check and explain ------------------------------------------------------------------------------------------ */

/* Whichever was taken, somebody would have meant the other one. */
static void refuse_twice(struct weir__call *call, const struct weir__resp_slice *name)
{
	char shown[160];

	(void)weir__log_escape(name->bytes, weir__min(name->length, 64), shown, sizeof(shown));
	weir__refuse_with(call, WEIR__SAY_ATTRIBUTE_TWICE, shown);
}

/* Names and values from this place on. False: that was answered. */
static bool read_attributes(struct weir__call *call, uint32_t place, struct weir_attribute attributes[ATTRIBUTES_MAX],
			    size_t *ret_n)
{
	size_t n = 0;

	if ((call->n - place) % 2 != 0 || (call->n - place) / 2 > ATTRIBUTES_MAX) {
		weir__refuse(call, WEIR__SAY_ATTRIBUTES);
		return false;
	}
	for (; place < call->n; place += 2) {
		const struct weir__resp_slice *const name = &call->arguments[place], *const value = name + 1;

		for (size_t i = 0; i < n; i++)
			if (attributes[i].name_length == name->length &&
			    memcmp(attributes[i].name, name->bytes, name->length) == 0) {
				refuse_twice(call, name);
				return false;
			}
		attributes[n++] = (struct weir_attribute){ name->bytes, name->length, value->bytes, value->length };
	}
	*ret_n = n;
	return true;
}

static void answer_check(const struct weir_guard_answer *answer, struct weir__resp_writer *writer)
{
	const struct weir_verdict *const verdict = &answer->verdict;
	const struct {
		const char *name;
		int64_t number;
	} numbers[] = {
		{ "limit", weir__signed_of(verdict->limit) },
		{ "remaining", weir__signed_of(verdict->remaining) },
		{ "granted", weir__signed_of(verdict->granted) },
		{ "retry_after", verdict->never ? -1 : weir__signed_of(verdict->retry_after) },
		{ "reset_after", weir__signed_of(verdict->reset_after) },
		{ "delay", weir__signed_of(verdict->delay) },
		{ "limits", (int64_t)answer->limits },
		{ "shadow_denied", (int64_t)answer->shadow_denied },
	};
	const size_t n = sizeof(numbers) / sizeof(numbers[0]);
	const bool has_names = writer->protocol >= 3;

	if (has_names)
		weir__resp_write_map(writer, n + 2);
	else
		weir__resp_write_array(writer, n + 2);
	if (has_names)
		weir__resp_write_simple(writer, "allowed", 7);
	if (has_names)
		weir__resp_write_boolean(writer, verdict->allowed);
	else
		weir__resp_write_integer(writer, verdict->allowed);
	for (size_t i = 0; i < n; i++) {
		if (has_names)
			weir__resp_write_simple(writer, numbers[i].name, strlen(numbers[i].name));
		weir__resp_write_integer(writer, numbers[i].number);
	}
	if (has_names)
		weir__resp_write_simple(writer, "decided_by", 10);
	weir__resp_write_bulk(writer, answer->decided_by, strlen(answer->decided_by));
}

/* What stands before the attributes. */
struct preface {
	uint64_t cost;
	uint32_t end; /* where the attributes begin */
};

/* COST and TRACEPARENT, each once at most, in any order. The traceparent is for this request alone: those that were gathered
 * before have another. False: that was answered. */
static bool read_preface(struct weir__call *call, struct preface *ret)
{
	bool has_cost = false, has_trace = false;

	*ret = (struct preface){ .cost = 1, .end = 1 };
	for (; ret->end + 1 < call->n; ret->end += 2) {
		const struct weir__resp_slice *const name = &call->arguments[ret->end], *const value = name + 1;

		if (!has_cost && weir__is_word(name, "COST")) {
			has_cost = true;
			if (!weir__read_number(call, ret->end + 1, INT64_MAX, WEIR__SAY_COST, &ret->cost))
				return false;
		} else if (!has_trace && weir__is_word(name, "TRACEPARENT")) {
			has_trace = true;
			weir__commands_end_group(call->commands, call->client, call->writer);
			weir__witness_parent(call->commands->witness, value->bytes, value->length);
		} else {
			break;
		}
	}
	return true;
}

/* Decided at once and not gathered: nothing is asked of the kernel in between all the same. */
void weir__check(struct weir__call *call)
{
	struct weir_attribute attributes[ATTRIBUTES_MAX];
	struct weir_guard *const guard = guard_of(call);
	struct weir_guard_answer answer;
	struct weir_message why;
	struct preface preface;
	size_t n;

	if (guard && read_preface(call, &preface) && read_attributes(call, preface.end, attributes, &n)) {
		weir__commands_end_group(call->commands, call->client, call->writer);
		if (weir__decide_check(call->commands, guard, attributes, n, preface.cost, &answer, &why) == WEIR_OK)
			answer_check(&answer, call->writer);
		else
			weir__refuse_with(call, WEIR__SAY_LIMIT, why.text);
	}
	weir__witness_parent(call->commands->witness, NULL, 0);
}

/* Lines, until there is no more room for them. */
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
	struct weir_attribute attributes[ATTRIBUTES_MAX];
	struct weir_guard *const guard = guard_of(call);
	struct lines lines;
	char more[64];
	size_t n;

	if (guard == NULL || !read_attributes(call, 1, attributes, &n))
		return;
	lines.length = lines.n = lines.left_out = 0;
	weir__guard_explain(guard, attributes, n, add_line, &lines);
	weir__resp_write_array(call->writer, lines.n + (lines.left_out > 0));
	for (const char *line = lines.text; line < lines.text + lines.length; line += strlen(line) + 1)
		weir__say_word(call, line);
	if (lines.left_out > 0) {
		(void)snprintf(more, sizeof(more), "and %zu more, for which there is no room", lines.left_out);
		weir__say_word(call, more);
	}
}

/* --- limits by name --------------------------------------------------------------------------------------------- */

static void begin_rows(void *call_, uint32_t n)
{
	const struct weir__call *const call = call_;

	weir__resp_write_array(call->writer, n);
}

static void say_row(void *call_, const struct weir__guard_row *row)
{
	const struct weir__call *const call = call_;
	struct weir_table_limit_stats stats = { 0, 0 };
	char text[WEIR_LIMIT_TEXT_MAX] = "unlimited";

	if (row->limit) {
		const struct weir_limit now = weir_table_limit_limit(row->limit);

		(void)weir_limit_print(&now, text);
		weir_table_limit_stats(call->commands->table, row->limit, &stats);
	}
	weir__resp_write_map(call->writer, 6);
	weir__say_word(call, "name");
	weir__say_word(call, row->name);
	weir__say_word(call, "limit");
	weir__say_word(call, text);
	weir__say_word(call, "mode");
	weir__say_word(call, weir__asked_mode_word(row->mode));
	weir__say_word(call, "key");
	weir__say_word(call, row->key);
	weir__say_word(call, "allowed");
	weir__resp_write_integer(call->writer, weir__signed_of(stats.allowed));
	weir__say_word(call, "denied");
	weir__resp_write_integer(call->writer, weir__signed_of(stats.denied));
}

_Static_assert((int)ROWS_MAX *((int)NAME_MOST + (int)WEIR_LIMIT_TEXT_MAX + (int)WEIR__GUARD_KEY_SIZE + 192) <=
		       (int)WEIR__ANSWER_MOST,
	       "all rows fit an answer");

void weir__limits_command(struct weir__call *call)
{
	struct weir_guard *const guard = guard_of(call);
	uint64_t first = 0;

	if (guard == NULL || (call->n > 1 && !weir__read_number(call, 1, UINT32_MAX, WEIR__SAY_LIMITS_FIRST, &first)))
		return;
	weir__guard_list(guard, (uint32_t)first, ROWS_MAX, begin_rows, say_row, call);
}

/* The name may be written as elsewhere, behind an @. */
void weir__change(struct weir__call *call)
{
	const struct weir__resp_slice *const name = &call->arguments[1];
	const size_t sign = weir__asked_is_named(name->bytes, name->length) ? 1 : 0;
	struct weir__audit_who who;
	struct weir__refusal refusal;
	struct weir_limit to;

	if (guard_of(call) == NULL || !weir__read_limit(call, 2, &to))
		return;
	weir__audit_who_asks(call->client, WEIR__WIRE_RESP, &who);
	if (weir__asked_change(call->commands, &who, name->bytes + sign, name->length - sign, &to, &refusal))
		weir__say_ok(call);
	else
		(void)weir__refuse_as(call, &refusal);
}

void weir__reload(struct weir__call *call)
{
	struct weir__audit_who who;
	struct weir__log_line line;

	if (guard_of(call) == NULL)
		return;
	weir__resp_write_integer(call->writer, weir__signed_of(weir__policies_reload(call->commands->policies)));
	weir__audit_who_asks(call->client, WEIR__WIRE_RESP, &who);
	weir__audit_begin(&line, call->commands->log, &who, "reload_asked");
	weir__audit_end(&line, call->commands->log, NULL);
}
