/* utf8_test.c: which bytes are UTF-8 characters. */
#include "core/utf8.h"

#include <string.h>

#include "check.h"

static void check_first(const char *text, bool is_character, size_t length, uint32_t character)
{
	const struct weir__utf8 first = weir__utf8_first((const unsigned char *)text, strlen(text));

	if (!CHECK_EQ(first.is_character, is_character) || !CHECK_EQ(first.length, length) ||
	    (is_character && !CHECK_EQ(first.character, character)))
		printf("# %02x, %zu bytes\n", (unsigned char)text[0], strlen(text));
}

/* Table 3-7 of the Unicode standard: the first and last sequence of each row, and those just outside. */
static void the_first_character_is_found(void)
{
	static const struct {
		const char *text;
		size_t length;
		uint32_t character;
	} rows[] = {
		{ "a!", 1, 'a' },
		{ "\x7f", 1, 0x7f },
		{ "\xc2\x80", 2, 0x80 },
		{ "\xdf\xbf", 2, 0x7ff },
		{ "\xe0\xa0\x80", 3, 0x800 },
		{ "\xe0\xbf\xbf", 3, 0xfff },
		{ "\xe1\x80\x80", 3, 0x1000 },
		{ "\xed\x9f\xbf", 3, 0xd7ff },
		{ "\xee\x80\x80", 3, 0xe000 },
		{ "\xef\xbf\xbf", 3, 0xffff },
		{ "\xf0\x90\x80\x80", 4, 0x10000 },
		{ "\xf1\x80\x80\x80", 4, 0x40000 },
		{ "\xf4\x8f\xbf\xbf", 4, 0x10ffff },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check_first(rows[i].text, true, rows[i].length, rows[i].character);
}

static void what_is_none_is_as_long_as_it_could_have_become_one(void)
{
	static const struct {
		const char *text;
		size_t length;
	} rows[] = {
		{ "\x80", 1 },             /* a continuation byte without a first byte */
		{ "\xc1\xbf", 1 },         /* overlong */
		{ "\xe0\x9f\xbf", 1 },     /* overlong */
		{ "\xf0\x8f\xbf\xbf", 1 }, /* overlong */
		{ "\xed\xa0\x80", 1 },     /* a surrogate */
		{ "\xf4\x90\x80\x80", 1 }, /* beyond U+10FFFF */
		{ "\xf5\x80\x80\x80", 1 },
		{ "\xff", 1 },
		{ "\xc3", 1 }, /* cut short */
		{ "\xe2\x82", 2 },
		{ "\xf0\x9f\x98", 3 },
		{ "\xe2\x82(", 2 }, /* the next byte is not a continuation */
		{ "\xf0\x9f\x98\xc0", 3 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check_first(rows[i].text, false, rows[i].length, 0);
}

static void plain_bytes_stand_for_themselves(void)
{
	static const struct {
		const char *text;
		size_t plain;
	} rows[] = { { "", 0 },     { "all of it ~", 11 }, { "a\tb", 1 },       { "\x7f", 0 },
		     { "a\"b", 1 }, { "ab\\c", 2 },        { "abc\xc3\xa4", 3 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ(weir__utf8_plain((const unsigned char *)rows[i].text, strlen(rows[i].text)), rows[i].plain);
}

/* Each range is a pair: first and last. */
static bool is_within(const uint32_t (*stretches)[2], size_t n, uint32_t character)
{
	for (size_t i = 0; i < n; i++)
		if (character >= stretches[i][0] && character <= stretches[i][1])
			return true;
	return false;
}

static void controls_and_unseen_characters_are_known(void)
{
	static const uint32_t controls[][2] = { { 0, 0x1f }, { 0x7f, 0x9f } };
	static const uint32_t unseen[][2] = { { 0xad, 0xad },     { 0x61c, 0x61c },   { 0x180b, 0x180f },
					      { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f },
					      { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe0fff } };
	bool all = true;

	for (uint32_t character = 0; character <= 0x10ffff; character++) {
		all &= weir__utf8_is_control(character) == is_within(controls, 2, character);
		all &= weir__utf8_is_unseen(character) == is_within(unseen, 9, character);
	}
	CHECK(all);
}

TESTS(TEST(the_first_character_is_found), TEST(what_is_none_is_as_long_as_it_could_have_become_one),
      TEST(plain_bytes_stand_for_themselves), TEST(controls_and_unseen_characters_are_known))
