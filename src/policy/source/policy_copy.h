/* policy_copy.h: the last good policy of a server, kept in a file, for a start while the server is out of reach. */
#ifndef WEIR_POLICY_SOURCE_POLICY_COPY_H
#define WEIR_POLICY_SOURCE_POLICY_COPY_H

#include "policy/source/policy_source.h"

/* Puts it in the place of what there is, all of it or nothing. 0, or an errno. */
int weir__policy_copy_write(const char *path, const struct weir__policy_version *version);

/* What is there, under its path. 0, or an errno. */
int weir__policy_copy_read(const char *path, struct weir__policy_version *ret_version);

#endif
