/* request.h: a request from when it was decoded until it is answered.
 *
 * A request lives on the stack of the handler that decoded it as long as its store completes at once. A store that completes it
 * later makes it move, with all that it needs, to memory of its own, behind the other requests of its client; when it is done,
 * and those before it are answered, its protocol writes the reply.
 *
 *     handler: decode -> weir__request_run -> true: write
 *                                          -> false: it has moved. The store completes it -> weir__request_kind.advance
 *                                             -> done -> context->ready -> write, in order
 *
 * Each kind of request is a struct that begins with this one, and a small state machine: `advance`. */
#ifndef WEIR_ENGINE_REQUEST_H
#define WEIR_ENGINE_REQUEST_H

#include "engine/context.h"

struct weir__trace_context;

struct weir__request_kind {
	/* Goes on, from the beginning or with what the store has decided. True: it is done. False: it waits for the store again;
	 * then it may have moved. */
	bool (*advance)(struct weir__request *request);

	/* It has moved to memory of its own: mends pointers into itself, and into what was decoded. May be NULL. */
	void (*moved)(struct weir__request *request);

	/* Its client has gone before it was done. True: nothing will complete it, so it is freed. NULL: the store does. */
	bool (*cancel)(struct weir__request *request);

	/* Frees what it owns beside its memory. May be NULL. */
	void (*fini)(struct weir__request *request);
};

struct weir__request {
	struct weir__store_request store_request; /* the first: so it leads here. What the store is asked */
	struct weir__request *next;               /* behind it, of its client */
	struct weir__client *client; /* NULL: it has gone, or the request is a part of a larger one that has moved */
	struct weir__context *context;
	const struct weir__request_kind *kind;
	/* Writes the reply, as its protocol does: `to` is the protocol's. */
	void (*write)(struct weir__request *request, void *to);
	/* Of a part of a larger request, which is told when this one is done; NULL: it is none. */
	void (*done)(struct weir__request *request);
	struct weir__request *whole;
	struct weir_claim *claims;     /* all that it will ask about, */
	struct weir_verdict *verdicts; /* with as many verdicts */
	uint32_t n_claims;
	uint32_t n_replies;                        /* 1, but of a group */
	uint32_t size;                             /* of the struct that begins with this one */
	struct weir__trace_context *trace_context; /* trace context, once it has moved; NULL: none is wanted */
	bool has_moved, is_done;
	bool is_barrier;      /* requests behind it wait until it is answered */
	uint8_t stage;        /* of its kind */
	uint8_t form;         /* of its protocol: how the reply looks */
	uint16_t status;      /* of HTTP: of a denial */
	bool says_keep_alive; /* of HTTP: how the reply begins */
	bool is_without_body;
};

/* Begins one. The caller sets claims, verdicts and n_claims, if it has any. */
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

/* Runs it. True: it is done, and lies where it lay. False: it is answered later, and has moved. */
static inline bool weir__request_run(struct weir__request *request)
{
	return request->kind->advance(request);
}

extern const struct weir__store_caller weir__request_caller;

/* Asks the store, as request->asked says. True: it has decided. False: it has moved. */
static inline bool weir__request_submit(struct weir__request *request)
{
	request->store_request.caller = &weir__request_caller;
	if (WEIR__UNLIKELY(
		    request->has_moved)) /* its first question was some time ago, and others were decided since */
		request->store_request.now = weir_table_now(request->context->table);
	return weir__store_submit(request->context->store, &request->store_request);
}

/* Moves a request that waits for something else than the store to memory of its own. NULL: no memory, or too many are under
 * way. */
struct weir__request *weir__request_move(struct weir__request *request);

/* A request that was made in memory of its own is answered later. */
void weir__request_wait(struct weir__request *request);

/* A request that has moved is done. */
void weir__request_finish(struct weir__request *request);

/* One that is done, has been written and is the first of its client. */
void weir__request_free_first(struct weir__client *client);

/* The client goes: its requests complete without it, or are cancelled. */
void weir__requests_abandon(struct weir__client *client);

/* Replies that are sent when those before them have been: `write` finds them by weir__request_replies. False: no memory. */
bool weir__request_add_replies(struct weir__context *context, struct weir__client *client, uint32_t n_replies,
			       const char *bytes, size_t n, void (*write)(struct weir__request *request, void *to));
const char *weir__request_replies(const struct weir__request *request, size_t *ret_n);

/* Swaps the trace context of a request that has moved with that of the worker: before it is observed, and after. */
void weir__request_swap_trace_context(struct weir__request *request);

/* The instant of a decision, for counting: that at which it was asked for, or now if the store replied later. */
static inline weir_ns weir__request_decided_at(const struct weir__request *request)
{
	return WEIR__LIKELY(!request->has_moved) ? request->store_request.now : weir_table_now(request->context->table);
}

#endif
