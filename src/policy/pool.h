/* pool.h: memory that is freed all at once, up to a bound. The data of a configuration lives in one pool. */
#ifndef WEIR_POLICY_POOL_H
#define WEIR_POLICY_POOL_H

#include "policy/slice.h"

struct weir__pool_block;

struct weir__pool {
	struct weir__pool_block *blocks;
	size_t used, most; /* bytes, with the headers of blocks */
	bool is_looked_up; /* read at random places for a long time: large blocks are on huge pages */
};

static inline struct weir__pool weir__pool_of(size_t most)
{
	return (struct weir__pool){ NULL, 0, most, false };
}

/* Zeroed, aligned for any type. NULL: no memory, or the bound is reached. */
void *weir__pool_take(struct weir__pool *pool, size_t bytes);

/* An array of n elements. */
void *weir__pool_take_array(struct weir__pool *pool, size_t n, size_t bytes);

/* The same, aligned to a cache line. If the element size divides the line size, no element crosses a line. */
enum { WEIR__POOL_LINE = 64 };
void *weir__pool_take_lines(struct weir__pool *pool, size_t n, size_t bytes);

/* A copy, followed by a NUL. .at is NULL if memory runs out. */
struct weir__slice weir__pool_copy(struct weir__pool *pool, struct weir__slice text);

void weir__pool_free(struct weir__pool *pool);

#endif
