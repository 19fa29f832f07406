/* policy_source.h: where a policy comes from: its bytes as they are now, and a descriptor that tells when they may be
 * others. Used by one thread, that of policy_loader.c; what it reads it may wait for. */
#ifndef WEIR_POLICY_SOURCE_POLICY_SOURCE_H
#define WEIR_POLICY_SOURCE_POLICY_SOURCE_H

#include "policy/read.h"

/* One version. Names are for people; files that one names are beside it. */
struct weir__policy_version {
	struct weir__policy_part *parts; /* names and texts are freed with it */
	size_t n;
};

struct weir__policy_source {
	int descriptor;   /* readable: see take; -1: none */
	const char *name; /* what messages call the version of a server; NULL: it is in files */
	bool is_blind;    /* the descriptor does not tell everything, so look from time to time */

	/* What there is now. False: it cannot be read, and why was reported. */
	bool (*read)(struct weir__policy_source *source, struct weir__diagnostics *diagnostics,
		     struct weir__policy_version *ret_version);
	/* Takes notice of what the descriptor told; whether the version may be another one. */
	bool (*take)(struct weir__policy_source *source);
	/* Files that the version has named, to be told of, too. Returns whether to look once more. */
	bool (*follow)(struct weir__policy_source *source, const char *const *files, size_t n);
	void (*free)(struct weir__policy_source *source);
};

/* A file, or a directory: all *.yaml of it but hidden ones, in the order of their names. NULL: no memory. */
struct weir__policy_source *weir__policy_source_of_path(const char *path);

/* Whether it says which limits there are, and be it none. False: that was reported. */
bool weir__policy_has_limits(const struct weir_policy *policy, struct weir__diagnostics *diagnostics);

void weir__policy_version_free(struct weir__policy_version *version);

#endif
