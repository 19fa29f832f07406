/* words_test.c: durations, times and sizes in a readable form. */
#include "cli/words.h"

#include "check.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

struct row {
	uint64_t number;
	const char *text;
};

static void check_rows(void (*write)(uint64_t number, char *text), const struct row *rows, size_t n)
{
	char text[WEIR__WORDS_SIZE];

	for (size_t i = 0; i < n; i++) {
		write(rows[i].number, text);
		CHECK_TEXT(text, rows[i].text);
	}
}

static void spans_are_rounded_up(void)
{
	static const struct row rows[] = {
		{ 0, "0 s" },
		{ 1, "1 ns" },
		{ 999, "999 ns" },
		{ 1000, "1 us" },
		{ 1001, "1.1 us" },
		{ MS - 100, "999.9 us" },
		{ MS - 99, "1 ms" },
		{ 600 * MS, "600 ms" },
		{ SECOND - 1, "1 s" },
		{ SECOND, "1 s" },
		{ 12 * SECOND + 345 * MS, "12.4 s" },
		{ MINUTE - 100 * MS, "59.9 s" },
		{ MINUTE - 1, "1 min" },
		{ MINUTE + 1, "1 min 1 s" },
		{ HOUR - 1, "1 h" },
		{ 16 * HOUR + 47 * MINUTE + 59 * SECOND, "16 h 48 min" },
		{ DAY - 1, "1 d" },
		{ DAY + 1, "1 d 1 h" },
		{ UINT64_MAX, "213504 d" },
	};

	check_rows(weir__words_span, rows, sizeof(rows) / sizeof(rows[0]));
}

static void instants_are_exact(void)
{
	static const struct row rows[] = {
		{ 0, "1970-01-01T00:00:00.000000000Z" },
		{ 951782400 * SECOND - 1, "2000-02-28T23:59:59.999999999Z" },
		{ 951782400 * SECOND, "2000-02-29T00:00:00.000000000Z" },
		{ UINT64_MAX, "2554-07-21T23:34:33.709551615Z" },
	};

	check_rows(weir__words_instant, rows, sizeof(rows) / sizeof(rows[0]));
}

static void sizes_have_one_decimal(void)
{
	static const struct row rows[] = {
		{ 0, "0 B" },
		{ 999, "999 B" },
		{ 1000, "1.0 kB" },
		{ 65536, "65.5 kB" },
		{ 999949, "999.9 kB" },
		{ 999950, "1.0 MB" },
		{ UINT64_C(23500000), "23.5 MB" },
		{ UINT64_MAX, "18.4 EB" },
	};

	check_rows(weir__words_size, rows, sizeof(rows) / sizeof(rows[0]));
}

TESTS(TEST(spans_are_rounded_up), TEST(instants_are_exact), TEST(sizes_have_one_decimal))
