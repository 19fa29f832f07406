/* resp_connection.c: RESP on the connections of a worker. */
#include <stdlib.h>
#include <string.h>

#include "observe/limit_stats.h"
#include "server/connection.h"
#include "server/resp/resp_command.h"

enum {
	ARGUMENTS_MAX = 128, /* WEIR.CHECK with 32 attributes has 69; the rest is room to report too many */
	BULK_MAX = 64 * 1024,
	OUT_SIZE = 256 * 1024, /* sent at once: more would not stay in a cache */
};

/* Per worker. */
struct of_worker {
	struct weir__resp resp;
	struct weir__resp_slice arguments[ARGUMENTS_MAX];
};

static bool start(struct weir__worker *worker)
{
	struct of_worker *const of = calloc(1, sizeof(*of));

	worker->of_protocols[WEIR__PROTOCOL_RESP] = of;
	if (of)
		weir__resp_init(&of->resp, &worker->context);
	return of != NULL;
}

static void stop(struct weir__worker *worker)
{
	free(worker->of_protocols[WEIR__PROTOCOL_RESP]);
}

static void forget(struct weir__connection *connection)
{
	weir__resp_forget(&connection->client);
}

/* Reads the request that begins here. */
static enum weir__resp_status read_request(struct weir__worker *worker, const struct weir__client *client, size_t at,
					   size_t n, struct weir__resp_request *request, size_t *ret_used)
{
	struct of_worker *const of = worker->of_protocols[WEIR__PROTOCOL_RESP];

	weir__resp_request_init(request);
	request->arguments = of->arguments;
	request->arguments_max = ARGUMENTS_MAX;
	request->line_max = WEIR__RESP_LINE_MAX;
	request->bulk_max = BULK_MAX;
	request->is_unauthenticated = weir__client_is_unauthenticated(&worker->context, client);
	return weir__resp_request_read(request, worker->in + at, n - at, ret_used);
}

/* Sends the replies written so far, to make room for more. Returns false if the connection is lost. */
static bool make_room(struct weir__worker *worker, struct weir__connection *connection,
		      struct weir__resp_writer *writer, bool *ret_is_held)
{
	const bool is_alive = weir__worker_flush(worker, connection, writer->length);

	writer->length = 0;
	*ret_is_held = weir__worker_holds_back(worker, connection);
	return is_alive;
}

/* Whether another request may run: none waits for earlier ones, and not too many are in flight. */
static bool may_run(const struct weir__client *client)
{
	return client->first == NULL ||
	       (client->n_in_flight < WEIR__CLIENT_IN_FLIGHT_MAX && !weir__resp_is_held_up(client));
}

static void count_answers(struct weir__worker *worker, uint64_t n_done, uint32_t n_unanswered)
{
	weir__limit_stats_answered(worker->context.stats, n_done > n_unanswered ? n_done - n_unanswered : 0);
}

enum incomplete { INCOMPLETE_NONE, INCOMPLETE_STILL, INCOMPLETE_ANEW /* others were complete before it */ };

/* Starts the deadline of a client that has not authenticated (or not again after RESET), or that has sent a part of a
 * request. Ends the deadline of all other clients. While requests are in flight, nothing is read, so a part of a
 * request does not count as late. */
static void watch(struct weir__worker *worker, struct weir__connection *connection, enum incomplete incomplete)
{
	const bool is_unauthenticated = weir__client_is_unauthenticated(&worker->context, &connection->client);

	if (WEIR__LIKELY(!is_unauthenticated && incomplete == INCOMPLETE_NONE && connection->later == NULL))
		return;
	if (!is_unauthenticated && incomplete != INCOMPLETE_STILL)
		weir__worker_request_complete(connection);
	if (is_unauthenticated || (incomplete != INCOMPLETE_NONE && connection->client.first == NULL))
		weir__worker_request_begun(worker, connection);
}

static void count_kept(struct weir__connection *connection)
{
	const struct weir__client *const client = &connection->client;

	if (WEIR__UNLIKELY(client->transaction || client->deferred || connection->protocol_bytes > 0))
		connection->protocol_bytes = weir__resp_kept_bytes(client);
}

