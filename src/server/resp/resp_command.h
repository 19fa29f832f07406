/* resp_command.h: what the files of RESP share: a command that is being run, the rows of the commands, and takes that are
 * gathered.
 *
 * Takes are gathered, up to a group, and decided together, as pipelines send them; whatever must come after their replies first
 * ends the group. So replies have the order of the requests. While requests of the client are under way, commands that only
 * decide may be run behind them; others are deferred until all before them are answered. */
#ifndef WEIR_SERVER_RESP_RESP_COMMAND_H
#define WEIR_SERVER_RESP_RESP_COMMAND_H

#include "engine/errors.h"
#include "engine/operations.h"
#include "wire/resp.h"

enum {
	WEIR__GROUP = 32,
	/* Bytes of replies at once for a client that has not authenticated. A client that would get more is closed. Redis has the
	 * same number, but checks it only beyond the first 16 KiB of a connection. */
	WEIR__UNAUTHENTICATED_OUTPUT = 1024,
};

/* Bytes that a reply takes at most, beside what it repeats of the request; one of few commands; and one to a decision. */
enum { WEIR__ANSWER_MOST = 65536, WEIR__ANSWER_LONG = 224 * 1024, WEIR__DECISION_MOST = 512 };

/* How the reply to a take looks. */
enum weir__answer_form {
	WEIR__ANSWER_CELL,     /* as redis-cell's */
	WEIR__ANSWER_THROTTLE, /* as throttlecrab's */
	WEIR__ANSWER_WEIR,
};

/* Takes that are decided together. */
struct weir__resp_group {
	struct weir__request request;
	uint8_t forms[WEIR__GROUP]; /* enum weir__answer_form */
};

/* RESP of one worker: what is gathered of the requests of one client. */
struct weir__resp {
	struct weir__context *context;
	struct weir__resp_group group;
	struct weir_claim claims[WEIR__GROUP];
	struct weir_verdict verdicts[WEIR__GROUP];
	uint32_t n;
	/* Of the command that is run: where its reply begins, and whether requests are under way that come before it. */
	size_t reply_at;
	bool is_behind;
};

void weir__resp_init(struct weir__resp *resp, struct weir__context *context);

/* Runs a command, gathers it, or defers it; what it points to must stay until the group has ended. False: there was no room for
 * the reply, and nothing was done: end the group, make room and try again. */
bool weir__resp_do(struct weir__resp *resp, struct weir__client *client, const struct weir__resp_slice *arguments,
		   uint32_t n, struct weir__resp_writer *writer);

/* Bytes that are not RESP: that is said, and the client leaves. */
void weir__resp_refuse_bytes(struct weir__resp *resp, struct weir__client *client,
			     const struct weir__resp_request *request, struct weir__resp_writer *writer);

/* Decides what was gathered, and writes the replies that are there. */
void weir__resp_end_group(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer);

/* All before them are answered: runs what was deferred, and EXEC on. False: there was no room for the reply. */
bool weir__resp_go_on(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer);

/* Whether a command, or the rest of EXEC, waits for those before it: then none behind it may be run. */
bool weir__resp_is_held_up(const struct weir__client *client);

/* The connection closes. */
void weir__resp_forget(struct weir__client *client);

struct weir__call {
	struct weir__resp *resp;
	struct weir__context *context;
	struct weir__client *client;
	const struct weir__resp_slice *arguments; /* the command first */
	uint32_t n;
	struct weir__resp_writer *writer;
};

typedef void weir__run_command(struct weir__call *call);

/* resp_decide.c */
weir__run_command weir__cl_throttle, weir__throttle, weir__take, weir__upto, weir__peek, weir__refund, weir__reset,
	weir__inspect, weir__all, weir__check_command, weir__hold, weir__settle, weir__release;
/* resp_policy.c */
weir__run_command weir__explain_command, weir__limits_command, weir__change, weir__reload, weir__live_command;
/* resp_client.c */
weir__run_command weir__auth, weir__ping, weir__echo, weir__hello, weir__select, weir__quit, weir__multi, weir__exec,
	weir__discard, weir__client_command, weir__reset_connection, weir__acl, weir__cluster;
