/* command.h: the subcommands of weir. Each gets its own name as argv[0] and returns the exit code: 0, 1 when it failed,
 * 2 when it was called wrongly. */
#ifndef WEIR_CLI_COMMAND_H
#define WEIR_CLI_COMMAND_H

struct weir__command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *does;
};

int weir__demo(int argc, char **argv);

#endif
