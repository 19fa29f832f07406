/* grpc.c: gRPC calls on streams of HTTP/2: a table of methods, timeouts, and status codes. */
#include <stdio.h>
#include <string.h>

#include "core/uninitialized.h"
#include "observe/limit_stats.h"
#include "observe/tracer.h"
#include "server/h2/h2_call.h"

/* clang-format off */
static const struct weir__grpc_method methods[] = {
	{ { .method = HTTP_POST, .operation = WEIR__OP_CHECK, .flags = WEIR__ROUTE_REFUNDS,
	    .path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" }, weir__grpc_should_rate_limit },
	{ { .method = HTTP_POST, .operation = WEIR__OP_CONNECTION, .flags = WEIR__ROUTE_OPEN | WEIR__ROUTE_METRICS,
	    .path = "/grpc.health.v1.Health/Check" }, weir__grpc_check },
	{ { .method = HTTP_POST, .operation = WEIR__OP_CONNECTION, .flags = WEIR__ROUTE_OPEN | WEIR__ROUTE_METRICS,
	    .path = "/grpc.health.v1.Health/Watch" }, weir__grpc_watch },
};
/* clang-format on */

static const struct weir__h2_field type = { "content-type", "application/grpc", 12, 16 };

/* A response without a message has its gRPC status in its headers. */
void weir__grpc_end(struct weir__h2_of_stream *stream, enum weir__grpc_status status, const char *why)
{
	if (!weir__h2_respond(&stream->stream, 200, &type, 1, false))
		weir__h2_reset(&stream->stream, WEIR__H2_INTERNAL_ERROR);
	weir__h2_end(&stream->stream, (int)status, why);
}

void weir__grpc_refuse(struct weir__grpc_call *call, enum weir__grpc_status status, const char *why)
{
	call->status = status;
	call->why = why;
}

/* --- responses --------------------------------------------------------------------------------------------------- */

static void begin_out(struct weir__worker *worker, struct weir__protobuf_out *ret_out)
{
	*ret_out = (struct weir__protobuf_out){ (uint8_t *)worker->out, WEIR__GRPC_HEAD, WEIR__GRPC_REPLY_MOST, false };
}

static void finish(struct weir__grpc_call *call)
{
	struct weir__h2_stream *const stream = &call->stream->stream;
	struct weir__protobuf_out *const out = call->out;

	if (call->status == WEIR__GRPC_OK && out->is_full)
		weir__grpc_refuse(call, WEIR__GRPC_INTERNAL, "the response is too long");
	if (call->status != WEIR__GRPC_OK) {
		weir__grpc_end(call->stream, call->status, call->why);
		return;
	}
	weir__grpc_put_head(out->bytes, out->n - WEIR__GRPC_HEAD);
	if (!weir__h2_respond(stream, 200, &type, 1, false) || !weir__h2_append(stream, out->bytes, out->n))
		weir__h2_reset(stream, WEIR__H2_INTERNAL_ERROR);
	if (!call->stream->is_watch)
		weir__h2_end(stream, WEIR__GRPC_OK, NULL);
}

void weir__grpc_answer(struct weir__worker *worker, struct weir__h2_of_stream *stream)
{
	struct weir__request *const request = stream->client.first;
	struct weir__protobuf_out out;
	struct weir__grpc_call call = {
		.context = &worker->context, .client = &stream->client, .worker = worker, .stream = stream, .out = &out
	};

	begin_out(worker, &out);
	request->write(request, &call);
	weir__request_free_first(&stream->client);
	finish(&call);
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static const struct weir__grpc_method *find(const struct weir__http_request *request)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (strlen(methods[i].route.path) == request->path.length &&
		    memcmp(methods[i].route.path, request->path.bytes, request->path.length) == 0)
			return &methods[i];
	return NULL;
}

bool weir__grpc_has_method(const struct weir__http_request *request)
{
	return find(request) != NULL;
}

/* Whether the client still waits for the response. A request that has expired is not run, so nothing is charged. */
static bool is_in_time(struct weir__grpc_call *call, const struct weir__http_request *request)
{
	struct weir__http_slice value;
	weir_ns timeout;

	if (!weir__http_find(request, "grpc-timeout", &value))
		return true;
	if (!weir__grpc_timeout(value.bytes, value.length, &timeout)) {
		weir__grpc_refuse(call, WEIR__GRPC_INVALID_ARGUMENT,
				  "grpc-timeout: use 1 to 8 digits and one of H, M, S, m, u and n");
		return false;
	}
	if (weir_table_now(call->context->table) < weir__add_saturating(call->stream->stream.begun_at, timeout))
		return true;
	weir__grpc_refuse(call, WEIR__GRPC_DEADLINE_EXCEEDED,
			  "the request was not decided in time, and charged nothing");
	return false;
}

/* Checks users, roles and web pages as for any route. */
static bool is_permitted(struct weir__grpc_call *call, const struct weir__connection *connection,
			 struct weir__http_request *request, const struct weir__grpc_method *method)
{
	struct weir__http_reply reply WEIR__UNINITIALIZED;
	struct weir__http_call http = { .context = call->context,
					.client = call->client,
					.request = request,
					.reply = &reply,
					.protocol = WEIR__PROTOCOL_HTTP2,
					.socket = connection->socket,
					.is_encrypted = connection->tls != NULL };
	char bytes[WEIR__REPLY_HEAD_ROOM + 1024];

	weir__reply_init(&reply, bytes, sizeof(bytes), NULL);
	reply.form = WEIR__REPLY_WORDS;
	if (weir__routes_permit(&http, &method->route))
		return true;
	(void)snprintf(call->text, sizeof(call->text), "%.*s", (int)reply.body_length, bytes + WEIR__REPLY_HEAD_ROOM);
	weir__grpc_refuse(call, weir__grpc_status_of(reply.status), call->text);
	return false;
}

static bool has_message(struct weir__grpc_call *call, const struct weir__http_request *request)
{
	const char *why = NULL;
	const enum weir__grpc_status status = weir__grpc_message(request->body.bytes, request->body.length,
								 &call->message, &call->message_length, &why);

	if (status != WEIR__GRPC_OK)
		weir__grpc_refuse(call, status, why);
	return status == WEIR__GRPC_OK;
}

void weir__grpc_run(struct weir__worker *worker, struct weir__connection *connection, struct weir__h2_of_stream *stream,
		    struct weir__http_request *request)
{
	const struct weir__grpc_method *const method = find(request);
	struct weir__protobuf_out out;
	struct weir__grpc_call call WEIR__UNINITIALIZED;

	call.context = &worker->context;
	call.client = &stream->client;
	call.worker = worker;
	call.stream = stream;
	call.message = NULL;
	call.out = &out;
	call.status = WEIR__GRPC_OK;
	call.why = NULL;
	begin_out(worker, &out);
	if (method == NULL)
		weir__grpc_refuse(&call, WEIR__GRPC_UNIMPLEMENTED,
				  "unknown method; use ShouldRateLimit of envoy.service.ratelimit.v3.RateLimitService, "
				  "or Check or Watch of grpc.health.v1.Health");
	else if (connection->service == WEIR__SERVICE_METRICS && !(method->route.flags & WEIR__ROUTE_METRICS))
		weir__grpc_refuse(&call, WEIR__GRPC_UNIMPLEMENTED,
				  "this address serves metrics and health; use the address of the setting grpc");
	else if (request->method != HTTP_POST)
		weir__grpc_refuse(&call, WEIR__GRPC_UNIMPLEMENTED, "a gRPC request needs the method POST");
	else if (is_in_time(&call, request) && is_permitted(&call, connection, request, method) &&
		 has_message(&call, request))
		method->run(&call);
	if (!weir__client_is_waiting(&stream->client))
		finish(&call);
}
