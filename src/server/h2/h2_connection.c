/* h2_connection.c: HTTP/2 on the connections of a worker: the HTTP API on its streams, and gRPC.
 *
 * The server first reads all bytes that a client has sent, then runs the complete requests, in turns. So it does not
 * run a request that the client has reset, or whose timeout is over: such a request charges nothing. */
#include <stdlib.h>
#include <string.h>

#include "core/uninitialized.h"
#include "observe/limit_stats.h"
#include "observe/tracer.h"
#include "server/h2/h2_call.h"
#include "server/http/http_serve.h"
#include "server/settings.h"
#include "wire/digits.h"

enum { SENT_AT_ONCE = 256 * 1024 };

static const weir_ns second_ns = 1000000000;

/* Per worker. */
struct http2 {
	struct weir__http_reader reader; /* for the request that runs */
	struct weir__http_date date;
};

/* State of a connection. */
struct of_connection {
	struct weir__h2 *session;
	struct weir__worker *worker;
	struct weir__connection *connection;
	int32_t late;     /* the stream that sets the deadline of the connection; 0: none */
	uint64_t sent;    /* bytes of responses that were sent until moved_at */
	weir_ns moved_at; /* when responses last made progress */
	weir_ns old_at;   /* when to ask the client to open a new connection (http2_age); 0: never */
	weir_ns asked_at; /* when the client was asked; a second later, new streams are not served; 0: not yet */
	bool is_pinged;   /* the client has sent nothing since it got a PING */
};

static bool start(struct weir__worker *worker)
{
	worker->of_protocols[WEIR__PROTOCOL_HTTP2] = calloc(1, sizeof(struct http2));
	return worker->of_protocols[WEIR__PROTOCOL_HTTP2] != NULL;
}

static void stop(struct weir__worker *worker)
{
	free(worker->of_protocols[WEIR__PROTOCOL_HTTP2]);
}

static struct weir__h2_of_stream *of(struct weir__h2_stream *stream)
{
	return (struct weir__h2_of_stream *)(void *)stream;
}

static void closed(void *of_connection_, struct weir__h2_stream *stream)
{
	const struct of_connection *const of_connection = of_connection_;

	of_connection->worker->n_watches -= of(stream)->is_watch;
	weir__requests_abandon(&of(stream)->client);
}

static bool is_grpc(const struct weir__http_request *request)
{
	struct weir__http_slice type;

	return weir__http_find(request, "content-type", &type) && weir__grpc_is_type(type.bytes, type.length);
}

/* A client of an unknown method may keep its request open until it gets a response, such as a tool that uses server
 * reflection. */
static bool is_enough(void *of_connection_, struct weir__h2_stream *stream)
{
	const struct of_connection *const of_connection = of_connection_;
	struct http2 *const http2 = of_connection->worker->of_protocols[WEIR__PROTOCOL_HTTP2];
	struct weir__http_request request;

	weir__h2_request(stream, &http2->reader, &request);
	return is_grpc(&request) && !weir__grpc_has_method(&request);
}

static void forget(struct weir__connection *connection)
{
	struct of_connection *const of_connection = connection->of_protocol;

	if (of_connection == NULL)
		return;
	weir__h2_free(of_connection->session);
	free(of_connection);
	connection->of_protocol = NULL;
	connection->protocol_bytes = connection->n_streams = 0;
}

/* Many connections begin at the same time, for example after a restart. They must not all end together, so the age is
 * up to a tenth less. */
static weir_ns old_at(const struct weir__worker *worker, uint64_t number)
{
	const uint64_t age = worker->options.settings ? worker->options.settings->http2_age_ns : 0;
	const uint64_t spread = number * 0x9e3779b97f4a7c15 >> 54; /* 0 to 1023; neighbours differ */

	return age == 0 ? 0 : weir__add_saturating(worker->now, age - age / 10 * spread / 1024);
}

