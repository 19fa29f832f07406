/* timer.h: a descriptor that becomes readable after a duration (timerfd). */
#ifndef WEIR_OS_TIMER_H
#define WEIR_OS_TIMER_H

#include <weir/types.h>

/* Not set. -1: errno tells why not. */
int weir__timer_new(void);
void weir__timer_free(int timer); /* -1 is allowed */

/* Readable after so many ns, 0 is at once; WEIR_NEVER: it is not set any more. */
void weir__timer_set(int timer, weir_ns after);

#endif
