/* policy_source.h: where a policy comes from: its current bytes, and a descriptor that becomes readable when they may
 * have changed. Only the thread of policy_loader.c uses it. Reading may block. */
#ifndef WEIR_POLICY_SOURCE_POLICY_SOURCE_H
#define WEIR_POLICY_SOURCE_POLICY_SOURCE_H

#include "policy/read.h"

/* One version of a policy. File names are for messages, and for finding the files that a policy names. */
struct weir__policy_version {
	struct weir__policy_part *parts; /* names and texts are owned by the version */
	size_t n;
};

struct weir__policy_source {
	int descriptor;   /* readable: call take; -1: none */
	const char *name; /* name for messages; NULL: the policy is in files */
	bool is_blind;    /* the descriptor does not report every change, so poll as well */

	/* Reads the current version. Returns false if that fails; the reason was reported. */
	bool (*read)(struct weir__policy_source *source, struct weir__diagnostics *diagnostics,
		     struct weir__policy_version *ret_version);
	/* Consumes the descriptor's events. Returns whether the version may have changed. */
	bool (*take)(struct weir__policy_source *source);
	/* Watches the files that the version names, too. Returns whether to read once more. */
	bool (*follow)(struct weir__policy_source *source, const char *const *files, size_t n);
	void (*free)(struct weir__policy_source *source);
};

/* A file or a directory. From a directory it reads all *.yaml files except hidden ones, in the order of their names.
 * NULL: no memory, or the path is too long. */
struct weir__policy_source *weir__policy_source_of_path(const char *path);

/* Whether the policy has a list of limits, even an empty one. If not, it reports that. */
bool weir__policy_has_limits(const struct weir_policy *policy, struct weir__diagnostics *diagnostics);

void weir__policy_version_free(struct weir__policy_version *version);

#endif
