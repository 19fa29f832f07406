/* redis_backlog.h: what was admitted without Redis, and is to be taken there when it is back.
 *
 * A bounded map: of a key of a limit, how much. Whoever admits adds to it, from any thread; one thread pays, many keys in a
 * call. What does not fit is counted as forgotten. */
#ifndef WEIR_STORE_REDIS_REDIS_BACKLOG_H
#define WEIR_STORE_REDIS_REDIS_BACKLOG_H

#include "store/redis/redis_job.h"

enum {
	WEIR__REDIS_BACKLOG_KEYS = 65536,
	WEIR__REDIS_BACKLOG_BYTES = 1 << 25, /* of names, keys and what is known of them */
	WEIR__REDIS_PAYMENT_KEYS = 128,
	WEIR__REDIS_PAYMENT_PLANS = 64, /* a call may have as many */
};

struct weir__redis_backlog;
struct weir__redis_backlog_key;

/* Units but for the first. */
struct weir__redis_backlog_info {
	uint64_t keys;      /* that are still to be paid in */
	uint64_t charged;   /* taken there */
	uint64_t excess;    /* more than was left there */
	uint64_t uncertain; /* sent to be taken, and no answer came: it is not sent again */
	uint64_t dropped;   /* no room to remember */
};

/* Some of it on its way. Large: there is one. */
struct weir__redis_backlog_charge {
	struct weir__redis_job job;
	size_t n;
	struct weir__redis_backlog_key *backlog[WEIR__REDIS_PAYMENT_KEYS];
	struct weir__redis_claim claims[WEIR__REDIS_PAYMENT_KEYS];
	struct weir__redis_request requests[WEIR__REDIS_PAYMENT_KEYS];
	struct weir_verdict verdicts[WEIR__REDIS_PAYMENT_KEYS];
	size_t n_plans;
	struct weir__redis_plan plans[WEIR__REDIS_PAYMENT_PLANS];
	const void *limits[WEIR__REDIS_PAYMENT_PLANS]; /* whose plans they are */
};

/* NULL: no memory. The seed is a secret: with it, keys could be found that meet in one place. */
struct weir__redis_backlog *weir__redis_backlog_new(uint64_t seed);

/* No payment is on its way. */
void weir__redis_backlog_free(struct weir__redis_backlog *backlog);

/* Adds to what the key owes. A limit is known by its name; the plan that came last is paid by. True: before, nothing was
 * owed at all. */
bool weir__redis_backlog_add(struct weir__redis_backlog *backlog, const struct weir__redis_plan *plan,
			     struct weir__resp_slice name, struct weir__resp_slice key, uint64_t cost);

/* Takes out what has been owed longest, as requests of a job. False: there is nothing. */
bool weir__redis_backlog_begin(struct weir__redis_backlog *backlog, struct weir__redis_backlog_charge *charge);

/* The job is done: what was not asked for is owed as before. */
void weir__redis_backlog_end(struct weir__redis_backlog *backlog, struct weir__redis_backlog_charge *charge);

void weir__redis_backlog_info(struct weir__redis_backlog *backlog, struct weir__redis_backlog_info *ret_info);

#endif
