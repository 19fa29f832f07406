/* client_memory.h: the memory that the clients of one worker take, and which of them takes most.
 *
 * Clients are in a ring for each power of two of bytes, so a change takes constant time, and the largest client is
 * found within a factor of two. A client that takes nothing is in no ring. No locks: only the worker's thread calls
 * this. The reasons are in docs/internals/server.md. */
#ifndef WEIR_SERVER_CLIENT_MEMORY_H
#define WEIR_SERVER_CLIENT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR__CLIENT_MEMORY_RINGS = 65 };

/* Of one client. All zero: it takes nothing. */
struct weir__memory_use {
	struct weir__memory_use *next, *previous; /* NULL: in no ring */
	size_t bytes;
	bool is_evicted; /* in the ring of evicted clients, until it leaves */
};

struct weir__client_memory {
	size_t total;
	uint32_t n_evicted;
	uint64_t rings_used;                                          /* bit i: ring i + 1 has clients */
	struct weir__memory_use rings[WEIR__CLIENT_MEMORY_RINGS + 1]; /* ring i: below 2^i bytes; the last: evicted */
};

void weir__client_memory_init(struct weir__client_memory *memory);

/* Sets the bytes that the client takes now. Not for evicted clients. */
void weir__client_memory_set(struct weir__client_memory *memory, struct weir__memory_use *use, size_t bytes);

/* Returns a client of the highest ring. NULL: no client takes memory. */
struct weir__memory_use *weir__client_memory_largest(struct weir__client_memory *memory);

/* Call it when the client has given up its memory, and waits to be closed. */
void weir__client_memory_evict(struct weir__client_memory *memory, struct weir__memory_use *use);

/* Returns the client that was evicted first. NULL: none. */
struct weir__memory_use *weir__client_memory_evicted(struct weir__client_memory *memory);

/* Call it when the client is closed. */
void weir__client_memory_leave(struct weir__client_memory *memory, struct weir__memory_use *use);

#endif
