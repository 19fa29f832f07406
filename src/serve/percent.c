/* percent.c: one byte after the other. */
#include "serve/percent.h"

#include <string.h>

static int digit_of(char c)
{
	const char *const digits = "0123456789abcdef0123456789ABCDEF";
	const char *const found = c != '\0' ? strchr(digits, c) : NULL;

	return found ? (int)(found - digits) % 16 : -1;
}

const char *weir__percent_undo(const char *text, size_t length, char *ret_word, size_t size, size_t *ret_at)
{
	size_t n = 0;

	for (size_t i = 0; i < length; i++) {
		int byte = (unsigned char)text[i];

		*ret_at = i;
		if (byte == '%') {
			const int high = length - i > 2 ? digit_of(text[i + 1]) : -1;
			const int low = high >= 0 ? digit_of(text[i + 2]) : -1;

			if (low < 0)
				return "% is followed by two hexadecimal digits; % itself is %25";
			byte = 16 * high + low;
			i += 2;
		}
		if (byte == 0)
			return "there can be no NUL in it";
		if (n + 1 == size)
			return "it is too long";
		ret_word[n++] = (char)byte;
	}
	ret_word[n] = '\0';
	return NULL;
}
