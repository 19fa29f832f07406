/* pieces.h: how bytes arrive at a reader: `first` of them, then `each` at a time. */
#ifndef WEIR_TESTS_WIRE_PIECES_H
#define WEIR_TESTS_WIRE_PIECES_H

#include <stddef.h>
#include <stdint.h>

struct pieces {
	size_t first, each;
};

static const struct pieces at_once = { SIZE_MAX, SIZE_MAX };

#endif
