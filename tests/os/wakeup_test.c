/* wakeup_test.c: a descriptor that is readable between set and clear. */
#include "os/wakeup.h"

#include <poll.h>

#include "check.h"

static bool is_readable(int wakeup)
{
	struct pollfd look = { .fd = wakeup, .events = POLLIN };

	return poll(&look, 1, 0) == 1;
}

static void readable_until_cleared(void)
{
	const int wakeup = weir__wakeup_new();

	CHECK(wakeup >= 0);
	CHECK(!is_readable(wakeup));
	weir__wakeup_set(wakeup);
	weir__wakeup_set(wakeup);
	weir__wakeup_wait(wakeup);
	CHECK(is_readable(wakeup));
	weir__wakeup_clear(wakeup);
	CHECK(!is_readable(wakeup));
	weir__wakeup_clear(wakeup); /* does not block */
	weir__wakeup_free(wakeup);
	weir__wakeup_free(-1);
}

TESTS(TEST(readable_until_cleared))
