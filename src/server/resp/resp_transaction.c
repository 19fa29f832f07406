/* resp_transaction.c: commands that are queued until EXEC, with their arguments. */
#include "server/resp/resp_transaction.h"

#include "core/uninitialized.h"

#include <stdlib.h>

enum { ARGUMENTS_MAX = 128, GROWTH = 4096 };

struct weir__transaction {
	uint32_t n;
	bool is_spoiled; /* a command was rejected: EXEC runs none */
	bool is_running; /* EXEC has begun, and goes on at `at` */
	size_t at;
	size_t answers; /* the most bytes that the replies may take */
	size_t length, size;
	char bytes[]; /* for each command: number of arguments, their lengths, then their bytes */
};

void weir__transaction_drop(struct weir__client *client)
{
	free(client->transaction);
	client->transaction = NULL;
}

size_t weir__transaction_bytes(const struct weir__client *client)
{
	return client->transaction ? sizeof(*client->transaction) + client->transaction->size : 0;
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
	if (call->client->transaction)
		weir__refuse(call, WEIR__ERROR_MULTI_NESTED);
	else if (make_room(call->client, 0) == NULL)
		weir__refuse(call, WEIR__ERROR_MULTI_ROOM);
	else
		weir__say_ok(call);
}

void weir__discard(struct weir__call *call)
{
	if (call->client->transaction == NULL) {
		weir__refuse(call, WEIR__ERROR_DISCARD);
		return;
	}
	weir__transaction_drop(call->client);
	weir__say_ok(call);
}

/* --- queueing ---------------------------------------------------------------------------------------------------- */

static void put(struct weir__transaction *kept, const void *bytes, size_t n)
{
	if (n > 0)
		memcpy(kept->bytes + kept->length, bytes, n);
	kept->length += n;
}

/* Returns false if the command does not fit. */
static bool keep(const struct weir__call *call, const struct weir__command_row *row)
{
	const bool repeats = (row->flags & WEIR__IN_MULTI) && call->n > 1;
	const size_t answer = WEIR__DECISION_MOST + (repeats ? call->arguments[1].length : 0);
	size_t most = 32; /* for the command, and below for each argument: more than their numbers take */
	struct weir__transaction *kept = call->client->transaction;

	for (uint32_t i = 0; i < call->n; i++)
		most += 32 + call->arguments[i].length;
	if (call->n > ARGUMENTS_MAX || answer > WEIR__TRANSACTION_ANSWERS - kept->answers ||
	    most > WEIR__TRANSACTION_BYTES - kept->length)
		return false;
	kept = make_room(call->client, most);
	if (kept == NULL)
		return false;
	put(kept, &call->n, sizeof(call->n));
	for (uint32_t i = 0; i < call->n; i++)
		put(kept, &call->arguments[i].length, sizeof(call->arguments[i].length));
	for (uint32_t i = 0; i < call->n; i++)
		put(kept, call->arguments[i].bytes, call->arguments[i].length);
	kept->answers += answer;
	kept->n++;
	return true;
}

/* Reads the command at this offset. Returns the offset of the next one. */
static size_t get(const struct weir__transaction *kept, size_t at, struct weir__resp_slice *arguments, uint32_t *ret_n)
{
	uint32_t n;

	memcpy(&n, kept->bytes + at, sizeof(n));
	at += sizeof(n);
	for (uint32_t i = 0; i < n; i++, at += sizeof(arguments[i].length))
		memcpy(&arguments[i].length, kept->bytes + at, sizeof(arguments[i].length));
	for (uint32_t i = 0; i < n; i++) {
		arguments[i].bytes = kept->bytes + at;
		at += arguments[i].length;
	}
	*ret_n = n;
	return at;
}

void weir__transaction_add(struct weir__call *call, const struct weir__command_row *row)
{
	struct weir__transaction *const kept = call->client->transaction;

	if (row == NULL || !weir__commands_accept(call, row)) {
		kept->is_spoiled = true; /* the error reply is written */
	} else if (!(row->flags & (WEIR__IS_DECISION | WEIR__IN_MULTI))) {
		kept->is_spoiled = true;
		weir__refuse(call, WEIR__ERROR_MULTI_OTHER);
	} else if (!keep(call, row)) {
		call->client->transaction->is_spoiled = true;
		weir__refuse(call, WEIR__ERROR_MULTI_ROOM);
	} else {
		weir__resp_write_simple(call->writer, "QUEUED", 6);
	}
}

/* --- running ----------------------------------------------------------------------------------------------------- */

bool weir__transaction_is_running(const struct weir__client *client)
{
	return client->transaction && client->transaction->is_running;
}

/* Whether the command must wait for requests in flight, as outside of a transaction. */
static bool must_wait(const struct weir__client *client, const struct weir__resp_slice *name)
{
	return client->first && (client->last->is_barrier || !(weir__command_named(name)->flags & WEIR__MAY_OVERLAP));
}

static void run(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer)
{
	struct weir__transaction *const kept = client->transaction;
	struct weir__resp_slice arguments[ARGUMENTS_MAX] WEIR__UNINITIALIZED;

	while (kept->at < kept->length) {
		struct weir__call call = { resp, resp->context, client, arguments, 0, writer };
		const size_t next = get(kept, kept->at, arguments, &call.n);

		if (must_wait(client, &arguments[0]))
			break;
		kept->at = next;
		weir__commands_run(&call);
	}
	weir__resp_end_group(resp, client, writer);
	if (kept->at == kept->length)
		weir__transaction_drop(client);
}

bool weir__transaction_go_on(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer)
{
	if (writer->length + client->transaction->answers > writer->size)
		return false;
	run(resp, client, writer);
	return true;
}

void weir__exec(struct weir__call *call)
{
	struct weir__transaction *const kept = call->client->transaction;

	if (kept == NULL) {
		weir__refuse(call, WEIR__ERROR_EXEC);
	} else if (kept->is_spoiled) {
		weir__refuse(call, WEIR__ERROR_EXECABORT);
		weir__transaction_drop(call->client);
	} else {
		weir__resp_write_array(call->writer, kept->n);
		kept->is_running = true;
		run(call->resp, call->client, call->writer);
	}
}
