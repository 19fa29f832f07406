/* slice.h: bytes that are borrowed: the slice does not own them. */
#ifndef WEIR_POLICY_SLICE_H
#define WEIR_POLICY_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct weir__slice {
	const char *at;
	size_t n;
};

static inline struct weir__slice weir__slice_of(const char *text)
{
	return (struct weir__slice){ text, strlen(text) };
}

static inline bool weir__slice_equal(struct weir__slice a, struct weir__slice b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}

static inline bool weir__slice_is(struct weir__slice slice, const char *text)
{
	return weir__slice_equal(slice, weir__slice_of(text));
}

static inline bool weir__slice_begins_with(struct weir__slice slice, struct weir__slice prefix)
{
	return slice.n >= prefix.n && (prefix.n == 0 || memcmp(slice.at, prefix.at, prefix.n) == 0);
}

#endif
