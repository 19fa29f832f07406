/* reference.c: prints the commands, routes, errors and metrics of weir serve as Markdown tables, from the lists in the
 * source. */
#include <weir/types.h>
#include <stdio.h>

#include "observe/metrics.h"
#include "server/http/http_call.h"
#include "server/resp/resp_command.h"

/* Escapes bars, which would end the cell. */
static void print_cell(const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			putchar('\\');
		putchar(*text);
	}
}

/* The role that an operation needs, unless `decide` is enough. */
static void print_roles_of(enum weir__operation operation)
{
	char roles[WEIR__ROLES_TEXT];

	if (!weir__operation_is_common(operation) && weir__operation_write_roles(operation, "` or `", roles) > 0)
		printf(", `%s`", roles);
}

static void print_command(const struct weir__command_row *row)
{
	char name[WEIR__COMMAND_NAME_SIZE];

	weir__write_capitals(row->name, name);
	printf("| `%s%s", name, *row->usage ? " " : "");
	print_cell(row->usage);
	printf("`");
	print_roles_of(row->operation);
	printf(" | ");
	print_cell(row->does);
	printf(" |\n");
}

static void print_route(const struct weir__route *row)
{
	printf("| `%s %s`", llhttp_method_name(row->method), row->path);
	print_roles_of(row->operation);
	printf(" | ");
	print_cell(row->does);
	printf(" |\n");
}

/* Admin may use everything, so its row has only what no other role may. */
static bool is_of_role(enum weir__operation operation, unsigned role)
{
	const unsigned roles = weir__operation_roles(operation);

	return role == 0 || role == WEIR__ROLE_ADMIN ? roles == role : (roles & role) != 0;
}

/* A row for each role, and one for what every user may use. */
static void print_roles(void)
{
	static const unsigned roles[] = { 0, WEIR__ROLE_DECIDE, WEIR__ROLE_OPERATE, WEIR__ROLE_READ, WEIR__ROLE_ADMIN };

	printf("\n| role | RESP | HTTP |\n|---|---|---|\n");
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		char name[WEIR__ROLES_TEXT], capitals[WEIR__COMMAND_NAME_SIZE];
		const char *between = "";

		printf("| %s | ", weir__roles_write(roles[i], "", name) > 0 ? name : "any");
		for (size_t j = 0; j < weir__command_rows_n; j++)
			if (is_of_role(weir__command_rows[j].operation, roles[i])) {
				weir__write_capitals(weir__command_rows[j].name, capitals);
				printf("%s`%s`", between, capitals);
				between = ", ";
			}
		printf(" | ");
		between = "";
		for (size_t j = 0; j < weir__routes_n; j++)
			if (is_of_role(weir__routes[j].operation, roles[i])) {
				printf("%s`%s %s`", between, llhttp_method_name(weir__routes[j].method),
				       weir__routes[j].path);
				between = ", ";
			}
		printf(" |\n");
	}
}

static void print_http(void)
{
	static const struct {
		unsigned status;
		const char *words;
	} faults[] = {
#define FAULT_ROW(name, status, text) { (status), (text) },
		WEIR__HTTP_ERRORS(FAULT_ROW)
#undef FAULT_ROW
	};

	printf("\n| request | response |\n|---|---|\n");
	for (size_t i = 0; i < weir__routes_n; i++)
		print_route(&weir__routes[i]);
	printf("\n| status | message |\n|---|---|\n");
	for (size_t i = 1; i < sizeof(faults) / sizeof(faults[0]); i++) { /* the first is "no fault" */
		printf("| %u | ", faults[i].status);
		print_cell(faults[i].words);
		printf(" |\n");
	}
}

static void print_metrics(void)
{
	static const char *const types[] = { [WEIR__METRIC_COUNTER] = "counter",
					     [WEIR__METRIC_GAUGE] = "gauge",
					     [WEIR__METRIC_HISTOGRAM] = "histogram",
					     [WEIR__METRIC_INFO] = "info" };

	printf("\n| metric | type | labels | what it is |\n|---|---|---|---|\n");
	for (size_t i = 0; i < WEIR__METRICS_N; i++) {
		const struct weir__metric_row *const row = &weir__metric_rows[i];

		printf("| `%s%s` | %s | %s | ", row->name, weir__metric_suffix(row->type), types[row->type],
		       row->labels);
		print_cell(row->help);
		printf(" |\n");
	}
}

