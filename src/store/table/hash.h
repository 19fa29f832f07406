/* hash.h: SipHash-1-3, a hash keyed with a secret. Without the secret, an attacker cannot choose keys that collide.
 *
 * It is implemented here because the library depends on libc only, which has no such hash. */
#ifndef WEIR_STORE_TABLE_HASH_H
#define WEIR_STORE_TABLE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct weir__hash_secret {
	uint64_t k0, k1;
};

struct weir__sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t weir__sip_rotate(uint64_t word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static inline void weir__sip_round(struct weir__sip *sip)
{
	sip->v0 += sip->v1;
	sip->v2 += sip->v3;
	sip->v1 = weir__sip_rotate(sip->v1, 13) ^ sip->v0;
	sip->v3 = weir__sip_rotate(sip->v3, 16) ^ sip->v2;
	sip->v0 = weir__sip_rotate(sip->v0, 32);
	sip->v2 += sip->v1;
	sip->v0 += sip->v3;
	sip->v1 = weir__sip_rotate(sip->v1, 17) ^ sip->v2;
	sip->v3 = weir__sip_rotate(sip->v3, 21) ^ sip->v0;
	sip->v2 = weir__sip_rotate(sip->v2, 32);
}

static inline void weir__sip_add(struct weir__sip *sip, uint64_t word)
{
	sip->v3 ^= word;
	weir__sip_round(sip);
	sip->v0 ^= word;
}

static inline uint64_t weir__hash_word(const unsigned char *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

/* The last 0 to 7 bytes, without a loop and without reading beyond either end. */
static inline uint64_t weir__hash_tail(const unsigned char *bytes, size_t n)
{
	uint32_t first, last;

	if (n >= 4) {
		memcpy(&first, bytes, 4);
		memcpy(&last, bytes + n - 4, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		first = __builtin_bswap32(first);
		last = __builtin_bswap32(last);
#endif
		return first | (uint64_t)last << (8 * (n - 4));
	}
	if (n == 0)
		return 0;
	return (uint64_t)bytes[0] | (uint64_t)bytes[n / 2] << (8 * (n / 2)) | (uint64_t)bytes[n - 1] << (8 * (n - 1));
}

static inline uint64_t weir__hash(const struct weir__hash_secret *secret, const void *key, size_t length)
{
	const unsigned char *bytes = key;
	struct weir__sip sip = {
		secret->k0 ^ UINT64_C(0x736f6d6570736575),
		secret->k1 ^ UINT64_C(0x646f72616e646f6d),
		secret->k0 ^ UINT64_C(0x6c7967656e657261),
		secret->k1 ^ UINT64_C(0x7465646279746573),
	};
	size_t left = length;

	for (; left >= 8; left -= 8, bytes += 8)
		weir__sip_add(&sip, weir__hash_word(bytes));
	weir__sip_add(&sip, weir__hash_tail(bytes, left) | (uint64_t)length << 56);
	sip.v2 ^= 0xff;
	weir__sip_round(&sip);
	weir__sip_round(&sip);
	weir__sip_round(&sip);
	return sip.v0 ^ sip.v1 ^ sip.v2 ^ sip.v3;
}

#endif
