/* histogram.c: the place of a number is its power of 2 and the BITS bits after its highest bit. */
#include "cli/histogram.h"

#include "core/wide.h"

enum { BITS = WEIR__HISTOGRAM_BITS };

static unsigned shift_of(uint64_t number)
{
	const unsigned width = 64 - (unsigned)__builtin_clzll(number | 1);

	return width > BITS + 1 ? width - (BITS + 1) : 0;
}

static unsigned place_of(uint64_t number)
{
	const unsigned shift = shift_of(number);

	return (shift << BITS) + (unsigned)(number >> shift);
}

/* The largest number in a place. */
static uint64_t end_of(unsigned place)
{
	const unsigned shift = place >> BITS > 1 ? (place >> BITS) - 1 : 0;
	const uint64_t first = place - (shift << BITS);

	return (first << shift) + ((UINT64_C(1) << shift) - 1);
}

void weir__histogram_add(struct weir__histogram *histogram, uint64_t number)
{
	histogram->places[place_of(number)]++;
	histogram->n++;
	if (number > histogram->most)
		histogram->most = number;
}

uint64_t weir__histogram_at(const struct weir__histogram *histogram, unsigned per_mille)
{
	/* Rounded up. This order of operations does not overflow. */
	const uint64_t wanted = histogram->n / 1000 * per_mille + (histogram->n % 1000 * per_mille + 999) / 1000;
	uint64_t seen = 0;

	for (unsigned place = 0; place < WEIR__HISTOGRAM_PLACES; place++) {
		seen += histogram->places[place];
		if (seen > 0 && seen >= wanted)
			return weir__min(end_of(place), histogram->most);
	}
	return 0;
}
