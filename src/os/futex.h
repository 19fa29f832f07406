/* futex.h: sleeping on a word. Spurious returns are allowed: callers look again. */
#ifndef WEIR_OS_FUTEX_H
#define WEIR_OS_FUTEX_H

#include <weir/types.h>

/* Sleeps while *word is `seen`, for at_most at most. WEIR_NEVER: no time limit. */
void weir__futex_wait(uint32_t *word, uint32_t seen, weir_ns at_most);

void weir__futex_wake_all(uint32_t *word);
void weir__futex_wake_one(uint32_t *word);

#endif
