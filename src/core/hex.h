/* hex.h: digits of base 16. */
#ifndef WEIR_CORE_HEX_H
#define WEIR_CORE_HEX_H

#include <stddef.h>

/* Returns the value of a digit, of either case, or -1 if it is not one. */
static inline int weir__hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Two digits for each byte, in small letters. Returns the end. */
static inline char *weir__hex_write(char *to, const void *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *const at = bytes;

	for (size_t i = 0; i < n; i++) {
		*to++ = digits[at[i] >> 4];
		*to++ = digits[at[i] & 15];
	}
	return to;
}

#endif
