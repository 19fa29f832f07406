/* http_connection.c: HTTP/1.1 on the connections of a worker.
 *
 * A request that arrives in one read is served from the read buffer. An incomplete request is kept with its reader
 * until the rest arrives. A connection without a request has neither. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/uninitialized.h"
#include "observe/limit_stats.h"
#include "observe/tracer.h"
#include "os/net.h"
#include "server/connection.h"
#include "server/http/http_call.h"
#include "server/http/http_serve.h"
#include "wire/h2_floods.h"

enum {
	PIECE = 16 * 1024, /* bytes added to an incomplete request at a time: other requests may follow it */
	PART_SIZE = 512,   /* the least memory for an incomplete request */
	SENT_AT_ONCE = 256 * 1024,
};

/* Per worker. */
struct http {
	struct weir__http_reader reader; /* for requests that arrive in one read */
	struct weir__http_date date;
};

/* An incomplete request. */
struct part {
	struct weir__http_reader reader;
	char *bytes;
	size_t size;
	bool has_permission; /* to send its body */
};

static bool start(struct weir__worker *worker)
{
	struct http *const http = calloc(1, sizeof(*http));

	worker->of_protocols[WEIR__PROTOCOL_HTTP] = http;
	weir__routes_init();
	return http != NULL;
}

static void stop(struct weir__worker *worker)
{
	free(worker->of_protocols[WEIR__PROTOCOL_HTTP]);
}

static void forget(struct weir__connection *connection)
{
	struct part *const part = connection->of_protocol;

	if (part == NULL)
		return;
	free(part->bytes);
	free(part);
	connection->of_protocol = NULL;
	connection->protocol_bytes = 0; /* also when a request is complete */
}

/* --- responses -------------------------------------------------------------------------------------------------- */

static void begin_reply(struct weir__worker *worker, size_t at, struct weir__http_reply *ret_reply)
{
	const struct http *const http = worker->of_protocols[WEIR__PROTOCOL_HTTP];

	weir__reply_init(ret_reply, worker->out + at, WEIR__OUT_SIZE - at, &http->date);
}

/* After another server has taken over, clients should open a new connection. Only the response to the last request that
 * has arrived says so: if an earlier one did, the requests behind it would be lost. */
static bool is_to_leave(const struct weir__worker *worker, bool is_last)
{
	return is_last && atomic_load_explicit(&worker->leaving, memory_order_relaxed) != WEIR__STAYS;
}

static bool is_header(const struct weir__http_request *request, const struct weir__http_header *header,
		      const char *name)
{
	return header->name.length == strlen(name) &&
	       strncasecmp(request->bytes + header->name.at, name, header->name.length) == 0;
}

/* Two traceparent headers count as none, and so do two tracestate headers. */
static void show_trace(struct weir__tracer *tracer, const struct weir__http_request *request)
{
	struct weir__trace_context *const trace_context = weir__tracer_context(tracer);
	uint32_t parents = 0, states = 0;

	for (uint32_t i = 0; i < request->reader->n; i++) {
		const struct weir__http_header *const header = &request->reader->headers[i];
		const char *const value = request->bytes + header->value.at;

		if (is_header(request, header, "traceparent") && parents++ == 0)
			weir__tracer_parent(tracer, value, header->value.length);
		if (is_header(request, header, "tracestate") && states++ == 0) {
			trace_context->state = value;
			trace_context->state_length = header->value.length;
		}
	}
	trace_context->has_parent = trace_context->has_parent && parents == 1;
	if (states > 1)
		trace_context->state = NULL;
}

void weir__http_show_request(struct weir__worker *worker, weir_ns since, enum weir__protocol protocol,
			     const struct weir__http_request *request)
{
	struct weir__trace_context *const trace_context = weir__tracer_context(worker->context.tracer);

	if (WEIR__LIKELY(trace_context == NULL))
		return;
	*trace_context = (struct weir__trace_context){
		.protocol = protocol, .path = request->path.bytes, .path_length = request->path.length, .since = since
	};
	if (weir__tracer_wants_parents(worker->context.tracer))
		show_trace(worker->context.tracer, request);
}

