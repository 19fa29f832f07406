/* arena.c: takes chunks, gives them back and reclaims lost ones. */
#include "store/table/arena.h"

#include "core/wide.h"

enum {
	SHORT_LOOKS = 1024, /* after one full search that found nothing */
	SHORT_LOOK = 4096,
	STAMPS = 255,    /* 1 to 255 */
	STAMPS_OLD = 56, /* an hour: an older chunk has been put to use or was lost */
	STAMPS_LONG = 30,
	STAMPS_APART = 2,
	STAMPS_NEW = 200, /* an age this large means newer, since stamps wrap around */
};

/* How long a stamp lasts, unless a test sets another duration. */
static const weir_ns stamp_ns_default = UINT64_C(64000000000);

uint32_t weir__arena_chunks(size_t bytes)
{
	const size_t chunks = bytes / (WEIR__CHUNK_BYTES + 1);

	/* one less, since the bytes in front are rounded up to a chunk */
	return chunks <= 1 ? 0 : (uint32_t)weir__min(chunks - 1, WEIR__CHUNKS_MOST);
}

size_t weir__arena_bytes(uint64_t chunks)
{
	/* Adds some spare chunks, since a free chunk is hard to find when almost all are taken. */
	return (chunks + chunks / 32 + 64) * (WEIR__CHUNK_BYTES + 1);
}

void weir__arena_init(struct weir__arena *arena, void *memory, size_t bytes)
{
	const uint32_t n = weir__arena_chunks(bytes);
	const size_t taken_bytes = ((size_t)n + WEIR__CHUNK_BYTES - 1) / WEIR__CHUNK_BYTES * WEIR__CHUNK_BYTES;

	arena->taken = (_Atomic uint8_t *)memory;
	arena->chunks = (union weir__chunk *)(void *)((unsigned char *)memory + taken_bytes);
	arena->n = n;
	arena->stamp_ns = stamp_ns_default;
	atomic_init(&arena->next, 0);
	atomic_init(&arena->given, 0);
	atomic_init(&arena->short_looks, 0);
	atomic_init(&arena->takes, 0);
}

static uint8_t stamp_of(const struct weir__arena *arena, weir_ns now)
{
	return (uint8_t)(now / arena->stamp_ns % STAMPS + 1);
}

/* Returns the index of the first free chunk from `from` on, or `until` if all are taken. Reads eight bytes at a time
 * where they are aligned. */
static uint32_t find_free(const struct weir__arena *arena, uint32_t from, uint32_t until)
{
	for (uint32_t i = from; i < until;) {
		if (i % sizeof(uint64_t) == 0 && until - i >= sizeof(uint64_t)) {
			const uint64_t eight = __atomic_load_n((const uint64_t *)(const void *)&arena->taken[i],
							       __ATOMIC_RELAXED);
			const uint64_t zeros = (eight - UINT64_C(0x0101010101010101)) & ~eight &
					       UINT64_C(0x8080808080808080);

			if (zeros == 0) {
				i += sizeof(uint64_t);
				continue;
			}
		}
		if (atomic_load_explicit(&arena->taken[i], memory_order_relaxed) == 0)
			return i;
		i++;
	}
	return until;
}

static bool take_this(struct weir__arena *arena, uint32_t i, uint8_t stamp)
{
	uint8_t free_byte = 0;

	return atomic_compare_exchange_strong(&arena->taken[i], &free_byte, stamp);
}

/* The number of chunks to search: all of the arena, but only part of it most of the time while it is full. */
static uint32_t look_at_most(struct weir__arena *arena)
{
	const uint32_t short_looks = atomic_load_explicit(&arena->short_looks, memory_order_relaxed);

	if (short_looks == 0)
		return arena->n;
	atomic_store_explicit(&arena->short_looks, short_looks - 1, memory_order_relaxed);
	return (uint32_t)weir__min(arena->n, SHORT_LOOK);
}

