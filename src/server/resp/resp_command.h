/* resp_command.h: the declarations that the RESP files share: a command that is being run, the table of commands, and
 * the group of takes.
 *
 * Takes of a pipeline are gathered in a group and decided together. A command whose reply must come after theirs ends
 * the group first, so that replies keep the order of requests. While requests of the client are in flight, commands
 * that only decide may run behind them. Other commands are deferred until all replies before them are written. */
#ifndef WEIR_SERVER_RESP_RESP_COMMAND_H
#define WEIR_SERVER_RESP_RESP_COMMAND_H

#include "engine/errors.h"
#include "engine/operations.h"
#include "wire/resp.h"

enum {
	WEIR__GROUP = 32,
};

/* The most bytes of a reply, in addition to what it repeats of the request: for most commands, for a few with long
 * replies, and for a decision. */
enum { WEIR__ANSWER_MOST = 65536, WEIR__ANSWER_LONG = 224 * 1024, WEIR__DECISION_MOST = 512 };

/* The form of the reply to a take. */
enum weir__answer_form {
	WEIR__ANSWER_CELL,     /* of redis-cell */
	WEIR__ANSWER_THROTTLE, /* of throttlecrab */
	WEIR__ANSWER_WEIR,
};

/* Takes that are decided together. */
struct weir__resp_group {
	struct weir__request request;
	uint8_t forms[WEIR__GROUP]; /* enum weir__answer_form */
};

/* RESP state of one worker: the takes of one client that are gathered. */
struct weir__resp {
	struct weir__context *context;
	struct weir__resp_group group;
	struct weir_claim claims[WEIR__GROUP];
	struct weir_verdict verdicts[WEIR__GROUP];
	uint32_t n;
	/* For the command that is run: where its reply begins, and whether requests before it are in flight. */
	size_t reply_at;
	bool is_behind;
};

void weir__resp_init(struct weir__resp *resp, struct weir__context *context);

/* Runs a command, gathers it, or defers it. What the command points to must stay until the group has ended. Returns
 * false, and does nothing, if the reply did not fit: end the group, make room and try again. */
bool weir__resp_do(struct weir__resp *resp, struct weir__client *client, const struct weir__resp_slice *arguments,
		   uint32_t n, struct weir__resp_writer *writer);

/* For bytes that are not RESP: writes an error, and disconnects the client. */
void weir__resp_refuse_bytes(struct weir__resp *resp, struct weir__client *client,
			     const struct weir__resp_request *request, struct weir__resp_writer *writer);

/* Decides the group, and writes the replies that are ready. */
void weir__resp_end_group(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer);

/* Call it when all earlier replies are written. Runs the deferred command, and the rest of EXEC. Returns false if the
 * reply did not fit. */
bool weir__resp_go_on(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer);

/* Whether a command, or the rest of EXEC, waits for earlier requests: then no later command may run. */
bool weir__resp_is_held_up(const struct weir__client *client);

/* The memory of a transaction and of a deferred command. */
size_t weir__resp_kept_bytes(const struct weir__client *client);

/* Call it when the connection closes. Frees what is kept for it. */
void weir__resp_forget(struct weir__client *client);

struct weir__call {
	struct weir__resp *resp;
	struct weir__context *context;
	struct weir__client *client;
	const struct weir__resp_slice *arguments; /* the first is the name of the command */
	uint32_t n;
	struct weir__resp_writer *writer;
};

typedef void weir__run_command(struct weir__call *call);

/* resp_decide.c */
weir__run_command weir__cl_throttle, weir__throttle, weir__take, weir__upto, weir__peek, weir__refund, weir__reset,
	weir__inspect, weir__all, weir__check_command, weir__hold, weir__settle, weir__release;
/* resp_policy.c */
weir__run_command weir__explain_command, weir__limits_command, weir__change, weir__reload, weir__live_command;
/* resp_record.c */
weir__run_command weir__record_command;
/* resp_client.c */
weir__run_command weir__auth, weir__ping, weir__echo, weir__hello, weir__select, weir__quit, weir__multi, weir__exec,
	weir__discard, weir__client_command, weir__reset_connection, weir__replies, weir__acl, weir__cluster;
/* resp_config.c */
weir__run_command weir__config;
/* resp_info.c, resp_introspect.c */
weir__run_command weir__command_command, weir__info, weir__help, weir__time, weir__dbsize;

enum {
	WEIR__IS_DECISION = 1, /* may be gathered; ends the group itself before it writes */
	WEIR__IS_FAST = 2,
	WEIR__IS_WRITE = 4,         /* changes the usage of a key */
	WEIR__MAY_OVERLAP = 16,     /* may run while requests of the client are in flight */
	WEIR__BEFORE_AUTH = 32,     /* also for clients that have not authenticated */
	WEIR__HAS_SUBCOMMANDS = 64, /* permission errors name the subcommand, too, as config|get */
	WEIR__TAKES_TRACE = 128,    /* TRACEPARENT and a value may follow, beyond `most` */
	WEIR__IS_LONG = 256,        /* replies with up to WEIR__ANSWER_LONG bytes, and repeats nothing of the request */
	WEIR__IN_NO_MULTI = 512,    /* runs at once, also between MULTI and EXEC */
	WEIR__IN_MULTI = 1024,      /* may be queued, as decisions may: its reply is short, or repeats one argument */
};

