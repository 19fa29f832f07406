/* http_about.c: what is asked of the server itself. */
#include "serve/http_call.h"

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
