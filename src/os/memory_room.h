/* memory_room.h: how much memory is left for this process: of the machine, of its cgroups and of a file system. */
#ifndef WEIR_OS_MEMORY_ROOM_H
#define WEIR_OS_MEMORY_ROOM_H

#include <stdint.h>

struct weir__memory_room {
	uint64_t bytes;    /* UINT64_MAX: unknown */
	const char *where; /* what has no more than that, for a message */
};

/* Finds which of the three has the least left. `path` names the file system: a directory, or a file in one that need
 * not exist. NULL: no file system. `root` goes before /proc and /sys, for tests; "" is the machine's. A limit that
 * cannot be read does not count. */
void weir__memory_room(const char *root, const char *path, struct weir__memory_room *ret_room);

#endif
