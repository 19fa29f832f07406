/* lock.h: a mutex of four bytes for memory that its users provide. Waiters sleep in the kernel. Not for memory shared
 * between processes: a process killed while it holds one would keep it. */
#ifndef WEIR_OS_LOCK_H
#define WEIR_OS_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* 0: free. 1: held. 2: held, and somebody may be asleep. All zero is a free lock. */
struct weir__lock {
	_Atomic uint32_t word;
};

void weir__lock_acquire_slow(struct weir__lock *lock);
void weir__lock_wake(struct weir__lock *lock);

static inline void weir__lock_acquire(struct weir__lock *lock)
{
	uint32_t free_word = 0;

	if (!atomic_compare_exchange_strong_explicit(&lock->word, &free_word, 1, memory_order_acquire,
						     memory_order_relaxed))
		weir__lock_acquire_slow(lock);
}

static inline void weir__lock_release(struct weir__lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		weir__lock_wake(lock);
}

#endif
