/* policy_copy.c: the last good policy of etcd or Redis, as a file. */
#include "policy/source/policy_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/text_file.h"
#include "policy/source/policy_remote.h"

/* The file is readable only by its owner. */
int weir__policy_copy_write(const char *path, const struct weir__policy_version *version)
{
	return weir__text_file_replace(path, 0600, version->parts[0].text.at, version->parts[0].text.n);
}

int weir__policy_copy_read(const char *path, struct weir__policy_version *ret_version)
{
	struct weir__policy_version version = { calloc(1, sizeof(*version.parts)), 0 };
	size_t length;
	char *text;
	int error = version.parts ? weir__text_file_read(path, WEIR__POLICY_REMOTE_MOST, &text, &length) : ENOMEM;

	if (error != 0) {
		free(version.parts);
		return error;
	}
	version.parts[version.n++] =
		(struct weir__policy_part){ .text = { text, length }, .file = strdup(path), .is_text = true };
	if (version.parts[0].file == NULL) {
		weir__policy_version_free(&version);
		return ENOMEM;
	}
	*ret_version = version;
	return 0;
}
