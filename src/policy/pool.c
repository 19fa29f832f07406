/* pool.c: allocates from the last block, or from a new one if the request does not fit there. */
#include "policy/pool.h"

#include <stdint.h>
#include <stdlib.h>

#include "os/memory.h"

/* A large policy has large blocks on huge pages. Otherwise a request that reads ten places of it would have as many TLB
 * misses. */
enum { BLOCK = 64 * 1024, BLOCK_MOST = 32 << 20, HUGE_BLOCK = 2 << 20, ALIGNED = 16 };

struct weir__pool_block {
	struct weir__pool_block *before;
	size_t used, size;
	_Alignas(ALIGNED) unsigned char bytes[];
};

/* Returns the size of a new block with room for `bytes`, header included. Blocks of a quarter of the pool bound the
 * memory that stays unused. */
static size_t size_of_block(const struct weir__pool *pool, size_t bytes)
{
	const size_t wanted = pool->used / 4 < BLOCK_MOST ? pool->used / 4 : BLOCK_MOST;
	const size_t usual = wanted < BLOCK || !pool->is_looked_up ? BLOCK : wanted;
	const size_t all = sizeof(struct weir__pool_block) + (bytes > usual / 4 ? bytes : usual);

	return all < HUGE_BLOCK || !pool->is_looked_up ? all : (all + HUGE_BLOCK - 1) / HUGE_BLOCK * HUGE_BLOCK;
}

static struct weir__pool_block *add_block(struct weir__pool *pool, size_t bytes)
{
	const size_t all = size_of_block(pool, bytes);
	struct weir__pool_block *block;
	void *memory;

	if (all > pool->most - pool->used)
		return NULL;
	if (all < HUGE_BLOCK || !pool->is_looked_up)
		memory = calloc(1, all);
	else if (weir__memory_new(all, &memory) != 0)
		memory = NULL;
	block = memory;
	if (block == NULL)
		return NULL;
	block->size = all - sizeof(struct weir__pool_block);
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

static size_t to_next_line(const void *memory)
{
	return (WEIR__POOL_LINE - (uintptr_t)memory % WEIR__POOL_LINE) % WEIR__POOL_LINE;
}

void *weir__pool_take_lines(struct weir__pool *pool, size_t n, size_t bytes)
{
	const struct weir__pool_block *const block = pool->blocks;
	const size_t gap = block ? to_next_line(block->bytes + block->used) : 0;
	size_t all;
	char *taken;

	if (__builtin_mul_overflow(n, bytes, &all) || __builtin_add_overflow(all, WEIR__POOL_LINE, &all))
		return NULL;
	all -= WEIR__POOL_LINE;
	if (block && gap + all <= block->size - block->used)
		taken = weir__pool_take(pool, gap + all);
	else
		taken = weir__pool_take(pool, all + WEIR__POOL_LINE); /* from a new block, whose alignment is unknown */
	return taken ? taken + to_next_line(taken) : NULL;
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
		if (block->size + sizeof(*block) < HUGE_BLOCK || !pool->is_looked_up)
			free(block);
		else
			weir__memory_free(block, block->size + sizeof(*block));
	}
	pool->used = 0;
}
