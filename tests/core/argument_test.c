/* argument_test.c: which arguments of callers are rejected. */
#include "core/argument.h"

#include <weir/limit.h>
#include <weir/plan.h>
#include <weir/step.h>

#include "check.h"

/* Compares message->at, too. */
static const struct {
	const char *name, *why;
	size_t at;
} names[] = {
	{ "per user", NULL, 0 },
	{ "K\xc3\xb6ln", NULL, 0 },
	{ "\xff\xfe", NULL, 0 }, /* not UTF-8, but without control characters */
	{ "a\xc2", NULL, 0 },    /* ends within a character */
	{ "12345678", NULL, 0 }, /* the longest */
	{ "\xc2\xa0", NULL, 0 }, /* a no-break space */
	{ "", "a limit named \"\": a name has 1 to 8 bytes", 0 },
	{ "123456789", "a limit named \"123456789\": a name has 1 to 8 bytes", 0 },
	{ "\n", "a limit named \"?\": at 0: a name must not contain control characters", 0 },
	{ "ab\tc", "a limit named \"ab?c\": at 2: a name must not contain control characters", 2 },
	{ "a\x7f", "a limit named \"a?\": at 1: a name must not contain control characters", 1 },
	{ "\x1b[31m", "a limit named \"?[31m\": at 0: a name must not contain control characters", 0 },
	{ "\xff\x01", "a limit named \"\xff?\": at 1: a name must not contain control characters", 1 },
	{ "a\xc2\x9b", "a limit named \"a\xc2\x9b\": at 1: a name must not contain control characters", 1 },
};

static void names_have_no_control_characters(void)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct weir_message why = { 99, "" };

		CHECK_EQ(weir__argument_name(names[i].name, 8, &why), names[i].why ? WEIR_ERR_LIMIT : WEIR_OK);
		CHECK_TEXT(why.text, names[i].why ? names[i].why : "");
		CHECK_EQ(why.at, names[i].why ? names[i].at : 99);
	}
	CHECK_EQ(weir__argument_name("\n", 8, NULL), WEIR_ERR_LIMIT);
}

static void memory_is_large_enough_and_aligned(void)
{
	static _Alignas(64) const char memory[128];
	struct weir_message why = { 0, "" };

	CHECK_EQ(weir__argument_memory(memory, 100, 100, 64, "thing", &why), WEIR_OK);
	CHECK_EQ(weir__argument_memory(memory, 99, 100, 64, "thing", &why), WEIR_ERR_ROOM);
	CHECK_TEXT(why.text, "the memory for a thing of this limit needs 100 bytes; got 99");
	CHECK_EQ(weir__argument_memory(memory + 3, 100, 100, 64, "thing", &why), WEIR_ERR_ALIGNMENT);
	CHECK_TEXT(why.text, "the memory for a thing must be aligned to 64 bytes; this pointer is off by 3");
	CHECK_EQ(weir__argument_memory(memory + 3, 0, 100, 64, "thing", NULL), WEIR_ERR_ALIGNMENT);
}

static void pointers_are_not_null(void)
{
	const struct weir_limit limit = weir_limit_of(WEIR_TOKEN_BUCKET, 1, 1);
	struct weir_message why = { 0, "" };
	struct weir_limit read;
	struct weir_plan plan;

	CHECK_EQ(weir_plan_compile(&limit, &plan, &why), WEIR_OK);
	CHECK_EQ(weir_plan_compile(NULL, &plan, &why), WEIR_ERR_NULL);
	CHECK_TEXT(why.text, "weir_plan_compile: limit is NULL");
	CHECK_EQ(weir_plan_compile(&limit, NULL, &why), WEIR_ERR_NULL);
	CHECK_TEXT(why.text, "weir_plan_compile: ret_plan is NULL");
	CHECK_EQ(weir_plan_compile(NULL, NULL, NULL), WEIR_ERR_NULL);
	CHECK_EQ(weir_limit_parse(NULL, 3, &read, &why), WEIR_ERR_NULL);
	CHECK_TEXT(why.text, "weir_limit_parse: text is NULL");
	CHECK_EQ(weir_limit_parse(NULL, 0, &read, &why), WEIR_ERR_SYNTAX);
	CHECK_EQ(weir_limit_parse("1/s", 3, NULL, &why), WEIR_ERR_NULL);
	CHECK_TEXT(why.text, "weir_limit_parse: ret_limit is NULL");
	CHECK_EQ(weir_step_convertible(NULL, &plan, &why), WEIR_ERR_NULL);
	CHECK_TEXT(why.text, "weir_step_convertible: from is NULL");
	CHECK_EQ(weir_step_convertible(&plan, NULL, &why), WEIR_ERR_NULL);
	CHECK_TEXT(why.text, "weir_step_convertible: to is NULL");
}

TESTS(TEST(names_have_no_control_characters), TEST(memory_is_large_enough_and_aligned), TEST(pointers_are_not_null))
