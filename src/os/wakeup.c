/* wakeup.c: eventfd. */
#include "os/wakeup.h"

#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int weir__wakeup_new(void)
{
	return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void weir__wakeup_free(int wakeup)
{
	if (wakeup >= 0)
		(void)close(wakeup);
}

void weir__wakeup_set(int wakeup)
{
	const uint64_t one = 1;

	(void)!write(wakeup, &one, sizeof(one));
}

void weir__wakeup_clear(int wakeup)
{
	uint64_t ignored;

	(void)!read(wakeup, &ignored, sizeof(ignored));
}

void weir__wakeup_wait(int wakeup)
{
	struct pollfd waits = { .fd = wakeup, .events = POLLIN };

	(void)poll(&waits, 1, -1);
}
