/* workers.h: threads that decide for a while, each on its own processor, and the line of JSON that tells of it.
 *
 * The programs of bench/ say what a decision is; peers/workers.go does the same for the peers in Go. */
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
	bool is_allowed; /* what every decision must be: a run with others measures something else, and fails */
	bool is_mixed;   /* unless this: then some are allowed, and whoever reads the line judges how many */

	double seconds; /* after a warm-up; the clock is looked at after each batch */
	uint64_t count; /* unless 0: exactly so many decisions, without a warm-up: for counting instructions */
	size_t threads;
};

/* Takes --seconds, --count or --threads from a command line; false if name is none of them. */
bool work_option(struct work *work, const char *name, const char *value);

/* Exits with a message unless threads and count can be. */
void work_check(const struct work *work);

/* Prints the line of JSON; `more` is what else belongs into it, such as ", \"keys\": 5", or "". */
void work_measure(const struct work *work, const char *more);

/* The nth processor that this process may use; exits if it has fewer. */
int work_nth_processor(size_t n);

/* Keeps the calling thread on one processor. */
void work_pin(int processor);

double work_seconds(void);

#endif
