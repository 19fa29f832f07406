/* folder.c: scandir. */
#include "os/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool weir__folder_is(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool ends_in(const char *name, const char *const endings[])
{
	const size_t length = strlen(name);

	for (size_t i = 0; endings[i]; i++) {
		const size_t n = strlen(endings[i]);

		if (length > n && strcmp(name + length - n, endings[i]) == 0)
			return true;
	}
	return false;
}

static char *join(const char *folder, const char *name)
{
	const size_t size = strlen(folder) + strlen(name) + 2;
	char *const path = malloc(size);

	if (path)
		(void)snprintf(path, size, "%s/%s", folder, name);
	return path;
}

int weir__folder_read(const char *path, const char *const endings[], struct weir__folder_files *ret_files)
{
	struct dirent **entries;
	const int n = scandir(path, &entries, NULL, compare_names);
	struct weir__folder_files files = { NULL, 0 };
	bool has_memory = true;

	if (n < 0)
		return errno;
	files.paths = calloc((size_t)n + 1, sizeof(char *));
	for (int i = 0; i < n; i++) {
		const char *const name = entries[i]->d_name;

		if (files.paths && name[0] != '.' && ends_in(name, endings)) {
			files.paths[files.n] = join(path, name);
			has_memory &= files.paths[files.n] != NULL;
			files.n += files.paths[files.n] != NULL;
		}
		free(entries[i]);
	}
	free((void *)entries);
	if (files.paths && has_memory) {
		*ret_files = files;
		return 0;
	}
	weir__folder_free(&files);
	return ENOMEM;
}

void weir__folder_free(struct weir__folder_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		free(files->paths[i]);
	free((void *)files->paths);
	*files = (struct weir__folder_files){ NULL, 0 };
}
