/* redis_changes_test.c: changes of limits in Redis: valid values, damaged values, and foreign values. */
#include "store/redis/redis_changes.h"

#include <stdlib.h>

#include "check.h"

#define IDENTITY "0123456789abcdef"
#define LONG_63 "123456789012345678901234567890123456789012345678901234567890123"

static struct weir__resp_slice slice_of(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

/* A copy of exactly its size, so that a sanitizer sees a read beyond it. */
static bool read_copy(struct weir__resp_slice field, struct weir__resp_slice value,
		      struct weir__redis_change *ret_change)
{
	char *const copies[] = { malloc(field.length + 1), malloc(value.length + 1) };
	bool is_good;

	if (copies[0] == NULL || copies[1] == NULL)
		abort();
	memcpy(copies[0], field.bytes, field.length);
	memcpy(copies[1], value.bytes, value.length);
	is_good = weir__redis_change_read((struct weir__resp_slice){ copies[0], field.length },
					  (struct weir__resp_slice){ copies[1], value.length }, ret_change);
	free(copies[0]);
	free(copies[1]);
	return is_good;
}

static void a_change_is_read_as_it_was_written(void)
{
	struct weir__redis_change change = { .name = "per-ip",
					     .user = "alice",
					     .peer = "192.0.2.1",
					     .at = UINT64_C(1794964592123) * 1000000,
					     .version = 42 };
	struct weir__redis_change read;
	char value[WEIR__REDIS_CHANGE_VALUE], again[WEIR__REDIS_CHANGE_VALUE];
	size_t length;

	CHECK_EQ(weir_limit_parse("5/min burst 7", 13, &change.limit, NULL), WEIR_OK);
	length = weir__redis_change_write(&change, value);
	CHECK_TEXT(value, "42 1794964592123\n5/min burst 7\nalice\n192.0.2.1");
	CHECK_EQ(length, strlen(value));
	CHECK(read_copy(slice_of(IDENTITY "per-ip"), slice_of(value), &read));
	CHECK_TEXT(read.name, "per-ip");
	CHECK_TEXT(read.user, "alice");
	CHECK_TEXT(read.peer, "192.0.2.1");
	CHECK_EQ(read.at, change.at);
	(void)weir__redis_change_write(&read, again);
	CHECK_TEXT(again, value);
}

/* clang-format off */
static const struct {
	const char *field, *value;
	bool is_good;
} values[] = {
	{ IDENTITY "a",           "1 1\n5/day\n-\nunix",                 true },
	{ IDENTITY LONG_63,       "1 1\n5/day\n\n",                      true },
	{ IDENTITY "a",           "8999999999999999 1\n5/day\nx\ny",     true },
	{ IDENTITY LONG_63 "x",   "1 1\n5/day\nx\ny",                    false },
	{ IDENTITY,               "1 1\n5/day\nx\ny",                    false },
	{ "short",                "1 1\n5/day\nx\ny",                    false },
	{ "",                     "1 1\n5/day\nx\ny",                    false },
	{ IDENTITY "a",           "",                                    false },
	{ IDENTITY "a",           "1",                                   false },
	{ IDENTITY "a",           "1 1",                                 false },
	{ IDENTITY "a",           "1 1\n",                               false },
	{ IDENTITY "a",           "1 1\n5/day",                          false },
	{ IDENTITY "a",           "1 1\n5/day\nx",                       false },
	{ IDENTITY "a",           " 1\n5/day\nx\ny",                     false },
	{ IDENTITY "a",           "1 \n5/day\nx\ny",                     false },
	{ IDENTITY "a",           "0 1\n5/day\nx\ny",                    false },
	{ IDENTITY "a",           "1 0\n5/day\nx\ny",                    false },
	{ IDENTITY "a",           "-1 1\n5/day\nx\ny",                   false },
	{ IDENTITY "a",           "9000000000000000 1\n5/day\nx\ny",     false },
	{ IDENTITY "a",           "99999999999999999999 1\n5/day\nx\ny", false },
	{ IDENTITY "a",           "1 1\n5/fortnight\nx\ny",              false },
	{ IDENTITY "a",           "1 1\n\nx\ny",                         false },
	{ IDENTITY "a",           "1 1\n5/day\n" LONG_63 "x\ny",         false },
	{ IDENTITY "a",           "1 1\n5/day\nx\n" LONG_63 "y",         false },
	{ IDENTITY "a",           "1 8999999999999999\n5/day\nx\ny",     false },
};
/* clang-format on */

static void damaged_values_are_refused(void)
{
	struct weir__redis_change read;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		const bool is_good = read_copy(slice_of(values[i].field), slice_of(values[i].value), &read);

		if (is_good != values[i].is_good)
			check_fail(__FILE__, __LINE__, values[i].value);
	}
}

static void what_is_not_visible_is_replaced(void)
{
	static const char value[] = "1 1\n5/day\n\x1b[2Jx\na\0b\xff";
	struct weir__redis_change read;

	CHECK(read_copy(slice_of(IDENTITY "a"), (struct weir__resp_slice){ value, sizeof(value) - 1 }, &read));
	CHECK_TEXT(read.user, "?[2Jx");
	CHECK_TEXT(read.peer, "a?b?");
	CHECK(!read_copy((struct weir__resp_slice){ IDENTITY "a\0b", WEIR__REDIS_IDENTITY_LENGTH + 3 },
			 slice_of("1 1\n5/day\nx\ny"), &read));
}

/* clang-format off */
static const struct {
	const char *text, *found;
} lists[] = {
	{ "",                  "" },
	{ "1:a2:bc",           "a=bc " },
	{ "1:a2:bc3:def0:",    "a=bc def= " },
	{ "1:a2:bc3:def",      "a=bc " },
	{ "1:a2:bc3:def5:xx",  "a=bc " },
	{ "1:a",               "" },
	{ "1",                 "" },
	{ ":a1:b",             "" },
	{ "x:a1:b",            "" },
	{ "99999999:a1:b",     "" },
	{ "0000001:a1:b",      "a=b " },
	{ "00000001:a1:b",     "" },
	{ "5:a1:b",            "" },
};
/* clang-format on */

static void lists_end_where_they_are_damaged(void)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const size_t length = strlen(lists[i].text);
		char *const copy = malloc(length + 1), found[64] = "";
		struct weir__resp_slice rest = { copy, length }, field, value;

		if (copy == NULL)
			abort();
		memcpy(copy, lists[i].text, length);
		while (weir__redis_changes_next(&rest, &field, &value))
			(void)snprintf(found + strlen(found), sizeof(found) - strlen(found), "%.*s=%.*s ",
				       (int)field.length, field.bytes, (int)value.length, value.bytes);
		CHECK_TEXT(found, lists[i].found);
		free(copy);
	}
}

TESTS(TEST(a_change_is_read_as_it_was_written), TEST(damaged_values_are_refused), TEST(what_is_not_visible_is_replaced),
      TEST(lists_end_where_they_are_damaged))
