/* arena.h: memory for what does not fit a slot: chunks of 64 bytes, and a byte for each that tells whether it is taken.
 *
 * Taking a chunk is one swap of its byte, giving it back is one store: so a process that is killed can only ever leave a
 * chunk that is taken and that nothing refers to. The byte of a taken chunk tells roughly when it was taken; those that
 * were taken long ago and to which nothing refers are given back by a sweep, a little at a time. */
#ifndef WEIR_STORE_TABLE_ARENA_H
#define WEIR_STORE_TABLE_ARENA_H

#include <stdatomic.h>

#include "os/atomic16.h"

enum {
	WEIR__CHUNK_BYTES = 64,
	WEIR__CHUNK_PAIRS = 4,
	WEIR__CHUNK_WORDS = 8,
	WEIR__CHUNK_REFS = 16,
};

union weir__chunk {
	union weir__atomic16 pairs[WEIR__CHUNK_PAIRS];
	_Atomic uint64_t words[WEIR__CHUNK_WORDS];
	_Atomic uint32_t refs[WEIR__CHUNK_REFS];
} __attribute__((aligned(WEIR__CHUNK_BYTES)));

/* What a process knows of it. Chunks have numbers from 1 to n; 0 is none. */
struct weir__arena {
	_Atomic uint8_t *taken; /* by number - 1 */
	union weir__chunk *chunks;
	uint32_t n;
	weir_ns stamp_ns;             /* how long a stamp lasts */
	_Atomic uint32_t next;        /* where to look for a free one */
	_Atomic uint32_t given;       /* one that was just given back, perhaps */
	_Atomic uint32_t short_looks; /* so many more, before all is looked at again */
	_Atomic uint32_t takes;
};

/* So many fit in this many bytes. */
uint32_t weir__arena_chunks(size_t bytes);

/* The bytes that so many need. */
size_t weir__arena_bytes(uint64_t chunks);

/* Memory of `bytes`, aligned to a chunk. */
void weir__arena_init(struct weir__arena *arena, void *memory, size_t bytes);

/* NULL: there is none of this number. */
static inline union weir__chunk *weir__arena_chunk(const struct weir__arena *arena, uint32_t number)
{
	return number - 1 < arena->n ? &arena->chunks[number - 1] : NULL;
}

/* 0: it is full, as far as was looked. What the chunk holds is anything. Now is that of a clock that all who take share,
 * whatever times they decide for. */
uint32_t weir__arena_take(struct weir__arena *arena, weir_ns now);

void weir__arena_give(struct weir__arena *arena, uint32_t number);

/* Whether the chunk was taken so long before `since`, an hour, that whoever took it has put it to use, or never will. */
bool weir__arena_is_old(const struct weir__arena *arena, uint32_t number, weir_ns since);

/* Gives back one that is old, if it has not been given back and taken again meanwhile. */
bool weir__arena_reclaim(struct weir__arena *arena, uint32_t number, weir_ns since);

/* Whether so much time has passed that one may look again; and so much that what was taken since could seem old. */
bool weir__arena_is_next(const struct weir__arena *arena, weir_ns now, weir_ns since);
bool weir__arena_is_long_after(const struct weir__arena *arena, weir_ns now, weir_ns since);

/* Taken chunks. Reads a byte for each. */
uint32_t weir__arena_used(const struct weir__arena *arena);

#endif
