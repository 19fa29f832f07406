/* request.h: a request, from decoding to the reply.
 *
 * A request lives on the stack of the handler that decoded it, as long as its store completes at once. If the store
 * completes it later, the request moves to the heap, with all that it needs, to the end of its client's queue. When it
 * is done, and earlier requests of the client have been written, its protocol writes the reply.
 *
 *     handler: decode -> weir__request_run -> true: write
 *                                          -> false: it has moved. The store completes it -> weir__request_kind.advance
 *                                             -> done -> context->ready -> write, in order
 *
 * Each kind of request is a struct that begins with struct weir__request, and a small state machine, `advance`.
 * The reasons are in docs/internals/road.md. */
#ifndef WEIR_ENGINE_REQUEST_H
#define WEIR_ENGINE_REQUEST_H

#include "engine/context.h"
#include "observe/recorder.h"

struct weir__trace_context;

/* Memory of requests that have moved, kept for the next ones of a worker. */
#if defined(__SANITIZE_ADDRESS__)
enum { WEIR__SPARE_REQUESTS_MAX = 0 }; /* so that a use after free is found */
#else
enum { WEIR__SPARE_REQUESTS_MAX = 64 };
#endif

struct weir__request_kind {
	/* Runs the next step, from the start or with the store's verdict. Returns true if the request is done. Returns
	 * false if it waits for the store again, and may have moved. */
	bool (*advance)(struct weir__request *request);

	/* Called after a move: fixes pointers into the request itself and into decoded input. May be NULL. */
	void (*moved)(struct weir__request *request);

	/* Called when the client disconnects before the request is done. Returns true if nothing will complete it, so
	 * that it can be freed. NULL: the store will complete it. */
	bool (*cancel)(struct weir__request *request);

	/* Frees what the request owns besides its own memory. May be NULL. */
	void (*fini)(struct weir__request *request);

	/* The attributes of the request, for a recording. NULL: it has none. */
	struct weir__recorder_attributes (*attributes)(const struct weir__request *request);
};

struct weir__request {
	struct weir__store_request store_request; /* must be first, so that it casts to the request */
	struct weir__request *next;               /* in its client's queue */
	struct weir__client *client; /* NULL: disconnected, or this is a part of a larger request and has moved */
	struct weir__context *context;
	const struct weir__request_kind *kind;
	/* Writes the reply in its protocol. `to` belongs to the protocol. */
	void (*write)(struct weir__request *request, void *to);
	/* For a part of a larger request, `whole`: called when this part is done. NULL: not a part. */
	void (*done)(struct weir__request *request);
	struct weir__request *whole;
	struct weir_claim *claims;     /* everything that it will submit */
	struct weir_verdict *verdicts; /* room for n_claims */
	uint32_t n_claims;
	uint32_t n_replies;                        /* 1, except for a group of requests */
	uint32_t size;                             /* of the struct that begins with this one */
	uint32_t bytes;                            /* once it has moved: of its memory */
	struct weir__trace_context *trace_context; /* once it has moved; NULL: tracing is off */
	bool has_moved, is_done;
	bool is_pooled;       /* once it has moved: its memory can serve the next request */
	bool is_barrier;      /* later requests wait until this one is written */
	uint8_t stage;        /* state of `advance`, defined by the kind */
	uint8_t form;         /* of the reply, defined by the protocol */
	uint16_t status;      /* HTTP: the status of a denial */
	bool says_keep_alive; /* HTTP: send Connection: keep-alive, for HTTP/1.0 */
	bool is_without_body;
};

/* The caller then sets claims, verdicts and n_claims, if the request has claims. */
static inline void weir__request_init(struct weir__request *request, size_t size, const struct weir__request_kind *kind,
				      struct weir__context *context, struct weir__client *client)
{
	request->client = client;
	request->context = context;
	request->kind = kind;
	request->done = NULL;
	request->n_replies = 1;
	request->size = (uint32_t)size;
	request->trace_context = NULL;
	request->has_moved = request->is_done = request->is_barrier = false;
	request->stage = 0;
}

/* Returns true if the request is done, in place. Returns false if it has moved and completes later. */
static inline bool weir__request_run(struct weir__request *request)
{
	return request->kind->advance(request);
}

extern const struct weir__store_caller weir__request_caller;

/* The same while decisions are recorded. */
bool weir__request_submit_recorded(struct weir__request *request);

/* Submits request->store_request. Returns true if the store has decided, false if the request has moved. */
static inline bool weir__request_submit(struct weir__request *request)
{
	request->store_request.caller = &weir__request_caller;
	if (WEIR__UNLIKELY(
		    request->has_moved)) /* time has passed since the first submit, and other requests were decided */
		request->store_request.now = weir_table_now(request->context->table);
	if (WEIR__UNLIKELY(weir__recorder_is_on(request->context->recorder)))
		return weir__request_submit_recorded(request);
	return weir__store_submit(request->context->store, &request->store_request);
}

/* Moves to the heap a request that waits for something other than the store. Returns NULL if memory runs out, or if
 * WEIR__IN_FLIGHT_MAX requests, or WEIR__IN_FLIGHT_BYTES_MAX of them, are in flight. */
struct weir__request *weir__request_move(struct weir__request *request);

/* Appends a request that was allocated on the heap to its client's queue. It completes later. */
void weir__request_wait(struct weir__request *request);

/* Marks a moved request as done. */
void weir__request_finish(struct weir__request *request);

/* Frees the client's first request, which is done and written. */
void weir__request_free_first(struct weir__client *client);

/* Call it when the client disconnects. Its requests are cancelled, or complete without it. */
void weir__requests_abandon(struct weir__client *client);

/* Call it at the end of a worker. */
void weir__requests_free_spare(struct weir__context *context);

/* Queues finished replies behind those of earlier requests. `write` gets them by weir__request_replies. Returns false
 * if memory runs out. */
bool weir__request_add_replies(struct weir__context *context, struct weir__client *client, uint32_t n_replies,
			       const char *bytes, size_t n, void (*write)(struct weir__request *request, void *to));
const char *weir__request_replies(const struct weir__request *request, size_t *ret_n);

/* Swaps a moved request's trace context with the worker's. Call it before and after observing the request. */
void weir__request_swap_trace_context(struct weir__request *request);

/* The instant of a decision, for counting: when it was submitted, or now if the store completed it later. */
static inline weir_ns weir__request_decided_at(const struct weir__request *request)
{
	return WEIR__LIKELY(!request->has_moved) ? request->store_request.now : weir_table_now(request->context->table);
}

#endif
