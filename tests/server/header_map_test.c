/* header_map_test.c: which headers become attributes, and which are rejected. */
#include "server/header_map.h"

#include "check.h"

static bool add(struct weir__header_map *map, const char *text)
{
	return weir__header_map_add(map, text, strlen(text));
}

static void each_attribute_has_one_header(void)
{
	struct weir__header_map map = { .n = 0 };
	char text[256];

	CHECK(add(&map, "X-API-Key=api_key"));
	CHECK(add(&map, "X-Tenant"));
	CHECK(add(&map, "x-api-key=again"));
	CHECK(!add(&map, "authorization=api_key"));
	CHECK(!add(&map, "x-tenant"));
	CHECK_EQ(weir__header_map_show(&map, text, sizeof(text)), 51);
	CHECK_TEXT(text, "x-api-key=api_key,x-tenant=x_tenant,x-api-key=again");
}

static void what_cannot_be(void)
{
	static const char *const texts[] = { "",      "=",     "a=",   "=a",       "a b",  "a:b", "a=b=c",
					     "a=b c", "a=b,c", "a=ip", "a=method", "path", "Host" };
	struct weir__header_map map = { .n = 0 };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (add(&map, texts[i]))
			check_fail(__FILE__, __LINE__, texts[i]);
	CHECK(!weir__header_map_add(&map, "a\0b", 3));
	CHECK_EQ(map.n, 0);
}

static void there_is_room_for_so_many(void)
{
	char name[WEIR__HEADER_NAME_MAX + 1 + 1], text[WEIR__HEADER_MAP_MAX * WEIR__HEADER_SHOWN];
	struct weir__header_map map = { .n = 0 };

	memset(name, 'a', sizeof(name));
	CHECK(!weir__header_map_add(&map, name, sizeof(name) - 1));
	for (int i = 0; i < WEIR__HEADER_MAP_MAX; i++) {
		name[0] = (char)('a' + i);
		CHECK(weir__header_map_add(&map, name, WEIR__HEADER_NAME_MAX));
	}
	CHECK(!add(&map, "another"));
	CHECK(weir__header_map_show(&map, text, sizeof(text)) < sizeof(text));
}

TESTS(TEST(each_attribute_has_one_header), TEST(what_cannot_be), TEST(there_is_room_for_so_many))
