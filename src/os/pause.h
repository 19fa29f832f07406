/* pause.h: tells the processor that this thread is only waiting for another. */
#ifndef WEIR_OS_PAUSE_H
#define WEIR_OS_PAUSE_H

#include <sched.h>

static inline void weir__pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Lets another thread run that waits for a processor. */
static inline void weir__yield(void)
{
	(void)sched_yield();
}

/* Call this after a lost swap: it leaves the cache line to the thread that has it for a while. Two threads that take it
 * from each other for every decision get less done than one thread alone. Of 1 to 256 pauses, 16 to 64 were best. */
static inline void weir__back_off(void)
{
	for (int i = 0; i < 32; i++)
		weir__pause();
}

#endif
