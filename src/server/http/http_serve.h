/* http_serve.h: a request of HTTP, whatever its version: finds its route, checks who may use it, and runs it. */
#ifndef WEIR_SERVER_HTTP_HTTP_SERVE_H
#define WEIR_SERVER_HTTP_HTTP_SERVE_H

#include "server/connection.h"
#include "wire/http.h"
#include "wire/http_reply.h"

/* Context for the trace span and the rejection log. weir__tracer_done ends it. (http_connection.c) */
void weir__http_show_request(struct weir__worker *worker, weir_ns since, enum weir__protocol protocol,
			     const struct weir__http_request *request);

/* Runs a request of HTTP/2. If it does not wait, its response is in the parts of `reply`. */
void weir__http_serve(struct weir__worker *worker, struct weir__connection *connection, struct weir__client *client,
		      struct weir__http_request *request, struct weir__http_reply *reply);

#endif
