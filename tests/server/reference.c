/* reference.c: prints what weir serve can be asked, its errors and its metrics, as tables in Markdown, from the lists that
 * answer. */
#include <stdio.h>

#include "observe/metrics.h"
#include "server/http/http_call.h"
#include "server/resp/resp_command.h"

/* A bar would end the cell. */
static void print_cell(const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			putchar('\\');
		putchar(*text);
	}
}

/* Which role it needs, unless decide will do. */
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

	printf("\n| request | answer |\n|---|---|\n");
	for (size_t i = 0; i < weir__routes_n; i++)
		print_route(&weir__routes[i]);
	printf("\n| status | what is said |\n|---|---|\n");
	for (size_t i = 1; i < sizeof(faults) / sizeof(faults[0]); i++) { /* the first is none */
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

int main(void)
{
	printf("| command | answer |\n|---|---|\n");
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
	return 0;
}
