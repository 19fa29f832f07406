/* clock_stall_test.c: a thread that stops for seconds between two readings of the kernel's clocks (SIGSTOP, a frozen
 * container, a paused host) must not conclude that the wall clock was set. The test compiles the clock again with its
 * own clock_gettime. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "os/clock.h"

#define S(n) (UINT64_C(n) * 1000000000)
#define MS(n) (UINT64_C(n) * 1000000)

static weir_ns kernel_monotonic = S(1000), kernel_wall = S(1790000000);
static weir_ns stall; /* before the wall clock is read next */

static void pass(weir_ns span)
{
	kernel_monotonic += span;
	kernel_wall += span;
}

static int read_kernel(clockid_t id, struct timespec *ret_at)
{
	weir_ns now;

	if (id == CLOCK_REALTIME) {
		pass(stall);
		stall = 0;
	}
	now = id == CLOCK_MONOTONIC ? kernel_monotonic : kernel_wall;
	ret_at->tv_sec = (time_t)(now / 1000000000);
	ret_at->tv_nsec = (long)(now % 1000000000);
	pass(20);
	return 0;
}

#undef __x86_64__ /* no counter of the processor, which does not follow these clocks */
#define clock_gettime read_kernel
#include "os/clock.c"

static struct weir__clock_anchor anchor;
static struct weir__clock shared;

static weir_ns error_of(weir_ns now)
{
	return now > kernel_wall ? now - kernel_wall : kernel_wall - now;
}

static void an_anchor_begins_right(void)
{
	stall = S(3);
	weir__clock_anchor_init(&anchor);
	CHECK(error_of(kernel_monotonic + weir__clock_anchor_at(&anchor, kernel_monotonic)) < MS(1));
}

static void an_anchor_stays_right(void)
{
	weir__clock_anchor_init(&anchor);
	weir__clock_init(&shared, &anchor);
	for (int i = 0; i < 100 && !check_failed; i++) {
		pass(MS(50));
		if (i % 20 == 10)
			stall = S(5);
		CHECK(error_of(weir__clock_read(&shared)) < MS(1));
	}
}

TESTS(TEST(an_anchor_begins_right), TEST(an_anchor_stays_right))
