/* hex.h: digits of base 16. */
#ifndef WEIR_CORE_HEX_H
#define WEIR_CORE_HEX_H

/* Returns the value of a digit, of either case, or -1 if it is not one. */
static inline int weir__hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
