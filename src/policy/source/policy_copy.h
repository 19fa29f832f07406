/* policy_copy.h: a local copy of the last good policy of a remote source, for starting while the source is
 * unreachable. */
#ifndef WEIR_POLICY_SOURCE_POLICY_COPY_H
#define WEIR_POLICY_SOURCE_POLICY_COPY_H

#include "policy/source/policy_source.h"

/* Replaces the file atomically. Returns 0 or an errno. */
int weir__policy_copy_write(const char *path, const struct weir__policy_version *version);

/* Reads the copy as a version named after its path. Returns 0 or an errno. */
int weir__policy_copy_read(const char *path, struct weir__policy_version *ret_version);

#endif
