/* main.c: the one binary, `weir`. Each subcommand is a file of its own and a row of the table here. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static const struct weir__command commands[] = {
	{ "check-config", weir__check_config, "says what is wrong with policies" },
	{ "demo", weir__demo, "the five algorithms side by side on the same bursty traffic" },
	{ "explain", weir__explain, "which limits of a policy apply to a request, and why" },
	{ "serve", weir__serve, "the daemon: decides for whoever asks over RESP" },
	{ "table", weir__table, "looks into shared tables while they are in use" },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *out)
{
	fputs("weir decides, for every request: go, wait, or no.\n\nusage: weir COMMAND [OPTION...]\n\n", out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].does);
	fputs("  help         this list\n  version      the version\n\nweir COMMAND --help tells more of one.\n", out);
}

int main(int argc, char **argv)
{
	const struct weir__command *command;

	if (argc < 2) {
		help(stderr);
		return 2;
	}
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0) {
		help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
		puts("weir " WEIR_VERSION);
		return 0;
	}
	command = weir__command_find(commands, COMMANDS, argv[1]);
	if (command)
		return command->run(argc - 1, argv + 1);
	weir__command_refuse(commands, COMMANDS, "weir", argv[1], "weir help");
	return 2;
}
