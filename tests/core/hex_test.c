/* hex_test.c: hexadecimal digits. */
#include "core/hex.h"

#include <string.h>

#include "check.h"

static void each_byte_is_a_digit_or_none(void)
{
	static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";

	for (int c = 0; c < 256; c++) {
		const char byte = (char)c;
		const char *const found = byte == '\0'        ? NULL :
					  strchr(lower, byte) ? strchr(lower, byte) :
								strchr(upper, byte);
		const int expected = found == NULL       ? -1 :
				     strchr(lower, byte) ? (int)(found - lower) :
							   (int)(found - upper);

		CHECK_EQ(weir__hex_digit(byte), expected);
	}
}

static void bytes_are_two_digits(void)
{
	char text[9] = "";

	*weir__hex_write(text, "\x00\x7f\xa5\xff", 4) = '\0';
	CHECK_TEXT(text, "007fa5ff");
	CHECK(weir__hex_write(text, "", 0) == text);
}

TESTS(TEST(each_byte_is_a_digit_or_none), TEST(bytes_are_two_digits))
