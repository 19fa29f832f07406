/* ask_report.c: prints replies. A decision becomes a sentence. Any other map is printed with one line per member, so
 * that members that a later server adds are shown, too. */
#include "cli/ask_report.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/words.h"

enum { NAME_SIZE = 64 };

/* Members that are durations: ns in the reply, -1 for never. */
static const char *const durations[] = { "retry_after", "reset_after", "delay" };

/* A member that is a point in time: Unix time in ns, 0 for none. */
static const char instant[] = "full_at";

static bool is_text(const struct weir__resp_token *token, const char *text)
{
	return token->text.length == strlen(text) && memcmp(token->text.bytes, text, token->text.length) == 0;
}

static bool is_duration(const struct weir__resp_token *name)
{
	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++)
		if (is_text(name, durations[i]))
			return true;
	return false;
}

static bool is_instant(const struct weir__resp_token *name, const struct weir__resp_token *value)
{
	return is_text(name, instant) && value->type == WEIR__RESP_INTEGER;
}

const struct weir__resp_token *weir__ask_report_member(const struct weir__resp_token *map, const char *name)
{
	const struct weir__resp_token *at = map + 1;

	if (map->type != WEIR__RESP_MAP)
		return NULL;
	for (int64_t i = 0; i + 1 < map->number; i += 2) {
		const struct weir__resp_token *const value = at + at->span;

		if (is_text(at, name))
			return value;
		at = value + value->span;
	}
	return NULL;
}

static int64_t number_of(const struct weir__resp_token *map, const char *name)
{
	const struct weir__resp_token *const value = weir__ask_report_member(map, name);

	return value ? value->number : 0;
}

bool weir__ask_report_admits(const struct weir__resp_token *answer)
{
	const struct weir__resp_token *const allowed = weir__ask_report_member(answer, "allowed");

	return allowed == NULL || allowed->number != 0;
}

/* --- for programs ----------------------------------------------------------------------------------------------- */

/* Replaces every byte that is not a letter or digit, so that a name from the server cannot break the JSON. */
static void write_name(const struct weir__resp_token *token, char name[NAME_SIZE])
{
	size_t n = 0;

	for (; n < token->text.length && n < NAME_SIZE - 4; n++)
		name[n] = isalnum((unsigned char)token->text.bytes[n]) ? token->text.bytes[n] : '_';
	(void)snprintf(name + n, NAME_SIZE - n, "%s", is_duration(token) ? "_ns" : "");
}

static void json_value(struct weir__json *json, const char *name, const struct weir__resp_token *value,
		       bool is_a_duration);

static void json_instant(struct weir__json *json, const char *name, const struct weir__resp_token *value)
{
	char text[WEIR__WORDS_SIZE];

	weir__words_instant((weir_ns)value->number, text);
	if (value->number > 0)
		weir__json_text(json, name, text);
	else
		weir__json_word(json, name, "null");
}

static void json_members(struct weir__json *json, const struct weir__resp_token *map)
{
	const struct weir__resp_token *at = map + 1;
	char name[NAME_SIZE];

	for (int64_t i = 0; i + 1 < map->number; i += 2) {
		const struct weir__resp_token *const value = at + at->span;

		write_name(at, name);
		if (is_instant(at, value))
			json_instant(json, name, value);
		else
			json_value(json, name, value, is_duration(at));
		at = value + value->span;
	}
}

static void json_elements(struct weir__json *json, const struct weir__resp_token *array)
{
	const struct weir__resp_token *at = array + 1;

	for (int64_t i = 0; i < array->number; i++) {
		json_value(json, NULL, at, false);
		at += at->span;
	}
}

static void json_value(struct weir__json *json, const char *name, const struct weir__resp_token *value,
		       bool is_a_duration)
{
	char number[24];

	switch (value->type) {
	case WEIR__RESP_INTEGER:
		(void)snprintf(number, sizeof(number), "%" PRId64, value->number);
		weir__json_word(json, name, is_a_duration && value->number < 0 ? "null" : number);
		break;
	case WEIR__RESP_BOOLEAN:
		weir__json_word(json, name, value->number ? "true" : "false");
		break;
	case WEIR__RESP_NULL:
		weir__json_word(json, name, "null");
		break;
	case WEIR__RESP_MAP:
		weir__json_open(json, name, '{');
		json_members(json, value);
		weir__json_close(json, '}');
		break;
	case WEIR__RESP_ARRAY:
	case WEIR__RESP_SET:
		weir__json_open(json, name, '[');
		json_elements(json, value);
		weir__json_close(json, ']');
		break;
	default:
		weir__json_bytes(json, name, value->text.bytes, value->text.length);
	}
}

