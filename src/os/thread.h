/* thread.h: numbers that tell threads apart, also those of other processes and of a child after fork. */
#ifndef WEIR_OS_THREAD_H
#define WEIR_OS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* 0: the thread has none yet. Threads of a process have numbers in a row, which begins anywhere. */
extern __thread uint32_t weir__thread_number_ __attribute__((tls_model("initial-exec")));
uint32_t weir__thread_number_new(void);

static inline uint32_t weir__thread_number(void)
{
	const uint32_t number = weir__thread_number_;

	return __builtin_expect(number != 0, 1) ? number : weir__thread_number_new();
}

/* The number of this process; in a child after fork another one. */
uint32_t weir__thread_process(void);

/* The thread as the kernel knows it: process and thread number; and whether such a thread is alive, as far as can be
 * seen from here. */
uint64_t weir__thread_identity(void);
bool weir__thread_is_alive(uint64_t identity);

/* Another one each time; in another thread the same with a chance of 2^-32. */
uint32_t weir__thread_nonce(void);

#endif
