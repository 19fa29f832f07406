/* keys.h: the keys that every contender decides, and their order. peers/keys.go makes the same keys.
 *
 * A key is "user:" and eight digits. It is written into a buffer on the stack right before the decision, as in a server
 * that has just read a request. */
#ifndef WEIR_BENCH_KEYS_H
#define WEIR_BENCH_KEYS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	KEY_PREFIX = 5,
	KEY_LENGTH = KEY_PREFIX + 8,
	KEY_ROOM = 16,
	KEYS_MAX = 100000000, /* the number of eight-digit numbers */
};

/* The limit of each key. A token refills in three minutes, so no key becomes full or empty during a run. */
#define KEYS_LIMIT "1/3min burst 3000000"

/* xorshift64*. The state must not be 0. */
static inline uint64_t keys_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* 0 to n - 1. */
static inline uint32_t keys_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)((keys_random(state) >> 32) * n >> 32);
}

/* The eight digits of number, the first in the lowest byte. Splits all groups of 4, then 2, then 1 in parallel. */
static inline uint64_t keys_digits(uint32_t number)
{
	const uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
	const uint64_t hundreds = (fours * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
	const uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
	const uint64_t tens = (twos * 103 >> 10) & UINT64_C(0x000f000f000f000f);

	return (tens | (twos - tens * 10) << 8) + UINT64_C(0x3030303030303030);
}

/* Writes the digits of number after the key's prefix. */
static inline void keys_write(char *key, uint32_t number)
{
	uint64_t digits = keys_digits(number);

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	digits = __builtin_bswap64(digits);
#endif
	memcpy(key + KEY_PREFIX, &digits, sizeof(digits));
}

/* The order of one thread's keys. */
struct keys_order {
	uint64_t state;        /* of keys_random */
	const uint32_t *drawn; /* KEYS_DRAWN numbers, used in a loop; NULL: uniform */
	size_t next;
} __attribute__((aligned(128)));

enum { KEYS_DRAWN = 1 << 22 };

static inline uint32_t keys_next(struct keys_order *order, uint32_t keys)
{
	if (order->drawn)
		return order->drawn[order->next++ % KEYS_DRAWN];
	return keys_below(&order->state, keys);
}

/* Resident memory of this process, in bytes. */
double keys_resident_bytes(void);

/* Each thread starts at a different place. */
struct keys_order keys_order_of(size_t thread, const uint32_t *drawn);

/* KEYS_DRAWN numbers below `keys`, with a Zipf distribution of exponent 0.99. Never freed. */
const uint32_t *keys_draw_zipf(uint32_t keys);

#endif
