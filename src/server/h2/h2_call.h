/* h2_call.h: what the files of HTTP/2 and gRPC share: a stream that is being served. */
#ifndef WEIR_SERVER_H2_H2_CALL_H
#define WEIR_SERVER_H2_H2_CALL_H

#include "server/connection.h"
#include "server/http/http_call.h"
#include "wire/grpc.h"
#include "wire/h2.h"
#include "wire/protobuf.h"

enum { WEIR__GRPC_WORDS = 256, WEIR__GRPC_REPLY_MOST = 256 * 1024 };

/* A stream. It is a client of its own, so that its request completes independently of those of other streams. */
struct weir__h2_of_stream {
	struct weir__h2_stream stream; /* must be first */
	struct weir__client client;
	weir_ns asked_at; /* when its request began to run */
	bool is_grpc;
	bool is_watch;    /* grpc.health.v1.Health/Watch: it gets a message for each change */
	int watch_status; /* the last one that was sent */
};

/* A gRPC call. Its handler decodes `message`, and writes the response to `out`, after its head. */
struct weir__grpc_call {
	struct weir__context *context;
	struct weir__client *client;
	struct weir__worker *worker;
	struct weir__h2_of_stream *stream;
	const char *message; /* NULL: the request had to wait, and only the response is written now */
	size_t message_length;
	struct weir__protobuf_out *out;
	enum weir__grpc_status status;
	const char *why;             /* message of a status other than OK */
	char text[WEIR__GRPC_WORDS]; /* room for `why` */
};

/* A row for each method. */
struct weir__grpc_method {
	struct weir__route route; /* its path, and who may use it */
	void (*run)(struct weir__grpc_call *call);
};

/* Ends a call with a status other than OK. */
void weir__grpc_refuse(struct weir__grpc_call *call, enum weir__grpc_status status, const char *why);

/* Whether the request is for a known method. (grpc.c) */
bool weir__grpc_has_method(const struct weir__http_request *request);

/* Serves the request of a stream. */
void weir__grpc_run(struct weir__worker *worker, struct weir__connection *connection, struct weir__h2_of_stream *stream,
		    struct weir__http_request *request);

/* Writes the response of a stream whose request had to wait. */
void weir__grpc_answer(struct weir__worker *worker, struct weir__h2_of_stream *stream);

/* Responds with a status other than OK, and without a message. */
void weir__grpc_end(struct weir__h2_of_stream *stream, enum weir__grpc_status status, const char *why);

/* grpc_ratelimit.c */
void weir__grpc_should_rate_limit(struct weir__grpc_call *call);

/* grpc_health.c. look sends the status to a stream of Watch, if it has changed. */
void weir__grpc_check(struct weir__grpc_call *call);
void weir__grpc_watch(struct weir__grpc_call *call);
void weir__grpc_look(struct weir__worker *worker, struct weir__h2_of_stream *stream);

#endif
