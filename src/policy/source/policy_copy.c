/* policy_copy.c: writes a temporary file beside the copy, then renames it, so that after a power cut the file is either
 * the old or the new copy. */
#include "policy/source/policy_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/text_file.h"
#include "policy/source/policy_remote.h"

static int write_all(int file, const char *bytes, size_t length)
{
	while (length > 0) {
		const ssize_t n = write(file, bytes, length);

		if (n < 0 && errno != EINTR)
			return errno;
		bytes += n > 0 ? n : 0;
		length -= n > 0 ? (size_t)n : 0;
	}
	return fsync(file) == 0 ? 0 : errno;
}

int weir__policy_copy_write(const char *path, const struct weir__policy_version *version)
{
	char beside[PATH_MAX];
	int file, error;

	if (snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= (int)sizeof(beside))
		return ENAMETOOLONG;
	file = mkostemp(beside, O_CLOEXEC); /* mode 0600: other users may not read it */
	if (file < 0)
		return errno;
	error = write_all(file, version->parts[0].text.at, version->parts[0].text.n);
	if (close(file) != 0 && error == 0)
		error = errno;
	if (error == 0 && rename(beside, path) != 0)
		error = errno;
	if (error != 0)
		(void)unlink(beside);
	return error;
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
