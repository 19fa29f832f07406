/* http_about.c: what is asked of the server itself. */
#include "serve/http_call.h"

/* docs/openapi.json, as it was when this was built. */
extern const char weir__openapi[];
extern const unsigned long weir__openapi_length;

void weir__http_healthz(struct weir__http_call *call)
{
	WEIR__REPLY_ADD(call->reply, "ok\n");
	weir__reply_end(call->reply, 200, WEIR__TYPE_TEXT);
}

void weir__http_readyz(struct weir__http_call *call)
{
	if (call->is_ending) {
		weir__reply_problem(call->reply, 503, "the server is about to end");
		return;
	}
	WEIR__REPLY_ADD(call->reply, "ready\n");
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
