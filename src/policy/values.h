/* values.h: the attributes of a request, in the form in which conditions and keys look at them.
 *
 * A policy knows so many attributes by name; each has a number. What a request says of others is not looked at. */
#ifndef WEIR_POLICY_VALUES_H
#define WEIR_POLICY_VALUES_H

#include <weir/policy.h>

#include "policy/address.h"
#include "policy/path.h"

enum {
	WEIR__ATTRIBUTES_MAX = 32,   /* of a policy */
	WEIR__NAMES_SIZE = 64,       /* a power of two, twice as many */
	WEIR__VALUES_ROOM = 8 * 1024 /* bytes that are written anew: lower case, paths */
};

enum weir__attribute_type { WEIR__TEXT_ATTRIBUTE, WEIR__ADDRESS_ATTRIBUTE, WEIR__PATH_ATTRIBUTE };

/* One that a policy knows, as it was declared. */
struct weir__attribute {
	struct weir__slice name;
	enum weir__attribute_type type;
	bool is_lowered;             /* A to Z become a to z */
	struct weir__slice fallback; /* what it is where a request does not say; .at NULL: missing */
};

struct weir__attributes {
	struct weir__attribute of[WEIR__ATTRIBUTES_MAX];
	unsigned n;
	unsigned char places[WEIR__NAMES_SIZE]; /* by hash of the name: number + 1, or 0 */
};

struct weir__value {
	struct weir__slice text; /* .at NULL: missing */
	bool is_address;         /* of type address, and it is one */
	struct weir__address address;
	struct weir__path path; /* of type path */
};

struct weir__values {
	struct weir__value of[WEIR__ATTRIBUTES_MAX];
	size_t used;
	char room[WEIR__VALUES_ROOM];
};

/* The number of an attribute, or -1. */
int weir__attributes_find(const struct weir__attributes *attributes, struct weir__slice name);

/* Whether an attribute may be called so: the name is said in explanations and messages of one line. */
enum { WEIR__ATTRIBUTE_NAME_MAX = 63 };
bool weir__attribute_is_name(struct weir__slice name);

/* Its number; added as text if it is not there. -1: there are too many. The name is not copied. */
int weir__attributes_add(struct weir__attributes *attributes, struct weir__slice name);

/* What a request says, as it says it: of several values for one attribute the first counts. It can be looked at after
 * weir__values_end. */
void weir__values_begin(const struct weir__attributes *attributes, const struct weir_attribute *given, size_t n,
			struct weir__values *ret_values);

/* False: they do not fit, *ret_name says with which. */
bool weir__values_end(const struct weir__attributes *attributes, struct weir__values *values,
		      struct weir__slice *ret_name);

/* In the form in which values are compared; written into room, which has text.n + 1 bytes, if it has to be. */
struct weir__slice weir__attribute_normalise(const struct weir__attribute *attribute, struct weir__slice text,
					     char *room);

/* The last bytes, fewer than 8, as one word: by loads of fixed sizes, which may overlap, since a copy of any size is a call. */
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

/* Of bytes, to find them again; not secret. */
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
