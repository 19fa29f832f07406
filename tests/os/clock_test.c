/* clock_test.c: the process's clock beside the kernel's, and on all cores at once. */
#include <weir/clock.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* Far more than the clock's own error, far less than a minute's window. */
#define TOLERANCE UINT64_C(50000000)

static weir_ns wall_clock(void)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	return (weir_ns)at.tv_sec * 1000000000 + (weir_ns)at.tv_nsec;
}

static void the_source_is_what_the_kernel_trusts(void)
{
	char line[32] = "";
	FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");

	if (file) {
		CHECK(fgets(line, sizeof(line), file) != NULL);
		fclose(file);
	}
#if defined(__x86_64__)
	CHECK_TEXT(weir_clock_source(), strcmp(line, "tsc\n") == 0 ? "tsc" : "monotonic");
#else
	CHECK_TEXT(weir_clock_source(), "monotonic");
#endif
}

static void it_agrees_with_the_wall_clock(void)
{
	for (int i = 0; i < 200000; i++) {
		const weir_ns before = wall_clock(), now = weir_clock_now(), after = wall_clock();

		if (now + TOLERANCE < before || now > after + TOLERANCE)
			CHECK_EQ(now, before);
	}
}

static void it_never_goes_back_on_one_thread(void)
{
	weir_ns last = weir_clock_now();

	for (int i = 0; i < 3000000; i++) { /* long enough to be steered several times */
		const weir_ns now = weir_clock_now();

		if (now < last)
			CHECK_EQ(now, last);
		last = now;
	}
}

static _Atomic weir_ns newest;
static _Atomic uint64_t went_back;

/* Reading the clock is no fence: it may happen before the load of what another thread read. Here it must not. */
static void fence(void)
{
#if defined(__x86_64__)
	__builtin_ia32_lfence();
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

static void *watch(void *core)
{
	cpu_set_t cores;

	CPU_ZERO(&cores);
	CPU_SET((size_t)(uintptr_t)core, &cores);
	(void)sched_setaffinity(0, sizeof(cores), &cores);
	for (int i = 0; i < 500000; i++) {
		weir_ns seen = atomic_load(&newest), now;

		fence();
		now = weir_clock_now();
		if (now < seen)
			atomic_fetch_add(&went_back, 1);
		while (seen < now && !atomic_compare_exchange_weak(&newest, &seen, now))
			;
	}
	return NULL;
}

static void it_never_goes_back_between_cores(void)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[4];

	for (long i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, watch, (void *)(uintptr_t)(i % cores));
	for (long i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(atomic_load(&went_back), 0);
}

TESTS(TEST(the_source_is_what_the_kernel_trusts), TEST(it_agrees_with_the_wall_clock),
      TEST(it_never_goes_back_on_one_thread), TEST(it_never_goes_back_between_cores))
