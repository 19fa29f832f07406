/* histogram.h: how often which number came, in memory of a fixed size: numbers that differ by less than 1/128 of them may
 * share a place. Integers only. */
#ifndef WEIR_CLI_HISTOGRAM_H
#define WEIR_CLI_HISTOGRAM_H

#include <stdint.h>

enum {
	WEIR__HISTOGRAM_BITS = 7,
	/* Below 2^(BITS+1) each number has its own place; above, each power of 2 has 2^BITS. */
	WEIR__HISTOGRAM_PLACES = (64 - WEIR__HISTOGRAM_BITS + 1) << WEIR__HISTOGRAM_BITS,
};

/* All zero is an empty one. */
struct weir__histogram {
	uint64_t n, most;
	uint64_t places[WEIR__HISTOGRAM_PLACES];
};

void weir__histogram_add(struct weir__histogram *histogram, uint64_t number);

/* The number that `per_mille` of 1000 of all do not exceed, not below it and at most 1/128 above; 0 if there are none. */
uint64_t weir__histogram_at(const struct weir__histogram *histogram, unsigned per_mille);

#endif
