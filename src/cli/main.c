/* main.c: the one binary, `weir`. Each subcommand has a file of its own and a row in the table below. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "engine/errors.h"

static const struct weir__command commands[] = {
	{ "bench", weir__bench, "measures how fast a daemon answers" },
	{ "check-config", weir__check_config, "lists the errors in policies and settings" },
	{ "demo", weir__demo, "the five algorithms side by side on the same bursty traffic" },
	{ "explain", weir__explain, "which limits of a policy apply to a request, and why" },
	{ "serve", weir__serve, "the daemon: decides for clients over RESP and HTTP" },
	{ "table", weir__table, "inspects shared tables and files while they are in use" },
	{ "top", weir__top, "a live view of the daemon: rates, rejections and top keys of its limits" },
	{ "take", weir__ask, "asks the daemon: allows and charges, or denies" },
	{ "upto", weir__ask, "asks the daemon: charges as many as there are, up to a cost" },
	{ "peek", weir__ask, "asks the daemon: what take would answer, without charging" },
	{ "refund", weir__ask, "asks the daemon: gives back" },
	{ "reset", weir__ask, "asks the daemon: forgets what a key has used" },
	{ "inspect", weir__ask, "asks the daemon: the state of a key" },
	{ "all", weir__ask, "asks the daemon: takes from several limits, all or none" },
	{ "hold", weir__ask, "asks the daemon: takes an estimate, to be settled later" },
	{ "settle", weir__ask, "asks the daemon: settles a hold, by charging or giving back the difference" },
	{ "release", weir__ask, "asks the daemon: gives back everything held" },
	{ "check", weir__ask, "asks the daemon: decides by all limits of its policy that apply" },
	{ "ping", weir__ask, "whether the daemon answers" },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *out)
{
	fputs("weir decides, for every request: go, wait, or no.\n\nusage: weir COMMAND [OPTION...]\n\n", out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].does);
	fputs("  help         this list; help errors lists the daemon's errors\n  version      the version\n\nweir COMMAND --help describes one command.\n",
	      out);
}

static int help_errors(void)
{
	for (size_t i = 0; i < WEIR__ERRORS_N; i++)
		printf("%s%s\n    %s\n", weir__error_rows[i].text, weir__error_rows[i].detail,
		       weir__error_rows[i].when);
	return 0;
}

static int run(int argc, char **argv)
{
	const struct weir__command *const command = weir__command_find(commands, COMMANDS, argv[0]);

	if (command)
		return command->run(argc, argv);
	weir__command_refuse(commands, COMMANDS, "weir", argv[0], "weir help");
	return 2;
}

int main(int argc, char **argv)
{
	char tell_more[] = "--help";

	if (argc < 2) {
		help(stderr);
		return 2;
	}
	if (argc == 3 && strcmp(argv[1], "help") == 0 && strcmp(argv[2], "errors") == 0)
		return help_errors();
	if (argc == 3 && strcmp(argv[1], "help") == 0)
		return run(2, (char *[]){ argv[2], tell_more, NULL });
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0) {
		help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
		puts("weir " WEIR_VERSION);
		return 0;
	}
	return run(argc - 1, argv + 1);
}
