/* nearest_test.c: which known word a misspelled one is closest to. */
#include "core/nearest.h"

#include "check.h"

static const char *const names[] = { "list", "info", "get", "reset", "table", "take", "top", "check", "check-config" };

static const struct {
	const char *word, *best; /* NULL: none is close */
} rows[] = {
	{ "inf", "info" },
	{ "nifo", "info" },
	{ "infoo", "info" },
	{ "indo", "info" },
	{ "rest", "reset" },
	{ "tabel", "table" },
	{ "tbale", "table" },
	{ "teak", "take" }, /* two edits */
	{ "ls", "list" },   /* two edits, and the same first letter */
	{ "gt", "get" },
	{ "stop", "top" },   /* one edit, but another first letter */
	{ "chec", "check" }, /* closer than check-config, which it also begins */
	{ "check-", "check" },
	{ "check-c", "check-config" },
	{ "check-configuration", "check-config" }, /* the name begins the word */
	{ "t", NULL },     /* one letter is not enough for a prefix, and three edits are too many */
	{ "ch", "check" }, /* a prefix, although most is missing */
	{ "show", NULL },
	{ "pot", NULL }, /* two edits, and another first letter */
	{ "xyz", NULL },
	{ "", NULL },
	{ "list-and-much-more-than-thirty-two-letters", NULL },
};

static const char *nearest_to(const char *word)
{
	struct weir__nearest nearest = weir__nearest_of(word, strlen(word));

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		weir__nearest_offer(&nearest, names[i]);
	return nearest.best ? nearest.best : "none";
}

static void words_that_are_close(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_TEXT(nearest_to(rows[i].word), rows[i].best ? rows[i].best : "none");
}

static void a_known_word_is_nearest_to_itself(void)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK_TEXT(nearest_to(names[i]), names[i]);
}

static void names_that_are_too_long_are_left_out(void)
{
	struct weir__nearest nearest = weir__nearest_of("a-name-of-more-than-32-letters", 30);

	weir__nearest_offer(&nearest, "a-name-of-more-than-32-letters-in-all");
	CHECK(nearest.best == NULL);
}

TESTS(TEST(words_that_are_close), TEST(a_known_word_is_nearest_to_itself), TEST(names_that_are_too_long_are_left_out))
