/* main.c: the one binary, `weir`. Each subcommand has its own file, and a row in the table below. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "engine/errors.h"

static const struct weir__command commands[] = {
	{ "bench", weir__bench, "measures throughput and latency of a server" },
	{ "check-config", weir__check_config, "lists all errors in policy and configuration files" },
	{ "demo", weir__demo, "shows the five algorithms side by side on the same bursty traffic" },
	{ "explain", weir__explain, "shows which limits of a policy apply to a request, and why" },
	{ "record", weir__record, "records the decisions of a running server in a file, for weir replay" },
	{ "replay", weir__replay, "decides the requests of an access log by a policy, before you enforce it" },
	{ "serve", weir__serve, "starts the server, for clients over RESP, HTTP and gRPC" },
	{ "table", weir__table, "inspects shared tables and files while they are in use" },
	{ "top", weir__top, "shows a live view of a server: rates, denials and top keys of its limits" },
	{ "tune", weir__tune, "proposes the rate and burst of a limit, from a log and a wish" },
	{ "take", weir__ask, "takes from a limit at the server: allows and charges, or denies" },
	{ "upto", weir__ask, "takes what is available at the server, up to a cost" },
	{ "peek", weir__ask, "shows what take would return, without charging" },
	{ "refund", weir__ask, "refunds part of what a key has used" },
	{ "reset", weir__ask, "resets a key" },
	{ "inspect", weir__ask, "shows the state of a key" },
	{ "all", weir__ask, "takes from several limits at the server, all or none" },
	{ "hold", weir__ask, "takes an estimated cost, to be settled later" },
	{ "settle", weir__ask, "settles a hold: charges or refunds the difference" },
	{ "release", weir__ask, "releases a hold: refunds all of it" },
	{ "check", weir__ask, "decides by all limits of the server's policy that apply to a request" },
	{ "ping", weir__ask, "shows whether the server replies" },
	{ "limits", weir__ask, "shows the limits of the server's policy, as they are now" },
	{ "change", weir__ask, "changes one limit of the server's policy until the policy changes" },
	{ "reload", weir__ask, "reloads the server's policy and users, and reports errors" },
	{ "info", weir__ask, "shows the state of the server" },
};

enum { UNWRITTEN = 3 }; /* exit code if standard output could not be written */

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *out)
{
	fputs("Weir is a rate limiter.\n\nusage: weir COMMAND [OPTION...]\n\n", out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].does);
	fputs("  help         shows this list; help errors lists the server's errors\n  version      shows the version\n\nweir COMMAND --help describes one command.\n"
	      "WEIR_AT in the environment sets --at, the address of the server, for every command that has it.\n"
	      "Exit status 3 of any command: standard output could not be written.\n",
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

/* `weir help table get` is the same as `weir table get --help`. */
static int help_of(int argc, char **argv)
{
	char tell_more[] = "--help";
	char *words[4] = { NULL };
	int n = 0;

	if (argc == 0) {
		help(stdout);
		return 0;
	}
	if (argc == 1 && strcmp(argv[0], "errors") == 0)
		return help_errors();
	while (n < argc && n < 2) {
		words[n] = argv[n];
		n++;
	}
	words[n++] = tell_more;
	return run(n, words);
}

static int run_any(int argc, char **argv)
{
	if (argc < 2) {
		help(stderr);
		return 2;
	}
	if (strcmp(argv[1], "help") == 0 || weir__command_is_help(argv[1]))
		return help_of(argc - 2, argv + 2);
	if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
		puts("weir " WEIR_VERSION);
		return 0;
	}
	return run(argc - 1, argv + 1);
}

/* A disk may be full, and a program that reads the output then has only part of it. A command that failed anyway keeps
 * its exit code. */
int main(int argc, char **argv)
{
	const int code = run_any(argc, argv);
	const bool had_failed = ferror(stdout);

	errno = 0;
	if (fflush(stdout) == 0 && !had_failed)
		return code;
	fprintf(stderr, "weir: standard output: %s\n", strerror(errno ? errno : EIO));
	return code == 0 ? UNWRITTEN : code;
}
