/* memory_room.c: reads /proc/meminfo, the limits of the cgroup and of all that are above it, and the file system.
 *
 * cgroup v2 has one line 0::/PATH in /proc/self/cgroup, and memory.max and memory.current in /sys/fs/cgroup/PATH. v1
 * has N:memory:/PATH, and memory.limit_in_bytes and memory.usage_in_bytes in /sys/fs/cgroup/memory/PATH. In a container
 * PATH may be the one on the host, and only the root can be seen: directories that do not exist are skipped. Usage
 * includes files that the kernel has cached. The kernel can drop files that were not used lately, so they count as
 * free. */
#include "os/memory_room.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { TEXT_SIZE = 16 * 1024 };

struct cgroup_files {
	const char *folder, *limit, *usage, *cached;
};

static const struct cgroup_files v1 = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
					"total_inactive_file" };
static const struct cgroup_files v2 = { "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file" };

/* Reads the beginning of a file. Returns false if it cannot be read. */
static bool read_text(const char *root, const char *folder, const char *name, char text[TEXT_SIZE])
{
	char path[PATH_MAX];
	ssize_t n = -1;
	int file;

	if ((size_t)snprintf(path, sizeof(path), "%s%s/%s", root, folder, name) >= sizeof(path))
		return false;
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	do
		n = read(file, text, TEXT_SIZE - 1);
	while (n < 0 && errno == EINTR);
	close(file);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Reads the number after a word at the beginning of a line. */
static bool find_number(const char *text, const char *word, uint64_t *ret_number)
{
	const size_t length = strlen(word);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, word, length) == 0 && (line[length] == ' ' || line[length] == ':')) {
			*ret_number = strtoull(line + length + 1, NULL, 10);
			return true;
		}
	}
	return false;
}

static bool read_number(const char *root, const char *folder, const char *name, uint64_t *ret_number)
{
	char text[TEXT_SIZE], *end;

	if (!read_text(root, folder, name, text))
		return false;
	*ret_number = strtoull(text, &end, 10);
	return end != text; /* "max" is not a limit */
}

static void at_most(struct weir__memory_room *room, uint64_t bytes, const char *where)
{
	if (bytes < room->bytes)
		*room = (struct weir__memory_room){ bytes, where };
}

static void look_at_machine(const char *root, struct weir__memory_room *room)
{
	char text[TEXT_SIZE];
	uint64_t kib;

	if (read_text(root, "/proc", "meminfo", text) && find_number(text, "MemAvailable", &kib) &&
	    kib <= UINT64_MAX / 1024)
		at_most(room, kib * 1024, "the machine (MemAvailable)");
}

static void look_at_cgroup(const char *root, const struct cgroup_files *files, const char *folder,
			   struct weir__memory_room *room)
{
	uint64_t limit, usage = 0, cached = 0;
	char text[TEXT_SIZE];

	if (!read_number(root, folder, files->limit, &limit) || !read_number(root, folder, files->usage, &usage))
		return;
	if (read_text(root, folder, "memory.stat", text))
		(void)find_number(text, files->cached, &cached);
	usage -= cached < usage ? cached : usage;
	at_most(room, limit > usage ? limit - usage : 0, "the memory limit of the cgroup");
}

/* From the cgroup upwards. */
static void look_at_cgroups(const char *root, const struct cgroup_files *files, const char *path,
			    struct weir__memory_room *room)
{
	char folder[PATH_MAX];
	size_t length = strcspn(path, "\n");

	for (;;) {
		while (length > 0 && path[length - 1] == '/')
			length--;
		if ((size_t)snprintf(folder, sizeof(folder), "%s%.*s", files->folder, (int)length, path) <
		    sizeof(folder))
			look_at_cgroup(root, files, folder, room);
		if (length == 0)
			return;
		while (length > 0 && path[length - 1] != '/')
			length--;
	}
}

/* Whether the word is one of those that commas separate, up to the end. */
static bool has_word(const char *words, const char *end, const char *word)
{
	const size_t length = strlen(word);

	for (const char *at = words; at < end; at += strcspn(at, ",:") + 1)
		if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == ':'))
			return true;
	return false;
}

static void look_at_own_cgroups(const char *root, struct weir__memory_room *room)
{
	char text[TEXT_SIZE];

	if (!read_text(root, "/proc/self", "cgroup", text))
		return;
	for (const char *line = text; line; line = strchr(line, '\n')) { /* NUMBER:CONTROLLER,...:PATH */
		const char *controllers, *path;

		line += *line == '\n';
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (path == NULL)
			return;
		if (path == controllers + 1)
			look_at_cgroups(root, &v2, path + 1, room);
		else if (has_word(controllers + 1, path, "memory"))
			look_at_cgroups(root, &v1, path + 1, room);
	}
}

static void look_at_file_system(const char *path, struct weir__memory_room *room)
{
	struct statvfs status;
	char folder[PATH_MAX];
	const char *const slash = strrchr(path, '/');

	if (statvfs(path, &status) != 0) {
		if ((size_t)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
				     slash ? path : ".") >= sizeof(folder) ||
		    statvfs(folder, &status) != 0)
			return;
	}
	if (status.f_blocks > 0) /* 0: a file system without a limit */
		at_most(room, (uint64_t)status.f_bavail * status.f_frsize, "the file system");
}

void weir__memory_room(const char *root, const char *path, struct weir__memory_room *ret_room)
{
	*ret_room = (struct weir__memory_room){ UINT64_MAX, "the machine" };
	look_at_machine(root, ret_room);
	look_at_own_cgroups(root, ret_room);
	if (path)
		look_at_file_system(path, ret_room);
}
