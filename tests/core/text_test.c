/* text_test.c: short texts that are cut to fit their buffer. */
#include "core/text.h"

#include "check.h"

static void what_does_not_fit_is_cut(void)
{
	char room[8];
	struct weir__text text = { room, 0, sizeof(room) };

	weir__text_add(&text, "abc");
	weir__text_add_number(&text, 120);
	CHECK_TEXT(room, "abc120");
	weir__text_add_number(&text, 34);
	weir__text_add(&text, "x");
	CHECK_TEXT(room, "abc1203");
	CHECK_EQ(text.length, 7);
}

static void numbers_to_the_last(void)
{
	char room[32];
	struct weir__text text = { room, 0, sizeof(room) };

	weir__text_add_number(&text, 0);
	weir__text_add_number(&text, UINT64_MAX);
	CHECK_TEXT(room, "018446744073709551615");
}

static void quotes_hide_control_characters(void)
{
	char room[64];
	struct weir__text text = { room, 0, sizeof(room) };

	weir__text_add_quoted(&text, "a\nb\x7f\xc3\xa4", 6);
	CHECK_TEXT(room, "\"a?b?\xc3\xa4\"");
}

static void no_message_is_wanted(void)
{
	struct weir__text text = weir__text_of_message(NULL, 0);

	weir__text_add(&text, "nowhere");
	CHECK_EQ(text.length, 0);
}

TESTS(TEST(what_does_not_fit_is_cut), TEST(numbers_to_the_last), TEST(quotes_hide_control_characters),
      TEST(no_message_is_wanted))