/* Returns false if memory runs out. */
static bool begin(struct weir__worker *worker, struct weir__connection *connection)
{
	struct of_connection *const of_connection = calloc(1, sizeof(*of_connection));
	const struct weir__h2_options options = { sizeof(struct weir__h2_of_stream), closed, is_enough, of_connection };

	if (of_connection == NULL)
		return false;
	of_connection->worker = worker;
	of_connection->connection = connection;
	of_connection->old_at = old_at(worker, connection->client.number);
	of_connection->moved_at = worker->now;
	of_connection->session = weir__h2_new(&options, worker->now);
	connection->of_protocol = of_connection;
	weir__worker_begin_ticks(worker);
	return of_connection->session != NULL;
}

/* --- responses --------------------------------------------------------------------------------------------------- */

static size_t add_field(struct weir__h2_field *fields, size_t n, const char *name, const char *value, size_t length)
{
	if (n == WEIR__H2_FIELDS_MAX)
		return n;
	fields[n] = (struct weir__h2_field){ name, value, strlen(name), length };
	return n + 1;
}

/* Splits "Name: value" lines, and makes names lower case. */
static size_t add_lines(struct weir__h2_field *fields, size_t n, char *lines, size_t length)
{
	const char *const end = lines + length;
	char *at = lines;

	while (at < end && n < WEIR__H2_FIELDS_MAX) {
		char *const line_end = memchr(at, '\r', (size_t)(end - at));
		char *const colon = line_end ? memchr(at, ':', (size_t)(line_end - at)) : NULL;

		if (colon == NULL)
			break;
		for (char *letter = at; letter < colon; letter++)
			*letter = (char)(*letter >= 'A' && *letter <= 'Z' ? *letter + ('a' - 'A') : *letter);
		fields[n++] = (struct weir__h2_field){ at, colon + 2, (size_t)(colon - at),
						       (size_t)(line_end - colon - 2) };
		at = line_end + 2;
	}
	return n;
}

static void respond(struct weir__h2_of_stream *stream, struct weir__http_reply *reply)
{
	const bool has_body = reply->status != 204 && reply->status != 304;
	struct weir__h2_field fields[WEIR__H2_FIELDS_MAX];
	char length[WEIR__DIGITS_MOST], date[WEIR__REPLY_DATE_SIZE];
	const bool is_ended = !has_body || reply->is_without_body || reply->body_length == 0;
	size_t n = 0;

	memcpy(date, reply->date->text, sizeof(date));
	n = add_lines(fields, n, date, reply->date->length);
	if (has_body) {
		n = add_field(fields, n, "content-type", reply->type, strlen(reply->type));
		n = add_field(fields, n, "content-length", length,
			      (size_t)(weir__put_digits(length, reply->body_length) - length));
	}
	n = add_lines(fields, n, reply->headers, reply->headers_length);
	if (!weir__h2_respond(&stream->stream, reply->status, fields, n, is_ended) ||
	    (!is_ended && !weir__h2_append(&stream->stream, reply->bytes + WEIR__REPLY_HEAD_ROOM, reply->body_length)))
		weir__h2_reset(&stream->stream, WEIR__H2_INTERNAL_ERROR);
	else if (!is_ended)
		weir__h2_end(&stream->stream, -1, NULL);
}

