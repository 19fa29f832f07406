/* workers.h: runs threads that decide for a while, each on its own processor, and prints the result as a line of JSON.
 *
 * The programs of bench/ define what a decision is. peers/workers.go does the same for the peers in Go. */
#ifndef WEIR_BENCH_WORKERS_H
#define WEIR_BENCH_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORKERS_MAX = 64 };

/* What is measured, and for how long. */
struct work {
	/* Decides `each` times, returns how many were allowed. `thread` counts from 0. */
	uint64_t (*batch)(const void *subject, size_t thread);
	const void *subject;
	uint64_t each;
	bool is_allowed; /* what every decision must be, or the run fails */
	bool is_mixed;   /* some are allowed: is_allowed is not checked */

	double seconds; /* after a warm-up; the clock is read after each batch */
	uint64_t count; /* unless 0: the number of decisions, without a warm-up; for counting instructions */
	size_t threads;
};

/* Reads --seconds, --count or --threads. Returns false for any other name. */
bool work_option(struct work *work, const char *name, const char *value);

/* Exits with a message if threads or count is out of range. */
void work_check(const struct work *work);

/* Runs the work and prints the line of JSON. `more` is appended to it, such as ", \"keys\": 5", or "". */
void work_measure(const struct work *work, const char *more);

/* The nth processor that this process may use; exits if it has fewer. */
int work_nth_processor(size_t n);

/* Pins the calling thread to a processor. */
void work_pin(int processor);

double work_seconds(void);

#endif
