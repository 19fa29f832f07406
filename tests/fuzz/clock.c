/* clock.c: replaces os/clock.c, so that an input always means the same, and so that opening a table does not spend time
 * on calibrating the processor's counter. */
#include "clock.h"

#include "os/clock.h"

static const weir_ns now = UINT64_C(1800000000000000000), monotonic = UINT64_C(1000000000000);

_Atomic weir_ns fuzz_clock_ahead;

weir_ns weir_clock_now(void)
{
	return now + fuzz_clock_ahead;
}

const char *weir_clock_source(void)
{
	return "none";
}

void weir__clock_anchor_init(struct weir__clock_anchor *anchor)
{
	weir__clock_anchor_begin(anchor, monotonic, now);
}

void weir__clock_init(struct weir__clock *clock, struct weir__clock_anchor *anchor)
{
	clock->anchor = anchor;
}

weir_ns weir__clock_read(struct weir__clock *clock)
{
	return monotonic + fuzz_clock_ahead + weir__clock_anchor_at(clock->anchor, monotonic + fuzz_clock_ahead);
}