void weir__ask_report_element(struct weir__json *json, const struct weir__resp_token *value)
{
	json_value(json, NULL, value, false);
}

/* The lines NAME:VALUE of INFO, by section. */
static void json_info(struct weir__json *json, const struct weir__resp_token *info)
{
	const char *const end = info->text.bytes + info->text.length;
	bool is_open = false;

	for (const char *line = info->text.bytes; line < end;) {
		const char *const found = memchr(line, '\n', (size_t)(end - line));
		const char *const next = found ? found + 1 : end;
		const char *const stop = found && found > line && found[-1] == '\r' ? found - 1 : found ? found : end;
		const char *const colon = memchr(line, ':', (size_t)(stop - line));
		char name[NAME_SIZE];

		if (*line == '#') {
			if (is_open)
				weir__json_close(json, '}');
			(void)snprintf(name, sizeof(name), "%.*s", (int)(stop - line - 2), line + 2);
			*name = (char)tolower((unsigned char)*name);
			weir__json_open(json, name, '{');
			is_open = true;
		} else if (colon && is_open) {
			(void)snprintf(name, sizeof(name), "%.*s", (int)(colon - line), line);
			weir__json_bytes(json, name, colon + 1, (size_t)(stop - colon - 1));
		}
		line = next;
	}
	if (is_open)
		weir__json_close(json, '}');
}

static void json_answer(const struct weir__resp_token *answer)
{
	struct weir__json json = { .out = stdout };

	weir__json_open(&json, NULL, '{');
	if (answer->type == WEIR__RESP_MAP)
		json_members(&json, answer);
	else if (answer->type == WEIR__RESP_VERBATIM)
		json_info(&json, answer);
	else
		json_value(&json, "answer", answer, false);
	weir__json_close(&json, '}');
}

/* --- for people ------------------------------------------------------------------------------------------------- */

static void print_duration(const char *before, int64_t ns)
{
	char text[WEIR__WORDS_SIZE];

	weir__words_span((weir_ns)ns, text);
	printf(", %s %s", before, text);
}

/* The name of the policy's limit that decided: the one that denied, or the one with the least left. */
static void print_name(const char *before, const struct weir__resp_token *decided_by)
{
	fputs(before, stdout);
	weir__words_quoted(stdout, decided_by->text.bytes, decided_by->text.length);
}

static void print_shadows(int64_t n)
{
	if (n > 0)
		printf("; in shadow %" PRId64 " would have denied it", n);
}

static void print_decision(const struct weir__resp_token *answer, const struct weir__ask_words *words, uint64_t asked)
{
	const bool is_allowed = weir__ask_report_admits(answer);
	const int64_t granted = number_of(answer, "granted"), retry = number_of(answer, "retry_after");
	const struct weir__resp_token *const by = weir__ask_report_member(answer, "decided_by");
	const bool is_of_policy = by && by->type != WEIR__RESP_INTEGER;
	const int64_t decided_by = is_of_policy ? 0 : number_of(answer, "decided_by");
	const int64_t delay = number_of(answer, "delay"), reset = number_of(answer, "reset_after");

	fputs(is_allowed ? words->allowed : words->denied, stdout);
	if (is_allowed && asked > 0)
		printf(" %" PRId64 " of %" PRIu64, granted, asked);
	if (!is_allowed && decided_by > 0)
		printf(" by limit %" PRId64, decided_by);
	if (is_of_policy && by->text.length == 0) {
		fputs(", no enforced limit applies", stdout);
		print_shadows(number_of(answer, "shadow_denied"));
		putchar('\n');
		return;
	}
	if (is_of_policy && by->text.length == 11 && memcmp(by->text.bytes, "(unmatched)", 11) == 0) {
		puts(", no limit applies, and the policy says unmatched: deny");
		return;
	}
	if (is_of_policy)
		print_name(" by ", by);
	printf(", %" PRId64 " of %" PRId64 " left", number_of(answer, "remaining"), number_of(answer, "limit"));
	if (is_allowed && delay > 0)
		print_duration("delayed by", delay);
	if (!is_allowed && retry >= 0)
		print_duration("retry in", retry);
	if (reset > 0)
		print_duration("full again in", reset);
	if (!is_allowed && retry < 0)
		fputs("; no wait will help: the cost exceeds the limit's capacity", stdout);
	print_shadows(number_of(answer, "shadow_denied"));
	putchar('\n');
}

