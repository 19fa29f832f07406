/* arena.h: memory for what does not fit a slot, in chunks of 64 bytes, with one byte per chunk that says whether it is
 * taken.
 *
 * Taking a chunk is one swap of its byte, and giving it back is one store. So a killed process leaves at most a taken
 * chunk that nothing refers to. The byte of a taken chunk holds a stamp of roughly when it was taken. A sweep, a little
 * at a time, gives back chunks that were taken long ago and that nothing refers to. */
#ifndef WEIR_STORE_TABLE_ARENA_H
#define WEIR_STORE_TABLE_ARENA_H

#include <stdatomic.h>

#include "os/atomic16.h"

enum {
	WEIR__CHUNK_BYTES = 64,
	WEIR__CHUNK_PAIRS = 4,
	WEIR__CHUNK_WORDS = 8,
	WEIR__CHUNK_REFS = 16,
	WEIR__CHUNKS_MOST = (1 << 27) - 1, /* a slot has 27 bits for the number of a root */
};

union weir__chunk {
	union weir__atomic16 pairs[WEIR__CHUNK_PAIRS];
	_Atomic uint64_t words[WEIR__CHUNK_WORDS];
	_Atomic uint32_t refs[WEIR__CHUNK_REFS];
} __attribute__((aligned(WEIR__CHUNK_BYTES)));

/* The arena as a process sees it. Chunks are numbered from 1 to n; 0 means no chunk. */
struct weir__arena {
	_Atomic uint8_t *taken; /* indexed by number - 1 */
	union weir__chunk *chunks;
	uint32_t n;
	weir_ns stamp_ns;             /* how long a stamp lasts */
	_Atomic uint32_t next;        /* where to search for a free chunk */
	_Atomic uint32_t given;       /* a chunk that was just given back and may still be free; 0: none */
	_Atomic uint32_t short_looks; /* short searches left before the next full one */
	_Atomic uint32_t takes;
};

/* How many chunks fit in this many bytes. */
uint32_t weir__arena_chunks(size_t bytes);

/* How many bytes this many chunks need. */
size_t weir__arena_bytes(uint64_t chunks);

/* The memory has `bytes` bytes and is aligned to a chunk. */
void weir__arena_init(struct weir__arena *arena, void *memory, size_t bytes);

/* NULL: no chunk has this number. */
static inline union weir__chunk *weir__arena_chunk(const struct weir__arena *arena, uint32_t number)
{
	return number - 1 < arena->n ? &arena->chunks[number - 1] : NULL;
}

/* Takes a chunk, whose contents are undefined. Returns 0 if the part of the arena that was searched is full. `now`
 * comes from one clock that all callers share, whatever times they decide for. */
uint32_t weir__arena_take(struct weir__arena *arena, weir_ns now);

/* Takes up to n chunks, usually adjacent ones. Returns their number. */
uint32_t weir__arena_take_some(struct weir__arena *arena, weir_ns now, uint32_t *numbers, uint32_t n);

void weir__arena_give(struct weir__arena *arena, uint32_t number);

/* Whether the chunk was taken an hour or more before `since`. The thread that took it has put it to use by then, or was
 * killed. */
bool weir__arena_is_old(const struct weir__arena *arena, uint32_t number, weir_ns since);

/* Gives back an old chunk. Returns false if the chunk is not old, or was given back or taken again meanwhile. */
bool weir__arena_reclaim(struct weir__arena *arena, uint32_t number, weir_ns since);

/* weir__arena_is_next: enough time has passed since `since` to begin another sweep. weir__arena_is_long_after: so much
 * has passed that chunks taken since then could seem old. */
bool weir__arena_is_next(const struct weir__arena *arena, weir_ns now, weir_ns since);
bool weir__arena_is_long_after(const struct weir__arena *arena, weir_ns now, weir_ns since);

/* The number of taken chunks. Reads a byte for each chunk. */
uint32_t weir__arena_used(const struct weir__arena *arena);

#endif
