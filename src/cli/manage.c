/* manage.c: lists limits page by page, and follows a reload to its end. */
#include "cli/manage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/ask_report.h"
#include "cli/json.h"
#include "cli/words.h"
#include "os/monotonic.h"

enum {
	PAGE = 50, /* limits per reply of WEIR.LIMITS */
	RELOAD_MS = 60000,
	PAUSE_MS = 10,
	INFO_MAX = 4096,
};

static struct weir__resp_slice slice_of(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

static enum weir__manage_result fail(struct weir__link *link, const char *why)
{
	(void)snprintf(link->why, sizeof(link->why), "%s", why);
	return WEIR__MANAGE_FAILED;
}

/* Sends up to two words. Any other reply than one of this type is a failure. */
static bool ask(struct weir__link *link, const char *command, const char *argument, enum weir__resp_type type)
{
	const struct weir__resp_slice words[] = { slice_of(command), slice_of(argument ? argument : "") };
	const struct weir__resp_token *const reply = &link->tokens[0];
	char why[WEIR__LINK_WHY_SIZE];

	if (weir__link_ask(link, words, argument ? 2 : 1) != WEIR__LINK_OK)
		return false;
	if (reply->type == type)
		return true;
	if (reply->type == WEIR__RESP_ERROR)
		(void)snprintf(why, sizeof(why), "the server replied: %.*s", (int)reply->text.length,
			       reply->text.bytes);
	else
		(void)snprintf(why, sizeof(why), "unexpected reply to %s", command);
	(void)fail(link, why);
	return false;
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

/* Columns for people. A member that a later server adds is only in the JSON. */
static const struct {
	const char *member, *title;
	bool is_number;
} columns[] = {
	{ "name", "NAME", false },   { "limit", "LIMIT", false },     { "key", "KEY", false },
	{ "mode", "MODE", false },   { "allowed", "ALLOWED", true },  { "denied", "DENIED", true },
	{ "store", "STORE", false }, { "changed", "CHANGED", false },
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]), CELL_SIZE = 256 };

struct rows {
	char (*cells)[COLUMNS][CELL_SIZE];
	size_t n, size;
};

/* As text without control characters, cut to the size of a cell. */
static void write_cell(const struct weir__resp_token *value, char cell[CELL_SIZE])
{
	char text[CELL_SIZE];
	FILE *const out = fmemopen(cell, CELL_SIZE, "w");

	cell[0] = '\0';
	if (out == NULL)
		return;
	if (value && value->type == WEIR__RESP_INTEGER)
		fprintf(out, "%" PRId64, value->number);
	else if (value && value->text.length > 0) {
		(void)snprintf(text, sizeof(text), "%.*s", (int)value->text.length, value->text.bytes);
		weir__words_safe(out, text);
	} else {
		fputs("-", out);
	}
	(void)fclose(out);
	cell[CELL_SIZE - 1] = '\0';
}

static bool add_row(struct rows *rows, const struct weir__resp_token *map)
{
	if (rows->n == rows->size) {
		const size_t size = 2 * rows->size + PAGE;
		void *const more = realloc(rows->cells, size * sizeof(*rows->cells));

		if (more == NULL)
			return false;
		rows->cells = more;
		rows->size = size;
	}
	for (size_t i = 0; i < COLUMNS; i++)
		write_cell(weir__ask_report_member(map, columns[i].member), rows->cells[rows->n][i]);
	rows->n++;
	return true;
}

static void print_rows(const struct rows *rows)
{
	int widths[COLUMNS];

	for (size_t i = 0; i < COLUMNS; i++) {
		widths[i] = (int)strlen(columns[i].title);
		for (size_t row = 0; row < rows->n; row++)
			if ((int)strlen(rows->cells[row][i]) > widths[i])
				widths[i] = (int)strlen(rows->cells[row][i]);
	}
	for (size_t row = 0; row <= rows->n; row++)
		for (size_t i = 0; i < COLUMNS; i++) {
			const char *const cell = row == 0 ? columns[i].title : rows->cells[row - 1][i];
			const bool is_last = i + 1 == COLUMNS;

			printf("%*s%s",
			       is_last              ? 0 :
			       columns[i].is_number ? widths[i] :
						      -widths[i],
			       cell, is_last ? "\n" : "  ");
		}
}

static enum weir__manage_result read_pages(struct weir__link *link, struct rows *rows, struct weir__json *json)
{
	char first[24];
	size_t n = 0;
	int64_t got;

