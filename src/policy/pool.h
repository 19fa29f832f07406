/* pool.h: memory that is given back all at once, up to a bound. What is made of a configuration lives in one. */
#ifndef WEIR_POLICY_POOL_H
#define WEIR_POLICY_POOL_H

#include "policy/slice.h"

struct weir__pool_block;

struct weir__pool {
	struct weir__pool_block *blocks;
	size_t used, most; /* bytes, with what blocks themselves take */
	bool is_looked_up; /* at random places, and for long: then large blocks are on huge pages */
};

static inline struct weir__pool weir__pool_of(size_t most)
{
	return (struct weir__pool){ NULL, 0, most, false };
}

/* Zeroed, aligned for anything. NULL: no memory, or the bound is reached. */
void *weir__pool_take(struct weir__pool *pool, size_t bytes);

/* n of so many bytes each. */
void *weir__pool_take_array(struct weir__pool *pool, size_t n, size_t bytes);

/* The same, from the beginning of a line of the cache: if as many fit one, none lies in two. */
enum { WEIR__POOL_LINE = 64 };
void *weir__pool_take_lines(struct weir__pool *pool, size_t n, size_t bytes);

/* A copy, with a NUL behind it. .at is NULL if there is no memory. */
struct weir__slice weir__pool_copy(struct weir__pool *pool, struct weir__slice text);

void weir__pool_free(struct weir__pool *pool);

#endif