uint32_t weir__arena_take(struct weir__arena *arena, weir_ns now)
{
	const uint8_t stamp = stamp_of(arena, now);
	const uint32_t given = atomic_exchange_explicit(&arena->given, 0, memory_order_relaxed);
	uint32_t at = atomic_load_explicit(&arena->next, memory_order_relaxed), left;

	if (given != 0 && take_this(arena, given - 1, stamp))
		return given;
	for (left = look_at_most(arena); left > 0;) {
		const uint32_t begin = at < arena->n ? at : 0;
		const uint32_t end = (uint32_t)weir__min(arena->n, (uint64_t)begin + left);

		at = find_free(arena, begin, end);
		left -= at - begin;
		if (at < end && take_this(arena, at, stamp)) {
			atomic_store_explicit(&arena->next, at + 1, memory_order_relaxed);
			return at + 1;
		}
	}
	atomic_store_explicit(&arena->next, at, memory_order_relaxed);
	if (atomic_load_explicit(&arena->short_looks, memory_order_relaxed) == 0)
		atomic_store_explicit(&arena->short_looks, SHORT_LOOKS, memory_order_relaxed);
	return 0;
}

/* In descending order: the caller takes them from the end. */
uint32_t weir__arena_take_some(struct weir__arena *arena, weir_ns now, uint32_t *numbers, uint32_t n)
{
	const uint8_t stamp = stamp_of(arena, now);
	uint32_t at = atomic_load_explicit(&arena->next, memory_order_relaxed), taken = 0;
	uint32_t end;

	if (at >= arena->n)
		at = 0;
	end = (uint32_t)weir__min(arena->n, (uint64_t)at + SHORT_LOOK);
	while (taken < n && (at = find_free(arena, at, end)) < end) {
		if (take_this(arena, at, stamp))
			numbers[n - ++taken] = at + 1;
		at++;
	}
	atomic_store_explicit(&arena->next, at, memory_order_relaxed);
	for (uint32_t i = 0; i < taken && taken < n; i++)
		numbers[i] = numbers[n - taken + i];
	if (taken == 0 && n > 0) {
		numbers[0] = weir__arena_take(arena, now);
		taken = numbers[0] != 0;
	}
	return taken;
}

void weir__arena_give(struct weir__arena *arena, uint32_t number)
{
	if (number - 1 >= arena->n)
		return;
	atomic_store(&arena->taken[number - 1], 0);
	atomic_store_explicit(&arena->given, number, memory_order_relaxed);
}

static bool is_old_stamp(const struct weir__arena *arena, uint8_t stamp, weir_ns since)
{
	const uint32_t age = ((uint32_t)stamp_of(arena, since) + STAMPS - stamp) % STAMPS;

	return stamp != 0 && age >= STAMPS_OLD && age < STAMPS_NEW;
}

bool weir__arena_is_old(const struct weir__arena *arena, uint32_t number, weir_ns since)
{
	return is_old_stamp(arena, atomic_load(&arena->taken[number - 1]), since);
}

bool weir__arena_reclaim(struct weir__arena *arena, uint32_t number, weir_ns since)
{
	uint8_t stamp = atomic_load(&arena->taken[number - 1]);

	return is_old_stamp(arena, stamp, since) &&
	       atomic_compare_exchange_strong(&arena->taken[number - 1], &stamp, 0);
}

bool weir__arena_is_next(const struct weir__arena *arena, weir_ns now, weir_ns since)
{
	return now < since || now - since >= STAMPS_APART * arena->stamp_ns;
}

bool weir__arena_is_long_after(const struct weir__arena *arena, weir_ns now, weir_ns since)
{
	return now < since || now - since > STAMPS_LONG * arena->stamp_ns;
}

uint32_t weir__arena_used(const struct weir__arena *arena)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < arena->n; i++)
		used += atomic_load_explicit(&arena->taken[i], memory_order_relaxed) != 0;
	return used;
}
