/* canceller.h: the word that a waiting thread sleeps on. Its lowest bit says cancelled; the rest counts how often somebody
 * wanted the thread to look again. Read the word, look, then sleep on what was read: nothing is missed. */
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

/* Sleeps unless the word has changed since, at most until `when`, a time of weir_clock_now. */
void weir__canceller_sleep_until(struct weir_canceller *canceller, uint32_t word, weir_ns now, weir_ns when);

/* Makes whoever sleeps on it look again. */
void weir__canceller_poke(struct weir_canceller *canceller);

#endif
