/* resp_line.h: shared by the readers of requests and replies: lines that end in CR, and the numbers in them. */
#ifndef WEIR_WIRE_RESP_LINE_H
#define WEIR_WIRE_RESP_LINE_H

#include <string.h>

#include "wire/resp.h"

enum {
	WEIR__RESP_NUMBER_BYTES = 20, /* bytes of -2^63 in decimal */
	WEIR__RESP_LINE_SHORT = 16,
};

/* Moves to the next line or bulk, at `at`. */
static inline void weir__resp_place_next(struct weir__resp_place *place, size_t at)
{
	place->at = at;
	place->scanned = 0;
	place->bulk = -1;
}

/* Looks for the first `end` in the line at `place`. COMPLETE: `scanned` is the length before it. MORE: not found yet.
 * BAD: it is beyond line_max, even if the line came in one piece. (Redis rejects such a line only if it came in several
 * pieces.) */
static inline enum weir__resp_status weir__resp_line(struct weir__resp_place *place, const char *buffer, size_t size,
						     char end, size_t line_max)
{
	const char *line = buffer + place->at;
	const size_t left = size - place->at;
	const size_t most = line_max < left ? line_max + 1 : left; /* line_max bytes may be followed by the end */
	const char *found;
	size_t at = place->scanned;

	/* Most lines end before a call of memchr would pay off. */
	while (at < most && at < WEIR__RESP_LINE_SHORT && line[at] != end)
		at++;
	if (at < most && line[at] != end) {
		found = memchr(line + at, end, most - at);
		at = found != NULL ? (size_t)(found - line) : most;
	}
	place->scanned = at;
	if (at < most)
		return WEIR__RESP_COMPLETE;
	return left > line_max ? WEIR__RESP_BAD : WEIR__RESP_MORE;
}

/* Reads a number as Redis does: no plus, no leading zeros, no -0. */
static inline bool weir__resp_number(const char *digits, size_t n, int64_t *ret_number)
{
	const bool is_negative = n > 0 && digits[0] == '-';
	uint64_t number = 0;
	size_t i = is_negative;

	if (n > WEIR__RESP_NUMBER_BYTES || i == n || (digits[i] == '0' && n > 1))
		return false;
	for (; i < n; i++) {
		const unsigned digit = (unsigned char)digits[i] - (unsigned)'0';

		if (digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, digit, &number))
			return false;
	}
	if (number > (uint64_t)INT64_MAX + is_negative)
		return false;
	*ret_number = is_negative ? (int64_t)(0 - number) : (int64_t)number;
	return true;
}

/* Returns the new address of a slice after its buffer has moved. Uses integers, because pointers to freed memory must
 * not be compared or subtracted. */
static inline const char *weir__resp_moved(const char *bytes, uintptr_t from, const char *to)
{
	return to + ((uintptr_t)bytes - from);
}

#endif
