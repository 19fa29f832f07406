/* policy_identity.c: compares versions of a policy by the content of all their files. */
#include "policy/source/policy_identity.h"

#include <stdlib.h>
#include <string.h>

#include "os/text_file.h"
#include "policy/policy.h"
#include "policy/source/policy_source.h"

uint64_t weir__policy_version_hash(const struct weir__policy_version *version)
{
	uint64_t hash = 2;

	for (size_t i = 0; i < version->n; i++) {
		hash = weir__policy_hash(hash, version->parts[i].file, strlen(version->parts[i].file));
		hash = weir__policy_hash(hash, version->parts[i].text.at, version->parts[i].text.n);
	}
	return hash;
}

static bool is_named_file_same(const struct weir__policy_named_file *file)
{
	const size_t most = (size_t)1 << 30;
	size_t length;
	bool is_same;
	char *text;

	if (weir__text_file_read(file->path, most, &text, &length) != 0)
		return false;
	is_same = weir__policy_hash(0, text, length) == file->hash;
	free(text);
	return is_same;
}

bool weir__policy_is_current(const struct weir__policy_identity *current, const struct weir__policy_version *version)
{
	bool is_same = weir__policy_version_hash(version) == current->hash;

	for (size_t i = 0; is_same && i < current->n; i++)
		is_same = is_named_file_same(&current->files[i]);
	return is_same;
}

void weir__policy_forget(struct weir__policy_identity *identity)
{
	for (size_t i = 0; i < identity->n; i++)
		free(identity->files[i].path);
	free(identity->files);
	*identity = (struct weir__policy_identity){ 0 };
}

struct weir__policy_identity weir__policy_identify(const struct weir__policy_version *version,
						   const struct weir_policy *policy)
{
	struct weir__policy_identity identity = { .hash = weir__policy_version_hash(version) };
	size_t n = 0;

	for (const struct weir__policy_file *file = policy->files; file; file = file->next)
		n++;
	identity.files = calloc(n + 1, sizeof(*identity.files));
	for (const struct weir__policy_file *file = policy->files; identity.files && file; file = file->next) {
		char *const path = strdup(file->path.at);

		if (path)
			identity.files[identity.n++] = (struct weir__policy_named_file){ path, file->hash };
	}
	if (identity.n < n)
		identity.hash = 0;
	return identity;
}
