/* worker_memory.c: bounds the memory of all connections of a worker together.
 *
 * Half of client_memory is free to use. Above that half, back-pressure begins: a client with more than a few unread
 * replies gets no more until it reads. Above client_memory, the largest clients are closed, as by maxmemory-clients of
 * Redis. */
#include <inttypes.h>
#include <stdio.h>

#include "observe/log.h"
#include "os/net.h"
#include "server/connection.h"

enum { SHORT_OUTPUT = 64 * 1024 /* the mark of buffered replies while memory is short */ };

static struct weir__connection *connection_of(struct weir__memory_use *use)
{
	return (struct weir__connection *)(void *)((char *)use - offsetof(struct weir__connection, memory));
}

static void tell(struct weir__worker *worker, size_t bytes)
{
	const struct weir__worker_options *const options = &worker->options;
	char before[64] = "";
	uint64_t left_out;

	weir__worker_count_closed(worker, WEIR__CLOSED_MEMORY);
	if (worker->context.counters == NULL ||
	    !weir__counters_set_may_log(options->counters_set, WEIR__COUNTERS_LINE_MEMORY, &left_out))
		return;
	if (left_out > 0)
		(void)snprintf(before, sizeof(before), "; %" PRIu64 " more since the last line like this", left_out);
	weir__log_say(
		options->log, WEIR__LOG_WARNING,
		"client_memory: the clients of a worker used more than %zu bytes; closed one of the largest, with %zu "
		"bytes%s",
		options->client_memory, bytes, before);
}

/* The memory is freed at once. The connection stays until the loop has no more events for it. */
static void evict(struct weir__worker *worker, struct weir__connection *connection)
{
	tell(worker, connection->memory.bytes);
	weir__client_memory_evict(&worker->memory, &connection->memory);
	weir__worker_request_complete(connection);
	weir__worker_drop_buffers(connection);
	weir__worker_drop_tls(connection);
	weir__net_discard_at_close(connection->socket);
}

bool weir__worker_set_memory(struct weir__worker *worker, struct weir__connection *connection, size_t bytes)
{
	struct weir__client_memory *const memory = &worker->memory;
	const size_t most = worker->options.client_memory;
	bool stays = true;

	if (connection->memory.is_evicted)
		return false;
	weir__client_memory_set(memory, &connection->memory, bytes);
	while (stays && memory->total > most) {
		struct weir__connection *const largest = connection_of(weir__client_memory_largest(memory));

		stays = largest != connection;
		if (stays)
			evict(worker, largest);
	}
	if (!stays) {
		tell(worker, bytes);
		weir__net_discard_at_close(connection->socket);
		connection->lingers = false;
	} else if (connection->unread.n + connection->protocol_bytes > WEIR__UNAUTHENTICATED_INPUT &&
		   weir__client_is_unauthenticated(&worker->context, &connection->client)) {
		weir__worker_count_closed(worker, WEIR__CLOSED_UNAUTHENTICATED);
		stays = false;
	}
	worker->output_mark = memory->total > most / 2 ? (size_t)weir__min(SHORT_OUTPUT, worker->options.output_max) :
							 worker->options.output_max;
	if (worker->context.counters)
		atomic_store_explicit(&worker->context.counters->client_bytes, memory->total, memory_order_relaxed);
	return stays;
}

void weir__worker_forget_memory(struct weir__worker *worker, struct weir__connection *connection)
{
	if (connection->memory.bytes > 0)
		(void)weir__worker_set_memory(worker, connection, 0);
	weir__client_memory_leave(&worker->memory, &connection->memory);
}

void weir__worker_close_evicted(struct weir__worker *worker)
{
	struct weir__memory_use *use;

	while ((use = weir__client_memory_evicted(&worker->memory)) != NULL)
		weir__worker_close(worker, connection_of(use));
}

void weir__worker_leave_unauthenticated(struct weir__worker *worker, struct weir__connection *connection)
{
	weir__worker_count_closed(worker, WEIR__CLOSED_UNAUTHENTICATED);
	connection->client.is_leaving = connection->lingers = true;
}
