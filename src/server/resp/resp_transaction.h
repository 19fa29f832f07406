/* resp_transaction.h: MULTI, EXEC and DISCARD, as clients send them around a pipeline. Each command is whole by itself here and
 * others may decide in between; what they add is that nothing is charged before EXEC, and nothing at all if one of the
 * commands cannot be. */
#ifndef WEIR_SERVER_RESP_RESP_TRANSACTION_H
#define WEIR_SERVER_RESP_RESP_TRANSACTION_H

#include "server/resp/resp_command.h"

enum {
	/* All replies leave together; each takes as much as that to a decision, beside what it repeats. */
	WEIR__TRANSACTION_COMMANDS = WEIR__ANSWER_LONG / WEIR__DECISION_MOST - 8,
	WEIR__TRANSACTION_ANSWERS = WEIR__TRANSACTION_COMMANDS * WEIR__DECISION_MOST,
	WEIR__TRANSACTION_BYTES = 64 * 1024,
};

/* The command comes between MULTI and EXEC: it is kept, or refused; either was answered. NULL as row: there is none of its
 * name. */
void weir__transaction_add(struct weir__call *call, const struct weir__command_row *row);

/* Whether EXEC has begun, and not all of its commands have been run. */
bool weir__transaction_is_running(const struct weir__client *client);

/* Runs those that are left, up to one that waits for those before it. False: there was no room for the replies. */
bool weir__transaction_go_on(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer);

/* What was kept is forgotten. */
void weir__transaction_drop(struct weir__client *client);

#endif
