/* policy_identity.h: what tells a version of a policy from others: 64 bits of hash, of its files and of those that they name.
 * That two of them are taken for one is not to be expected. */
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

/* Of the files of a version alone. */
uint64_t weir__policy_version_hash(const struct weir__policy_version *version);

/* Without memory a version that is the same will be taken for another one: that is no harm. */
struct weir__policy_identity weir__policy_identify(const struct weir__policy_version *version,
						   const struct weir_policy *policy);
void weir__policy_forget(struct weir__policy_identity *identity);

/* Whether it is that of the version, and the files that it names are as they were. */
bool weir__policy_is_current(const struct weir__policy_identity *current, const struct weir__policy_version *version);

#endif
