/* redis_job.h: what is asked of Redis together and answered together. */
#ifndef WEIR_STORE_REDIS_REDIS_JOB_H
#define WEIR_STORE_REDIS_REDIS_JOB_H

#include "store/redis/redis_call.h"

enum weir__redis_outcome {
	WEIR__REDIS_JOB_DECIDED,   /* by Redis: the verdicts say what */
	WEIR__REDIS_JOB_UNREACHED, /* Redis was not reachable in time, or refused: certainly nothing is charged there */
	WEIR__REDIS_JOB_UNANSWERED /* it was asked, and no answer came in time: perhaps it is charged */
};

/* All memory is the caller's, and stays as it is until the job is done. */
struct weir__redis_job {
	struct weir__redis_job *next; /* of whoever has the job */
	const struct weir__redis_request *requests;
	size_t n;       /* 1 and up; all claims of all of them: at most WEIR__REDIS_CALL_CLAIMS_MAX */
	weir_ns budget; /* from when it is given on; then it is done, whatever there is. A store takes off what it waited */
	uint32_t lane;           /* jobs of one lane reach Redis in the order in which they were given; 0: of none */
	weir_ns given_at;        /* of the store */
	bool is_deferred_charge; /* counted in units by redis_backlog.h, and not as requests */
	struct weir_verdict *verdicts; /* room for one for each claim of each request, in order */
	enum weir__redis_outcome outcome;
	weir_ns decided_at;                        /* Redis's clock */
	void (*done)(struct weir__redis_job *job); /* by the thread of the store; the job is the caller's again */
};

#endif
