/* timer_test.c: when the descriptor becomes readable. The test only waits for the kernel and measures no time. */
#include "os/timer.h"

#include <poll.h>

#include "check.h"

static int is_readable(int timer, int timeout_ms)
{
	struct pollfd room = { .fd = timer, .events = POLLIN };

	return poll(&room, 1, timeout_ms);
}

static void a_timer_is_readable_after_its_duration(void)
{
	const int timer = weir__timer_new();

	CHECK(timer >= 0);
	CHECK_EQ(is_readable(timer, 0), 0);
	weir__timer_set(timer, 1000000);
	CHECK_EQ(is_readable(timer, 10000), 1);
	weir__timer_set(timer, WEIR_NEVER);
	CHECK_EQ(is_readable(timer, 0), 0);
	weir__timer_set(timer, 0);
	CHECK_EQ(is_readable(timer, 10000), 1);
	weir__timer_set(timer, WEIR_NEVER - 1); /* 584 years */
	CHECK_EQ(is_readable(timer, 0), 0);
	weir__timer_free(timer);
	weir__timer_free(-1);
}

TESTS(TEST(a_timer_is_readable_after_its_duration))
