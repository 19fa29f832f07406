/* lock.h: a mutex of four bytes in memory that its users provide. Waiting threads sleep in the kernel. Do not use it in
 * memory shared between processes: a process killed while it holds the lock would never release it. */
#ifndef WEIR_OS_LOCK_H
#define WEIR_OS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* 0: free. 1: held. 2: held, and a thread may be asleep. All zero is a free lock. */
struct weir__lock {
	uint32_t word;
};

void weir__lock_acquire_slow(struct weir__lock *lock);
void weir__lock_wake(struct weir__lock *lock);

static inline bool weir__lock_try(struct weir__lock *lock)
{
	uint32_t free_word = 0;

	return __atomic_compare_exchange_n(&lock->word, &free_word, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void weir__lock_acquire(struct weir__lock *lock)
{
	if (!weir__lock_try(lock))
		weir__lock_acquire_slow(lock);
}

static inline void weir__lock_release(struct weir__lock *lock)
{
	if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
		weir__lock_wake(lock);
}

#endif