/* Writes the response behind the *length bytes in `out`, which may be sent first to make room. Returns its length. */
static size_t answer_request(struct weir__worker *worker, struct weir__connection *connection,
			     struct weir__http_request *request, bool is_last, size_t *length, bool *is_alive)
{
	struct weir__http_reply reply WEIR__UNINITIALIZED;
	struct weir__http_call call = { .context = &worker->context,
					.client = &connection->client,
					.request = request,
					.reply = &reply,
					.protocol = WEIR__PROTOCOL_HTTP,
					.socket = connection->socket,
					.is_encrypted = connection->tls != NULL,
					.is_of_metrics = connection->service == WEIR__SERVICE_METRICS,
					.is_ending = atomic_load_explicit(&worker->is_stopping, memory_order_relaxed),
					.is_retiring = atomic_load_explicit(&worker->is_retiring,
									    memory_order_relaxed) };
	const struct weir__route *route;

	begin_reply(worker, *length, &reply);
	connection->lingers = request->is_kept_alive && is_to_leave(worker, is_last);
	connection->client.is_leaving = !request->is_kept_alive || call.is_ending || connection->lingers;
	reply.says_close = connection->client.is_leaving;
	reply.says_keep_alive = request->reader->parser.http_minor == 0;
	reply.is_without_body = request->method == HTTP_HEAD;
	route = weir__routes_find(&call);
	if (route && weir__routes_permit(&call, route)) {
		if (route->most > reply.size) { /* make room: send the earlier responses */
			*is_alive = weir__worker_flush(worker, connection, *length);
			reply.bytes = worker->out;
			reply.size = WEIR__OUT_SIZE;
			*length = 0;
		}
		weir__http_show_request(worker, connection->asked_at ? connection->asked_at : worker->now,
					WEIR__PROTOCOL_HTTP, request);
		route->run(&call);
		weir__tracer_done(worker->context.tracer);
	}
	return reply.length;
}

void weir__http_serve(struct weir__worker *worker, struct weir__connection *connection, struct weir__client *client,
		      struct weir__http_request *request, struct weir__http_reply *reply)
{
	struct weir__http_call call = { .context = &worker->context,
					.client = client,
					.request = request,
					.reply = reply,
					.protocol = WEIR__PROTOCOL_HTTP2,
					.socket = connection->socket,
					.is_encrypted = connection->tls != NULL,
					.is_of_metrics = connection->service == WEIR__SERVICE_METRICS,
					.is_ending = atomic_load_explicit(&worker->is_stopping, memory_order_relaxed),
					.is_retiring = atomic_load_explicit(&worker->is_retiring,
									    memory_order_relaxed) };
	const struct weir__route *const route = weir__routes_find(&call);

	if (route == NULL || !weir__routes_permit(&call, route))
		return;
	weir__http_show_request(worker, worker->now, WEIR__PROTOCOL_HTTP2, request);
	route->run(&call);
	weir__tracer_done(worker->context.tracer);
}

/* --- errors ------------------------------------------------------------------------------------------------------ */

static size_t refuse(struct weir__worker *worker, struct weir__connection *connection, unsigned status,
		     const char *detail, size_t length)
{
	struct weir__http_reply reply;

	begin_reply(worker, length, &reply);
	connection->client.is_leaving = connection->lingers = true;
	reply.says_close = true;
	weir__reply_problem(&reply, status, detail);
	return length + reply.length;
}

static size_t refuse_fault(struct weir__worker *worker, struct weir__connection *connection,
			   const struct weir__http_reader *reader, size_t length)
{
	const char *const reason = weir__http_error_reason(reader);
	char text[256];

	(void)snprintf(text, sizeof(text), "at byte %u of the request: %s%s%s", reader->fault_at,
		       weir__http_error_words(reader->fault), reason ? ": " : "", reason ? reason : "");
	return refuse(worker, connection, weir__http_error_status(reader->fault), text, length);
}

static void refuse_late(struct weir__worker *worker, struct weir__connection *connection)
{
	struct http *const http = worker->of_protocols[WEIR__PROTOCOL_HTTP];

	if (connection->of_protocol == NULL) /* it has sent nothing */
		return;
	weir__http_date_set(&http->date, worker->now);
	(void)weir__worker_flush(
		worker, connection,
		refuse(worker, connection, 408,
		       "the request was not complete in time; the setting header_time says how long one may take", 0));
}

/* --- requests --------------------------------------------------------------------------------------------------- */

/* Keeps the reader and the bytes that it still needs. Returns false if memory runs out. */
static bool keep(struct weir__connection *connection, const struct weir__http_reader *reader, const char *bytes)
{
	struct part *const part = malloc(sizeof(*part));

	if (part == NULL)
		return false;
	part->reader = *reader;
	part->has_permission = false;
	part->size = reader->length > PART_SIZE ? reader->length : PART_SIZE;
	part->bytes = malloc(part->size);
	connection->of_protocol = part;
	connection->protocol_bytes = sizeof(*part) + part->size;
	if (part->bytes)
		memcpy(part->bytes, bytes, reader->length);
	return part->bytes != NULL;
}

