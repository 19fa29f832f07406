/* h2.h: HTTP/2 as a server, with nghttp2. Pure: bytes of a client in, requests out; responses in, bytes out.
 *
 * A session has the streams of a connection. Complete requests wait in a queue until the caller takes them, in the
 * order in which they became complete. If the client resets a request, it leaves the queue and is never run. A request
 * has the same form as one of HTTP/1.1, so that the same routes serve both. nghttp2 sends bodies round-robin, as far as
 * the client's flow-control windows allow. The reasons are in docs/internals/protocols.md. */
#ifndef WEIR_WIRE_H2_H
#define WEIR_WIRE_H2_H

#include "wire/h2_floods.h"
#include "wire/http.h"

enum {
	WEIR__H2_STREAMS_MAX = 128,            /* at a time */
	WEIR__H2_BODIES_MAX = 4 * 1024 * 1024, /* bytes of all requests of a session that have no response yet */
	WEIR__H2_UNSENT_MAX = 1024 * 1024,     /* bytes of all responses: see weir__h2_is_full */
	WEIR__H2_FIELDS_MAX = 40,              /* of a response */
	WEIR__H2_WORDS_MAX = 512,              /* bytes of a grpc-message, encoded */
};

struct weir__h2;

/* A stream: a request and its response. The caller's struct begins with it. */
struct weir__h2_stream {
	struct weir__h2 *session;
	struct weir__h2_stream *next, *previous; /* all streams of the session, oldest first */
	struct weir__h2_stream *next_whole;      /* the next in the queue of complete requests */
	int32_t number;
	weir_ns begun_at; /* when its headers came */
	uint8_t method;   /* llhttp_method_t */
	bool is_queued, is_whole, is_responding, is_ended, has_trailers, is_refused, is_seen_early;
	uint16_t fault; /* HTTP status of an error in the request; 0: none */
	uint16_t n_fields;
	uint32_t path_at, path_length;
	uint32_t head_length, length, size; /* of bytes: the fields, then the body */
	char *bytes;                        /* `own`, or allocated */
	char *out;                          /* the body that is not sent yet; `own`, or allocated */
	size_t out_sent, out_length, out_size;
	unsigned grpc_status;
	char *grpc_words; /* encoded; NULL: none */
	char own[400];
};

struct weir__h2_options {
	size_t stream_size; /* of the caller's struct */
	/* Called before a stream is freed. */
	void (*closed)(void *context, struct weir__h2_stream *stream);
	/* Called once for a request whose body has begun and has not ended. Returns whether the caller can respond
	 * without the rest of the body. NULL: it cannot. */
	bool (*is_enough)(void *context, struct weir__h2_stream *stream);
	void *context;
};

/* Returns NULL if memory runs out. */
struct weir__h2 *weir__h2_new(const struct weir__h2_options *options, weir_ns now);
void weir__h2_free(struct weir__h2 *session);

/* Reads the next bytes, the preface first. Returns false if the connection must be closed, after sending what
 * weir__h2_write still writes. */
bool weir__h2_read(struct weir__h2 *session, const char *bytes, size_t n, weir_ns now);

/* Takes the next complete request from the queue. If stream->fault is not 0, respond with that status. NULL: the queue
 * is empty. */
struct weir__h2_stream *weir__h2_take(struct weir__h2 *session);
bool weir__h2_has_requests(const struct weir__h2 *session);

/* The request of a stream, valid until its response begins. Stores the fields in the caller's `reader`. */
void weir__h2_request(struct weir__h2_stream *stream, struct weir__http_reader *reader,
		      struct weir__http_request *ret_request);

/* A field of a response. */
struct weir__h2_field {
	const char *name, *value; /* the name in lower case */
	size_t name_length, value_length;
};

/* Begins a response. With is_ended it has no body and no trailers. Returns false if memory runs out. */
bool weir__h2_respond(struct weir__h2_stream *stream, unsigned status, const struct weir__h2_field *fields, size_t n,
		      bool is_ended);

/* Appends to the body. Returns false if memory runs out. */
bool weir__h2_append(struct weir__h2_stream *stream, const void *bytes, size_t n);

/* Ends the body. grpc_status below 0: without trailers. `words` may be NULL. */
void weir__h2_end(struct weir__h2_stream *stream, int grpc_status, const char *words);

/* Resets the stream with an error code of HTTP/2. */
void weir__h2_reset(struct weir__h2_stream *stream, uint32_t code);

/* Writes up to `room` bytes, which is at least 32 KiB. Returns how many; 0: nothing to write now. */
size_t weir__h2_write(struct weir__h2 *session, char *out, size_t room);

/* Asks the client to open no more streams. Streams that are already on their way are still served. Call
 * weir__h2_go_away when these must have arrived. */
void weir__h2_warn(struct weir__h2 *session);

/* Tells the client that new streams are not served any more. Streams under way are still served, unless the code is not
 * 0. */
void weir__h2_go_away(struct weir__h2 *session, uint32_t code);

/* Sends a PING, which the client acknowledges by itself. */
void weir__h2_ping(struct weir__h2 *session);

/* Whether nothing more will be read or written. */
bool weir__h2_is_over(const struct weir__h2 *session);

/* The streams, oldest first. NULL: the first. Returns NULL at the end. */
struct weir__h2_stream *weir__h2_next(struct weir__h2 *session, struct weir__h2_stream *stream);

/* The progress of the client, for deadlines. */
struct weir__h2_progress {
	int32_t incomplete; /* the oldest stream whose request is incomplete; 0: none */
	uint64_t sent;      /* bytes of bodies that were sent */
	bool is_blocked;    /* a body waits for a flow-control window */
	bool is_silent;     /* the client has sent no request yet */
	uint32_t under_way; /* streams whose request is complete, and the response is not */
};
void weir__h2_look(const struct weir__h2 *session, struct weir__h2_progress *ret_progress);

/* The budget that the client has exceeded. */
enum weir__h2_flood weir__h2_flood(const struct weir__h2 *session);

/* Whether too many bytes of responses are unsent to run more requests. */
bool weir__h2_is_full(const struct weir__h2 *session);

/* Bytes of memory that the session and its streams take. */
size_t weir__h2_bytes(const struct weir__h2 *session);

/* Error codes of HTTP/2 (RFC 9113, 7). */
enum {
	WEIR__H2_NO_ERROR = 0,
	WEIR__H2_INTERNAL_ERROR = 2,
	WEIR__H2_REFUSED_STREAM = 7,
	WEIR__H2_CANCEL = 8,
	WEIR__H2_ENHANCE_YOUR_CALM = 11,
};

#endif
