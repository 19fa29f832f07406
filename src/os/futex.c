/* futex.c: the system call, which libc does not wrap. */
#include "os/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Longer durations overflow the kernel's arithmetic in places. A thread that sleeps for years wakes up once a year and
 * looks again. */
static const weir_ns longest = (weir_ns)365 * 86400 * 1000000000;

void weir__futex_wait(uint32_t *word, uint32_t seen, weir_ns at_most)
{
	const weir_ns span = at_most < longest ? at_most : longest;
	const struct timespec timeout = { .tv_sec = (time_t)(span / 1000000000), .tv_nsec = (long)(span % 1000000000) };

	(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, at_most == WEIR_NEVER ? NULL : &timeout, NULL, 0);
}

void weir__futex_wake_all(uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void weir__futex_wake_one(uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
