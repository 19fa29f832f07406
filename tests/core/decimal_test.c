/* decimal_test.c: what is read as a decimal number, and the largest value. */
#include "core/decimal.h"

#include "check.h"

static const struct {
	const char *text;
	uint64_t most;
	bool is_number;
	uint64_t number;
} rows[] = {
	{ "0", 0, true, 0 },
	{ "007", 9, true, 7 },
	{ "65535", 65535, true, 65535 },
	{ "65536", 65535, false, 0 },
	{ "18446744073709551615", UINT64_MAX, true, UINT64_MAX },
	{ "18446744073709551616", UINT64_MAX, false, 0 },
	{ "99999999999999999999999999", UINT64_MAX, false, 0 },
	{ "3", 2, false, 0 },
	{ "", 9, false, 0 },
	{ "-1", 9, false, 0 },
	{ "1 ", 9, false, 0 },
	{ "/", 9, false, 0 },
	{ ":", 9, false, 0 },
	{ "\xb1", 9, false, 0 },
};

static void numbers_are_digits_alone(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t number = 0;

		CHECK_EQ(weir__decimal_read(rows[i].text, strlen(rows[i].text), rows[i].most, &number),
			 rows[i].is_number);
		if (rows[i].is_number)
			CHECK_EQ(number, rows[i].number);
	}
}

TESTS(TEST(numbers_are_digits_alone))
