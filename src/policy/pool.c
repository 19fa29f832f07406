/* pool.c: blocks, each larger than what does not fit the last. */
#include "policy/pool.h"

#include <stdlib.h>

enum { BLOCK = 64 * 1024, ALIGNED = 16 };

struct weir__pool_block {
	struct weir__pool_block *before;
	size_t used, size;
	_Alignas(ALIGNED) unsigned char bytes[];
};

static struct weir__pool_block *add_block(struct weir__pool *pool, size_t bytes)
{
	const size_t size = bytes > BLOCK / 4 ? bytes : BLOCK, all = sizeof(struct weir__pool_block) + size;
	struct weir__pool_block *block;

	if (all > pool->most - pool->used)
		return NULL;
	block = calloc(1, all);
	if (block == NULL)
		return NULL;
	block->size = size;
	block->before = pool->blocks;
	pool->blocks = block;
	pool->used += all;
	return block;
}

void *weir__pool_take(struct weir__pool *pool, size_t bytes)
{
	const size_t rounded = (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
	struct weir__pool_block *block = pool->blocks;
	void *taken;

	if (rounded < bytes || rounded > pool->most)
		return NULL;
	if (block == NULL || rounded > block->size - block->used)
		block = add_block(pool, rounded);
	if (block == NULL)
		return NULL;
	taken = block->bytes + block->used;
	block->used += rounded;
	return taken;
}

void *weir__pool_take_array(struct weir__pool *pool, size_t n, size_t bytes)
{
	size_t all;

	return __builtin_mul_overflow(n, bytes, &all) ? NULL : weir__pool_take(pool, all);
}

struct weir__slice weir__pool_copy(struct weir__pool *pool, struct weir__slice text)
{
	char *const copy = weir__pool_take(pool, text.n + 1);

	if (copy && text.n > 0)
		memcpy(copy, text.at, text.n);
	return (struct weir__slice){ copy, text.n };
}

void weir__pool_free(struct weir__pool *pool)
{
	while (pool->blocks) {
		struct weir__pool_block *const block = pool->blocks;

		pool->blocks = block->before;
		free(block);
	}
	pool->used = 0;
}
