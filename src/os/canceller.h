/* canceller.h: the word that a waiting thread sleeps on. Its lowest bit means cancelled. The other bits count how often
 * the thread was poked to look again. Read the word, look, then sleep on the word that you read: this misses no
 * wake-up. */
#ifndef WEIR_OS_CANCELLER_H
#define WEIR_OS_CANCELLER_H

#include <weir/canceller.h>

static inline uint32_t weir__canceller_word(const struct weir_canceller *canceller)
{
	return __atomic_load_n(&canceller->private_, __ATOMIC_ACQUIRE);
}

static inline bool weir__canceller_says_cancelled(uint32_t word)
{
	return word & 1;
}

/* Sleeps until `when`, a time of weir_clock_now, at most. Returns at once if the word has changed. */
void weir__canceller_sleep_until(struct weir_canceller *canceller, uint32_t word, weir_ns now, weir_ns when);

/* Wakes all threads that sleep on it, so that they look again. */
void weir__canceller_poke(struct weir_canceller *canceller);

#endif
