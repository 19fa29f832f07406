/* lock.c: the kernel side of lock.h. */
#include "os/lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Critical sections are shorter than a trip into the kernel: try a little before going there. */
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
		uint32_t free_word = 0;

		if (atomic_compare_exchange_weak_explicit(&lock->word, &free_word, 1, memory_order_acquire,
							  memory_order_relaxed))
			return;
		relax();
	}
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		(void)syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void weir__lock_wake(struct weir__lock *lock)
{
	(void)syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
