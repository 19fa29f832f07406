/* simulated_network.h: connections for simulations. Bytes arrive in order, later, and in other pieces than they were
 * sent; or, from some point on, not at all. */
#ifndef WEIR_TESTS_SIMULATED_NETWORK_H
#define WEIR_TESTS_SIMULATED_NETWORK_H

#include "simulated_redis.h"
#include "store/redis/redis_random.h"

enum {
	SIM_CHUNKS = 32,
	SIM_CONNECTIONS = 96,
	SIM_NODES = 3,
	SIM_LINKS = 4,
	SIM_SENTINEL = SIM_SERVERS,
	SIM_HOSTS = SIM_SERVERS + 2
};

#define SIM_US UINT64_C(1000)
#define SIM_MS UINT64_C(1000000)

/* Bytes on their way in one direction. */
struct sim_pipe {
	char *bytes;
	size_t size, from, length;
	struct {
		weir_ns at;
		size_t n;
	} chunks[SIM_CHUNKS]; /* a ring */
	uint32_t first, n;
	weir_ns last; /* when the last one arrives */
	bool is_dead; /* nothing arrives any more */
};

struct sim_connection {
	bool is_used, is_open;
	bool has_client, has_server; /* which side has not closed it */
	uint32_t node, link, host;
	weir_ns opens_at, lost_at; /* when the client is told */
	const char *why;
	struct sim_pipe to_server, to_client;
	char *input; /* of the server: what is not executed yet */
	size_t input_size, input_length;
	int protocol;
	bool is_subscribed;
};

static struct sim_connection sim_connections[SIM_CONNECTIONS];
static struct sim_connection *sim_ends[SIM_NODES][SIM_LINKS]; /* of clients; NULL: closed */

static void sim_reserve(char **bytes, size_t *size, size_t needed)
{
	if (needed <= *size)
		return;
	*size = 2 * needed;
	*bytes = realloc(*bytes, *size);
	if (*bytes == NULL)
		sim_abort("no memory");
}

static void sim_pipe_reset(struct sim_pipe *pipe)
{
	pipe->from = pipe->length = pipe->first = pipe->n = 0;
	pipe->last = 0;
	pipe->is_dead = false;
}

static weir_ns sim_pipe_next(const struct sim_pipe *pipe)
{
	return pipe->n > 0 ? pipe->chunks[pipe->first].at : WEIR_NEVER;
}

/* Adds a chunk that arrives at this time, or with the last one if that is later or the ring is full. */
static void sim_pipe_chunk(struct sim_pipe *pipe, size_t n, weir_ns at)
{
	if (pipe->n == SIM_CHUNKS) {
		pipe->chunks[(pipe->first + pipe->n - 1) % SIM_CHUNKS].n += n;
		return;
	}
	pipe->last = at > pipe->last ? at : pipe->last;
	pipe->chunks[(pipe->first + pipe->n) % SIM_CHUNKS].at = pipe->last;
	pipe->chunks[(pipe->first + pipe->n++) % SIM_CHUNKS].n = n;
}

static void sim_pipe_put(struct sim_pipe *pipe, const char *bytes, size_t n, weir_ns at, uint64_t *seed)
{
	size_t cut;

	if (pipe->is_dead || n == 0)
		return;
	if (pipe->n == 0)
		pipe->from = pipe->length = 0;
	sim_reserve(&pipe->bytes, &pipe->size, pipe->from + pipe->length + n);
	memcpy(pipe->bytes + pipe->from + pipe->length, bytes, n);
	pipe->length += n;
	cut = weir__redis_random(seed) % 4 == 0 ? weir__redis_random(seed) % n : 0;
	if (cut > 0)
		sim_pipe_chunk(pipe, cut, at);
	sim_pipe_chunk(pipe, n - cut, cut > 0 ? at + weir__redis_random(seed) % (200 * SIM_US) : at);
}

/* The chunk that has arrived. It is valid until the next put. */
static struct weir__resp_slice sim_pipe_take(struct sim_pipe *pipe)
{
	const size_t n = pipe->chunks[pipe->first].n;
	const struct weir__resp_slice chunk = { pipe->bytes + pipe->from, n };

	pipe->from += n;
	pipe->length -= n;
	pipe->first = (pipe->first + 1) % SIM_CHUNKS;
	pipe->n--;
	return chunk;
}

static struct sim_connection *sim_connect(uint32_t node, uint32_t link, uint32_t host)
{
	for (size_t i = 0; i < SIM_CONNECTIONS; i++) {
		struct sim_connection *const connection = &sim_connections[i];

		if (connection->is_used)
			continue;
		connection->is_used = connection->has_client = connection->has_server = true;
		connection->is_open = connection->is_subscribed = false;
		connection->node = node;
		connection->link = link;
		connection->host = host;
		connection->opens_at = connection->lost_at = WEIR_NEVER;
		connection->input_length = 0;
		connection->protocol = 2;
		sim_pipe_reset(&connection->to_server);
		sim_pipe_reset(&connection->to_client);
		sim_ends[node][link] = connection;
		return connection;
	}
	sim_abort("more connections than can be");
	return NULL;
}

/* The client closes. What it has sent may still arrive and be executed. */
static void sim_close(struct sim_connection *connection)
{
	sim_ends[connection->node][connection->link] = NULL;
	connection->has_client = false;
	connection->opens_at = connection->lost_at = WEIR_NEVER;
	sim_pipe_reset(&connection->to_client);
	connection->to_client.is_dead = true;
}

/* The server closes and drops what it has not executed. The client learns of it after the pending replies, or loses
 * them. */
static void sim_cut(struct sim_connection *connection, const char *why, weir_ns at, bool loses_answers)
{
	if (loses_answers)
		sim_pipe_reset(&connection->to_client);
	connection->has_server = false;
	connection->input_length = 0;
	sim_pipe_reset(&connection->to_server);
	connection->to_server.is_dead = true;
	connection->opens_at = WEIR_NEVER;
	connection->lost_at = at > connection->to_client.last ? at : connection->to_client.last;
	connection->why = why;
}

static void sim_sweep(struct sim_connection *connection)
{
	if (!connection->has_client && (connection->to_server.n == 0 || connection->to_server.is_dead) &&
	    connection->input_length == 0)
		connection->is_used = false;
}

#endif
