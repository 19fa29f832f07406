/* redis_job.h: requests that are sent to Redis together and decided together. */
#ifndef WEIR_STORE_REDIS_REDIS_JOB_H
#define WEIR_STORE_REDIS_REDIS_JOB_H

#include "store/redis/redis_call.h"

enum weir__redis_outcome {
	WEIR__REDIS_JOB_DECIDED,   /* Redis decided: see the verdicts */
	WEIR__REDIS_JOB_UNREACHED, /* not sent in time, or Redis rejected the call: certainly nothing was charged */
	WEIR__REDIS_JOB_UNANSWERED /* it was sent, and no reply came in time: Redis may have charged */
};

/* Why Redis did not decide a job. */
enum weir__redis_failure {
	WEIR__REDIS_SLOW,    /* connected, and no reply within the budget */
	WEIR__REDIS_GONE,    /* not connected, or the connection was lost */
	WEIR__REDIS_REFUSES, /* it replied with an error */
	WEIR__REDIS_FAILURES,
};

/* The caller owns all memory, which stays unchanged until the job is done. */
struct weir__redis_job {
	struct weir__redis_job *next; /* used by the current holder of the job */
	const struct weir__redis_request *requests;
	size_t n; /* at least 1; claims of all requests together: at most WEIR__REDIS_CALL_CLAIMS_MAX */
	/* Time until the job is done in any case, counted from when the client gets it. redis_thread.c subtracts the
	 * time that the job waited for the thread. */
	weir_ns budget;
	uint32_t lane;    /* jobs of one lane reach Redis in the order in which they were handed in; 0: no lane */
	weir_ns given_at; /* set by redis_thread.c */
	bool is_deferred_charge;       /* redis_backlog.h counts it in units; it is not counted as requests */
	struct weir_verdict *verdicts; /* room for all claims of all requests, in order */
	enum weir__redis_outcome outcome;
	weir_ns decided_at;                        /* on Redis's clock */
	void (*done)(struct weir__redis_job *job); /* called by the Redis thread; the job is the caller's again */
};

#endif
