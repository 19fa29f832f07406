/* hex.h: digits of base 16. */
#ifndef WEIR_CORE_HEX_H
#define WEIR_CORE_HEX_H

/* Of either case; -1: it is none. */
static inline int weir__hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
