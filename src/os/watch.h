/* watch.h: reports that files may have changed, by writing, replacing or moving them.
 *
 * inotify watches the directories of the files, not the files, because editors and deployments replace files. It also
 * watches the parent of each directory, and the targets of symbolic links, as of when they were last followed. A report
 * is only a hint: the caller checks the files. */
#ifndef WEIR_OS_WATCH_H
#define WEIR_OS_WATCH_H

#include <stdbool.h>
#include <stddef.h>

enum { WEIR__WATCH_FOLDERS_MAX = 64, WEIR__WATCH_NAME_SIZE = 256 };

struct weir__watch {
	int descriptor; /* readable when something has happened; -1: inotify is not available */
	bool is_blind;  /* not everything is watched, so poll from time to time */
	struct weir__watched_folder {
		int number;                       /* inotify's watch descriptor */
		char name[WEIR__WATCH_NAME_SIZE]; /* watch only this name in the directory; empty: every name */
	} folders[WEIR__WATCH_FOLDERS_MAX];
	size_t n;
};

/* Cannot fail: without inotify it is blind. */
void weir__watch_init(struct weir__watch *watch);
void weir__watch_fini(struct weir__watch *watch);

/* Watches these files and directories from now on, and nothing else. In a directory it watches everything. Returns
 * whether it watches anything that it did not before; that may have changed before the watch began. A path whose
 * directory does not exist, or directories beyond WEIR__WATCH_FOLDERS_MAX, make it blind. */
bool weir__watch_follow(struct weir__watch *watch, const char *const *paths, size_t n);

/* Takes all pending events. Returns whether they concern what is watched. Directories may have gone, so call
 * weir__watch_follow again. */
bool weir__watch_take(struct weir__watch *watch);

#endif
