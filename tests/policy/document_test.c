/* document_test.c: YAML as a tree, and which YAML is rejected. */
#include "policy/document.h"

#include "check.h"

static char line[WEIR__DIAGNOSTICS_LINE];

static void keep_line(void *context, const char *words)
{
	(void)context;
	strcpy(line, words);
}

static const struct weir__node *read_text(struct weir__pool *pool, const char *text)
{
	struct weir__diagnostics diagnostics = { "f", keep_line, NULL, 0 };

	line[0] = '\0';
	*pool = weir__pool_of(16 << 20);
	return weir__document_read(pool, weir__slice_of(text), &diagnostics);
}

static void trees_know_where_they_are(void)
{
	struct weir__pool pool;
	const struct weir__node *const root = read_text(&pool, "a: 1\nb:\n  - x\n  - {c: 'd'}\n");
	const struct weir__node *b, *map;

	CHECK(root && root->kind == WEIR__NODE_MAP && root->n == 2);
	CHECK_TEXT(weir__node_member(root, "a")->text.at, "1");
	b = weir__node_member(root, "b");
	CHECK(b->kind == WEIR__NODE_LIST && b->n == 2);
	map = b->members->next;
	CHECK_EQ(map->at.line, 4);
	CHECK_EQ(map->at.column, 5);
	CHECK(weir__node_member(map, "c")->is_quoted);
	CHECK(!b->members->is_quoted);
	CHECK(weir__node_member(root, "z") == NULL);
	weir__pool_free(&pool);
}

static void nothing_is_an_empty_map(void)
{
	struct weir__pool pool;
	const struct weir__node *const root = read_text(&pool, "# only words\n");

	CHECK(root && root->kind == WEIR__NODE_MAP && root->n == 0);
	weir__pool_free(&pool);
}

/* A repeated key is found in a short map and in a long one, wherever the first is. */
static void long_maps(void)
{
	static const unsigned members[] = { 2, 63, 64, 65, 1000, 16384, 16385 };
	static char text[16385 * 16];

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		for (unsigned again = 0; again < members[i]; again += 1 + members[i] / 3) {
			const bool is_long = members[i] > 16384;
			struct weir__pool pool;
			char expected[96];
			size_t n = 0;

			for (unsigned j = 0; j + 1 < members[i]; j++)
				n += (size_t)snprintf(text + n, sizeof(text) - n, "k%u: 1\n", j);
			(void)snprintf(text + n, sizeof(text) - n, "k%u: 1\n", again);
			CHECK_EQ(read_text(&pool, text) != NULL, !is_long);
			(void)snprintf(expected, sizeof(expected),
				       "f:%u:1: duplicate key 'k%u'; it was first given in line %u", members[i], again,
				       again + 1);
			CHECK_TEXT(line, is_long                 ? "f:16385:1: more than 16384 keys in one map" :
					 again + 1 == members[i] ? "" :
								   expected);
			weir__pool_free(&pool);
		}
}

static void what_is_refused(void)
{
	static const struct {
		const char *text, *line;
		bool is_readable; /* readable nevertheless, so that later errors are reported, too */
	} rows[] = {
		{ "a: 1\na: 2\n", "f:2:1: duplicate key 'a'; it was first given in line 1", true },
		{ "a: &x 1\n", "f:1:4: found an anchor (&) or tag (!), which is not supported; write the value out",
		  false },
		{ "a: *x\n", "f:1:4: found an alias (*), which is not supported; write the value out", false },
		{ "a: !!int 1\n", "f:1:4: found an anchor (&) or tag (!), which is not supported; write the value out",
		  false },
		{ "a: 1\n---\nb: 2\n", "f:2:1: found a second YAML document; a file has one", false },
		{ "[a]: 1\n", "f:1:1: found a list as a key; a key must be a string", false },
		{ "a: [1\n", "f:2:1: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence",
		  false },
		{ "a: 1\nb: \xff\n", "f:2:4: not valid YAML: invalid leading UTF-8 octet", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__pool pool;

		CHECK_EQ(read_text(&pool, rows[i].text) != NULL, rows[i].is_readable);
		CHECK_TEXT(line, rows[i].line);
		weir__pool_free(&pool);
	}
}

static void depth_and_memory_are_bounded(void)
{
	struct weir__diagnostics diagnostics = { "f", keep_line, NULL, 0 };
	struct weir__pool pool = weir__pool_of(1000);
	char deep[200];

	memset(deep, '[', 100);
	deep[100] = '\0';
	CHECK(weir__document_read(&pool, weir__slice_of("a: 1"), &diagnostics) == NULL);
	weir__pool_free(&pool);
	CHECK(read_text(&pool, deep) == NULL);
	CHECK_TEXT(line, "f:1:33: more than 32 nested lists and maps");
	weir__pool_free(&pool);
}

TESTS(TEST(trees_know_where_they_are), TEST(nothing_is_an_empty_map), TEST(long_maps), TEST(what_is_refused),
      TEST(depth_and_memory_are_bounded))
