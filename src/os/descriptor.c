/* descriptor.c: poll and write. */
#include "os/descriptor.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

bool weir__descriptor_has_room(int descriptor, int timeout_ms)
{
	struct pollfd room = { .fd = descriptor, .events = POLLOUT };

	return poll(&room, 1, timeout_ms) > 0;
}

ssize_t weir__descriptor_write(int descriptor, const void *bytes, size_t n)
{
	const ssize_t written = write(descriptor, bytes, n);

	return written < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : written;
}
