/* shutdown.h: ends the process when its orderly end, or its start, takes too long or is interrupted.
 *
 * The main thread waits for signals only while the server serves. During the start and the end it may wait for a file
 * system that hangs, or join a thread that does. A guard is a thread that waits for signals meanwhile. Tables survive
 * such an end, as they survive a kill. */
#ifndef WEIR_SERVER_SHUTDOWN_H
#define WEIR_SERVER_SHUTDOWN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weir__log;

struct weir__shutdown_guard {
	struct weir__log *log;
	const char *on_signal;  /* what the log says if a signal ended the process */
	uint64_t deaf_until_ms; /* earlier signals count as copies of the first one */
	_Atomic uint64_t until_ms;
	_Atomic bool is_over;
	pthread_t thread;
	bool is_running;
};

/* Blocks SIGTERM, SIGINT and the guard's own signal in this thread, and in all threads that it starts from then on. */
void weir__shutdown_block_signals(void);

/* After deaf_ms, SIGTERM and SIGINT end the process at once, with exit status 1. Does nothing if a thread cannot be
 * started. */
void weir__shutdown_guard_start(struct weir__shutdown_guard *guard, struct weir__log *log, uint64_t deaf_ms,
				const char *on_signal);

/* Ends the process in the same way unless the guard stops within this time. Replaces the time that was set before. */
void weir__shutdown_guard_limit(struct weir__shutdown_guard *guard, uint64_t within_ms);

/* Stops the guard. The main thread receives signals again. */
void weir__shutdown_guard_stop(struct weir__shutdown_guard *guard);

#endif
