/* wire_resp.c: RESP on the connections of a worker. */
#include <stdlib.h>

#include "os/net.h"
#include "serve/command.h"
#include "serve/connection.h"

enum {
	ARGUMENTS_MAX = 64,
	BULK_MAX = 64 * 1024,
	OUT_SIZE = 256 * 1024, /* that are sent at once: more would not stay in a cache */
};

static bool start(struct weir__worker *worker)
{
	worker->of_wires[WEIR__WIRE_RESP] = calloc(ARGUMENTS_MAX, sizeof(struct weir__resp_slice));
	return worker->of_wires[WEIR__WIRE_RESP] != NULL;
}

static void stop(struct weir__worker *worker)
{
	free(worker->of_wires[WEIR__WIRE_RESP]);
}

static bool answer(struct weir__worker *worker, struct weir__connection *connection, size_t n, size_t *ret_used)
{
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.protocol };
	struct weir__client *const client = &connection->client;
	enum weir__resp_status status = WEIR__RESP_WHOLE;
	bool is_alive = true, is_held = weir__worker_holds_back(worker, connection);
	size_t at = 0;
	int64_t n_done = 0;

	while (is_alive && !is_held && !client->is_leaving && client->waiter == NULL && at < n) {
		struct weir__resp_request request;
		size_t used;

		weir__resp_request_init(&request);
		request.arguments = worker->of_wires[WEIR__WIRE_RESP];
		request.arguments_max = ARGUMENTS_MAX;
		request.line_max = WEIR__RESP_LINE_MAX;
		request.bulk_max = BULK_MAX;
		request.is_stranger = weir__commands_is_stranger(&worker->commands, client);
		status = weir__resp_request_read(&request, worker->in + at, n - at, &used);
		if (status == WEIR__RESP_MORE)
			break;
		if (status == WEIR__RESP_BAD) {
			weir__commands_end_group(&worker->commands, client, &writer);
			weir__resp_write_fault(&writer, &request);
			client->is_leaving = true;
			break;
		}
		if (!weir__commands_do(&worker->commands, client, request.arguments, request.n, &writer)) {
			weir__commands_end_group(&worker->commands, client, &writer);
			is_alive = weir__worker_flush(worker, connection, writer.length);
			writer.length = 0;
			is_held = weir__worker_holds_back(worker, connection);
			continue; /* with the same request */
		}
		at += used;
		n_done++;
		/* Told what was answered, and not read any further. */
		if (request.is_stranger && writer.length > WEIR__STRANGER_OUTPUT &&
		    weir__commands_is_stranger(&worker->commands, client))
			client->is_leaving = true;
	}
	weir__commands_end_group(&worker->commands, client, &writer);
	weir__worker_count(worker, WEIR__WIRE_RESP, n_done);
	connection->has_requests = is_held;
	*ret_used = at;
	return is_alive && weir__worker_flush(worker, connection, writer.length) &&
	       !(client->is_leaving && weir__output_waiting(&connection->output) == 0);
}

static size_t answer_waiter(struct weir__worker *worker, struct weir__connection *connection,
			    const struct weir_verdict *verdict)
{
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.protocol };

	weir__answer_verdict(verdict, &writer);
	return writer.length;
}

/* Each argument may be as long as it is, but not all of them together. To tell is all that can be done. */
static void refuse_size(struct weir__worker *worker, struct weir__connection *connection)
{
	static const char text[] = "-ERR Protocol error: too big request, 262144 bytes are the most\r\n";

	_Static_assert(WEIR__IN_SIZE == 262144, "the text says how much");
	(void)worker;
	(void)weir__net_write(connection->socket, text, sizeof(text) - 1);
}

const struct weir__wire weir__wire_resp = {
	.number = WEIR__WIRE_RESP,
	.start = start,
	.stop = stop,
	.answer = answer,
	.answer_waiter = answer_waiter,
	.refuse_size = refuse_size,
};