struct weir__command_row {
	const char *name;
	const char *usage; /* words in capitals are literal, others are placeholders */
	const char *does;
	weir__run_command *run;
	enum weir__operation operation; /* says which role may use it */
	int least, most;                /* number of arguments, including the command */
	int flags;
	int key;      /* index of the first key; 0: no keys */
	int last_key; /* index of the last key; below 0: from the end */
	int key_step;
};

extern const struct weir__command_row weir__command_rows[];
extern const size_t weir__command_rows_n;

/* The row of the command with this name, in upper or lower case, or NULL. */
const struct weir__command_row *weir__command_named(const struct weir__resp_slice *word);

/* The number of arguments without TRACEPARENT and its value. */
uint32_t weir__without_trace(const struct weir__command_row *row, const struct weir__resp_slice *arguments, uint32_t n);

/* Writes the name of a command in capitals. */
enum { WEIR__COMMAND_NAME_SIZE = 17 };
void weir__write_capitals(const char *name, char capitals[WEIR__COMMAND_NAME_SIZE]);

/* Checks the number of arguments and the client's permission. Returns false after writing the error reply. */
bool weir__commands_accept(struct weir__call *call, const struct weir__command_row *row);

/* Runs an accepted command in EXEC. There must be room for the reply. */
void weir__commands_run(struct weir__call *call);

/* Keeps the command until all requests of the client have their replies. */
void weir__resp_defer(struct weir__call *call);

bool weir__is_word(const struct weir__resp_slice *slice, const char *word);

/* Whether a name matches a glob with * ? and [sets], as in Redis, in upper or lower case. */
bool weir__matches(const struct weir__resp_slice *pattern, const char *name);

void weir__say_ok(const struct weir__call *call);
void weir__say_word(const struct weir__call *call, const char *word);

/* A subcommand, such as CLIENT SETNAME. */
struct weir__subcommand {
	const char *name, *usage;
	weir__run_command *run;
	uint32_t least, most; /* number of arguments, including both words */
};

/* Runs the subcommand that the second argument names, or writes an error as Redis does. HELP lists them. */
void weir__run_subcommand(struct weir__call *call, const char *command, const struct weir__subcommand *rows, size_t n);

/* Writes an error of errors.h, with `detail` after it. The group is decided first. */
void weir__refuse(struct weir__call *call, enum weir__error_number error);
void weir__refuse_with(struct weir__call *call, enum weir__error_number error, const char *detail);

/* Writes NOPERM: the client's user has no role for the operation. `what` is "NAME' command", and perhaps more. */
void weir__refuse_role(struct weir__call *call, enum weir__operation operation, const char *what);

/* Writes the error of a refusal (limit_ref.h). Returns false. */
bool weir__refuse_as(struct weir__call *call, const struct weir__refusal *refusal);

/* Reads a signed 64-bit integer, as redis-cell and throttlecrab do. Returns false if it is invalid. */
bool weir__read_signed(const struct weir__resp_slice *slice, int64_t *ret_number);

/* Reads the argument at this index as a number from 0 to `most`. Returns false after writing `error`. */
bool weir__read_number(struct weir__call *call, uint32_t place, uint64_t most, enum weir__error_number error,
		       uint64_t *ret_number);

/* Reads the inline limit of an argument. Returns false after writing the error reply. */
bool weir__read_limit(struct weir__call *call, uint32_t place, struct weir_limit *ret_limit);

/* Reads the limit of an argument, inline or by @name, and the key of another. Returns false after writing the error
 * reply. */
bool weir__read_limit_ref(struct weir__call *call, uint32_t place, uint32_t key_place, struct weir__limit_ref *ret_ref);

/* The guard of the policy. Without a policy, writes the error reply and returns NULL. */
struct weir_guard *weir__guard_of(struct weir__call *call);

/* Reads names and values, from the first argument on. Returns false after writing the error reply. */
enum { WEIR__RESP_ATTRIBUTES_MAX = 32 };
bool weir__read_attributes(struct weir__call *call, struct weir_attribute *attributes, size_t *ret_n);

/* Begins n pairs of a name and a value: an array of 2n values, or a map if the client requested maps. */
void weir__answer_pairs(struct weir__resp_writer *writer, uint64_t n);
/* Writes an array of numbers, or, if the client requested maps, a map of them by name. With `begins_with_truth` the
 * first value of the map is a boolean. */
void weir__answer_numbers(struct weir__resp_writer *writer, const char *const names[], const int64_t numbers[],
			  size_t n, bool begins_with_truth);
void weir__answer_verdict(const struct weir_verdict *verdict, struct weir__resp_writer *writer);

/* Writes the reply of a request that is done, or the error reply of a rejected one. */
void weir__end_run(struct weir__call *call, enum weir__run_result result, struct weir__request *request,
		   const struct weir__refusal *refusal);

/* Writes the replies to the takes of a group. */
void weir__write_group(struct weir__request *request, void *writer);

/* Marks where the reply to the next command begins. */
void weir__resp_mark_reply(struct weir__resp *resp, const struct weir__client *client,
			   const struct weir__resp_writer *writer);

/* Takes back what was written since the mark: n_replies replies that must wait for the replies of earlier requests. */
void weir__resp_hold_back(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer,
			  uint32_t n_replies);

int64_t weir__signed_of(uint64_t number);

#endif
