/* wire_resp.c: RESP on the connections of a worker. */
#include <stdlib.h>
#include <string.h>

#include "serve/command.h"
#include "serve/connection.h"
#include "serve/sight.h"
#include "serve/witness.h"

enum {
	ARGUMENTS_MAX = 128, /* of WEIR.CHECK with 32 attributes 69, and some more, so that too many are told of */
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

/* The request that begins here. */
static enum weir__resp_status read_request(struct weir__worker *worker, const struct weir__client *client, size_t at,
					   size_t n, struct weir__resp_request *request, size_t *ret_used)
{
	weir__resp_request_init(request);
	request->arguments = worker->of_wires[WEIR__WIRE_RESP];
	request->arguments_max = ARGUMENTS_MAX;
	request->line_max = WEIR__RESP_LINE_MAX;
	request->bulk_max = BULK_MAX;
	request->is_stranger = weir__commands_is_stranger(&worker->commands, client);
	return weir__resp_request_read(request, worker->in + at, n - at, ret_used);
}

static void refuse_bytes(struct weir__worker *worker, struct weir__client *client,
			 const struct weir__resp_request *request, struct weir__resp_writer *writer)
{
	weir__commands_end_group(&worker->commands, client, writer);
	weir__resp_write_fault(writer, request);
	client->is_leaving = true;
}

/* Told what was answered, and not read any further. */
static void check_stranger(const struct weir__worker *worker, struct weir__client *client,
			   const struct weir__resp_request *request, const struct weir__resp_writer *writer)
{
	if (request->is_stranger && writer->length > WEIR__STRANGER_OUTPUT &&
	    weir__commands_is_stranger(&worker->commands, client))
		client->is_leaving = true;
}

/* Sends what was answered, and makes room for more. False: the connection is lost. */
static bool make_room(struct weir__worker *worker, struct weir__connection *connection,
		      struct weir__resp_writer *writer, bool *ret_is_held)
{
	const bool is_alive = weir__worker_flush(worker, connection, writer->length);

	writer->length = 0;
	*ret_is_held = weir__worker_holds_back(worker, connection);
	return is_alive;
}

static bool answer_by_table(struct weir__worker *worker, struct weir__connection *connection, size_t n,
			    size_t *ret_used)
{
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.protocol };
	struct weir__client *const client = &connection->client;
	bool is_alive = true, is_held = weir__worker_holds_back(worker, connection);
	struct weir__turn turn = { .n = 0 };
	size_t at = 0;
	int64_t n_done = 0;

	while (is_alive && !is_held && !client->is_leaving && client->waiter == NULL && at < n) {
		struct weir__resp_request request;
		size_t used;
		const enum weir__resp_status status = read_request(worker, client, at, n, &request, &used);

		if (status == WEIR__RESP_MORE) {
			at += used; /* lines that say nothing */
			break;
		}
		if (status == WEIR__RESP_BAD) {
			refuse_bytes(worker, client, &request, &writer);
			break;
		}
		if (!weir__commands_do(&worker->commands, client, request.arguments, request.n, &writer)) {
			weir__commands_end_group(&worker->commands, client, &writer);
			is_alive = make_room(worker, connection, &writer, &is_held);
			continue; /* with the same request */
		}
		at += used;
		n_done++;
		check_stranger(worker, client, &request, &writer);
		is_held = weir__turn_is_over(&turn, worker->options.table) && at < n;
	}
	weir__commands_end_group(&worker->commands, client, &writer);
	weir__worker_count(worker, WEIR__WIRE_RESP, n_done);
	weir__sight_answered(worker->commands.sight, (uint64_t)n_done - (client->waiter != NULL));
	connection->has_requests = is_held && client->waiter == NULL; /* behind one that waits they come after it */
	*ret_used = at;
	return is_alive && weir__worker_flush(worker, connection, writer.length) &&
	       !(client->is_leaving && weir__output_waiting(&connection->output) == 0);
}

/* --- by another store -------------------------------------------------------------------------------------------- */

/* A run of requests. */
struct run {
	struct weir__worker *worker;
	struct weir__connection *connection;
	struct weir__resp_writer writer;
	size_t n;    /* bytes there are */
	size_t at;   /* where the next one begins */
	size_t done; /* bytes of those that are answered */
	struct weir__turn turn;
	bool is_alive, is_held;
};

/* Behind a request that is not answered others may only ask: what else they do would come too early. */
static bool may_run(const struct run *run, const struct weir__resp_request *request)
{
	const struct weir__command_row *const row = weir__command_named(&request->arguments[0]);

	return !weir__remote_waits(run->worker->commands.remote) ||
	       (row && (row->flags & WEIR__IS_DECISION) && weir__remote_has_room(run->worker->commands.remote));
}

