/* values.h: the attributes of a request, normalised for conditions and keys.
 *
 * A policy knows a fixed set of attributes by name, and each has a number. Other attributes of a request are
 * ignored. */
#ifndef WEIR_POLICY_VALUES_H
#define WEIR_POLICY_VALUES_H

#include <weir/policy.h>

#include "policy/address.h"
#include "policy/path.h"

enum {
	WEIR__ATTRIBUTES_MAX = 32,   /* per policy */
	WEIR__NAMES_SIZE = 64,       /* a power of two, twice the number of attributes */
	WEIR__VALUES_ROOM = 8 * 1024 /* bytes of values that are rewritten: lower case, paths */
};

enum weir__attribute_type { WEIR__TEXT_ATTRIBUTE, WEIR__ADDRESS_ATTRIBUTE, WEIR__PATH_ATTRIBUTE };

/* An attribute of a policy, as it was declared. */
struct weir__attribute {
	struct weir__slice name;
	enum weir__attribute_type type;
	bool is_lowered;             /* A to Z become a to z */
	struct weir__slice fallback; /* the value if a request does not have it; .at NULL: it is missing then */
};

struct weir__attributes {
	struct weir__attribute of[WEIR__ATTRIBUTES_MAX];
	unsigned n;
	unsigned char places[WEIR__NAMES_SIZE]; /* hash table of names: number + 1, or 0 if free */
};

struct weir__value {
	struct weir__slice text; /* .at NULL: missing */
	bool is_address;         /* the attribute is of type address, and the value is one */
	struct weir__address address;
};

struct weir__values {
	struct weir__value of[WEIR__ATTRIBUTES_MAX];
	size_t used;
	char room[WEIR__VALUES_ROOM];
};

/* Returns the number of an attribute, or -1. */
int weir__attributes_find(const struct weir__attributes *attributes, struct weir__slice name);

/* Whether this is a valid name for an attribute. Names are printed in explanations and messages of one line. */
enum { WEIR__ATTRIBUTE_NAME_MAX = 63 };
bool weir__attribute_is_name(struct weir__slice name);

/* Returns the attribute's number. A new one is added with type text. -1: too many. The name is not copied. */
int weir__attributes_add(struct weir__attributes *attributes, struct weir__slice name);

/* Takes the values of a request unchanged. If an attribute is given more than once, the first value counts. The values
 * are normalised, and can be used, only after weir__values_end. */
void weir__values_begin(const struct weir__attributes *attributes, const struct weir_attribute *given, size_t n,
			struct weir__values *ret_values);

/* Normalises the values. Returns false if they do not fit; *ret_name is the attribute that did not. */
bool weir__values_end(const struct weir__attributes *attributes, struct weir__values *values,
		      struct weir__slice *ret_name);

/* Returns the value in the form that is compared. It is written into `room`, which has text.n + 1 bytes, if it
 * changes. */
struct weir__slice weir__attribute_normalise(const struct weir__attribute *attribute, struct weir__slice text,
					     char *room);

/* The last bytes, fewer than 8, as one word. Uses loads of fixed size, which may overlap, because a memcpy of variable
 * size is a function call. */
static inline uint64_t weir__policy_tail(const unsigned char *at, size_t n)
{
	uint32_t first, last;

	if (n >= 4) {
		memcpy(&first, at, 4);
		memcpy(&last, at + n - 4, 4);
		return first | (uint64_t)last << 32;
	}
	return n == 0 ? 0 : at[0] | (uint64_t)at[n / 2] << 8 | (uint64_t)at[n - 1] << 16;
}

/* A hash for lookups; not keyed with a secret. */
static inline uint64_t weir__policy_hash(uint64_t seed, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;
	uint64_t hash = seed ^ (n * UINT64_C(0x9e3779b97f4a7c15)), word;

	for (; n >= 8; at += 8, n -= 8) {
		memcpy(&word, at, 8);
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	hash = (hash ^ weir__policy_tail(at, n)) * UINT64_C(0xc4ceb9fe1a85ec53);
	hash ^= hash >> 29;
	hash *= UINT64_C(0xff51afd7ed558ccd);
	return hash ^ hash >> 32;
}

#endif
