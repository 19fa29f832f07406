/* error_test.c: every error code has a text. */
#include <weir/types.h>

#include "check.h"

static void every_code_has_words(void)
{
	CHECK_TEXT(weir_strerror(WEIR_OK), "no error");
	CHECK_TEXT(weir_strerror(WEIR_ERR_SYNTAX), "the text is not a valid limit");
#define HAS_WORDS(name, value, meaning) CHECK_TEXT(weir_strerror(value), meaning);
	WEIR_ERRORS(HAS_WORDS)
#undef HAS_WORDS
}

static void other_numbers_too(void)
{
	CHECK_TEXT(weir_strerror(1), "unknown error");
	CHECK_TEXT(weir_strerror(-1000), "unknown error");
}

TESTS(TEST(every_code_has_words), TEST(other_numbers_too))
