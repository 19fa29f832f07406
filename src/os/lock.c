/* lock.c: the slow path of lock.h. */
#include "os/lock.h"

#include "os/futex.h"

/* Critical sections are shorter than a system call, so spin a little before making one. */
enum { TRIES = 100 };

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

void weir__lock_acquire_slow(struct weir__lock *lock)
{
	for (int i = 0; i < TRIES; i++) {
		if (weir__lock_try(lock))
			return;
		relax();
	}
	while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
		weir__futex_wait(&lock->word, 2, WEIR_NEVER);
}

void weir__lock_wake(struct weir__lock *lock)
{
	weir__futex_wake_one(&lock->word);
}