static bool answer(struct weir__worker *worker, struct weir__connection *connection, size_t n, size_t *ret_used)
{
	struct weir__resp *const resp = &((struct of_worker *)worker->of_protocols[WEIR__PROTOCOL_RESP])->resp;
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.resp_version,
					    connection->client.has_maps };
	struct weir__client *const client = &connection->client;
	const uint32_t n_unanswered = client->n_unanswered;
	bool is_alive = true, is_held = weir__worker_holds_back(worker, connection);
	enum incomplete incomplete = INCOMPLETE_NONE;
	struct weir__turn turn = { .n = 0 };
	size_t at = 0;
	int64_t n_done = 0;

	while (is_alive && !is_held && !client->is_leaving && WEIR__LIKELY(may_run(client)) && at < n) {
		struct weir__resp_request request;
		size_t used;
		const enum weir__resp_status status = read_request(worker, client, at, n, &request, &used);

		if (WEIR__UNLIKELY(request.is_unauthenticated) &&
		    weir__worker_is_owed_enough(worker, connection, writer.length)) {
			weir__worker_leave_unauthenticated(worker, connection);
			break;
		}
		if (status == WEIR__RESP_MORE) {
			at += used; /* empty lines */
			if (at < n)
				incomplete = n_done > 0 ? INCOMPLETE_ANEW : INCOMPLETE_STILL;
			break;
		}
		if (status == WEIR__RESP_BAD) {
			weir__resp_refuse_bytes(resp, client, &request, &writer);
			break;
		}
		if (!weir__resp_do(resp, client, request.arguments, request.n, &writer)) {
			weir__resp_end_group(resp, client, &writer);
			is_alive = make_room(worker, connection, &writer, &is_held);
			continue; /* try the same request again */
		}
		at += used;
		n_done++;
		is_held = weir__turn_is_over(&turn, worker->options.table) && at < n;
	}
	weir__resp_end_group(resp, client, &writer);
	weir__worker_count(worker, WEIR__PROTOCOL_RESP, n_done);
	count_answers(worker, (uint64_t)n_done, client->n_unanswered - n_unanswered);
	connection->has_requests = is_held &&
				   client->first == NULL; /* while requests are in flight, the rest is run after them */
	*ret_used = at;
	count_kept(connection);
	is_alive = is_alive && weir__worker_flush(worker, connection, writer.length) &&
		   (client->first || !(client->is_leaving && weir__output_waiting(&connection->output) == 0));
	watch(worker, connection, incomplete);
	return is_alive;
}

/* Writes the replies that are ready, in order, then runs what waited for them. */
static size_t answer_ready(struct weir__worker *worker, struct weir__connection *connection, bool *ret_is_alive)
{
	struct weir__resp *const resp = &((struct of_worker *)worker->of_protocols[WEIR__PROTOCOL_RESP])->resp;
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.resp_version,
					    connection->client.has_maps };
	struct weir__client *const client = &connection->client;
	bool is_held = false, has_room = true;

	while (*ret_is_alive) {
		const struct weir__request *const first = client->first;

		if (first && !first->is_done)
			break;
		if (!has_room || (first && writer.length + WEIR__ANSWER_MOST > writer.size)) {
			*ret_is_alive = make_room(worker, connection, &writer, &is_held);
			has_room = true;
		} else if (first) {
			weir__limit_stats_answered(worker->context.stats, first->n_replies);
			client->first->write(client->first, &writer);
			weir__request_free_first(client);
		} else if (weir__resp_is_held_up(client)) {
			has_room = weir__resp_go_on(resp, client, &writer);
		} else {
			break;
		}
		writer.resp_version = client->resp_version;
		writer.has_maps = client->has_maps;
	}
	watch(worker, connection, INCOMPLETE_NONE);
	count_kept(connection);
	return writer.length;
}

/* Writes a last error behind the buffered replies. */
static bool say_last(struct weir__worker *worker, struct weir__connection *connection, const char *text)
{
	struct weir__resp_writer writer = { worker->out, OUT_SIZE, 0, connection->client.resp_version,
					    connection->client.has_maps };

	weir__resp_write_error(&writer, text, strlen(text));
	connection->client.is_leaving = connection->lingers = true;
	return weir__worker_flush(worker, connection, writer.length);
}

/* A request may be too large in total although each argument is within its bound. Writes an error and closes. */
static bool refuse_size(struct weir__worker *worker, struct weir__connection *connection)
{
	_Static_assert(WEIR__IN_SIZE == 262144, "the text says how much");
	return say_last(worker, connection, "ERR Protocol error: too big request, the maximum is 262144 bytes");
}

/* Closes a client that does not authenticate, or does not complete its request: it would hold resources that others
 * need. */
static void refuse_late(struct weir__worker *worker, struct weir__connection *connection)
{
	(void)say_last(
		worker, connection,
		weir__client_is_unauthenticated(&worker->context, &connection->client) ?
			weir__error_rows[WEIR__ERROR_NOAUTH_LATE].text :
			"ERR Protocol error: the request was not complete in time; the setting header_time says how "
			"long one may take");
}

const struct weir__protocol_handler weir__protocol_resp = {
	.number = WEIR__PROTOCOL_RESP,
	.read_most = WEIR__IN_SIZE,
	.start = start,
	.stop = stop,
	.answer = answer,
	.answer_ready = answer_ready,
	.refuse_size = refuse_size,
	.refuse_late = refuse_late,
	.forget = forget,
};