/* Makes room for n more bytes. Returns false if memory runs out. */
static bool make_room(struct weir__connection *connection, struct part *part, size_t n)
{
	const size_t needed = part->reader.length + n;
	char *bytes;

	if (needed <= part->size)
		return true;
	bytes = realloc(part->bytes, 2 * needed);
	if (bytes == NULL)
		return false;
	part->bytes = bytes;
	part->size = 2 * needed;
	connection->protocol_bytes = sizeof(*part) + part->size;
	return true;
}

/* The result of reading at some place of `in`. */
struct found {
	enum weir__http_status status;
	struct weir__http_request request;
	const struct weir__http_reader *reader;
	size_t used; /* bytes of `in` */
};

/* Reads a request that begins here. Returns false if memory runs out. */
static bool read_first(struct weir__worker *worker, struct weir__connection *connection, char *bytes, size_t n,
		       struct found *found)
{
	struct http *const http = worker->of_protocols[WEIR__PROTOCOL_HTTP];

	weir__http_init(&http->reader);
	found->reader = &http->reader;
	found->status = weir__http_read(&http->reader, bytes, n, &found->used, &found->request);
	if (found->status != WEIR__HTTP_MORE)
		return true;
	found->used = n;
	weir__worker_request_begun(worker, connection);
	return keep(connection, &http->reader, bytes);
}

/* Reads the rest of an incomplete request, or some of it. Returns false if memory runs out. */
static bool read_rest(struct weir__connection *connection, const char *bytes, size_t n, struct found *found)
{
	struct part *const part = connection->of_protocol;
	const size_t before = part->reader.length, added = n < PIECE ? n : PIECE;

	if (!make_room(connection, part, added))
		return false;
	memcpy(part->bytes + before, bytes, added);
	found->reader = &part->reader;
	found->status = weir__http_read(&part->reader, part->bytes, before + added, &found->used, &found->request);
	found->used = found->status == WEIR__HTTP_COMPLETE ? found->used - before : added;
	return true;
}

/* Writes 100 Continue if the client waits for it before it sends its body. */
static size_t let_go_on(struct weir__worker *worker, struct weir__connection *connection, size_t length)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct part *const part = connection->of_protocol;

	if (!part->reader.expects_continue)
		return length;
	part->reader.expects_continue = false;
	memcpy(worker->out + length, text, sizeof(text) - 1);
	return length + sizeof(text) - 1;
}

/* Called when the head of a request has arrived. A client that must authenticate and has not gets its error now, and
 * may not send a body. Returns the number of bytes that are then in `out`. */
__attribute__((noinline)) static size_t check_head(struct weir__worker *worker, struct weir__connection *connection,
						   size_t length)
{
	struct part *const part = connection->of_protocol;
	struct weir__http_request request;
	struct weir__http_reply reply;
	struct weir__http_call call = { .context = &worker->context,
					.client = &connection->client,
					.request = &request,
					.reply = &reply,
					.protocol = WEIR__PROTOCOL_HTTP,
					.socket = connection->socket,
					.is_of_metrics = connection->service == WEIR__SERVICE_METRICS };

	if (part->has_permission || part->reader.head_length == 0)
		return length;
	weir__http_request_of(&part->reader, part->bytes, &request);
	begin_reply(worker, length, &reply);
	reply.says_close = true;
	reply.is_without_body = request.method == HTTP_HEAD;
	part->has_permission = weir__routes_permit_body(&call);
	if (part->has_permission)
		return length;
	connection->client.is_leaving = connection->lingers = true;
	weir__worker_count(worker, WEIR__PROTOCOL_HTTP, 1);
	weir__limit_stats_answered(worker->context.stats, 1);
	return length + reply.length;
}

/* Returns the number of bytes that are then in `out`. */
static size_t answer_whole(struct weir__worker *worker, struct weir__connection *connection,
			   struct weir__http_request *request, bool is_last, size_t length, bool *is_alive)
{
	size_t answered;

	weir__worker_count(worker, WEIR__PROTOCOL_HTTP, 1);
	answered = answer_request(worker, connection, request, is_last, &length, is_alive);
	weir__limit_stats_answered(worker->context.stats, !weir__worker_is_waiting(connection));
	return length + answered;
}

