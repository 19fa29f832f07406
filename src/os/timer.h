/* timer.h: a descriptor that becomes readable after a duration (timerfd). */
#ifndef WEIR_OS_TIMER_H
#define WEIR_OS_TIMER_H

#include <weir/types.h>

/* Returns a timer that is not set, or -1: see errno. */
int weir__timer_new(void);
void weir__timer_free(int timer); /* -1 is allowed */

/* Makes it readable after this many ns, 0 at once. WEIR_NEVER disarms it. */
void weir__timer_set(int timer, weir_ns after);

#endif
