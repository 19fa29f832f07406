/* command.h: the subcommands of weir. Each gets its own name as argv[0] and returns the exit code: 0 when it is done, 2
 * when it was called wrongly, and 1 to 3 when it failed, as its help says. */
#ifndef WEIR_CLI_COMMAND_H
#define WEIR_CLI_COMMAND_H

#include <stddef.h>

struct weir__command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *does;
};

int weir__check_config(int argc, char **argv);
int weir__ask(int argc, char **argv); /* by its name: any command that asks a server */
int weir__bench(int argc, char **argv);
int weir__demo(int argc, char **argv);
int weir__explain(int argc, char **argv);
int weir__serve(int argc, char **argv);
int weir__table(int argc, char **argv);
int weir__top(int argc, char **argv);

/* The command of this name, or NULL. */
const struct weir__command *weir__command_find(const struct weir__command *commands, size_t n, const char *name);

/* Says on standard error that `word` is no command of `whose`, which one was meant, and how to see all. */
void weir__command_refuse(const struct weir__command *commands, size_t n, const char *whose, const char *word,
			  const char *see);

#endif
