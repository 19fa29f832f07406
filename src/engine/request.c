/* request.c: moving requests to the heap, waiting, completion. */
#include "engine/request.h"

#include <stdlib.h>

#include "observe/counters.h"
#include "observe/tracer.h"

enum {
	ALIGNMENT = 16,
	PATH_MOST = 1024, /* bytes of a path kept for the log, which shows fewer */
	/* A moved request of usual size takes a block of this size, which is reused for the next one. With malloc,
	 * which has no quick list above 1 KiB, a request on Redis costs 6 % more instructions. */
	SPARE_BYTES = 4096,
};

static size_t align(size_t n)
{
	return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* --- moving ------------------------------------------------------------------------------------------------------ */

/* How much to copy when a request moves. */
struct extent {
	size_t keys_bytes, n_limits;
	size_t state_bytes, path_bytes;
	const struct weir__trace_context *trace_context;
};

/* A limit without a name is inline: it lives in the worker's cache and may be evicted. */
static bool is_inline(const struct weir_table_limit *limit)
{
	return limit && limit->name[0] == '\0';
}

/* Index of the first claim with the same limit; often that is the previous claim, so it is tried first. */
static uint32_t first_with_limit(const struct weir__request *request, uint32_t i)
{
	const struct weir_table_limit *const limit = request->claims[i].limit;
	uint32_t first = 0;

	if (i > 0 && request->claims[i - 1].limit == limit)
		return i - 1;
	while (request->claims[first].limit != limit)
		first++;
	return first;
}

static void measure(const struct weir__request *request, struct extent *extent)
{
	const struct weir__trace_context *const trace_context = weir__tracer_context(request->context->tracer);

	*extent = (struct extent){ .trace_context = trace_context };
	for (uint32_t i = 0; i < request->n_claims; i++) {
		extent->keys_bytes += request->claims[i].key_length;
		extent->n_limits += is_inline(request->claims[i].limit) && first_with_limit(request, i) == i;
	}
	if (trace_context == NULL)
		return;
	extent->state_bytes = trace_context->state && trace_context->state_length <= WEIR__TRACESTATE_MAX ?
				      trace_context->state_length :
				      0;
	extent->path_bytes = trace_context->path ? weir__min(trace_context->path_length, PATH_MOST) : 0;
}

static char *copy_trace_context(struct weir__request *moved, const struct extent *extent, char *to)
{
	struct weir__trace_context *const trace_context = (struct weir__trace_context *)(void *)to;

	*trace_context = *extent->trace_context;
	to += align(sizeof(*trace_context));
	if (trace_context->since == 0)
		trace_context->since = moved->store_request.now;
	if (extent->state_bytes > 0)
		trace_context->state = memcpy(to, trace_context->state, extent->state_bytes);
	else
		trace_context->state = NULL;
	to += extent->state_bytes;
	if (trace_context->path) {
		if (extent->path_bytes > 0)
			memcpy(to, trace_context->path, extent->path_bytes);
		trace_context->path = to;
		trace_context->path_length = extent->path_bytes;
	}
	moved->trace_context = trace_context;
	return to + extent->path_bytes;
}

/* Copies the claims with their inline limits and keys. */
static void copy_claims(struct weir__request *moved, const struct weir__request *request, char *to)
{
	for (uint32_t i = 0; i < request->n_claims; i++) {
		const uint32_t first = first_with_limit(request, i);

		moved->claims[i] = request->claims[i];
		if (!is_inline(request->claims[i].limit))
			continue;
		if (first < i) {
			moved->claims[i].limit = moved->claims[first].limit;
			continue;
		}
		moved->claims[i].limit = memcpy(to, request->claims[i].limit, sizeof(struct weir_table_limit));
		to += align(sizeof(struct weir_table_limit));
	}
	for (uint32_t i = 0; i < request->n_claims; i++) {
		if (moved->claims[i].key_length > 0)
			memcpy(to, request->claims[i].key, moved->claims[i].key_length);
		moved->claims[i].key = to;
		to += moved->claims[i].key_length;
	}
}

static struct weir__request *new_request(struct weir__context *context, size_t size)
{
	struct weir__request *request = context->spare_requests;
	const bool is_pooled = size <= SPARE_BYTES;

	if (is_pooled && request) {
		context->spare_requests = request->next;
		context->n_spare_requests--;
		return request;
	}
	return malloc(is_pooled ? SPARE_BYTES : size);
}

static void free_memory(struct weir__request *request)
{
	struct weir__context *const context = request->context;

	if (!request->is_pooled || context->n_spare_requests == WEIR__SPARE_REQUESTS_MAX) {
		free(request);
		return;
	}
	request->next = context->spare_requests;
	context->spare_requests = request;
	context->n_spare_requests++;
}

void weir__requests_free_spare(struct weir__context *context)
{
	while (context->spare_requests) {
		struct weir__request *const spare = context->spare_requests;

		context->spare_requests = spare->next;
		free(spare);
	}
	context->n_spare_requests = 0;
}

/* The limits need alignment, so they come before the keys. */
static struct weir__request *copy(const struct weir__request *request)
{
	const size_t size = align(request->size), claims = align(request->n_claims * sizeof(struct weir_claim));
	const size_t verdicts = align(request->n_claims * sizeof(struct weir_verdict));
	struct weir__request *moved;
	struct extent extent;
	size_t total;
	char *to;

	measure(request, &extent);
	total = size + claims + verdicts + extent.n_limits * align(sizeof(struct weir_table_limit)) +
		extent.keys_bytes + extent.state_bytes + extent.path_bytes +
		(extent.trace_context ? align(sizeof(struct weir__trace_context)) + ALIGNMENT : 0);
	moved = new_request(request->context, total);
	if (moved == NULL)
		return NULL;
	memcpy(moved, request, request->size);
	moved->is_pooled = total <= SPARE_BYTES;
	moved->bytes = (uint32_t)(total > SPARE_BYTES ? total : SPARE_BYTES);
	to = (char *)moved + size;
	moved->claims = (struct weir_claim *)(void *)to;
	moved->verdicts = (struct weir_verdict *)(void *)(to + claims);
	to += claims + verdicts;
	copy_claims(moved, request, to);
	if (request->n_claims > 0) /* a store may have completed an earlier store request at once */
		memcpy(moved->verdicts, request->verdicts, request->n_claims * sizeof(struct weir_verdict));
	if (extent.trace_context)
		(void)copy_trace_context(
			moved, &extent,
			to + align(extent.n_limits * align(sizeof(struct weir_table_limit)) + extent.keys_bytes));
	return moved;
}

static void count_in_flight(const struct weir__request *request, int32_t n)
{
	struct weir__context *const context = request->context;

	context->n_in_flight += (uint32_t)n;
	if (n > 0)
		context->in_flight_bytes += request->bytes;
	else
		context->in_flight_bytes -= request->bytes;
	if (context->counters)
		weir__counters_add(&context->counters->in_flight, n);
}

/* The memory of a stream's requests counts for its connection, too. */
static void add_bytes(struct weir__client *client, size_t n)
{
	client->queue_bytes += n;
	if (client->of)
		client->of->queue_bytes += n;
}

static void drop_bytes(struct weir__client *client, size_t n)
{
	client->queue_bytes -= n;
	if (client->of)
		client->of->queue_bytes -= n;
}

static void append(struct weir__client *client, struct weir__request *request)
{
	request->next = NULL;
	if (client->last)
		client->last->next = request;
	else
		client->first = request;
	client->last = request;
	client->n_in_flight++;
	client->n_unanswered += request->n_replies;
	add_bytes(client, request->bytes);
}

void weir__request_wait(struct weir__request *request)
{
	request->has_moved = true;
	request->is_pooled = false;
	request->bytes = request->size;
	count_in_flight(request, 1);
	append(request->client, request);
}

struct weir__request *weir__request_move(struct weir__request *request)
{
	struct weir__context *const context = request->context;
	const bool is_full = context->n_in_flight >= WEIR__IN_FLIGHT_MAX ||
			     context->in_flight_bytes >= WEIR__IN_FLIGHT_BYTES_MAX;
	struct weir__request *const moved = is_full ? NULL : copy(request);

	if (moved == NULL) {
		if (context->counters)
			weir__counters_add(&context->counters->overflows, 1);
		return NULL;
	}
	moved->has_moved = true;
	count_in_flight(moved, 1);
	if (moved->kind->moved)
		moved->kind->moved(moved);
	if (moved->done)
		moved->client = NULL; /* the larger request has the client */
	else if (moved->client)
		append(moved->client, moved);
	return moved;
}

/* --- the store --------------------------------------------------------------------------------------------------- */

static struct weir__store_request *keep(struct weir__store_request *store_request)
{
	struct weir__request *const request = (struct weir__request *)(void *)store_request;
	struct weir__request *moved;

	if (request->has_moved)
		return store_request;
	moved = weir__request_move(request);
	if (moved == NULL)
		return NULL;
	moved->store_request.claims = moved->claims + (store_request->claims - request->claims);
	moved->store_request.verdicts = moved->verdicts + (store_request->verdicts - request->verdicts);
	moved->store_request.hashes = NULL;
	moved->store_request.epoch_check = NULL;
	return &moved->store_request;
}

bool weir__request_submit_recorded(struct weir__request *request)
{
	struct weir__recorder_attributes attributes = { .n = 0 };

	if (request->kind->attributes)
		attributes = request->kind->attributes(request);
	return weir__recorder_submit(request->context->recorder, request->context->store, &request->store_request,
				     attributes);
}

static void complete(struct weir__store_request *store_request)
{
	struct weir__request *const request = (struct weir__request *)(void *)store_request;

	if (WEIR__UNLIKELY(weir__recorder_is_on(request->context->recorder)))
		weir__recorder_completed(request->context->recorder, store_request);
	if (request->kind->advance(request))
		weir__request_finish(request);
}

const struct weir__store_caller weir__request_caller = { keep, complete };

static void free_request(struct weir__request *request)
{
	if (request->kind->fini)
		request->kind->fini(request);
	free_memory(request);
}

void weir__request_finish(struct weir__request *request)
{
	struct weir__context *const context = request->context;

	count_in_flight(request, -1);
	request->is_done = true;
	if (request->done) {
		request->done(request);
		free_request(request);
	} else if (request->client == NULL) {
		free_request(request);
	} else if (request == request->client->first && context->ready) {
		context->ready(context->worker, request->client);
	}
}

/* --- the client -------------------------------------------------------------------------------------------------- */

void weir__request_free_first(struct weir__client *client)
{
	struct weir__request *const request = client->first;

	client->first = request->next;
	if (client->first == NULL)
		client->last = NULL;
	client->n_in_flight--;
	client->n_unanswered -= request->n_replies;
	drop_bytes(client, request->bytes);
	free_request(request);
}

void weir__requests_abandon(struct weir__client *client)
{
	struct weir__request *next = client->first;

	while (next) {
		struct weir__request *const request = next;

		next = request->next;
		request->client = NULL;
		drop_bytes(client, request->bytes);
		if (request->is_done) {
			free_request(request);
		} else if (request->kind->cancel && request->kind->cancel(request)) {
			count_in_flight(request, -1);
			free_request(request);
		}
	}
	client->first = client->last = NULL;
	client->n_in_flight = client->n_unanswered = 0;
}

/* --- prepared replies -------------------------------------------------------------------------------------------- */

struct ready_replies {
	struct weir__request request;
	size_t length;
	char bytes[];
};

static const struct weir__request_kind ready_kind = { .advance = NULL };

bool weir__request_add_replies(struct weir__context *context, struct weir__client *client, uint32_t n_replies,
			       const char *bytes, size_t n, void (*write)(struct weir__request *request, void *to))
{
	struct ready_replies *const replies = malloc(sizeof(*replies) + n);

	if (replies == NULL)
		return false;
	weir__request_init(&replies->request, sizeof(*replies), &ready_kind, context, client);
	replies->request.write = write;
	replies->request.n_claims = 0;
	replies->request.n_replies = n_replies;
	replies->request.has_moved = replies->request.is_done = true;
	replies->request.is_pooled = false;
	replies->request.bytes = (uint32_t)(sizeof(*replies) + n);
	replies->length = n;
	memcpy(replies->bytes, bytes, n);
	append(client, &replies->request);
	return true;
}

const char *weir__request_replies(const struct weir__request *request, size_t *ret_n)
{
	const struct ready_replies *const replies = (const struct ready_replies *)(const void *)request;

	*ret_n = replies->length;
	return replies->bytes;
}

/* --- tracing ----------------------------------------------------------------------------------------------------- */

void weir__request_swap_trace_context(struct weir__request *request)
{
	struct weir__trace_context *const trace_context = weir__tracer_context(request->context->tracer);
	struct weir__trace_context before;

	if (request->trace_context == NULL)
		return;
	before = *trace_context;
	*trace_context = *request->trace_context;
	*request->trace_context = before;
}
