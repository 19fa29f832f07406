/* timer.c: timerfd. */
#include "os/timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

int weir__timer_new(void)
{
	return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
}

void weir__timer_free(int timer)
{
	if (timer >= 0)
		(void)close(timer);
}

void weir__timer_set(int timer, weir_ns after)
{
	struct itimerspec at = { { 0, 0 }, { 0, 0 } };

	if (after != WEIR_NEVER) {
		const weir_ns wait = after > 0 ? after : 1; /* 0 would disarm it */

		at.it_value.tv_sec = (time_t)(wait / 1000000000);
		at.it_value.tv_nsec = (long)(wait % 1000000000);
	}
	(void)timerfd_settime(timer, 0, &at, NULL);
}
