/* clock.h: the time of day as rate limiters need it.
 *
 * Unix time that never steps back and runs evenly: anchored to the wall clock once, carried on by the processor's
 * counter where the kernel trusts it (x86-64, clocksource tsc), else by CLOCK_MONOTONIC, and steered gently (at most
 * 500 ppm) towards the wall clock. If the wall clock is set forward by more than a second it follows at once; if it
 * is set back, this clock slows down until they meet. It never goes back for a thread; one that reads it right after it
 * saw what another thread did may read some nanoseconds less than that one has, which no decision minds.
 *
 * Every function that decides takes `now` as an argument, so tests and replays need none of this. */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <weir/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Now. Safe from any thread and across fork. The first call in a process takes about 200 us to calibrate. */
WEIR_API weir_ns weir_clock_now(void);

/* "tsc" or "monotonic": what carries the clock on. */
WEIR_API const char *weir_clock_source(void);

#ifdef __cplusplus
}
#endif
#endif
