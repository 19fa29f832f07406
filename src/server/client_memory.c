/* client_memory.c: rings of clients by powers of two. */
#include "server/client_memory.h"

enum { EVICTED = WEIR__CLIENT_MEMORY_RINGS };

/* The number of bits of `bytes`: 0 for 0, 1 for 1, 2 for 2 and 3. */
static unsigned ring_of(size_t bytes)
{
	return bytes == 0 ? 0 : 64 - (unsigned)__builtin_clzll(bytes);
}

void weir__client_memory_init(struct weir__client_memory *memory)
{
	memory->total = 0;
	memory->n_evicted = 0;
	memory->rings_used = 0;
	for (size_t i = 0; i <= EVICTED; i++)
		memory->rings[i].next = memory->rings[i].previous = &memory->rings[i];
}

static void leave_ring(struct weir__memory_use *use)
{
	if (use->next == NULL)
		return;
	use->next->previous = use->previous;
	use->previous->next = use->next;
	use->next = use->previous = NULL;
}

static void join_ring(struct weir__memory_use *ring, struct weir__memory_use *use)
{
	use->next = ring;
	use->previous = ring->previous;
	use->next->previous = use;
	use->previous->next = use;
}

void weir__client_memory_set(struct weir__client_memory *memory, struct weir__memory_use *use, size_t bytes)
{
	const unsigned before = ring_of(use->bytes), now = ring_of(bytes);

	memory->total += bytes - use->bytes;
	use->bytes = bytes;
	if (now == before)
		return;
	leave_ring(use);
	if (before > 0 && memory->rings[before].next == &memory->rings[before])
		memory->rings_used &= ~(UINT64_C(1) << (before - 1));
	if (now == 0)
		return;
	join_ring(&memory->rings[now], use);
	memory->rings_used |= UINT64_C(1) << (now - 1);
}

struct weir__memory_use *weir__client_memory_largest(struct weir__client_memory *memory)
{
	return memory->rings_used == 0 ? NULL : memory->rings[ring_of((size_t)memory->rings_used)].next;
}

void weir__client_memory_evict(struct weir__client_memory *memory, struct weir__memory_use *use)
{
	weir__client_memory_set(memory, use, 0);
	join_ring(&memory->rings[EVICTED], use);
	use->is_evicted = true;
	memory->n_evicted++;
}

struct weir__memory_use *weir__client_memory_evicted(struct weir__client_memory *memory)
{
	struct weir__memory_use *const ring = &memory->rings[EVICTED];

	return ring->next == ring ? NULL : ring->next;
}

void weir__client_memory_leave(struct weir__client_memory *memory, struct weir__memory_use *use)
{
	weir__client_memory_set(memory, use, 0);
	leave_ring(use);
	memory->n_evicted -= use->is_evicted;
}