/* The meaning of each error code of the library, and what to do. A code without a row fails the documentation build. */
static const struct {
	int code;
	const char *means, *remedy;
} library_rows[] = {
	{ WEIR_OK, "the call succeeded", "nothing" },
	{ WEIR_ERR_SYNTAX, "a limit, a policy, a key or a URL cannot be parsed",
	  "fix the text at `message.at`, the offset of the error; for a policy, at the line and column that were reported" },
	{ WEIR_ERR_LIMIT, "a limit, a name or an argument is invalid, such as a count of 0 or a name that is not known",
	  "use a value that the message names" },
	{ WEIR_ERR_MAXIMUM, "the limit is valid, but too large for this algorithm, for a table or for Redis",
	  "lower the count, the burst or the period, or use the algorithm that the message names" },
	{ WEIR_ERR_CHANGE,
	  "the change would alter the algorithm, an option or the period of a window, or the name belongs to another limit",
	  "change only the rate and burst of a bucket or the count of a window, or add the limit under a new name" },
	{ WEIR_ERR_ROOM, "the memory that you passed, or `size_bytes`, is too small",
	  "pass the size that `weir_limiter_size`, `weir_queue_size` or `weir_table_size` returns" },
	{ WEIR_ERR_UNSUPPORTED,
	  "for example a queue with a limit that has no queue, or descriptors with a policy in Weir's format",
	  "use a limit, a store or a policy that supports the operation" },
	{ WEIR_ERR_NEVER, "a wait was refused at once, because no time is long enough",
	  "lower the cost, or raise the burst or the count" },
	{ WEIR_ERR_DEADLINE,
	  "the request could not go before `deadline`; functions that wait return at once when they know it",
	  "retry later, or allow a later deadline" },
	{ WEIR_ERR_CANCELLED, "`weir_canceller_cancel` was called before the wait was over",
	  "nothing: your program asked for it" },
	{ WEIR_ERR_CLOSED, "the queue is closed, or the submitter is being freed",
	  "stop pushing; pop what is left in the queue" },
	{ WEIR_ERR_FULL,
	  "the queue has no place, the table has `limits_max` limits, or too many requests of a submitter are not complete",
	  "retry later, or make the table with a larger `limits_max`" },
	{ WEIR_ERR_SYSTEM, "no memory, no thread, no file descriptor, or a file that cannot be opened",
	  "read `errno` and the message" },
	{ WEIR_ERR_REGION,
	  "the shared memory or file is not a table, is damaged, belongs to another user, or was made with other options or by another version",
	  "open it with the options that it was made with, or remove it; in a new table all keys are full" },
	{ WEIR_ERR_UNREACHABLE, "the request was not sent",
	  "retry later, or set what decides meanwhile with `on_failure`" },
	{ WEIR_ERR_UNANSWERED, "the request was sent, and no reply came within the budget",
	  "do not retry a charge that must not count twice; raise the budget if Redis is healthy" },
	{ WEIR_ERR_ALIGNMENT, "the memory that you passed does not begin at a multiple of the alignment",
	  "align it to the constant in the header, such as `WEIR_QUEUE_ALIGN`" },
	{ WEIR_ERR_TOO_LARGE,
	  "`size_bytes`, `arena_bytes` or `limits_max` is beyond its maximum, or the table does not fit the memory",
	  "make the table smaller, or set `overcommit`" },
	{ WEIR_ERR_NO_TABLE, "`size_bytes` is 0, and no table of this name exists",
	  "set `size_bytes` to make the table" },
	{ WEIR_ERR_FILE_TYPE, "the path of a table is a link, a directory, a FIFO, a socket or a device",
	  "use the path of a regular file" },
	{ WEIR_ERR_NO_ARENA, "sliding logs, and some sliding counters, keep their events in the arena",
	  "make the table with `arena_bytes`" },
	{ WEIR_ERR_NULL, "the message names the function and the argument", "pass a valid pointer" },
};

static bool print_library(void)
{
	static const struct {
		int code;
		const char *name;
	} codes[] = {
#define LIBRARY_ROW(name, value, meaning) { (value), #name },
		WEIR_ERRORS(LIBRARY_ROW)
#undef LIBRARY_ROW
	};
	bool is_complete = true;

	printf("\n| code | value | message | what it means | what to do |\n|---|---|---|---|---|\n");
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		const bool has_row = i < sizeof(library_rows) / sizeof(library_rows[0]) &&
				     library_rows[i].code == codes[i].code;

		is_complete &= has_row;
		printf("| `%s` | %d | %s | ", codes[i].name, codes[i].code, weir_strerror(codes[i].code));
		print_cell(has_row ? library_rows[i].means : "");
		printf(" | ");
		print_cell(has_row ? library_rows[i].remedy : "");
		printf(" |\n");
	}
	return is_complete;
}

int main(void)
{
	printf("| command | reply |\n|---|---|\n");
	for (size_t i = 0; i < weir__command_rows_n; i++)
		print_command(&weir__command_rows[i]);
	print_roles();
	printf("\n| error | when |\n|---|---|\n");
	for (size_t i = 0; i < WEIR__ERRORS_N; i++) {
		printf("| `%s%s` | ", weir__error_rows[i].text, weir__error_rows[i].detail);
		print_cell(weir__error_rows[i].when);
		printf(" |\n");
	}
	print_http();
	print_metrics();
	return print_library() ? 0 : 1;
}
