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

static bool is_store_up(const struct weir__http_call *call)
{
	struct weir__store *const store = call->context->store;
	struct weir__store_status status;

	if (store->status == NULL)
		return true;
	store->status(store, &status);
	return status.health == WEIR__STORE_UP;
}

void weir__http_readyz(struct weir__http_call *call)
{
	if (call->is_ending || call->is_retiring) {
		weir__reply_problem(call->reply, 503, "the server is shutting down");
		return;
	}
	if (!is_store_up(call) && call->context->settings->on_store_failure == WEIR__ON_FAILURE_CLOSED) {
		weir__reply_problem(call->reply, 503, "the store does not reply, and limits fail closed");
		return;
	}
	weir__reply_add_text(call->reply, is_store_up(call) ?
						  "ready\n" :
						  "ready, degraded: the store does not reply, and on_store_failure "
						  "decides\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_TEXT);
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
