/* digits.h: numbers as decimal digits. */
#ifndef WEIR_WIRE_DIGITS_H
#define WEIR_WIRE_DIGITS_H

#include <stdint.h>
#include <string.h>

enum { WEIR__DIGITS_MOST = 20 /* of 2^64-1, or of -2^63 with its sign */ };

static inline unsigned weir__count_digits(uint64_t number)
{
	unsigned n = 1;

	for (; number >= 10000; number /= 10000)
		n += 4;
	return n + (number >= 10) + (number >= 100) + (number >= 1000);
}

/* Returns the position after the last digit. */
static inline char *weir__put_digits(char *to, uint64_t number)
{
	static const char pairs[200] = "0001020304050607080910111213141516171819"
				       "2021222324252627282930313233343536373839"
				       "4041424344454647484950515253545556575859"
				       "6061626364656667686970717273747576777879"
				       "8081828384858687888990919293949596979899";
	char *end, *at;

	if (number < 10) {
		*to = (char)('0' + number);
		return to + 1;
	}
	end = at = to + weir__count_digits(number);
	for (; number >= 100; number /= 100)
		memcpy(at -= 2, pairs + number % 100 * 2, 2);
	if (number >= 10)
		memcpy(at - 2, pairs + number * 2, 2);
	else
		at[-1] = (char)('0' + number);
	return end;
}

#endif