/* False: it is to be run again. */
static bool run_request(struct run *run, const struct weir__resp_request *request)
{
	struct weir__remote *const remote = run->worker->commands.remote;
	struct weir__client *const client = &run->connection->client;
	const size_t length = run->writer.length;
	const bool waits = weir__remote_waits(remote);

	weir__remote_next(remote);
	if (!weir__commands_do(&run->worker->commands, client, request->arguments, request->n, &run->writer)) {
		weir__remote_again(remote);
		if (!waits)
			run->is_alive = make_room(run->worker, run->connection, &run->writer, &run->is_held);
		return false;
	}
	if (weir__remote_waits(remote)) {
		run->writer.length = length;
		return true;
	}
	weir__remote_answered(remote);
	check_stranger(run->worker, client, request, &run->writer);
	weir__worker_count(run->worker, WEIR__WIRE_RESP, 1);
	weir__sight_answered(run->worker->commands.sight, 1);
	return true;
}

/* False: the run is over. */
static bool step(struct run *run)
{
	struct weir__client *const client = &run->connection->client;
	const bool waits = weir__remote_waits(run->worker->commands.remote);
	struct weir__resp_request request;
	size_t used;

	switch (read_request(run->worker, client, run->at, run->n, &request, &used)) {
	case WEIR__RESP_MORE:
		if (!waits) /* lines that say nothing */
			run->done = run->at += used;
		return false;
	case WEIR__RESP_BAD:
		if (!waits)
			refuse_bytes(run->worker, client, &request, &run->writer);
		return false;
	default:
		break;
	}
	if (!may_run(run, &request))
		return false;
	if (!run_request(run, &request))
		return !waits;
	run->at += used;
	if (!weir__remote_waits(run->worker->commands.remote)) {
		run->done = run->at;
		run->is_held = weir__turn_is_over(&run->turn, run->worker->options.table) && run->at < run->n;
	}
	/* One that has nothing to ask, behind one that is not answered, may have to know what that does, as who settles a
	 * hold: it comes before those behind it. */
	return !waits || weir__remote_is_not_yet(run->worker->commands.remote);
}

/* Up to the first request that is not known yet all are answered; those behind it are run as well, so that what they ask
 * goes out with it, and all of these are run again. */
static bool answer_by_store(struct weir__worker *worker, struct weir__connection *connection, size_t n,
			    size_t *ret_used)
{
	struct weir__asking *const asking = weir__witness_asking(worker->commands.witness);
	struct weir__client *const client = &connection->client;
	struct run run = { .worker = worker,
			   .connection = connection,
			   .writer = { worker->out, OUT_SIZE, 0, client->protocol },
			   .n = n,
			   .is_alive = true,
			   .is_held = weir__worker_holds_back(worker, connection) };

	if (asking)
		asking->since = connection->asked_at ? connection->asked_at : worker->now;
	weir__remote_begin(worker->commands.remote, &connection->memo);
	while (run.is_alive && !run.is_held && !client->is_leaving && run.at < n && step(&run))
		;
	weir__witness_done(worker->commands.witness);
	client->errand = weir__remote_end(worker->commands.remote, worker->commands.door);
	if (client->errand)
		client->errand->owner = connection;
	connection->has_requests = run.is_held;
	*ret_used = run.done;
	return run.is_alive && weir__worker_flush(worker, connection, run.writer.length) &&
	       (client->errand || !(client->is_leaving && weir__output_waiting(&connection->output) == 0));
}

static bool answer(struct weir__worker *worker, struct weir__connection *connection, size_t n, size_t *ret_used)
{
	const bool is_alive = WEIR__UNLIKELY(worker->commands.remote != NULL) ?
				      answer_by_store(worker, connection, n, ret_used) :
				      answer_by_table(worker, connection, n, ret_used);

	if (WEIR__UNLIKELY(weir__commands_is_stranger(&worker->commands, &connection->client)))
		weir__worker_begin(worker, connection); /* as after RESET */
	else if (connection->later)
		weir__worker_is_whole(connection);
	return is_alive;
}

static size_t answer_waiter(struct weir__worker *worker, struct weir__connection *connection,
			    const struct weir_verdict *verdict)
{
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.protocol };

	weir__answer_verdict(verdict, &writer);
	return writer.length;
}

/* The last that is said, behind the answers that wait. */
static bool say_last(struct weir__worker *worker, struct weir__connection *connection, const char *text)
{
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.protocol };

	weir__resp_write_error(&writer, text, strlen(text));
	connection->client.is_leaving = connection->lingers = true;
	return weir__worker_flush(worker, connection, writer.length);
}

/* Each argument may be as long as it is, but not all of them together. To tell is all that can be done. */
static bool refuse_size(struct weir__worker *worker, struct weir__connection *connection)
{
	_Static_assert(WEIR__IN_SIZE == 262144, "the text says how much");
	return say_last(worker, connection, "ERR Protocol error: too big request, 262144 bytes are the most");
}

/* Who does not say who it is takes a place from those who would. */
static void refuse_late(struct weir__worker *worker, struct weir__connection *connection)
{
	(void)say_last(worker, connection, weir__error_rows[WEIR__SAY_NOAUTH_LATE].text);
}

const struct weir__wire weir__wire_resp = {
	.number = WEIR__WIRE_RESP,
	.start = start,
	.stop = stop,
	.answer = answer,
	.answer_waiter = answer_waiter,
	.refuse_size = refuse_size,
	.refuse_late = refuse_late,
};
