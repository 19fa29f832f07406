/* policy_identity.h: identifies a version of a policy by a 64-bit hash of its files and of the files that they name.
 * Collisions are ignored as too unlikely. */
#ifndef WEIR_POLICY_SOURCE_POLICY_IDENTITY_H
#define WEIR_POLICY_SOURCE_POLICY_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir_policy;
struct weir__policy_version;

struct weir__policy_identity {
	uint64_t hash;
	struct weir__policy_named_file {
		char *path;
		uint64_t hash;
	} * files;
	size_t n;
};

/* Hashes the version's own files, without the files that they name. */
uint64_t weir__policy_version_hash(const struct weir__policy_version *version);

/* If memory runs out, the identity matches no version. An unchanged policy is then loaded again, which does no harm. */
struct weir__policy_identity weir__policy_identify(const struct weir__policy_version *version,
						   const struct weir_policy *policy);
void weir__policy_forget(struct weir__policy_identity *identity);

/* Whether the version has this identity and the named files have not changed. */
bool weir__policy_is_current(const struct weir__policy_identity *current, const struct weir__policy_version *version);

#endif
