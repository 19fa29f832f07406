/* redis_jobs.h: the jobs that a client has: those that wait, in order; those that were asked; and when each has to be
 * done. Pure, but for memory, which grows with the jobs up to a bound. */
#ifndef WEIR_STORE_REDIS_REDIS_JOBS_H
#define WEIR_STORE_REDIS_REDIS_JOBS_H

#include "store/redis/redis_job.h"

enum { WEIR__REDIS_JOBS_MAX = 16384, WEIR__REDIS_NO_JOB = -1 };

struct weir__redis_batch;

/* One job, from when it is given until nobody refers to it any more. Entries are known by their numbers. */
struct weir__redis_entry {
	struct weir__redis_job *job; /* NULL: it is done, and only its place in a call is left */
	weir_ns deadline;
	uint64_t sequence;      /* in which they were given */
	uint32_t lane;          /* under way there; 0: none */
	int32_t previous, next; /* of those that wait, or that are free */
	uint32_t heap_at;
	uint32_t claims;
	bool is_waiting;
	bool is_again;                   /* it was asked, and Redis did not have the script */
	struct weir__redis_batch *batch; /* with which it travels, if it does not wait */
	uint32_t first_request;          /* there */
};

struct weir__redis_jobs {
	struct weir__redis_entry *entries;
	int32_t *heap; /* of all that are not done, the one that is due first on top */
	uint32_t size, n_heap;
	int32_t free, first, last;
	uint64_t sequence;
	struct weir__redis_job *done, *last_done;
	uint64_t outcomes[3]; /* requests, by enum weir__redis_outcome */
};

void weir__redis_jobs_init(struct weir__redis_jobs *jobs);
void weir__redis_jobs_fini(struct weir__redis_jobs *jobs);

/* Behind all that wait. False: it cannot be asked, or there is no room. */
bool weir__redis_jobs_add(struct weir__redis_jobs *jobs, struct weir__redis_job *job, weir_ns deadline);

/* One of those that wait waits no longer. */
void weir__redis_jobs_take(struct weir__redis_jobs *jobs, int32_t entry);

/* Before those that wait and were given after it. */
void weir__redis_jobs_put_back(struct weir__redis_jobs *jobs, int32_t entry);

/* The job is done. The entry is free if it was waiting, else when it is released. */
void weir__redis_jobs_finish(struct weir__redis_jobs *jobs, int32_t entry, enum weir__redis_outcome outcome);
void weir__redis_jobs_release(struct weir__redis_jobs *jobs, int32_t entry);

/* A job that never became an entry. */
void weir__redis_jobs_refuse(struct weir__redis_jobs *jobs, struct weir__redis_job *job);

/* One whose deadline is not after now, or WEIR__REDIS_NO_JOB. */
int32_t weir__redis_jobs_due(const struct weir__redis_jobs *jobs, weir_ns now);

/* The first deadline, or WEIR_NEVER. */
weir_ns weir__redis_jobs_next(const struct weir__redis_jobs *jobs);

/* The job that was done first and not yet given out, or NULL. */
struct weir__redis_job *weir__redis_jobs_done(struct weir__redis_jobs *jobs);

#endif
