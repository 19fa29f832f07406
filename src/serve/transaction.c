/* transaction.c: commands kept as they would have come, until EXEC. */
#include "serve/transaction.h"

#include <stdlib.h>

enum { ARGUMENTS_MAX = 128, GROWTH = 4096 };

struct weir__transaction {
	uint32_t n;
	bool is_spoiled; /* one was refused: EXEC does none of them */
	size_t answers;  /* bytes that they may take */
	size_t length, size;
	char bytes[];
};

void weir__transaction_drop(struct weir__client *client)
{
	free(client->transaction);
	client->transaction = NULL;
}

static struct weir__transaction *make_room(struct weir__client *client, size_t n)
{
	struct weir__transaction *const kept = client->transaction;
	const size_t size = kept ? kept->length + n + GROWTH : GROWTH;
	struct weir__transaction *grown;

	if (kept && kept->size - kept->length >= n)
		return kept;
	grown = realloc(kept, sizeof(*grown) + size);
	if (grown == NULL)
		return NULL;
	if (kept == NULL)
		*grown = (struct weir__transaction){ .n = 0 };
	grown->size = size;
	client->transaction = grown;
	return grown;
}

void weir__multi(struct weir__call *call)
{
	struct weir__client *const client = call->client;

	if (client->transaction) {
		weir__refuse(call, WEIR__SAY_MULTI_NESTED);
		return;
	}
	if (make_room(client, 0) == NULL) {
		weir__refuse(call, WEIR__SAY_MULTI_ROOM);
		return;
	}
	client->transaction->is_spoiled = call->commands->seam != NULL;
	if (client->transaction->is_spoiled)
		weir__refuse(call, WEIR__SAY_MULTI_STORE);
	else
		weir__say_ok(call);
}

void weir__discard(struct weir__call *call)
{
	if (call->client->transaction == NULL) {
		weir__refuse(call, WEIR__SAY_DISCARD);
		return;
	}
	weir__transaction_drop(call->client);
	weir__say_ok(call);
}

/* As the client could have sent it. False: there is no room for it. */
static bool keep(const struct weir__call *call, const struct weir__command_row *row)
{
	const bool repeats = (row->flags & WEIR__IN_MULTI) && call->n > 1;
	const size_t answer = WEIR__DECISION_MOST + (repeats ? call->arguments[1].length : 0);
	size_t most = 32; /* of the head; and of each argument's */
	struct weir__transaction *kept = call->client->transaction;
	struct weir__resp_writer writer;

	for (uint32_t i = 0; i < call->n; i++)
		most += 32 + call->arguments[i].length;
	if (answer > WEIR__TRANSACTION_ANSWERS - kept->answers || most > WEIR__TRANSACTION_BYTES - kept->length)
		return false;
	kept = make_room(call->client, most);
	if (kept == NULL)
		return false;
	writer = (struct weir__resp_writer){ kept->bytes + kept->length, kept->size - kept->length, 0, 2 };
	weir__resp_write_array(&writer, call->n);
	for (uint32_t i = 0; i < call->n; i++)
		weir__resp_write_bulk(&writer, call->arguments[i].bytes, call->arguments[i].length);
	kept->length += writer.length;
	kept->answers += answer;
	kept->n++;
	return true;
}

void weir__transaction_add(struct weir__call *call, const struct weir__command_row *row)
{
	struct weir__transaction *const kept = call->client->transaction;

	if (row && kept->is_spoiled && call->commands->seam) {
		weir__refuse(call, WEIR__SAY_MULTI_STORE);
	} else if (row == NULL || !weir__commands_accept(call, row)) {
		kept->is_spoiled = true; /* and that was answered */
	} else if (!(row->flags & (WEIR__IS_DECISION | WEIR__IN_MULTI))) {
		kept->is_spoiled = true;
		weir__refuse(call, WEIR__SAY_MULTI_OTHER);
	} else if (!keep(call, row)) {
		call->client->transaction->is_spoiled = true;
		weir__refuse(call, WEIR__SAY_MULTI_ROOM);
	} else {
		weir__resp_write_simple(call->writer, "QUEUED", 6);
	}
}

/* All of them, in their order. They were read once already. */
static void run_all(struct weir__call *call, struct weir__transaction *kept)
{
	struct weir__resp_slice arguments[ARGUMENTS_MAX];
	struct weir__resp_request request = { .arguments = arguments,
					      .arguments_max = ARGUMENTS_MAX,
					      .line_max = WEIR__RESP_LINE_MAX,
					      .bulk_max = WEIR__TRANSACTION_BYTES };
	size_t at = 0, used;

	weir__resp_write_array(call->writer, kept->n);
	call->client->is_in_exec = true;
	while (at < kept->length) {
		weir__resp_request_init(&request);
		if (weir__resp_request_read(&request, kept->bytes + at, kept->length - at, &used) != WEIR__RESP_WHOLE)
			break;
		weir__commands_run(
			&(struct weir__call){ call->commands, call->client, arguments, request.n, call->writer });
		at += used;
	}
	weir__commands_end_group(call->commands, call->client, call->writer);
	call->client->is_in_exec = false;
}

void weir__exec(struct weir__call *call)
{
	struct weir__transaction *const kept = call->client->transaction;

	if (kept == NULL) {
		weir__refuse(call, WEIR__SAY_EXEC);
		return;
	}
	if (kept->is_spoiled)
		weir__refuse(call, WEIR__SAY_EXECABORT);
	else
		run_all(call, kept);
	weir__transaction_drop(call->client);
}
