/* watch.h: says that files may have changed, whichever way programs change them.
 *
 * Watched by inotify are the directories that the files are in, not the files: editors and deployments put another file in
 * the place of one. Also watched is where each directory itself is, and where symbolic links lead, as they did when they
 * were last followed. What is told is a hint: whoever gets it looks. */
#ifndef WEIR_OS_WATCH_H
#define WEIR_OS_WATCH_H

#include <stdbool.h>
#include <stddef.h>

enum { WEIR__WATCH_FOLDERS_MAX = 64, WEIR__WATCH_NAME_SIZE = 256 };

struct weir__watch {
	int descriptor; /* readable when something has happened; -1: the system gives none */
	bool is_blind;  /* not everything is watched, so look from time to time */
	struct weir__watched_folder {
		int number;                       /* inotify's */
		char name[WEIR__WATCH_NAME_SIZE]; /* only what happens to this in it; empty: to anything */
	} folders[WEIR__WATCH_FOLDERS_MAX];
	size_t n;
};

/* Cannot fail: without inotify it is blind. */
void weir__watch_init(struct weir__watch *watch);
void weir__watch_fini(struct weir__watch *watch);

/* Watches these files and directories from now on, and nothing else. Of a directory, everything in it. Returns whether
 * anything is watched that was not before: then it may have changed before it was. What does not exist, and what is more
 * than WEIR__WATCH_FOLDERS_MAX, makes it blind. */
bool weir__watch_follow(struct weir__watch *watch, const char *const *paths, size_t n);

/* Takes all that can be read; whether it concerns what is watched. Directories may have gone: follow again. */
bool weir__watch_take(struct weir__watch *watch);

#endif
