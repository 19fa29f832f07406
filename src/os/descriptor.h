/* descriptor.h: writing to a descriptor that may have no room, such as a pipe. */
#ifndef WEIR_OS_DESCRIPTOR_H
#define WEIR_OS_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether something can be written without a wait; waits for that, for so long at most. */
bool weir__descriptor_has_room(int descriptor, int timeout_ms);

/* How many bytes were written, perhaps 0; or -1: no more can be written. */
ssize_t weir__descriptor_write(int descriptor, const void *bytes, size_t n);

#endif
