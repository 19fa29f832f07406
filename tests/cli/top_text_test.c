/* top_text_test.c: cells have the requested width whatever they contain; numbers in a readable form. */
#include "cli/top_text.h"

#include "check.h"

/* clang-format off */
static const struct {
	const char *bytes;
	unsigned columns;
	const char *utf8, *ascii;
} cells[] = {
	{ "", 3, "   ", "   " },
	{ "abc", 5, "abc  ", "abc  " },
	{ "abc", 3, "abc", "abc" },
	{ "abcd", 3, "ab…", "ab~" },
	{ "abcd", 1, "…", "~" },
	{ "abcd", 0, "", "" },
	{ "ü", 3, "ü  ", "~  " },
	{ "ü", 8, "ü       ", "\\xc3\\xbc" },
	{ "漢字", 4, "漢字", "~   " },
	{ "漢字", 3, "漢…", "~  " },
	{ "漢字", 2, "… ", "~ " },
	{ "a\nb", 8, "a\\x0ab  ", "a\\x0ab  " },
	{ "\033[2J", 8, "\\x1b[2J ", "\\x1b[2J " },
	{ "\033[2J", 3, "…  ", "~  " },                          /* never half of an escape */
	{ "\x7f", 4, "\\x7f", "\\x7f" },
	{ "\xc2\x9b", 8, "\\xc2\\x9b", "\\xc2\\x9b" },          /* CSI as one character */
	{ "\xe2\x80\xae" "x", 13, "\\xe2\\x80\\xaex", "\\xe2\\x80\\xaex" }, /* right to left */
	{ "e\xcc\x81", 9, "e\\xcc\\x81", "e\\xcc\\x81" },       /* combining character without a width of its own */
	{ "\xff\xc3", 8, "\\xff\\xc3", "\\xff\\xc3" },
};
/* clang-format on */

static void cells_have_their_width(void)
{
	char bytes[WEIR__TOP_LINE_SIZE];

	for (size_t i = 0; i < 2 * (sizeof(cells) / sizeof(cells[0])); i++) {
		const bool is_utf8 = i % 2 == 0;
		struct weir__top_text text = weir__top_text_of(bytes, is_utf8);

		weir__top_text_cell(&text, cells[i / 2].bytes, cells[i / 2].columns);
		CHECK_TEXT(bytes, is_utf8 ? cells[i / 2].utf8 : cells[i / 2].ascii);
		CHECK_EQ(text.columns, cells[i / 2].columns);
	}
}

/* Text beyond the edge is dropped, and later text does not move into its place. */
static void lines_are_as_wide_as_the_terminal(void)
{
	static const struct {
		unsigned most;
		const char *text;
		unsigned columns;
	} rows[] = { { 0, "\033[1m", 0 },         { 1, "\033[1ma", 1 },           { 3, "\033[1mabc", 3 },
		     { 4, "\033[1mabc", 3 },      { 5, "\033[1mabc漢", 5 },       { 6, "\033[1mabc漢 ", 6 },
		     { 8, "\033[1mabc漢 1█", 8 }, { 99, "\033[1mabc漢 1██x", 10 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char bytes[WEIR__TOP_LINE_SIZE];
		struct weir__top_text text = weir__top_text_of(bytes, true);

		text.most = rows[i].most;
		weir__top_text_ink(&text, "\033[1m");
		weir__top_text_put(&text, "abc", 3);
		weir__top_text_add(&text, "漢", 2);
		weir__top_text_right(&text, "1", 2);
		weir__top_text_bar(&text, 1000, 2);
		weir__top_text_put(&text, "x", 1);
		CHECK_TEXT(bytes, rows[i].text);
		CHECK_EQ(text.columns, rows[i].columns);
	}
}

static void lines_have_an_end(void)
{
	char bytes[WEIR__TOP_LINE_SIZE + 1];
	struct weir__top_text text = weir__top_text_of(bytes, true);

	bytes[WEIR__TOP_LINE_SIZE] = '#';
	for (int i = 0; i < 2000; i++) {
		weir__top_text_ink(&text, "\033[1m");
		weir__top_text_cell(&text, "ab", 3);
	}
	weir__top_text_to(&text, 100000);
	CHECK(text.length < WEIR__TOP_LINE_SIZE && strlen(bytes) == text.length && bytes[WEIR__TOP_LINE_SIZE] == '#');
}

static void bars(void)
{
	static const struct {
		unsigned thousandths;
		const char *utf8, *ascii;
	} rows[] = { { 0, "░░░░", "...." },
		     { 124, "░░░░", "...." },
		     { 125, "█░░░", "#..." },
		     { 500, "██░░", "##.." },
		     { 1000, "████", "####" } };
	char bytes[WEIR__TOP_LINE_SIZE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__top_text text = weir__top_text_of(bytes, true);

		weir__top_text_bar(&text, rows[i].thousandths, 4);
		CHECK_TEXT(bytes, rows[i].utf8);
		text = weir__top_text_of(bytes, false);
		weir__top_text_bar(&text, rows[i].thousandths, 4);
		CHECK_TEXT(bytes, rows[i].ascii);
	}
}

static void numbers(void)
{
	static const struct {
		uint64_t number;
		const char *whole, *tenths, *age;
	} rows[] = {
		{ 0, "0", "0.0", "0 s" },
		{ 59, "59", "5.9", "59 s" },
		{ 60, "60", "6.0", "1 min 0 s" },
		{ 9999, "9999", "999.9", "2 h 46 min" },
		{ 10000, "10000", "1000", "2 h 46 min" },
		{ 99999, "99999", "10000", "1 d 3 h" },
		{ 100000, "100k", "10000", "1 d 3 h" },
		{ 999499, "999k", "99950", "11 d 13 h" },
		{ 999999, "1.0M", "100k", "11 d 13 h" },
		{ 1000000, "1.0M", "100k", "11 d 13 h" },
		{ 1469008, "1.5M", "147k", "17 d 0 h" },
		{ 12345678, "12.3M", "1.2M", "142 d 21 h" },
		{ 99960000, "100M", "10.0M", "1156 d 22 h" },
		{ UINT64_MAX, "18.4E", "1.8E", "213503982334601 d 7 h" },
	};
	char text[WEIR__TOP_NUMBER_SIZE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		weir__top_number(rows[i].number, text);
		CHECK_TEXT(text, rows[i].whole);
		weir__top_tenths(rows[i].number, text);
		CHECK_TEXT(text, rows[i].tenths);
		weir__top_age(rows[i].number, text);
		CHECK_TEXT(text, rows[i].age);
	}
}

static void the_locale_is_that_of_the_environment(void)
{
	CHECK(weir__top_text_locale());
}

TESTS(TEST(the_locale_is_that_of_the_environment), TEST(cells_have_their_width),
      TEST(lines_are_as_wide_as_the_terminal), TEST(lines_have_an_end), TEST(bars), TEST(numbers))
