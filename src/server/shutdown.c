/* shutdown.c: a thread that waits for signals with a deadline. */
#include "server/shutdown.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "observe/log.h"
#include "os/monotonic.h"

enum { FAILED = 1, WAKE = SIGALRM };

static sigset_t signals_of_guard(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, WAKE);
	return signals;
}

void weir__shutdown_block_signals(void)
{
	const sigset_t signals = signals_of_guard();

	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

/* Returns the signal that came, or 0 at the deadline. */
static int wait_for_signal(const sigset_t *signals, uint64_t until_ms)
{
	const uint64_t now_ms = weir__monotonic_ms(), hour_ms = 3600000;
	const uint64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 0,
		       wait_ms = left_ms < hour_ms ? left_ms : hour_ms;
	const struct timespec wait = { .tv_sec = (time_t)(wait_ms / 1000),
				       .tv_nsec = (long)(wait_ms % 1000) * 1000000 };
	const int signal = sigtimedwait(signals, NULL, &wait);

	return signal < 0 ? 0 : signal;
}

static void *keep(void *guard_)
{
	struct weir__shutdown_guard *const guard = guard_;
	const sigset_t signals = signals_of_guard();

	while (!atomic_load(&guard->is_over)) {
		const int signal = wait_for_signal(&signals, atomic_load(&guard->until_ms));
		const bool is_told = (signal == SIGTERM || signal == SIGINT) &&
				     weir__monotonic_ms() >= guard->deaf_until_ms;

		if (atomic_load(&guard->is_over))
			break;
		if (is_told)
			weir__log_say_now(guard->log, WEIR__LOG_ERROR, "%s", guard->on_signal);
		else if (weir__monotonic_ms() >= atomic_load(&guard->until_ms))
			weir__log_say_now(
				guard->log, WEIR__LOG_ERROR,
				"a thread did not stop in time, perhaps because a file system hangs: exiting without it");
		else
			continue;
		_exit(FAILED);
	}
	return NULL;
}

void weir__shutdown_guard_start(struct weir__shutdown_guard *guard, struct weir__log *log, uint64_t deaf_ms,
				const char *on_signal)
{
	guard->log = log;
	guard->deaf_until_ms = deaf_ms > 0 ? weir__monotonic_ms() + deaf_ms : 0;
	guard->on_signal = on_signal;
	atomic_store(&guard->until_ms, UINT64_MAX);
	atomic_store(&guard->is_over, false);
	guard->is_running = pthread_create(&guard->thread, NULL, keep, guard) == 0;
}

void weir__shutdown_guard_limit(struct weir__shutdown_guard *guard, uint64_t within_ms)
{
	if (!guard->is_running)
		return;
	atomic_store(&guard->until_ms, weir__monotonic_ms() + within_ms);
	(void)pthread_kill(guard->thread, WAKE);
}

void weir__shutdown_guard_stop(struct weir__shutdown_guard *guard)
{
	if (!guard->is_running)
		return;
	atomic_store(&guard->is_over, true);
	(void)pthread_kill(guard->thread, WAKE);
	(void)pthread_join(guard->thread, NULL);
	guard->is_running = false;
}
