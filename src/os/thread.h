/* thread.h: numbers that identify threads, including threads of other processes and of a child after fork. */
#ifndef WEIR_OS_THREAD_H
#define WEIR_OS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* 0: the thread has no number yet. The threads of a process have consecutive numbers, from a random start. */
extern __thread uint32_t weir__thread_number_ __attribute__((tls_model("initial-exec")));
uint32_t weir__thread_number_new(void);

static inline uint32_t weir__thread_number(void)
{
	const uint32_t number = weir__thread_number_;

	return __builtin_expect(number != 0, 1) ? number : weir__thread_number_new();
}

/* Returns the number of this process. A child after fork has a different one. */
uint32_t weir__thread_process(void);

/* The first returns the kernel's numbers of this process and thread. The second returns whether such a thread is alive,
 * as far as can be seen from this process. */
uint64_t weir__thread_identity(void);
bool weir__thread_is_alive(uint64_t identity);

/* Returns a different number at each call. Another thread has the same one with a probability of 2^-32. */
uint32_t weir__thread_nonce(void);

#endif
