/* http_health.c: liveness, readiness, and the description of the API. */
#include "server/http/http_call.h"
#include "server/settings.h"

/* docs/reference/openapi.json, as it was at build time. */
extern const char weir__openapi[];
extern const unsigned long weir__openapi_length;

void weir__http_healthz(struct weir__http_call *call)
{
	WEIR__REPLY_ADD(call->reply, "ok\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_TEXT);
}

/* Whether the store is up or, if ever_is_enough, has been up. */
static bool is_store_up(const struct weir__http_call *call, bool ever_is_enough)
{
	struct weir__store *const store = call->context->store;
	struct weir__store_status status;

	if (store->status == NULL)
		return true;
	store->status(store, &status);
	return status.health == WEIR__STORE_UP || (ever_is_enough && status.was_up);
}

void weir__http_readyz(struct weir__http_call *call)
{
	if (call->is_ending || call->is_retiring) {
		weir__reply_problem(call->reply, 503, "the server is shutting down");
		return;
	}
	if (!is_store_up(call, false) && call->context->settings->on_store_failure == WEIR__ON_FAILURE_CLOSED) {
		weir__reply_problem(call->reply, 503, "the store does not reply, and limits fail closed");
		return;
	}
	weir__reply_add_text(call->reply, is_store_up(call, false) ?
						  "ready\n" :
						  "ready, degraded: the store does not reply, and on_store_failure "
						  "decides\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_TEXT);
}

/* As from Envoy's ratelimit, by which Kubernetes decides whether requests are sent here. */
void weir__http_healthcheck(struct weir__http_call *call)
{
	if (call->is_ending || call->is_retiring)
		weir__reply_problem(call->reply, 500, "the server is shutting down");
	else if (!is_store_up(call, true))
		weir__reply_problem(call->reply, 500, "the store has not replied yet");
	else
		weir__http_health(call);
}

void weir__http_health(struct weir__http_call *call)
{
	WEIR__REPLY_ADD(call->reply, "OK");
	weir__reply_end(call->reply, 200, WEIR__TYPE_TEXT);
}

void weir__http_openapi(struct weir__http_call *call)
{
	weir__reply_add(call->reply, weir__openapi, weir__openapi_length);
	weir__reply_end(call->reply, 200, WEIR__TYPE_JSON);
}