static void begin_reply(struct weir__worker *worker, struct weir__http_reply *ret_reply)
{
	const struct http2 *const http2 = worker->of_protocols[WEIR__PROTOCOL_HTTP2];

	weir__reply_init(ret_reply, worker->out, WEIR__OUT_SIZE, &http2->date);
	ret_reply->form = WEIR__REPLY_PARTS;
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static void run_http(struct weir__worker *worker, struct weir__connection *connection,
		     struct weir__h2_of_stream *stream, struct weir__http_request *request)
{
	struct weir__http_reply reply WEIR__UNINITIALIZED;

	begin_reply(worker, &reply);
	reply.is_without_body = request->method == HTTP_HEAD;
	if (stream->stream.fault != 0)
		weir__reply_problem(&reply, stream->stream.fault, weir__http_error_words_of(stream->stream.fault));
	else if (connection->service == WEIR__SERVICE_GRPC)
		weir__reply_problem(&reply, 415,
				    "this address serves gRPC; use content-type application/grpc, or the "
				    "address of the setting http");
	else
		weir__http_serve(worker, connection, &stream->client, request, &reply);
	if (!weir__client_is_waiting(&stream->client))
		respond(stream, &reply);
}

static void run(struct weir__worker *worker, struct weir__connection *connection, struct weir__h2_of_stream *stream)
{
	struct http2 *const http2 = worker->of_protocols[WEIR__PROTOCOL_HTTP2];
	struct weir__http_request request;

	weir__h2_request(&stream->stream, &http2->reader, &request);
	stream->client = (struct weir__client){ .resp_version = 2,
						.write_peer = connection->client.write_peer,
						.of = &connection->client,
						.is_proven = connection->client.is_proven,
						.certificate_user = connection->client.certificate_user,
						.peer = connection->client.peer,
						.number = connection->client.number };
	stream->asked_at = worker->now;
	stream->is_grpc = is_grpc(&request);
	weir__worker_count(worker, WEIR__PROTOCOL_HTTP2, 1);
	if (stream->is_grpc && stream->stream.fault != 0) {
		weir__grpc_end(stream, weir__grpc_status_of(stream->stream.fault),
			       weir__http_error_words_of(stream->stream.fault));
	} else if (stream->is_grpc) {
		weir__http_show_request(worker, worker->now, WEIR__PROTOCOL_HTTP2, &request);
		weir__grpc_run(worker, connection, stream, &request);
		weir__tracer_done(worker->context.tracer);
	} else {
		run_http(worker, connection, stream, &request);
	}
	connection->client.is_proven = stream->client.is_proven;
	if (stream->client.user) /* an open route, or a wrong token, does not make a stranger of the other streams */
		connection->client.user = stream->client.user;
	/* Users and certificates may change before a request that waits is done. */
	stream->client.user = stream->client.certificate_user = NULL;
	stream->client.peer = NULL;
	weir__limit_stats_answered(worker->context.stats, !weir__client_is_waiting(&stream->client));
}

/* --- the connection ---------------------------------------------------------------------------------------------- */

/* The oldest incomplete request sets the deadline of the connection. Responses that wait for a flow-control window must
 * progress at WEIR__READ_RATE_LEAST, or a client could hold their memory by reading a byte now and then. While they do
 * not, new requests do not extend the deadline. */
static void set_deadline(struct weir__worker *worker, struct weir__connection *connection,
			 struct of_connection *of_connection)
{
	const uint64_t least = worker->options.late_ns / 1000000 * WEIR__READ_RATE_LEAST / 1000;
	struct weir__h2_progress progress;
	bool moves, is_stuck, is_other;

	weir__h2_look(of_connection->session, &progress);
	connection->n_streams = progress.under_way;
	moves = !progress.is_blocked || progress.sent - of_connection->sent >= least;
	if (moves) {
		of_connection->sent = progress.sent;
		of_connection->moved_at = worker->now;
	}
	is_stuck = worker->now - of_connection->moved_at >= worker->options.late_ns;
	is_other = !is_stuck && (progress.incomplete != of_connection->late || (progress.incomplete == 0 && moves));
	of_connection->late = progress.incomplete;
	if (progress.is_silent)
		return;
	if (is_other)
		weir__worker_request_complete(connection);
	if (progress.incomplete != 0 || progress.is_blocked)
		weir__worker_request_begun(worker, connection);
}

/* Sends what is ready, as far as the client reads. Returns false if the connection is lost. */
static bool send_ready(struct weir__worker *worker, struct weir__connection *connection,
		       struct of_connection *of_connection)
{
	size_t n;

	while (!weir__worker_holds_back(worker, connection)) {
		n = weir__h2_write(of_connection->session, worker->out, SENT_AT_ONCE);
		if (n == 0)
			break;
		connection->protocol_bytes = weir__h2_bytes(of_connection->session);
		if (!weir__worker_flush(worker, connection, n))
			return false;
	}
	connection->protocol_bytes = weir__h2_bytes(of_connection->session);
	return true;
}

static void note_flood(struct weir__worker *worker, const struct of_connection *of_connection)
{
	if (weir__h2_flood(of_connection->session) != WEIR__H2_FLOOD_NONE)
		weir__worker_count_closed(worker, WEIR__CLOSED_FLOOD);
}

/* Whether the client takes responses. If its flow-control windows are closed, the server still reads from it, because
 * it opens them by frames. */
static bool has_room(struct weir__worker *worker, struct weir__connection *connection,
		     struct of_connection *of_connection, bool *is_alive)
{
	if (WEIR__UNLIKELY(weir__h2_is_full(of_connection->session)))
		*is_alive = send_ready(worker, connection, of_connection);
	return *is_alive && !weir__h2_is_full(of_connection->session) && !weir__worker_holds_back(worker, connection);
}

static bool answer(struct weir__worker *worker, struct weir__connection *connection, size_t n, size_t *ret_used)
{
	struct http2 *const http2 = worker->of_protocols[WEIR__PROTOCOL_HTTP2];
	struct of_connection *of_connection = connection->of_protocol;
	struct weir__turn turn = { .n = 0 };
	struct weir__h2_stream *stream;
	bool is_open = true, is_alive = true;

	*ret_used = n;
	if (of_connection == NULL) {
		if (!begin(worker, connection))
			return false;
		of_connection = connection->of_protocol;
	}
	if (n > 0) {
		of_connection->is_pinged = false;
		is_open = weir__h2_read(of_connection->session, worker->in, n, worker->now);
	}
	weir__http_date_set(&http2->date, worker->now);
	connection->has_requests = false;
	while (is_open && has_room(worker, connection, of_connection, &is_alive) &&
	       (stream = weir__h2_take(of_connection->session)) != NULL) {
		run(worker, connection, of(stream));
		if (weir__turn_is_over(&turn, worker->options.table) && weir__h2_has_requests(of_connection->session)) {
			connection->has_requests = true;
			break;
		}
		if (weir__worker_is_owed_enough(worker, connection, 0)) {
			weir__worker_leave_unauthenticated(worker, connection);
			break;
		}
	}
	if (!is_alive || !send_ready(worker, connection, of_connection))
		return false;
	connection->has_requests |= weir__worker_holds_back(worker, connection);
	set_deadline(worker, connection, of_connection);
	if (!is_open || weir__h2_is_over(of_connection->session)) {
		note_flood(worker, of_connection);
		connection->client.is_leaving = connection->lingers = true;
	}
	connection->has_requests &= !connection->client.is_leaving;
	return !(connection->client.is_leaving && weir__output_waiting(&connection->output) == 0);
}

static size_t answer_ready(struct weir__worker *worker, struct weir__connection *connection, bool *ret_is_alive)
{
	struct http2 *const http2 = worker->of_protocols[WEIR__PROTOCOL_HTTP2];
	struct of_connection *const of_connection = connection->of_protocol;
	struct weir__h2_stream *stream = NULL;

	(void)ret_is_alive;
	weir__http_date_set(&http2->date, worker->now);
	while ((stream = weir__h2_next(of_connection->session, stream)) != NULL) {
		struct weir__client *const client = &of(stream)->client;
		struct weir__http_reply reply WEIR__UNINITIALIZED;
		struct weir__http_call call = {
			.context = &worker->context, .client = client, .reply = &reply, .socket = connection->socket
		};

		if (client->first == NULL || !client->first->is_done)
			continue;
		if (connection->asked_at == 0 || of(stream)->asked_at < connection->asked_at)
			connection->asked_at = of(stream)->asked_at;
		weir__limit_stats_answered(worker->context.stats, 1);
		if (of(stream)->is_grpc) {
			weir__grpc_answer(worker, of(stream));
			continue;
		}
		begin_reply(worker, &reply);
		reply.is_without_body = client->first->is_without_body;
		client->first->write(client->first, &call);
		weir__request_free_first(client);
		respond(of(stream), &reply);
	}
	*ret_is_alive = send_ready(worker, connection, of_connection);
	set_deadline(worker, connection, of_connection);
	return 0;
}

/* A gRPC client may connect before it has a request. That is not an error: it connects again when it has one. */
static void refuse_late(struct weir__worker *worker, struct weir__connection *connection)
{
	struct of_connection *const of_connection = connection->of_protocol;
	struct weir__h2_progress progress;

	if (of_connection == NULL)
		return;
	weir__h2_look(of_connection->session, &progress);
	weir__h2_go_away(of_connection->session, progress.is_silent && progress.incomplete == 0 ?
							 WEIR__H2_NO_ERROR :
							 WEIR__H2_ENHANCE_YOUR_CALM);
	(void)send_ready(worker, connection, of_connection);
}

static void ask_to_leave(const struct weir__worker *worker, struct of_connection *of_connection)
{
	of_connection->old_at = 0;
	if (of_connection->asked_at == 0)
		of_connection->asked_at = worker->now;
	weir__h2_warn(of_connection->session);
}

static void leave(struct weir__worker *worker, struct weir__connection *connection, bool is_last)
{
	struct of_connection *const of_connection = connection->of_protocol;
	struct weir__h2_stream *stream = NULL;

	if (of_connection == NULL)
		return;
	while (is_last && (stream = weir__h2_next(of_connection->session, stream)) != NULL) {
		weir__waits_deny(&worker->context, &of(stream)->client);
		if (!of(stream)->is_watch)
			continue;
		weir__grpc_look(worker, of(stream));
		weir__h2_end(stream, WEIR__GRPC_UNAVAILABLE, "the server is shutting down");
	}
	if (is_last)
		weir__h2_go_away(of_connection->session, 0);
	else
		ask_to_leave(worker, of_connection);
	(void)send_ready(worker, connection, of_connection);
	set_deadline(worker, connection, of_connection);
}

/* A client that watches the health may be silent for days. If it hangs, or its machine vanishes behind a proxy, no
 * packet tells the server. So it sends a PING. A client that does not wait may send a request at this moment, which would be
 * lost with the connection. So the server asks it to leave first, and a tick closes the connection. */
static bool stays(struct weir__worker *worker, struct weir__connection *connection, bool waits)
{
	struct of_connection *const of_connection = connection->of_protocol;

	if (of_connection == NULL)
		return waits;
	if (waits ? of_connection->is_pinged : of_connection->asked_at != 0)
		return false;
	if (waits) {
		of_connection->is_pinged = true;
		weir__h2_ping(of_connection->session);
	} else {
		ask_to_leave(worker, of_connection);
	}
	return send_ready(worker, connection, of_connection);
}

/* Runs each second: ends old connections, and sends status changes to clients that watch the health. Returns false for a
 * client that was asked to leave a second ago and has no more requests. */
static bool tick(struct weir__worker *worker, struct weir__connection *connection)
{
	struct of_connection *const of_connection = connection->of_protocol;
	struct weir__h2_stream *stream = NULL;
	bool is_end;

	if (of_connection == NULL || connection->is_finished)
		return true;
	is_end = of_connection->asked_at != 0 && worker->now - of_connection->asked_at >= second_ns;
	if (is_end)
		weir__h2_go_away(of_connection->session, 0);
	else if (of_connection->old_at != 0 && of_connection->old_at <= worker->now)
		ask_to_leave(worker, of_connection);
	while (worker->n_watches > 0 && (stream = weir__h2_next(of_connection->session, stream)) != NULL)
		if (of(stream)->is_watch)
			weir__grpc_look(worker, of(stream));
	(void)send_ready(worker, connection, of_connection);
	return !is_end || !weir__h2_is_over(of_connection->session) || weir__output_waiting(&connection->output) > 0;
}

const struct weir__protocol_handler weir__protocol_http2 = {
	.number = WEIR__PROTOCOL_HTTP2,
	.asks_at_once = true,
	.answers_nothing = true,
	.read_most = WEIR__HTTP2_READ,
	.start = start,
	.stop = stop,
	.answer = answer,
	.answer_ready = answer_ready,
	.refuse_late = refuse_late,
	.forget = forget,
	.leave = leave,
	.stays = stays,
	.tick = tick,
};
