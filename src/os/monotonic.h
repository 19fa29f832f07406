/* monotonic.h: the kernel's clocks, in ns: one that is never set, for timeouts, and Unix time, for people. Decisions
 * use neither: their clock is os/clock.h. */
#ifndef WEIR_OS_MONOTONIC_H
#define WEIR_OS_MONOTONIC_H

#include <weir/types.h>

#include <time.h>

static inline weir_ns weir__kernel_clock_ns(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now);
	return (weir_ns)now.tv_sec * 1000000000 + (weir_ns)now.tv_nsec;
}

static inline weir_ns weir__monotonic_ns(void)
{
	return weir__kernel_clock_ns(CLOCK_MONOTONIC);
}

/* Goes on while the machine sleeps. */
static inline weir_ns weir__boot_ns(void)
{
	return weir__kernel_clock_ns(CLOCK_BOOTTIME);
}

static inline uint64_t weir__monotonic_ms(void)
{
	return weir__monotonic_ns() / 1000000;
}

static inline weir_ns weir__unix_ns(void)
{
	return weir__kernel_clock_ns(CLOCK_REALTIME);
}

#endif
