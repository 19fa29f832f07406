/* reference.c: prints the commands and errors of weir serve as tables in Markdown, from the lists that answer. */
#include <stdio.h>

#include "serve/command.h"

/* A bar would end the cell. */
static void print_cell(const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			putchar('\\');
		putchar(*text);
	}
}

static void print_command(const struct weir__command *row)
{
	char name[WEIR__COMMAND_NAME_SIZE];

	weir__write_capitals(row->name, name);
	printf("| `%s%s", name, *row->usage ? " " : "");
	print_cell(row->usage);
	printf("` | ");
	print_cell(row->does);
	printf(" |\n");
}

int main(void)
{
	printf("| command | answer |\n|---|---|\n");
	for (size_t i = 0; i < weir__command_rows_n; i++)
		print_command(&weir__command_rows[i]);
	printf("\n| error | when |\n|---|---|\n");
	for (size_t i = 0; i < WEIR__SAID_ERRORS_N; i++) {
		printf("| `%s%s` | ", weir__error_rows[i].text, weir__error_rows[i].detail);
		print_cell(weir__error_rows[i].when);
		printf(" |\n");
	}
	return 0;
}
