/* command.h: what the files of commands share: a request that is being answered, and the rows of the commands. */
#ifndef WEIR_SERVE_COMMAND_H
#define WEIR_SERVE_COMMAND_H

#include "serve/commands.h"
#include "serve/errors.h"

struct weir__call {
	struct weir__commands *commands;
	struct weir__client *client;
	const struct weir__resp_slice *arguments; /* the command first */
	uint32_t n;
	struct weir__resp_writer *writer;
};

typedef void weir__run_command(struct weir__call *call);

/* commands_decide.c */
weir__run_command weir__cl_throttle, weir__throttle, weir__take, weir__upto, weir__peek, weir__refund, weir__reset,
	weir__inspect, weir__all;
/* commands_check.c */
weir__run_command weir__check, weir__explain_command, weir__limits_command, weir__change, weir__reload;
/* commands_live.c */
weir__run_command weir__live_command;
/* commands_hold.c */
weir__run_command weir__hold, weir__settle, weir__release;
/* commands_client.c */
weir__run_command weir__auth, weir__ping, weir__echo, weir__hello, weir__select, weir__quit, weir__multi, weir__exec,
	weir__discard, weir__client_command, weir__reset_connection, weir__acl, weir__cluster;
/* commands_config.c */
weir__run_command weir__config;
/* commands_about.c, commands_command.c */
weir__run_command weir__command_command, weir__info, weir__help, weir__time, weir__dbsize;

enum {
	WEIR__IS_DECISION = 1, /* may be gathered; it ends the group itself before it writes */
	WEIR__IS_FAST = 2,
	WEIR__IS_WRITE = 4,         /* changes what a key owes */
	WEIR__NEEDS_ADMIN = 16,     /* changes or shows the state of others */
	WEIR__BEFORE_AUTH = 32,     /* also for who has not said who they are */
	WEIR__HAS_SUBCOMMANDS = 64, /* refusals name them, too, as config|get */
	WEIR__TAKES_TRACE = 128,    /* TRACEPARENT and a value may follow, beyond its most */
	WEIR__IS_LONG = 256,        /* answers up to WEIR__ANSWER_LONG bytes, and repeats nothing of the request */
	WEIR__IN_NO_MULTI = 512,    /* is done at once, also between MULTI and EXEC */
	WEIR__IN_MULTI = 1024,      /* is kept there, as decisions are: its answer is short, or repeats one argument */
};

struct weir__command_row {
	const char *name;
	const char *usage; /* words in capitals are said as they are, others stand for what is meant */
	const char *does;
	weir__run_command *run;
	int least, most; /* arguments, the command with them */
	int flags;
	int key;      /* place of the first key, or 0 */
	int last_key; /* of the last: below 0 from the end */
	int key_step;
};

extern const struct weir__command_row weir__command_rows[];
extern const size_t weir__command_rows_n;

/* The row of this name, in letters of any case, or NULL. */
const struct weir__command_row *weir__command_named(const struct weir__resp_slice *word);

/* How many arguments there are without TRACEPARENT and its value. */
uint32_t weir__without_trace(const struct weir__command_row *row, const struct weir__resp_slice *arguments, uint32_t n);

/* The name of a command as people write it. */
enum { WEIR__COMMAND_NAME_SIZE = 17 };
void weir__write_capitals(const char *name, char capitals[WEIR__COMMAND_NAME_SIZE]);

/* Whether the number of arguments, and who asks, are right; else that was answered. */
bool weir__commands_accept(struct weir__call *call, const struct weir__command_row *row);

/* A command that was accepted, gathered or answered; there is room for the answer. */
void weir__commands_run(struct weir__call *call);

bool weir__is_word(const struct weir__resp_slice *slice, const char *word);

/* Whether a name matches a pattern with * ? and sets in brackets, as Redis does it, in letters of any case. */
bool weir__matches(const struct weir__resp_slice *pattern, const char *name);

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

/* An error of the list, with what follows it. Decisions that were gathered before are answered first. */
void weir__refuse(struct weir__call *call, enum weir__said_error error);
void weir__refuse_with(struct weir__call *call, enum weir__said_error error, const char *detail);

/* What was refused to be asked (asked.h). Returns false. */
struct weir__refusal;
bool weir__refuse_as(struct weir__call *call, const struct weir__refusal *refusal);

/* A whole number of 64 bits with a sign, as redis-cell and throttlecrab read them. */
bool weir__read_signed(const struct weir__resp_slice *slice, int64_t *ret_number);

/* One from 0 on: of the argument at this place. False: that was answered, by `error`. */
bool weir__read_number(struct weir__call *call, uint32_t place, uint64_t most, enum weir__said_error error,
		       uint64_t *ret_number);

/* The limit that an argument states. False: that was answered. */
bool weir__read_limit(struct weir__call *call, uint32_t place, struct weir_limit *ret_limit);

/* The limit that an argument states, or names, and the key that another one is. False: that was answered. */
struct weir__asked;
bool weir__read_asked(struct weir__call *call, uint32_t place, uint32_t key_place, struct weir__asked *ret_asked);

/* A limit found or made. NULL: that was answered. */
const struct weir_table_limit *weir__find_limit(struct weir__call *call, enum weir__space space,
						const struct weir_limit *asked);

/* Numbers with names: a map, in RESP2 the numbers alone. The first is a truth if `begins_with_truth`. */
void weir__answer_numbers(struct weir__resp_writer *writer, const char *const names[], const int64_t numbers[],
			  size_t n, bool begins_with_truth);
void weir__answer_verdict(const struct weir_verdict *verdict, struct weir__resp_writer *writer);
int64_t weir__signed_of(uint64_t number);

#endif
