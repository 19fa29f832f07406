/* path.c: any bytes as a path and as a path pattern. A normalised path begins with a slash, has no segment that is
 * empty, `.` or `..`, and normalises to itself. Patterns match as a simple matcher does.
 *
 * An input is the path up to its first NUL, then the pattern. */
#include "policy/path.h"

#include "require.h"

enum { SEGMENTS_MOST = 24, LENGTH_MOST = 64 };

/* Normalises into memory of exactly the allowed size. The caller frees .at. */
static struct weir__slice normalise(struct weir__slice text)
{
	char *const copy = malloc(text.n + 1), *const room = malloc(text.n + 1);
	struct weir__slice normal;

	if (copy == NULL || room == NULL)
		abort();
	if (text.n > 0)
		memcpy(copy, text.at, text.n);
	normal = weir__path_normalise((struct weir__slice){ copy, text.n }, room);
	free(copy);
	require(normal.at == room && normal.n >= 1 && normal.n <= text.n + 1, "longer than it may be");
	return normal;
}

static bool is_escape(struct weir__slice text, size_t at)
{
	return text.at[at] == '%' && text.n - at > 2 && strchr("0123456789abcdefABCDEF", text.at[at + 1]) &&
	       text.at[at + 1] && strchr("0123456789abcdefABCDEF", text.at[at + 2]) && text.at[at + 2];
}

/* False if normalising again would change the path: it still has an escape, or a `?` or `#` that was escaped. */
static bool is_read_alike(struct weir__slice path)
{
	for (size_t i = 0; i < path.n; i++)
		if (path.at[i] == '?' || path.at[i] == '#' || is_escape(path, i))
			return false;
	return true;
}

/* Returns how many segments a normalised path has, and writes the first SEGMENTS_MOST. */
static size_t split(struct weir__slice path, struct weir__slice segments[SEGMENTS_MOST])
{
	size_t n = 0;

	for (size_t begin = 1; begin < path.n; n++) {
		size_t end = begin;

		while (end < path.n && path.at[end] != '/')
			end++;
		if (n < SEGMENTS_MOST)
			segments[n] = (struct weir__slice){ path.at + begin, end - begin };
		begin = end + 1;
	}
	return n;
}

static void check_normal(struct weir__slice path)
{
	struct weir__slice segments[SEGMENTS_MOST], again;
	const size_t n = split(path, segments);

	require(path.at[0] == '/', "does not begin with a slash");
	require(path.n == 1 || path.at[path.n - 1] != '/', "ends with a slash");
	for (size_t i = 0; i < n && i < SEGMENTS_MOST; i++)
		require(segments[i].n > 0 && !weir__slice_is(segments[i], ".") && !weir__slice_is(segments[i], ".."),
			"has a segment that it may not have");
	if (is_read_alike(path)) {
		again = normalise(path);
		require(weir__slice_equal(path, again), "normalised again, it is another");
		free((char *)again.at);
	}
	for (unsigned i = 0; i < n && i < SEGMENTS_MOST; i++)
		require(path.at + weir__path_start(path, i + 1) == segments[i].at + segments[i].n,
			"a segment ends elsewhere");
	require(weir__path_start(path, (unsigned)n + 1) == 0, "another number of segments");
}

/* Dynamic programming over prefixes of pattern and text. */
static bool plain_glob(struct weir__slice pattern, struct weir__slice text)
{
	static bool fits[LENGTH_MOST + 2][LENGTH_MOST + 2];

	for (size_t p = 0; p <= pattern.n; p++)
		for (size_t t = 0; t <= text.n; t++) {
			const bool is_star = p > 0 && pattern.at[p - 1] == '*';

			if (p == 0)
				fits[p][t] = t == 0;
			else if (is_star)
				fits[p][t] = fits[p - 1][t] || (t > 0 && fits[p][t - 1]);
			else
				fits[p][t] = t > 0 && fits[p - 1][t - 1] && pattern.at[p - 1] == text.at[t - 1];
		}
	return fits[pattern.n][text.n];
}

static bool plain_fits(const struct weir__slice *pattern, size_t n_pattern, const struct weir__slice *path,
		       size_t n_path)
{
	static bool fits[SEGMENTS_MOST + 1][SEGMENTS_MOST + 1];

	for (size_t p = 0; p <= n_pattern; p++)
		for (size_t t = 0; t <= n_path; t++) {
			if (p == 0)
				fits[p][t] = t == 0;
			else if (weir__slice_is(pattern[p - 1], "**"))
				fits[p][t] = fits[p - 1][t] || (t > 0 && fits[p][t - 1]);
			else
				fits[p][t] = t > 0 && fits[p - 1][t - 1] && plain_glob(pattern[p - 1], path[t - 1]);
		}
	return fits[n_pattern][n_path];
}

static void check_pattern(struct weir__slice pattern, struct weir__slice path)
{
	struct weir__slice of_pattern[SEGMENTS_MOST], of_path[SEGMENTS_MOST];
	const size_t n_pattern = split(pattern, of_pattern), n_path = split(path, of_path);

	if (pattern.n > LENGTH_MOST || path.n > LENGTH_MOST || n_pattern > SEGMENTS_MOST || n_path > SEGMENTS_MOST)
		return;
	require(weir__glob_fits(pattern, path) == plain_glob(pattern, path), "a glob fits what it should not");
	require(weir__path_fits(pattern, path) == plain_fits(of_pattern, n_pattern, of_path, n_path),
		"a pattern fits what it should not");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *const end = size ? memchr(data, '\0', size) : NULL;
	const size_t length = end ? (size_t)(end - data) : size;
	const struct weir__slice path = normalise((struct weir__slice){ (const char *)data, length });
	struct weir__slice pattern;

	check_normal(path);
	if (end) {
		pattern = normalise((struct weir__slice){ (const char *)end + 1, size - length - 1 });
		check_normal(pattern);
		check_pattern(pattern, path);
		free((char *)pattern.at);
	}
	require(weir__path_fits(weir__slice_of("/**"), path), "/** does not fit");
	free((char *)path.at);
	return 0;
}
