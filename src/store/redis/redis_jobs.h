/* redis_jobs.h: the jobs of a client: a queue of waiting jobs, the jobs that were sent, and a heap of deadlines. Pure
 * except for memory, which grows with the number of jobs up to a bound. */
#ifndef WEIR_STORE_REDIS_REDIS_JOBS_H
#define WEIR_STORE_REDIS_REDIS_JOBS_H

#include "store/redis/redis_job.h"

enum { WEIR__REDIS_JOBS_MAX = 16384, WEIR__REDIS_NO_JOB = -1 };

struct weir__redis_batch;

/* One job, from when it is handed in until no call refers to it. Entries are identified by index. */
struct weir__redis_entry {
	struct weir__redis_job *job; /* NULL: the job is done, only its place in a call remains */
	weir_ns deadline;
	uint64_t sequence;      /* order in which jobs were handed in */
	uint32_t lane;          /* lane in which it is under way; 0: none */
	int32_t previous, next; /* in the queue of waiting jobs; next also in the free list */
	uint32_t heap_at;
	uint32_t claims;
	bool is_waiting;
	bool is_again;                   /* it was sent once, and Redis did not have the script */
	struct weir__redis_batch *batch; /* the batch it was sent with; unused while it waits */
	uint32_t first_request;          /* index of its first request in the batch */
};

struct weir__redis_jobs {
	struct weir__redis_entry *entries;
	int32_t *heap; /* of all unfinished jobs, earliest deadline on top */
	uint32_t size, n_heap;
	int32_t free, first, last;
	uint64_t sequence;
	struct weir__redis_job *done, *last_done;
	uint64_t outcomes[3];                    /* requests, by enum weir__redis_outcome */
	enum weir__redis_failure failure;        /* why jobs fail now, or failed last; set before jobs are finished */
	uint64_t failures[WEIR__REDIS_FAILURES]; /* requests that Redis did not decide, by reason */
};

void weir__redis_jobs_init(struct weir__redis_jobs *jobs);
void weir__redis_jobs_fini(struct weir__redis_jobs *jobs);

/* Appends to the waiting jobs. Returns false if the job is invalid, or the queue is full. */
bool weir__redis_jobs_add(struct weir__redis_jobs *jobs, struct weir__redis_job *job, weir_ns deadline);

/* Removes an entry from the waiting jobs. */
void weir__redis_jobs_take(struct weir__redis_jobs *jobs, int32_t entry);

/* Puts an entry back among the waiting jobs, in the order in which they were handed in. */
void weir__redis_jobs_put_back(struct weir__redis_jobs *jobs, int32_t entry);

/* Finishes the job. A waiting entry becomes free at once, a sent one when it is released. */
void weir__redis_jobs_finish(struct weir__redis_jobs *jobs, int32_t entry, enum weir__redis_outcome outcome);
void weir__redis_jobs_release(struct weir__redis_jobs *jobs, int32_t entry);

/* Finishes, as UNREACHED, a job that never became an entry. */
void weir__redis_jobs_refuse(struct weir__redis_jobs *jobs, struct weir__redis_job *job);

/* Returns an entry whose deadline is at or before now, or WEIR__REDIS_NO_JOB. */
int32_t weir__redis_jobs_due(const struct weir__redis_jobs *jobs, weir_ns now);

/* Returns the earliest deadline, or WEIR_NEVER. */
weir_ns weir__redis_jobs_next(const struct weir__redis_jobs *jobs);

/* Removes and returns the job that was finished first, or NULL. */
struct weir__redis_job *weir__redis_jobs_done(struct weir__redis_jobs *jobs);

#endif
