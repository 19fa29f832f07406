/* command.h: what the files of commands share: a request that is being answered, and the rows of the commands. */
#ifndef WEIR_SERVE_COMMAND_H
#define WEIR_SERVE_COMMAND_H

#include "serve/commands.h"

struct weir__call {
	struct weir__commands *commands;
	struct weir__client *client;
	const struct weir__resp_slice *arguments; /* the command first */
	uint32_t n;
	struct weir__resp_writer *writer;
};

typedef void weir__run_command(struct weir__call *call);

/* commands_decide.c */
weir__run_command weir__cl_throttle, weir__throttle, weir__take, weir__upto, weir__peek, weir__refund, weir__reset;
/* commands_client.c */
weir__run_command weir__auth, weir__ping, weir__echo, weir__hello, weir__select, weir__quit, weir__client_command;
/* commands_config.c */
weir__run_command weir__config;
/* commands_about.c */
weir__run_command weir__command_command, weir__info, weir__help;

enum {
	WEIR__IS_DECISION = 1, /* may be gathered; it ends the group itself before it writes */
	WEIR__IS_FAST = 2,
	WEIR__NEEDS_ADMIN = 16,     /* changes or shows the state of others */
	WEIR__BEFORE_AUTH = 32,     /* also for who has not said who they are */
	WEIR__HAS_SUBCOMMANDS = 64, /* refusals name them, too, as config|get */
};

struct weir__command {
	const char *name, *usage, *does;
	weir__run_command *run;
	int least, most; /* arguments, the command with them */
	int flags;
	int key; /* place of the key, or 0 */
};

extern const struct weir__command weir__command_rows[];
extern const size_t weir__command_rows_n;

bool weir__is_word(const struct weir__resp_slice *slice, const char *word);
void weir__say_error(const struct weir__call *call, const char *text);
void weir__say_ok(const struct weir__call *call);
void weir__say_word(const struct weir__call *call, const char *word);

/* A part of a command, such as CLIENT SETNAME. */
struct weir__subcommand {
	const char *name, *usage;
	weir__run_command *run;
	uint32_t least, most; /* arguments, both words with them */
};

/* Runs the one that is meant, or refuses as Redis does; HELP lists them. */
void weir__run_subcommand(struct weir__call *call, const char *command, const struct weir__subcommand *rows, size_t n);

/* An error to a decision: those that were gathered before it are answered first. */
void weir__refuse(struct weir__call *call, const char *text);

/* A whole number of 64 bits with a sign, as redis-cell and throttlecrab read them. */
bool weir__read_signed(const struct weir__resp_slice *slice, int64_t *ret_number);

#endif
