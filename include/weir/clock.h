/* clock.h: Unix time that never steps back, for rate limiters.
 *
 * The clock never steps back and runs evenly. It is anchored to the wall clock once. The processor's counter drives it
 * where the kernel trusts that counter (x86-64, clocksource tsc), else CLOCK_MONOTONIC. It is steered gently, by at
 * most 500 ppm, towards the wall clock. If the wall clock is set forward by more than a second, this clock follows at
 * once. If the wall clock is set back, this clock slows down until they meet.
 *
 * The clock never goes back for one thread. A thread that reads it right after it saw the effect of another thread may
 * read a few nanoseconds less than that thread did. No decision depends on that.
 *
 * Functions that decide take `now` as an argument, so tests and replays can pass any time instead. Only functions that
 * wait read this clock themselves. The functions below never block and may be called from any thread. */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <weir/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the time now. Safe from any thread and across fork. The first call in a process takes about 200 us to
 * calibrate. */
WEIR_API weir_ns weir_clock_now(void);

/* Returns what drives the clock: "tsc" or "monotonic". The text is constant. Safe from any thread. */
WEIR_API const char *weir_clock_source(void);

#ifdef __cplusplus
}
#endif
#endif