/* resp_config.c */
weir__run_command weir__config;
/* resp_info.c, resp_introspect.c */
weir__run_command weir__command_command, weir__info, weir__help, weir__time, weir__dbsize;

enum {
	WEIR__IS_DECISION = 1, /* may be gathered; it ends the group itself before it writes */
	WEIR__IS_FAST = 2,
	WEIR__IS_WRITE = 4,         /* changes what a key owes */
	WEIR__MAY_OVERLAP = 16,     /* may be run while requests of the client are under way */
	WEIR__BEFORE_AUTH = 32,     /* also for clients that have not authenticated */
	WEIR__HAS_SUBCOMMANDS = 64, /* refusals name them, too, as config|get */
	WEIR__TAKES_TRACE = 128,    /* TRACEPARENT and a value may follow, beyond its most */
	WEIR__IS_LONG = 256,        /* replies with up to WEIR__ANSWER_LONG bytes, and repeats nothing of the request */
	WEIR__IN_NO_MULTI = 512,    /* is done at once, also between MULTI and EXEC */
	WEIR__IN_MULTI = 1024,      /* is kept there, as decisions are: its answer is short, or repeats one argument */
};

struct weir__command_row {
	const char *name;
	const char *usage; /* words in capitals are said as they are, others stand for what is meant */
	const char *does;
	weir__run_command *run;
	enum weir__operation operation; /* which says who may use it */
	int least, most;                /* arguments, the command with them */
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

/* A command that was accepted, in EXEC: there is room for the reply. */
void weir__commands_run(struct weir__call *call);

/* The command waits until all requests of the client are answered. */
void weir__resp_defer(struct weir__call *call);

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
void weir__refuse(struct weir__call *call, enum weir__error_number error);
void weir__refuse_with(struct weir__call *call, enum weir__error_number error, const char *detail);

/* What was refused to be asked (limit_ref.h). Returns false. */
bool weir__refuse_as(struct weir__call *call, const struct weir__refusal *refusal);

/* A whole number of 64 bits with a sign, as redis-cell and throttlecrab read them. */
bool weir__read_signed(const struct weir__resp_slice *slice, int64_t *ret_number);

/* One from 0 on: of the argument at this place. False: that was answered, by `error`. */
bool weir__read_number(struct weir__call *call, uint32_t place, uint64_t most, enum weir__error_number error,
		       uint64_t *ret_number);

/* The limit that an argument states. False: that was answered. */
bool weir__read_limit(struct weir__call *call, uint32_t place, struct weir_limit *ret_limit);

/* The limit that an argument states, or names, and the key that another one is. False: that was answered. */
bool weir__read_limit_ref(struct weir__call *call, uint32_t place, uint32_t key_place, struct weir__limit_ref *ret_ref);

/* The guard of the policy. NULL: there is none, and that was answered. */
struct weir_guard *weir__guard_of(struct weir__call *call);

/* Names and values from this place on. False: that was answered. */
enum { WEIR__RESP_ATTRIBUTES_MAX = 32 };
bool weir__read_attributes(struct weir__call *call, uint32_t place, struct weir_attribute *attributes, size_t *ret_n);

/* Numbers with names: a map, in RESP2 the numbers alone. The first is a truth if `begins_with_truth`. */
void weir__answer_numbers(struct weir__resp_writer *writer, const char *const names[], const int64_t numbers[],
			  size_t n, bool begins_with_truth);
void weir__answer_verdict(const struct weir_verdict *verdict, struct weir__resp_writer *writer);

/* The replies to the takes of a group. */
void weir__write_group(struct weir__request *request, void *writer);

/* From here on the reply to another command is written. */
void weir__resp_mark_reply(struct weir__resp *resp, const struct weir__client *client,
			   const struct weir__resp_writer *writer);

/* What was written since the mark are the replies to commands behind others that are not answered: they wait for them. */
void weir__resp_hold_back(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer,
			  uint32_t n_replies);

int64_t weir__signed_of(uint64_t number);

#endif
