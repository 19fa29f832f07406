/* descriptor.h: writing to a descriptor that may have no room, such as a pipe. */
#ifndef WEIR_OS_DESCRIPTOR_H
#define WEIR_OS_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Waits until something can be written without blocking, for timeout_ms at most. Returns false if there is still no
 * room. */
bool weir__descriptor_has_room(int descriptor, int timeout_ms);

/* Returns the number of bytes written, perhaps 0, or -1 if no more can be written. */
ssize_t weir__descriptor_write(int descriptor, const void *bytes, size_t n);

#endif
