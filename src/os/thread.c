/* thread.c: numbers that identify threads. */
#include "os/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "os/memory.h"

__thread uint32_t weir__thread_number_ __attribute__((tls_model("initial-exec")));

static __thread uint32_t nonce __attribute__((tls_model("initial-exec")));
static __thread uint32_t nonce_step __attribute__((tls_model("initial-exec"))); /* odd; 0: not set yet */

static _Atomic uint32_t next_number;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t random_number(void)
{
	struct timespec now;
	uint32_t number;

	if (weir__memory_random(&number, sizeof(number)) == 0)
		return number;
	/* getrandom is forbidden, as in some sandboxes */
	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((uint32_t)getpid() << 16 ^ (uint32_t)((uintptr_t)&nonce >> 6) ^ (uint32_t)now.tv_nsec) * 0x9e3779b1u;
}

/* The child's thread is a different one from the parent's. */
static void begin_anew(void)
{
	atomic_store(&next_number, random_number());
	weir__thread_number_ = 0;
	nonce_step = 0;
}

static void begin(void)
{
	begin_anew();
	(void)pthread_atfork(NULL, NULL, begin_anew);
}

uint32_t weir__thread_number_new(void)
{
	pthread_once(&once, begin);
	while (weir__thread_number_ == 0)
		weir__thread_number_ = atomic_fetch_add(&next_number, 1);
	return weir__thread_number_;
}

uint32_t weir__thread_process(void)
{
	return (uint32_t)getpid();
}

uint64_t weir__thread_identity(void)
{
	return (uint64_t)getpid() << 32 | (uint32_t)gettid();
}

bool weir__thread_is_alive(uint64_t identity)
{
	return tgkill((pid_t)(identity >> 32), (pid_t)(uint32_t)identity, 0) == 0 || errno != ESRCH;
}

uint32_t weir__thread_nonce(void)
{
	if (nonce_step == 0) {
		weir__thread_number(); /* registers the fork handler */
		nonce = random_number();
		nonce_step = random_number() | 1;
	}
	return nonce += nonce_step;
}
