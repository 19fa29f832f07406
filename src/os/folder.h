/* folder.h: the files of a directory. */
#ifndef WEIR_OS_FOLDER_H
#define WEIR_OS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

bool weir__folder_is(const char *path);

/* Lists the paths of the files in a directory whose names end in one of `endings`, a list that ends with NULL. Hidden
 * files are left out. The order is by the bytes of their names, whatever the locale. Returns 0 or an errno. */
struct weir__folder_files {
	char **paths;
	size_t n;
};
int weir__folder_read(const char *path, const char *const endings[], struct weir__folder_files *ret_files);
void weir__folder_free(struct weir__folder_files *files);

#endif
