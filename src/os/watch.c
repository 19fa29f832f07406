/* watch.c: inotify, directory by directory. */
#include "os/watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	LINKS_MAX = 8, /* links in a row */
	CHANGES = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE |
		  IN_DELETE_SELF | IN_MOVE_SELF,
};

void weir__watch_init(struct weir__watch *watch)
{
	watch->descriptor = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	watch->is_blind = watch->descriptor < 0;
	watch->n = 0;
}

void weir__watch_fini(struct weir__watch *watch)
{
	if (watch->descriptor >= 0)
		(void)close(watch->descriptor);
	watch->descriptor = -1;
}

/* --- what to watch ---------------------------------------------------------------------------------------------- */

static struct weir__watched_folder *find(const struct weir__watch *watch, int number)
{
	for (size_t i = 0; i < watch->n; i++)
		if (watch->folders[i].number == number)
			return (struct weir__watched_folder *)&watch->folders[i];
	return NULL;
}

/* A directory that is watched for two names is watched for all. */
static void watch_folder(struct weir__watch *watch, const char *folder, const char *name)
{
	const int number = inotify_add_watch(watch->descriptor, folder, CHANGES | IN_ONLYDIR);
	struct weir__watched_folder *known;

	if (number < 0) {
		watch->is_blind = true;
		return;
	}
	known = find(watch, number);
	if (known) {
		if (strcmp(known->name, name) != 0)
			known->name[0] = '\0';
		return;
	}
	if (watch->n == WEIR__WATCH_FOLDERS_MAX) {
		(void)inotify_rm_watch(watch->descriptor, number);
		watch->is_blind = true;
		return;
	}
	known = &watch->folders[watch->n++];
	known->number = number;
	(void)snprintf(known->name, sizeof(known->name), "%s", name);
}

/* Splits a path into its directory and its name there. Returns false if the text does not show them, as for "/", "."
 * and "..". */
static bool split(const char *path, char folder[PATH_MAX], char name[WEIR__WATCH_NAME_SIZE])
{
	size_t end = strlen(path), begin;

	while (end > 0 && path[end - 1] == '/')
		end--;
	for (begin = end; begin > 0 && path[begin - 1] != '/';)
		begin--;
	if (end == begin || end - begin >= WEIR__WATCH_NAME_SIZE || begin >= PATH_MAX)
		return false;
	memcpy(name, path + begin, end - begin);
	name[end - begin] = '\0';
	memcpy(folder, path, begin);
	folder[begin] = '\0';
	if (begin == 0)
		memcpy(folder, ".", sizeof("."));
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Watches everything in a directory, and that the directory itself is moved away or made again. */
static void watch_whole_folder(struct weir__watch *watch, const char *folder)
{
	char above[PATH_MAX], name[WEIR__WATCH_NAME_SIZE];

	watch_folder(watch, folder, "");
	if (split(folder, above, name))
		watch_folder(watch, above, name);
}

/* Reads the target of a symbolic link. Returns false if it is not one. */
static bool read_link(const char *path, const char *folder, char ret_target[PATH_MAX])
{
	char text[PATH_MAX];
	const ssize_t n = readlink(path, text, sizeof(text) - 1);
	int length;

	if (n <= 0)
		return false;
	text[n] = '\0';
	length = snprintf(ret_target, PATH_MAX, "%s%s%s", text[0] == '/' ? "" : folder, text[0] == '/' ? "" : "/",
			  text);
	return length > 0 && length < PATH_MAX;
}

static void watch_path(struct weir__watch *watch, const char *path)
{
	char at[PATH_MAX], folder[PATH_MAX], name[WEIR__WATCH_NAME_SIZE], target[PATH_MAX];
	struct stat status;

	if (strlen(path) >= sizeof(at)) {
		watch->is_blind = true;
		return;
	}
	memcpy(at, path, strlen(path) + 1);
	for (int links = 0; links < LINKS_MAX; links++) {
		if (stat(at, &status) == 0 && S_ISDIR(status.st_mode))
			watch_whole_folder(watch, at);
		if (!split(at, folder, name))
			return;
		if (!(stat(at, &status) == 0 && S_ISDIR(status.st_mode)))
			watch_whole_folder(watch, folder);
		if (!read_link(at, folder, target))
			return;
		memcpy(at, target, strlen(target) + 1);
	}
	watch->is_blind = true;
}

bool weir__watch_follow(struct weir__watch *watch, const char *const *paths, size_t n)
{
	const struct weir__watch before = *watch;
	bool is_more = false;

	watch->is_blind = watch->descriptor < 0;
	watch->n = 0;
	for (size_t i = 0; i < n && watch->descriptor >= 0; i++)
		watch_path(watch, paths[i]);
	for (size_t i = 0; i < watch->n; i++)
		is_more |= find(&before, watch->folders[i].number) == NULL;
	for (size_t i = 0; i < before.n; i++)
		if (find(watch, before.folders[i].number) == NULL)
			(void)inotify_rm_watch(watch->descriptor, before.folders[i].number);
	return is_more;
}

/* --- what has happened ------------------------------------------------------------------------------------------ */

static bool concerns(const struct weir__watch *watch, const struct inotify_event *event)
{
	const struct weir__watched_folder *const folder = find(watch, event->wd);

	if (event->mask & IN_Q_OVERFLOW) /* some events were lost */
		return true;
	if (folder == NULL || (event->mask & IN_IGNORED))
		return false;
	return folder->name[0] == '\0' || event->len == 0 || strcmp(event->name, folder->name) == 0;
}

bool weir__watch_take(struct weir__watch *watch)
{
	_Alignas(struct inotify_event) char events[4096];
	bool is_changed = false;
	ssize_t n;

	while ((n = read(watch->descriptor, events, sizeof(events))) > 0 || (n < 0 && errno == EINTR))
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *const event = (const void *)(events + at);

			is_changed |= concerns(watch, event);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	return is_changed;
}
