/* path.h: normalises the paths of requests, so that no spelling of a path escapes a limit.
 *
 * The path ends at '?' or '#'. Every %XX is decoded once, %2F included. After that, `//` becomes `/`, a segment `.` is
 * dropped, `..` drops the segment before it, and a slash at the end is dropped, except in `/` itself. A path begins
 * with a slash. Upper and lower case are different. */
#ifndef WEIR_POLICY_PATH_H
#define WEIR_POLICY_PATH_H

#include "policy/slice.h"

enum { WEIR__SEGMENTS_MAX = 32 };

struct weir__path {
	struct weir__slice text;
	/* Where the first segments end: text[0..ends[0]) is the first segment with its slash, text[0..ends[1]) the
	 * first two. */
	uint16_t ends[WEIR__SEGMENTS_MAX];
	unsigned n; /* number of ends */
};

/* Writes the normalised path into `room`, which has text.n + 1 bytes. */
struct weir__slice weir__path_normalise(struct weir__slice text, char *room);

/* Finds the segments of a normalised path. */
void weir__path_split(struct weir__slice normalised, struct weir__path *ret_path);

/* Whether a pattern, normalised like a path, matches a path. `*` matches any bytes without a slash. `**` as a full
 * segment matches any number of segments, including none. */
bool weir__path_fits(struct weir__slice pattern, struct weir__slice path);

/* Whether a pattern matches a text. `*` matches any bytes, including none. */
bool weir__glob_fits(struct weir__slice pattern, struct weir__slice text);

#endif
