/* wakeup.h: a descriptor by which one thread wakes another, an eventfd. It stays readable until it is cleared. */
#ifndef WEIR_OS_WAKEUP_H
#define WEIR_OS_WAKEUP_H

/* Returns the descriptor, or -1: see errno. */
int weir__wakeup_new(void);
void weir__wakeup_free(int wakeup); /* -1 is allowed */

/* Makes the descriptor readable, from any thread. */
void weir__wakeup_set(int wakeup);
void weir__wakeup_clear(int wakeup);

/* Waits until the descriptor is readable. May return early. */
void weir__wakeup_wait(int wakeup);

#endif