	do {
		const struct weir__resp_token *at = &link->tokens[1];

		(void)snprintf(first, sizeof(first), "%zu", n);
		if (!ask(link, "WEIR.LIMITS", first, WEIR__RESP_ARRAY))
			return WEIR__MANAGE_FAILED;
		got = link->tokens[0].number;
		for (int64_t i = 0; i < got; i++, n++, at += at->span)
			if (json)
				weir__ask_report_element(json, at);
			else if (!add_row(rows, at))
				return fail(link, "no memory for the list of limits");
	} while (got == PAGE);
	return WEIR__MANAGE_DONE;
}

enum weir__manage_result weir__manage_limits(struct weir__link *link, bool is_json)
{
	struct weir__json json = { .out = stdout };
	struct rows rows = { NULL, 0, 0 };
	enum weir__manage_result result;

	if (is_json)
		weir__json_open(&json, NULL, '[');
	result = read_pages(link, &rows, is_json ? &json : NULL);
	if (is_json)
		weir__json_close(&json, ']');
	else if (result == WEIR__MANAGE_DONE)
		print_rows(&rows);
	free(rows.cells);
	return result;
}

/* --- reload ------------------------------------------------------------------------------------------------------ */

struct policy_state {
	uint64_t limits, changes, reloads;
	char error[INFO_MAX]; /* empty: the policy is in force */
};

/* The value of NAME:VALUE in INFO, up to the end of its line. Empty if there is none. */
static void find_value(const char *info, const char *name, char value[INFO_MAX])
{
	const size_t length = strlen(name);

	value[0] = '\0';
	for (const char *line = info; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, name, length) == 0 && line[length] == ':') {
			(void)snprintf(value, INFO_MAX, "%.*s", (int)strcspn(line + length + 1, "\r\n"),
				       line + length + 1);
			return;
		}
}

static bool read_state(struct weir__link *link, struct policy_state *ret_state)
{
	char info[INFO_MAX], value[INFO_MAX];
	const struct {
		const char *name;
		uint64_t *place;
	} numbers[] = {
		{ "policy_limits", &ret_state->limits },
		{ "policy_changes", &ret_state->changes },
		{ "policy_reloads", &ret_state->reloads },
	};

	if (!ask(link, "INFO", "policy", WEIR__RESP_VERBATIM))
		return false;
	(void)snprintf(info, sizeof(info), "%.*s", (int)link->tokens[0].text.length, link->tokens[0].text.bytes);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		find_value(info, numbers[i].name, value);
		*numbers[i].place = strtoull(value, NULL, 10);
	}
	find_value(info, "policy_last_error", ret_state->error);
	return true;
}

static void print_state(const struct policy_state *before, const struct policy_state *after, bool is_json)
{
	const bool has_changed = after->changes != before->changes;
	struct weir__json json = { .out = stdout };

	if (is_json) {
		weir__json_open(&json, NULL, '{');
		weir__json_word(&json, "is_loaded", after->error[0] ? "false" : "true");
		weir__json_word(&json, "has_changed", has_changed ? "true" : "false");
		weir__json_number(&json, "limits", after->limits);
		if (after->error[0])
			weir__json_text(&json, "error", after->error);
		weir__json_close(&json, '}');
	} else if (after->error[0] == '\0') {
		printf("reloaded: %" PRIu64 " limit%s, %s\n", after->limits, after->limits == 1 ? "" : "s",
		       has_changed ? "changed" : "unchanged");
	}
}

enum weir__manage_result weir__manage_reload(struct weir__link *link, bool is_json)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
	static struct policy_state before, after; /* too large for the stack */
	const uint64_t until = weir__monotonic_ms() + RELOAD_MS;
	uint64_t number;

	if (!read_state(link, &before) || !ask(link, "WEIR.RELOAD", NULL, WEIR__RESP_INTEGER))
		return WEIR__MANAGE_FAILED;
	number = (uint64_t)link->tokens[0].number;
	for (;;) {
		if (!read_state(link, &after))
			return WEIR__MANAGE_FAILED;
		if (after.reloads >= number)
			break;
		if (weir__monotonic_ms() > until)
			return fail(link,
				    "the server has not reloaded its policy within 60 s; weir info policy shows the "
				    "state");
		(void)nanosleep(&pause, NULL);
	}
	print_state(&before, &after, is_json);
	if (after.error[0] == '\0')
		return WEIR__MANAGE_DONE;
	fputs("weir reload: the previous policy stays in force: ", stderr);
	weir__words_safe(stderr, after.error);
	putc('\n', stderr);
	return WEIR__MANAGE_REFUSED;
}
