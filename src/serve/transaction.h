/* transaction.h: MULTI, EXEC and DISCARD, as clients send them around a pipeline. Each command is whole by itself here and
 * others may decide in between; what they add is that nothing is charged before EXEC, and nothing at all if one of the
 * commands cannot be. */
#ifndef WEIR_SERVE_TRANSACTION_H
#define WEIR_SERVE_TRANSACTION_H

#include "serve/command.h"

enum {
	/* All answers leave together; each takes as much as that to a decision, beside what it repeats. */
	WEIR__TRANSACTION_COMMANDS = WEIR__ANSWER_LONG / WEIR__DECISION_MOST - 8,
	WEIR__TRANSACTION_ANSWERS = WEIR__TRANSACTION_COMMANDS * WEIR__DECISION_MOST,
	WEIR__TRANSACTION_BYTES = 64 * 1024,
};

/* The command comes between MULTI and EXEC: it is kept, or refused; either was answered. NULL as row: there is none of its
 * name. */
void weir__transaction_add(struct weir__call *call, const struct weir__command_row *row);

/* What was kept is forgotten. */
void weir__transaction_drop(struct weir__client *client);

#endif
