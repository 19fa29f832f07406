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

static void print_command(const struct weir__command_row *row)
{
	char name[WEIR__COMMAND_NAME_SIZE];

	weir__write_capitals(row->name, name);
	printf("| `%s%s", name, *row->usage ? " " : "");
	print_cell(row->usage);
	printf("`%s | ", weir__operation_needs_admin(row->operation) ? ", `admin`" : "");
	print_cell(row->does);
	printf(" |\n");
}

static void print_route(const struct weir__route *row)
{
	printf("| `%s %s`%s | ", llhttp_method_name(row->method), row->path,
	       weir__operation_needs_admin(row->operation) ? ", `admin`" : "");
	print_cell(row->does);
	printf(" |\n");
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
