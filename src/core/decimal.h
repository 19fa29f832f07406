/* decimal.h: numbers that are written as decimal digits. */
#ifndef WEIR_CORE_DECIMAL_H
#define WEIR_CORE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns false unless all n bytes, 1 or more, are digits, and the number is at most `most`. */
static inline bool weir__decimal_read(const char *text, size_t n, uint64_t most, uint64_t *ret_number)
{
	uint64_t number = 0;

	for (size_t i = 0; i < n; i++) {
		const unsigned digit = (unsigned)(unsigned char)text[i] - (unsigned)'0';

		if (digit > 9 || number > most / 10 || (number == most / 10 && digit > most % 10))
			return false;
		number = number * 10 + digit;
	}
	*ret_number = number;
	return n > 0;
}

#endif
