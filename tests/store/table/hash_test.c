/* hash_test.c: SipHash-1-3 compared with a reference that is written from its definition, byte by byte. Published
 * vectors, which have 2 and 4 rounds, verify the reference. */
#include "store/table/hash.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { LONGEST = 64, LONG = 1000 };

struct four {
	uint64_t a, b, c, d;
};

static uint64_t rotated(uint64_t word, unsigned bits)
{
	return (word << bits) | (word >> (64 - bits));
}

static void rounds(struct four *v, int n)
{
	while (n-- > 0) {
		v->a += v->b;
		v->b = rotated(v->b, 13) ^ v->a;
		v->a = rotated(v->a, 32);
		v->c += v->d;
		v->d = rotated(v->d, 16) ^ v->c;
		v->a += v->d;
		v->d = rotated(v->d, 21) ^ v->a;
		v->c += v->b;
		v->b = rotated(v->b, 17) ^ v->c;
		v->c = rotated(v->c, 32);
	}
}

/* Byte `at` of the padded message: zeros up to whole words, the length in the last byte. */
static uint64_t padded_byte(const unsigned char *bytes, size_t n, size_t at)
{
	if (at < n)
		return bytes[at];
	return at == n / 8 * 8 + 7 ? n & 0xff : 0;
}

static uint64_t reference(struct weir__hash_secret key, const unsigned char *bytes, size_t n, int each, int last)
{
	struct four v = { key.k0 ^ 0x736f6d6570736575, key.k1 ^ 0x646f72616e646f6d, key.k0 ^ 0x6c7967656e657261,
			  key.k1 ^ 0x7465646279746573 };

	for (size_t word = 0; word <= n / 8; word++) {
		uint64_t m = 0;

		for (size_t i = 0; i < 8; i++)
			m |= padded_byte(bytes, n, word * 8 + i) << (8 * i);
		v.d ^= m;
		rounds(&v, each);
		v.a ^= m;
	}
	v.c ^= 0xff;
	rounds(&v, last);
	return v.a ^ v.b ^ v.c ^ v.d;
}

/* The bytes 00 01 02 ... 0f as two little-endian words. */
static const struct weir__hash_secret published_key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };

static const struct weir__hash_secret secrets[] = {
	{ 0x0706050403020100, 0x0f0e0d0c0b0a0908 },
	{ 0, 0 },
	{ UINT64_MAX, UINT64_MAX },
	{ 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9 },
};

#define SECRETS (sizeof(secrets) / sizeof(secrets[0]))

static void fill(unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (unsigned char)(i * 167 + 0x83);
}

static void the_reference_is_siphash(void)
{
	static const struct {
		size_t length;
		unsigned char hash[8]; /* little-endian, as published */
	} rows[] = {
		{ 0, { 0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72 } },
		{ 1, { 0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74 } },
		{ 15, { 0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1 } }, /* the example of the paper */
	};
	unsigned char message[15];

	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (unsigned char)i;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t expected = 0;

		for (size_t byte = 0; byte < 8; byte++)
			expected |= (uint64_t)rows[i].hash[byte] << (8 * byte);
		CHECK_EQ(reference(published_key, message, rows[i].length, 2, 4), expected);
	}
}

/* In memory of exactly that size, so that the address sanitizer sees a read beyond it. */
static void check_length(size_t length)
{
	unsigned char *const bytes = malloc(length);

	fill(bytes, length);
	for (size_t i = 0; i < SECRETS; i++)
		CHECK_EQ(weir__hash(&secrets[i], bytes, length), reference(secrets[i], bytes, length, 1, 3));
	free(bytes);
}

static void every_length(void)
{
	for (size_t length = 0; length <= LONGEST; length++)
		check_length(length);
	check_length(LONG);
	check_length(255); /* only the lowest byte of the length is hashed */
	check_length(256);
	check_length(257);
}

static void nobody_needs_a_key_of_no_bytes(void)
{
	CHECK_EQ(weir__hash(&secrets[0], NULL, 0), reference(secrets[0], NULL, 0, 1, 3));
}

static void keys_that_begin_anywhere(void)
{
	unsigned char room[LONGEST + 16];

	for (size_t offset = 0; offset < 16; offset++) {
		for (size_t length = 0; length <= LONGEST; length++) {
			fill(room + offset, length);
			CHECK_EQ(weir__hash(&secrets[3], room + offset, length),
				 reference(secrets[3], room + offset, length, 1, 3));
		}
	}
}

/* A page between two inaccessible ones. */
static void nothing_is_read_beyond_either_end(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *const pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *const first = pages + page, *const end = first + page;

	CHECK(pages != MAP_FAILED);
	CHECK_EQ(mprotect(first, page, PROT_READ | PROT_WRITE), 0);
	fill(first, page);
	for (size_t length = 0; length <= LONGEST; length++) {
		CHECK_EQ(weir__hash(&secrets[1], first, length), reference(secrets[1], first, length, 1, 3));
		CHECK_EQ(weir__hash(&secrets[1], end - length, length),
			 reference(secrets[1], end - length, length, 1, 3));
	}
	munmap(pages, 3 * page);
}

static void every_bit_of_key_and_secret_counts(void)
{
	unsigned char key[19];
	uint64_t hash;

	fill(key, sizeof(key));
	hash = weir__hash(&secrets[3], key, sizeof(key));
	for (size_t bit = 0; bit < sizeof(key) * 8; bit++) {
		key[bit / 8] ^= (unsigned char)(1 << bit % 8);
		CHECK(weir__hash(&secrets[3], key, sizeof(key)) != hash);
		key[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	for (size_t bit = 0; bit < 128; bit++) {
		struct weir__hash_secret other = secrets[3];

		*(bit < 64 ? &other.k0 : &other.k1) ^= UINT64_C(1) << bit % 64;
		CHECK(weir__hash(&other, key, sizeof(key)) != hash);
	}
}

TESTS(TEST(the_reference_is_siphash), TEST(every_length), TEST(nobody_needs_a_key_of_no_bytes),
      TEST(keys_that_begin_anywhere), TEST(nothing_is_read_beyond_either_end), TEST(every_bit_of_key_and_secret_counts))
