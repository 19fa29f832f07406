/* grpc_health.c: grpc.health.v1.Health, which load balancers and Kubernetes call before they send requests here.
 *
 * The status is SERVING once the server has a policy, and its store, if it has one, has replied. It stays SERVING until
 * shutdown: if the store fails, on_store_failure decides. */
#include <string.h>

#include "server/h2/h2_call.h"
#include "wire/protobuf.h"

enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

static bool was_store_there(const struct weir__context *context)
{
	struct weir__store *const store = context->store;
	struct weir__store_status status;

	if (store->status == NULL)
		return true;
	store->status(store, &status);
	return status.was_up;
}

static int status_of(const struct weir__worker *worker)
{
	if (atomic_load_explicit(&worker->is_stopping, memory_order_relaxed) ||
	    atomic_load_explicit(&worker->is_retiring, memory_order_relaxed))
		return NOT_SERVING;
	return worker->context.guard && was_store_there(&worker->context) ? SERVING : NOT_SERVING;
}

/* Returns false if the server does not have the service that a HealthCheckRequest names. */
static bool reads(struct weir__grpc_call *call, bool *ret_is_known)
{
	struct weir__protobuf message = weir__protobuf_of(call->message, call->message_length);
	static const char *const services[] = { "", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService" };
	struct weir__protobuf_field field;
	const void *name = "";
	size_t length = 0;

	while (weir__protobuf_next(&message, &field))
		if (weir__protobuf_is(&field, 1, WEIR__PROTOBUF_BYTES)) {
			name = field.bytes;
			length = field.length;
		}
	if (message.is_bad) {
		weir__grpc_refuse(call, WEIR__GRPC_INVALID_ARGUMENT,
				  "the message is not a HealthCheckRequest of grpc.health.v1");
		return false;
	}
	*ret_is_known = false;
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		*ret_is_known |= strlen(services[i]) == length && memcmp(services[i], name, length) == 0;
	return true;
}

void weir__grpc_check(struct weir__grpc_call *call)
{
	bool is_known;

	if (!reads(call, &is_known))
		return;
	if (is_known)
		weir__protobuf_add_number(call->out, 1, (uint64_t)status_of(call->worker));
	else
		weir__grpc_refuse(call, WEIR__GRPC_NOT_FOUND, "unknown service; use \"\" or \"ratelimit\"");
}

void weir__grpc_watch(struct weir__grpc_call *call)
{
	bool is_known;

	if (!reads(call, &is_known))
		return;
	call->stream->is_watch = true;
	call->stream->watch_status = is_known ? status_of(call->worker) : SERVICE_UNKNOWN;
	weir__protobuf_add_number(call->out, 1, (uint64_t)call->stream->watch_status);
	call->worker->n_watches++;
}

void weir__grpc_look(struct weir__worker *worker, struct weir__h2_of_stream *stream)
{
	const int status = status_of(worker);
	uint8_t bytes[WEIR__GRPC_HEAD + 16];
	struct weir__protobuf_out out = { bytes, WEIR__GRPC_HEAD, sizeof(bytes), false };

	if (stream->watch_status == SERVICE_UNKNOWN || stream->watch_status == status)
		return;
	stream->watch_status = status;
	weir__protobuf_add_number(&out, 1, (uint64_t)status);
	weir__grpc_put_head(bytes, out.n - WEIR__GRPC_HEAD);
	if (!weir__h2_append(&stream->stream, bytes, out.n))
		weir__h2_reset(&stream->stream, WEIR__H2_INTERNAL_ERROR);
}
