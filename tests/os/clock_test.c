/* clock_test.c: the process's clock and the clock that processes share, compared with the kernel's, on all cores at
 * once. clock_anchor_test.c tests how the anchor of the shared clock moves. */
#include "os/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* Far more than the clock's own error, far less than a minute's window. */
#define TOLERANCE UINT64_C(50000000)

/* Clocks of one anchor differ by the error of their rates between two adjustments, which is microseconds. A table
 * tolerates more than this. */
#define APART UINT64_C(300000)

#define S(n) (UINT64_C(n) * 1000000000)

static weir_ns kernel_clock(clockid_t id)
{
	struct timespec at;

	clock_gettime(id, &at);
	return (weir_ns)at.tv_sec * 1000000000 + (weir_ns)at.tv_nsec;
}

static weir_ns wall_clock(void)
{
	return kernel_clock(CLOCK_REALTIME);
}

static struct weir__clock_anchor anchor;
static struct weir__clock shared;

static weir_ns shared_now(void)
{
	return weir__clock_read(&shared);
}

static void share(void)
{
	weir__clock_anchor_init(&anchor);
	weir__clock_init(&shared, &anchor);
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

static void check_agreement(weir_ns (*read)(void))
{
	for (int i = 0; i < 200000; i++) {
		const weir_ns before = wall_clock(), now = read(), after = wall_clock();

		if (now + TOLERANCE < before || now > after + TOLERANCE)
			CHECK_EQ(now, before);
	}
}

static void it_agrees_with_the_wall_clock(void)
{
	check_agreement(weir_clock_now);
}

static void a_shared_one_agrees_with_the_wall_clock(void)
{
	share();
	check_agreement(shared_now);
}

static void check_order(weir_ns (*read)(void))
{
	weir_ns last = read();

	for (int i = 0; i < 3000000; i++) { /* long enough for several adjustments */
		const weir_ns now = read();

		if (now < last)
			CHECK_EQ(now, last);
		last = now;
	}
}

static void it_never_goes_back_on_one_thread(void)
{
	check_order(weir_clock_now);
}

static void a_shared_one_never_goes_back_on_one_thread(void)
{
	share();
	check_order(shared_now);
}

static _Atomic weir_ns newest;
static _Atomic uint64_t went_back;
static weir_ns (*watched)(void);

/* Reading the clock is not a fence: the processor may do it before it loads another thread's reading. Here it must
 * not. */
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
		now = watched();
		if (now < seen)
			atomic_fetch_add(&went_back, 1);
		while (seen < now && !atomic_compare_exchange_weak(&newest, &seen, now))
			;
	}
	return NULL;
}

static void watch_on_all_cores(weir_ns (*read)(void))
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[4];

	watched = read;
	atomic_store(&newest, 0);
	for (long i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, watch, (void *)(uintptr_t)(i % cores));
	for (long i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(atomic_load(&went_back), 0);
}

static void it_never_goes_back_between_cores(void)
{
	watch_on_all_cores(weir_clock_now);
}

static void a_shared_one_never_goes_back_between_cores(void)
{
	share();
	watch_on_all_cores(shared_now);
}

/* Two clocks as in two processes: each calibrated and adjusted by itself. */
static void clocks_of_one_anchor_agree(void)
{
	struct weir__clock other;

	share();
	weir__clock_init(&other, &anchor);
	for (int i = 0; i < 1000000; i++) {
		const weir_ns before = weir__clock_read(&shared), now = weir__clock_read(&other);
		const weir_ns after = weir__clock_read(&shared);

		if (now + APART < before || now > after + APART)
			CHECK_EQ(now, before);
	}
}

/* The wall clock does not matter: a clock is the kernel's monotonic clock plus the anchor's offset. */
static void a_clock_adds_what_its_anchor_says(void)
{
	static const weir_ns ahead[] = { 0, S(50), S(1790000000) };

	for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
		const weir_ns begin = kernel_clock(CLOCK_MONOTONIC);
		weir_ns before, now;

		weir__clock_anchor_begin(&anchor, begin, begin + ahead[i]);
		weir__clock_init(&shared, &anchor);
		before = kernel_clock(CLOCK_MONOTONIC);
		now = shared_now();
		CHECK(now + APART >= before + ahead[i]);
		CHECK(now <= kernel_clock(CLOCK_MONOTONIC) + ahead[i] + APART);
	}
}

TESTS(TEST(the_source_is_what_the_kernel_trusts), TEST(it_agrees_with_the_wall_clock),
      TEST(it_never_goes_back_on_one_thread), TEST(it_never_goes_back_between_cores),
      TEST(a_shared_one_agrees_with_the_wall_clock), TEST(a_shared_one_never_goes_back_on_one_thread),
      TEST(a_shared_one_never_goes_back_between_cores), TEST(clocks_of_one_anchor_agree),
      TEST(a_clock_adds_what_its_anchor_says))
