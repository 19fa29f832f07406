/* percent.c: percent-decoding, byte by byte. */
#include "core/percent.h"

#include "core/hex.h"

const char weir__percent_too_long[] = "it is too long";

const char *weir__percent_undo(const char *text, size_t length, char *ret_word, size_t size, size_t *ret_at)
{
	size_t n = 0;

	for (size_t i = 0; i < length; i++) {
		int byte = (unsigned char)text[i];

		*ret_at = i;
		if (byte == '%') {
			const int high = length - i > 2 ? weir__hex_digit(text[i + 1]) : -1;
			const int low = high >= 0 ? weir__hex_digit(text[i + 2]) : -1;

			if (low < 0)
				return "% must be followed by two hexadecimal digits; write % itself as %25";
			byte = 16 * high + low;
			i += 2;
		}
		if (byte == 0)
			return "it contains a NUL byte";
		if (n + 1 == size)
			return weir__percent_too_long;
		ret_word[n++] = (char)byte;
	}
	ret_word[n] = '\0';
	return NULL;
}
