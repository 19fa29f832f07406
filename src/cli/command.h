/* command.h: the subcommands of weir. Each gets its own name as argv[0] and returns the exit code: 0 on success, 2 for
 * wrong usage, and 1 to 4 for failures, as its help says. main.c checks that standard output was written. */
#ifndef WEIR_CLI_COMMAND_H
#define WEIR_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "core/nearest.h"

struct weir__command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *does;
};

int weir__check_config(int argc, char **argv);
int weir__ask(int argc, char **argv); /* every command that sends one request to a server; argv[0] selects which */
int weir__bench(int argc, char **argv);
int weir__demo(int argc, char **argv);
int weir__explain(int argc, char **argv);
int weir__record(int argc, char **argv);
int weir__replay(int argc, char **argv);
int weir__serve(int argc, char **argv);
int weir__table(int argc, char **argv);
int weir__top(int argc, char **argv);
int weir__tune(int argc, char **argv);

/* Returns the command with this name, or NULL. */
const struct weir__command *weir__command_find(const struct weir__command *commands, size_t n, const char *name);

/* Prints to standard error that `word` is an unknown command of `whose`, suggests the nearest one, and names the
 * command that lists all (`see`). */
void weir__command_refuse(const struct weir__command *commands, size_t n, const char *whose, const char *word,
			  const char *see);

/* Whether the word is --help or -h. */
bool weir__command_is_help(const char *word);

/* Whether the word is this option, alone or as OPTION=VALUE. *ret_value is what follows the =, or NULL. */
bool weir__command_is_option(const char *word, const char *option, const char **ret_value);

/* The name of an option: the word up to a =, for the function below. */
struct weir__nearest weir__command_option_name(const char *word);

/* Prints to standard error that `whose` has no such option, suggests the nearest one that was offered, and ends with
 * `more`. If the nearest one has exactly this name, it takes no value. */
void weir__command_refuse_option(const struct weir__nearest *nearest, const char *whose, const char *more);

#endif
