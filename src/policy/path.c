/* path.c: one pass over the bytes. Dropped segments are overwritten. */
#include "policy/path.h"

#include "core/hex.h"

/* Returns the byte at text[*at], with %XX decoded, and advances *at past it. */
static char next_byte(struct weir__slice text, size_t *at)
{
	const char c = text.at[(*at)++];
	int high, low;

	if (c != '%' || text.n - *at < 2)
		return c;
	high = weir__hex_digit(text.at[*at]);
	low = weir__hex_digit(text.at[*at + 1]);
	if (high < 0 || low < 0)
		return c;
	*at += 2;
	return (char)(high << 4 | low);
}

/* Ends the segment that begins after `slash`. Returns the length of the path after `.`, `..` and empty segments are
 * applied. */
static size_t end_segment(const char *room, size_t slash, size_t length)
{
	const struct weir__slice segment = { room + slash + 1, length - slash - 1 };

	if (weir__slice_is(segment, "") || weir__slice_is(segment, "."))
		return slash;
	if (!weir__slice_is(segment, ".."))
		return length;
	while (slash > 0 && room[slash - 1] != '/') /* drops the segment before it */
		slash--;
	return slash > 0 ? slash - 1 : 0; /* and its slash */
}

struct weir__slice weir__path_normalise(struct weir__slice text, char *room)
{
	size_t length = 0, slash = 0, at = 0;

	room[length++] = '/';
	while (at < text.n && text.at[at] != '?' && text.at[at] != '#') {
		const char c = next_byte(text, &at);

		if (c == '/') {
			length = slash = end_segment(room, slash, length);
			room[length++] = '/';
		} else {
			room[length++] = c;
		}
	}
	length = end_segment(room, slash, length);
	return (struct weir__slice){ room, length > 0 ? length : 1 }; /* room[0] is a slash even if all was dropped */
}

size_t weir__path_start(struct weir__slice normalised, unsigned n)
{
	size_t bytes = 0;

	if (normalised.n <= 1)
		return 0;
	for (; n > 0; n--) {
		const char *slash;

		if (bytes == normalised.n)
			return 0;
		slash = memchr(normalised.at + bytes + 1, '/', normalised.n - bytes - 1);
		bytes = slash ? (size_t)(slash - normalised.at) : normalised.n;
	}
	return bytes;
}

/* Returns the bytes up to the next slash and advances *text past that slash. */
static struct weir__slice take_segment(struct weir__slice *text)
{
	const char *const slash = text->n > 0 ? memchr(text->at, '/', text->n) : NULL;
	const struct weir__slice segment = { text->at, slash ? (size_t)(slash - text->at) : text->n };
	const size_t used = segment.n + (slash != NULL);

	*text = (struct weir__slice){ text->at + used, text->n - used };
	return segment;
}

bool weir__glob_fits(struct weir__slice pattern, struct weir__slice text)
{
	size_t p = 0, t = 0, star = SIZE_MAX, resumed = 0;

	while (t < text.n) {
		if (p < pattern.n && pattern.at[p] == '*') {
			star = p++;
			resumed = t;
		} else if (p < pattern.n && pattern.at[p] == text.at[t]) {
			p++;
			t++;
		} else if (star != SIZE_MAX) { /* the last star takes one more byte */
			p = star + 1;
			t = ++resumed;
		} else {
			return false;
		}
	}
	while (p < pattern.n && pattern.at[p] == '*')
		p++;
	return p == pattern.n;
}

static struct weir__slice without_slash(struct weir__slice path)
{
	return path.n > 0 && path.at[0] == '/' ? (struct weir__slice){ path.at + 1, path.n - 1 } : path;
}

bool weir__path_fits(struct weir__slice pattern, struct weir__slice path)
{
	struct weir__slice behind_stars = { NULL, 0 }, resumed = { NULL, 0 };
	bool has_stars = false;

	pattern = without_slash(pattern);
	path = without_slash(path);
	for (;;) {
		struct weir__slice rest_of_pattern = pattern, rest_of_path = path;
		const struct weir__slice wanted = take_segment(&rest_of_pattern);

		if (pattern.n > 0 && weir__slice_is(wanted, "**")) {
			has_stars = true;
			pattern = behind_stars = rest_of_pattern;
			resumed = path;
			if (pattern.n == 0)
				return true;
			continue;
		}
		if (pattern.n == 0 && path.n == 0)
			return true;
		if (pattern.n > 0 && path.n > 0 && weir__glob_fits(wanted, take_segment(&rest_of_path))) {
			pattern = rest_of_pattern;
			path = rest_of_path;
			continue;
		}
		if (!has_stars || resumed.n == 0)
			return false;
		take_segment(&resumed); /* the last `**` takes one more segment */
		path = resumed;
		pattern = behind_stars;
	}
}
