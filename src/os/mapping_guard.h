/* mapping_guard.h: keeps a process alive when a file that it has mapped is truncated by another process.
 *
 * Touching a page beyond the end of the file raises SIGBUS. The handler extends the file to its old size, so that the
 * page exists again, filled with zeros. If the file system has no room, the handler replaces the lost pages by memory.
 * The beginning of the file, its head, is restored from a copy, which weir__mapping_guard_look renews.
 *
 * A process has one handler, so only programs install it, never the library by itself. A SIGBUS at any other address is
 * handled as before. */
#ifndef WEIR_OS_MAPPING_GUARD_H
#define WEIR_OS_MAPPING_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__mapping_guard;

struct weir__mapping_state {
	uint64_t truncations; /* how often the file was found too short */
	bool is_detached;     /* parts of the memory are no longer in the file, since that could not be extended */
	bool is_named;        /* the path still leads to this file */
};

/* `memory` is a shared mapping of the entire file. Returns 0 or an errno: EAGAIN if there are too many guards. */
int weir__mapping_guard_new(void *memory, size_t size, const char *path, size_t head_bytes,
			    struct weir__mapping_guard **ret_guard);

/* Does not unmap the memory. NULL is allowed. */
void weir__mapping_guard_free(struct weir__mapping_guard *guard);

/* Extends the file again if it is too short, and copies the head. Call it each second, from one thread. */
void weir__mapping_guard_look(struct weir__mapping_guard *guard);

/* Safe from any thread. */
struct weir__mapping_state weir__mapping_guard_state(const struct weir__mapping_guard *guard);

#endif