static void print_value(const struct weir__resp_token *value, bool is_a_duration);

static void print_elements(const struct weir__resp_token *value)
{
	const struct weir__resp_token *at = value + 1;

	for (int64_t i = 0; i < value->number; i++, at += at->span) {
		if (i > 0)
			fputs(", ", stdout);
		print_value(at, false);
	}
}

static void print_value(const struct weir__resp_token *value, bool is_a_duration)
{
	char text[WEIR__WORDS_SIZE];

	switch (value->type) {
	case WEIR__RESP_INTEGER:
		weir__words_span(value->number > 0 ? (weir_ns)value->number : 0, text);
		if (is_a_duration)
			fputs(value->number < 0 ? "never" : text, stdout);
		else
			printf("%" PRId64, value->number);
		break;
	case WEIR__RESP_BOOLEAN:
		fputs(value->number ? "yes" : "no", stdout);
		break;
	case WEIR__RESP_NULL:
		fputs("none", stdout);
		break;
	case WEIR__RESP_ARRAY:
	case WEIR__RESP_MAP:
	case WEIR__RESP_SET:
		print_elements(value);
		break;
	default:
		weir__words_quoted(stdout, value->text.bytes, value->text.length);
	}
}

static void print_instant(int64_t ns)
{
	char text[WEIR__WORDS_SIZE];

	weir__words_instant((weir_ns)ns, text);
	fputs(ns > 0 ? text : "none", stdout);
}

static void print_members(const struct weir__resp_token *map)
{
	const struct weir__resp_token *at = map + 1;
	char name[NAME_SIZE];

	for (int64_t i = 0; i + 1 < map->number; i += 2) {
		const struct weir__resp_token *const value = at + at->span;

		write_name(at, name);
		if (is_duration(at))
			name[strlen(name) - strlen("_ns")] = '\0';
		printf("%-12s ", name);
		if (is_instant(at, value))
			print_instant(value->number);
		else
			print_value(value, is_duration(at));
		putchar('\n');
		at = value + value->span;
	}
}

/* Lines end in CR LF. Other control characters are shown as \xNN. */
static void print_text(const struct weir__resp_token *text)
{
	char line[1024];
	size_t n = 0;

	for (size_t i = 0; i < text->text.length; i++) {
		const char byte = text->text.bytes[i];

		if (byte != '\r' && byte != '\n' && byte != '\0' && n + 1 < sizeof(line))
			line[n++] = byte;
		if (byte == '\n' || i + 1 == text->text.length) {
			line[n] = '\0';
			weir__words_safe(stdout, line);
			putchar('\n');
			n = 0;
		}
	}
}

void weir__ask_report(const struct weir__resp_token *answer, const struct weir__ask_words *words, uint64_t asked,
		      bool is_json)
{
	if (is_json) {
		json_answer(answer);
	} else if (weir__ask_report_member(answer, "allowed") && words->allowed) {
		print_decision(answer, words, asked);
	} else if (answer->type == WEIR__RESP_MAP) {
		print_members(answer);
	} else if (answer->type == WEIR__RESP_INTEGER && words->one) {
		puts(answer->number ? words->one : words->zero);
	} else if (answer->type == WEIR__RESP_VERBATIM) {
		print_text(answer);
	} else if (answer->type == WEIR__RESP_SIMPLE) {
		printf("%.*s\n", (int)answer->text.length, answer->text.bytes);
	} else {
		print_value(answer, false);
		putchar('\n');
	}
}
