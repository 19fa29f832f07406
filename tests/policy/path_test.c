/* path_test.c: normalised paths, and patterns for paths. */
#include "policy/path.h"

#include "check.h"

static const struct {
	const char *text, *normalised;
} spellings[] = {
	{ "/", "/" },
	{ "", "/" },
	{ "/v1/orders", "/v1/orders" },
	{ "v1", "/v1" },
	{ "//v1///orders//", "/v1/orders" },
	{ "/v1/./orders/.", "/v1/orders" },
	{ "/v1/x/../orders", "/v1/orders" },
	{ "/../../v1", "/v1" },
	{ "/v1/..", "/" },
	{ "/v1/x/..", "/v1" },
	{ "/%76%31/orders", "/v1/orders" },
	{ "/v1%2Forders", "/v1/orders" },
	{ "/v1/%2e%2E/x", "/x" },
	{ "/v1/%252e", "/v1/%2e" },
	{ "/v1/%zz%4", "/v1/%zz%4" },
	{ "/v1?a=/../b", "/v1" },
	{ "/v1#x", "/v1" },
	{ "/v1%3Fx", "/v1?x" },
	{ "/...", "/..." },
	{ "/a/..b", "/a/..b" },
	{ "/V1", "/V1" },
};

static void one_spelling(void)
{
	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
		char room[64], again[64];
		const struct weir__slice found = weir__path_normalise(weir__slice_of(spellings[i].text), room);

		room[found.n] = '\0';
		CHECK_TEXT(room, spellings[i].normalised);
		if (strchr(room, '%') ||
		    strchr(room, '?')) /* an escape or a '?' that was escaped would be decoded again */
			continue;
		CHECK(weir__slice_equal(weir__path_normalise(found, again), weir__slice_of(spellings[i].normalised)));
	}
}

static void segments_end_where_they_do(void)
{
	CHECK_EQ(weir__path_start(weir__slice_of("/"), 1), 0);
	CHECK_EQ(weir__path_start(weir__slice_of("/ab/c/def"), 1), 3);
	CHECK_EQ(weir__path_start(weir__slice_of("/ab/c/def"), 2), 5);
	CHECK_EQ(weir__path_start(weir__slice_of("/ab/c/def"), 3), 9);
	CHECK_EQ(weir__path_start(weir__slice_of("/ab/c/def"), 4), 0);
}

static const struct {
	const char *pattern, *path;
	bool fits;
} patterns[] = {
	{ "/v1/orders", "/v1/orders", true },
	{ "/v1/orders", "/v1/orders/7", false },
	{ "/v1/*", "/v1/orders", true },
	{ "/v1/*", "/v1", false },
	{ "/v1/*", "/v1/a/b", false },
	{ "/v1/**", "/v1", true },
	{ "/v1/**", "/v1/a/b/c", true },
	{ "/v1/**", "/v10", false },
	{ "/**", "/", true },
	{ "/**", "/a/b", true },
	{ "/*", "/", false },
	{ "/a/**/z", "/a/z", true },
	{ "/a/**/z", "/a/b/c/z", true },
	{ "/a/**/z", "/a/b/c", false },
	{ "/a/**/b/**/c", "/a/x/b/b/c", true },
	{ "/a/**/b/**/c", "/a/x/c/b", false },
	{ "/**/x/*", "/x/x/x", true },
	{ "/v1/*.json", "/v1/a.json", true },
	{ "/v1/*.json", "/v1/a.xml", false },
	{ "/v1/a*c*e", "/v1/abcde", true },
	{ "/v1/a**e", "/v1/ae", true }, /* within a segment, two stars match like one */
	{ "/v1/a**e", "/v1/a/e", false },
	{ "/", "/", true },
	{ "/", "/a", false },
};

static void patterns_of_paths(void)
{
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (weir__path_fits(weir__slice_of(patterns[i].pattern), weir__slice_of(patterns[i].path)) !=
		    patterns[i].fits) {
			printf("# %s %s\n", patterns[i].pattern, patterns[i].path);
			check_fail(__FILE__, __LINE__, "not as expected");
		}
}

static void patterns_of_texts(void)
{
	CHECK(weir__glob_fits(weir__slice_of("a*"), weir__slice_of("a/b")));
	CHECK(weir__glob_fits(weir__slice_of("*"), weir__slice_of("")));
	CHECK(weir__glob_fits(weir__slice_of("a*b*c"), weir__slice_of("abbc")));
	CHECK(!weir__glob_fits(weir__slice_of("a*b*c"), weir__slice_of("acb")));
	CHECK(!weir__glob_fits(weir__slice_of(""), weir__slice_of("a")));
}

TESTS(TEST(one_spelling), TEST(segments_end_where_they_do), TEST(patterns_of_paths), TEST(patterns_of_texts))