/* HTTP/2 with prior knowledge: the connection begins with its preface. */
static bool answer_preface(struct weir__worker *worker, struct weir__connection *connection, size_t n, size_t *ret_used)
{
	*ret_used = 0;
	if (n < WEIR__H2_PREFACE) {
		weir__worker_request_begun(worker, connection);
		return true;
	}
	weir__worker_change_protocol(worker, connection, &weir__protocol_http2);
	return weir__protocol_http2.answer(worker, connection, n, ret_used);
}

static bool answer(struct weir__worker *worker, struct weir__connection *connection, size_t n, size_t *ret_used)
{
	struct http *const http = worker->of_protocols[WEIR__PROTOCOL_HTTP];
	bool is_alive = true, is_held = weir__worker_holds_back(worker, connection);
	struct weir__turn turn = { .n = 0 };
	size_t at = 0, length = 0;

	if (n > 0 && worker->in[0] == 'P' && (n == 1 || WEIR__UNLIKELY(worker->in[1] == 'R')) &&
	    connection->of_protocol == NULL) {
		const size_t seen = n < WEIR__H2_PREFACE ? n : WEIR__H2_PREFACE;

		if (memcmp(worker->in, WEIR__H2_PREFACE_BYTES, seen) == 0)
			return answer_preface(worker, connection, n, ret_used);
	}
	weir__http_date_set(&http->date, worker->now);
	while (is_alive && !is_held && !weir__worker_is_waiting(connection) && !connection->client.is_leaving &&
	       at < n) {
		struct found found WEIR__UNINITIALIZED;

		if (weir__worker_is_owed_enough(worker, connection, length)) {
			weir__worker_leave_unauthenticated(worker, connection);
			break;
		}
		if (length + WEIR__REPLY_MOST > SENT_AT_ONCE) {
			is_alive = weir__worker_flush(worker, connection, length);
			is_held = weir__worker_holds_back(worker, connection);
			length = 0;
			continue;
		}
		is_alive = connection->of_protocol ? read_rest(connection, worker->in + at, n - at, &found) :
						     read_first(worker, connection, worker->in + at, n - at, &found);
		if (!is_alive)
			break;
		at += found.used;
		if (found.status == WEIR__HTTP_MORE) {
			length = check_head(worker, connection, length);
			if (!connection->client.is_leaving) {
				length = let_go_on(worker, connection, length);
				continue;
			}
			forget(connection);
			weir__worker_request_complete(connection);
			break;
		}
		length = found.status == WEIR__HTTP_COMPLETE ?
				 answer_whole(worker, connection, &found.request, at == n, length, &is_alive) :
				 refuse_fault(worker, connection, found.reader, length);
		forget(connection);
		if (connection->later)
			weir__worker_request_complete(connection);
		is_held = weir__turn_is_over(&turn, worker->options.table);
	}
	connection->has_requests = is_held && at < n && !weir__worker_is_waiting(connection);
	connection->lingers = connection->lingers || (connection->client.is_leaving && at < n);
	*ret_used = at;
	return is_alive && weir__worker_flush(worker, connection, length) &&
	       (weir__worker_is_waiting(connection) ||
		!(connection->client.is_leaving && weir__output_waiting(&connection->output) == 0));
}

/* At most one response is ready: the next request is not read before this one has its response. */
static size_t answer_ready(struct weir__worker *worker, struct weir__connection *connection, bool *ret_is_alive)
{
	struct http *const http = worker->of_protocols[WEIR__PROTOCOL_HTTP];
	struct weir__client *const client = &connection->client;
	struct weir__request *const request = client->first;
	struct weir__http_reply reply WEIR__UNINITIALIZED;
	struct weir__http_call call = {
		.context = &worker->context, .client = client, .reply = &reply, .socket = connection->socket
	};

	(void)ret_is_alive;
	if (request == NULL || !request->is_done)
		return 0;
	if (atomic_load_explicit(&worker->is_stopping, memory_order_relaxed))
		client->is_leaving = true;
	weir__http_date_set(&http->date, worker->now);
	begin_reply(worker, 0, &reply);
	reply.says_close = client->is_leaving;
	reply.says_keep_alive = request->says_keep_alive;
	reply.is_without_body = request->is_without_body;
	weir__limit_stats_answered(worker->context.stats, 1);
	request->write(request, &call);
	weir__request_free_first(client);
	return reply.length;
}

const struct weir__protocol_handler weir__protocol_http = {
	.number = WEIR__PROTOCOL_HTTP,
	.read_most = WEIR__HTTP_READ,
	.asks_at_once = true,
	.start = start,
	.stop = stop,
	.answer = answer,
	.answer_ready = answer_ready,
	.refuse_late = refuse_late,
	.forget = forget,
};
