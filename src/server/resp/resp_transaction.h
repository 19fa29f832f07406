/* resp_transaction.h: MULTI, EXEC and DISCARD, as clients send them around a pipeline. Each command is still decided by
 * itself, and other clients may decide in between. A transaction adds two guarantees: nothing is charged before EXEC,
 * and nothing at all if one of the commands was rejected. */
#ifndef WEIR_SERVER_RESP_RESP_TRANSACTION_H
#define WEIR_SERVER_RESP_RESP_TRANSACTION_H

#include "server/resp/resp_command.h"

enum {
	/* All replies are written together. Each takes at most as much as a decision, in addition to what it
	 * repeats. */
	WEIR__TRANSACTION_COMMANDS = WEIR__ANSWER_LONG / WEIR__DECISION_MOST - 8,
	WEIR__TRANSACTION_ANSWERS = WEIR__TRANSACTION_COMMANDS * WEIR__DECISION_MOST,
	WEIR__TRANSACTION_BYTES = 64 * 1024,
};

/* Queues a command between MULTI and EXEC, and replies QUEUED or an error. `row` is NULL for an unknown command, whose
 * error reply is already written. */
void weir__transaction_add(struct weir__call *call, const struct weir__command_row *row);

/* Whether EXEC has begun, and commands are left to run. */
bool weir__transaction_is_running(const struct weir__client *client);

/* Runs the commands that are left, up to one that waits for earlier requests. Returns false if the replies did not
 * fit. */
bool weir__transaction_go_on(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer);

/* The memory of the queued commands. */
size_t weir__transaction_bytes(const struct weir__client *client);

/* Drops the queued commands. */
void weir__transaction_drop(struct weir__client *client);

#endif
