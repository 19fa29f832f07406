/* percent_test.c: decoding of %XX in URLs. */
#include "core/percent.h"

#include "check.h"

/* Decodes into 5 bytes, including the NUL. */
static const struct {
	const char *text;
	size_t length;
	const char *word; /* NULL: invalid */
	size_t at;
	const char *why;
} rows[] = {
	{ "", 0, "", 0, NULL },
	{ "abcd", 4, "abcd", 0, NULL },
	{ "a%3Ab", 5, "a:b", 0, NULL },
	{ "%3a%2F%25", 9, ":/%", 0, NULL },
	{ "a+b", 3, "a+b", 0, NULL },
	{ "%ff", 3, "\xff", 0, NULL },
	{ "a%", 2, NULL, 1, "% must be followed by two hexadecimal digits; write % itself as %25" },
	{ "a%4", 3, NULL, 1, "% must be followed by two hexadecimal digits; write % itself as %25" },
	/* length 3: the 1 is not part of the word */
	{ "a%41", 3, NULL, 1, "% must be followed by two hexadecimal digits; write % itself as %25" },
	{ "ab%g1", 5, NULL, 2, "% must be followed by two hexadecimal digits; write % itself as %25" },
	{ "ab%1g", 5, NULL, 2, "% must be followed by two hexadecimal digits; write % itself as %25" },
	{ "a%00b", 5, NULL, 1, "it contains a NUL byte" },
	{ "ab\0c", 4, NULL, 2, "it contains a NUL byte" },
	{ "abcde", 5, NULL, 4, "it is too long" },
	{ "abc%44%45", 9, NULL, 6, "it is too long" },
};

static void what_is_meant_and_what_is_wrong(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char word[5];
		size_t at = 0;
		const char *const why = weir__percent_undo(rows[i].text, rows[i].length, word, sizeof(word), &at);

		CHECK_TEXT(why ? why : "right", rows[i].why ? rows[i].why : "right");
		if (why)
			CHECK_EQ(at, rows[i].at);
		else
			CHECK_TEXT(word, rows[i].word);
	}
}

TESTS(TEST(what_is_meant_and_what_is_wrong))
