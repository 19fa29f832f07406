/* path.h: paths of requests in one spelling, so that another spelling escapes no limit.
 *
 * What follows a '?' or '#' is no part of it. Every %XX is read, once, also %2F. Then `//` is `/`, a segment `.` is none,
 * `..` takes away the one before it, and a slash at the end is none, but for that of `/` alone. A path begins with one.
 * Upper and lower case differ. */
#ifndef WEIR_POLICY_PATH_H
#define WEIR_POLICY_PATH_H

#include "policy/slice.h"

enum { WEIR__SEGMENTS_MAX = 32 };

struct weir__path {
	struct weir__slice text;
	/* Where segments end, the first ones: text[0..ends[0]) is the first with its slash, [0..ends[1]) two of them. */
	uint16_t ends[WEIR__SEGMENTS_MAX];
	unsigned n; /* of ends */
};

/* Writes into `room`, which has text.n + 1 bytes, what of the text is the path. */
struct weir__slice weir__path_normalise(struct weir__slice text, char *room);

/* Finds the segments of a path that was normalised. */
void weir__path_split(struct weir__slice normalised, struct weir__path *ret_path);

/* Whether a pattern, normalised as a path is, fits a path: `*` stands for what has no slash in it, `**`, alone between
 * slashes, for any number of segments, also none. */
bool weir__path_fits(struct weir__slice pattern, struct weir__slice path);

/* Whether a pattern fits a text: `*` stands for anything, also for nothing. */
bool weir__glob_fits(struct weir__slice pattern, struct weir__slice text);

#endif
