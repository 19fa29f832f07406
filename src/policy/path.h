/* path.h: normalises the paths of requests, so that no spelling of a path escapes a limit.
 *
 * The path ends at '?' or '#'. Every %XX is decoded once, %2F included. After that, `//` becomes `/`, a segment `.` is
 * dropped, `..` drops the segment before it, and a slash at the end is dropped, except in `/` itself. A path begins
 * with a slash. Upper and lower case are different. */
#ifndef WEIR_POLICY_PATH_H
#define WEIR_POLICY_PATH_H

#include "policy/slice.h"

/* Writes the normalised path into `room`, which has text.n + 1 bytes. */
struct weir__slice weir__path_normalise(struct weir__slice text, char *room);

/* How many bytes the first n segments of a normalised path have, 1 or more, each with its slash. 0: it has fewer
 * segments. */
size_t weir__path_start(struct weir__slice normalised, unsigned n);

/* Whether a pattern, normalised like a path, matches a path. `*` matches any bytes without a slash. `**` as a full
 * segment matches any number of segments, including none. */
bool weir__path_fits(struct weir__slice pattern, struct weir__slice path);

/* Whether a pattern matches a text. `*` matches any bytes, including none. */
bool weir__glob_fits(struct weir__slice pattern, struct weir__slice text);

#endif
