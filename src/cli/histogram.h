/* histogram.h: a histogram of integers in memory of a fixed size. Numbers that differ by less than 1/128 may share a
 * place. Uses integers only. */
#ifndef WEIR_CLI_HISTOGRAM_H
#define WEIR_CLI_HISTOGRAM_H

#include <stdint.h>

enum {
	WEIR__HISTOGRAM_BITS = 7,
	/* Below 2^(BITS+1) each number has its own place; above, each power of 2 has 2^BITS. */
	WEIR__HISTOGRAM_PLACES = (64 - WEIR__HISTOGRAM_BITS + 1) << WEIR__HISTOGRAM_BITS,
};

/* All zero is an empty histogram. */
struct weir__histogram {
	uint64_t n, most;
	uint64_t places[WEIR__HISTOGRAM_PLACES];
};

void weir__histogram_add(struct weir__histogram *histogram, uint64_t number);

/* Returns the number that per_mille/1000 of all numbers do not exceed, rounded up by at most 1/128; 0 if the histogram
 * is empty. */
uint64_t weir__histogram_at(const struct weir__histogram *histogram, unsigned per_mille);

#endif
