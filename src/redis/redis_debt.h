/* redis_debt.h: what was admitted without Redis, and is to be taken there when it is back.
 *
 * A bounded map: of a key of a limit, how much. Whoever admits adds to it, from any thread; one thread pays, many keys in a
 * call. What does not fit is counted as forgotten. */
#ifndef WEIR_REDIS_REDIS_DEBT_H
#define WEIR_REDIS_REDIS_DEBT_H

#include "redis/redis_job.h"

enum {
	WEIR__REDIS_DEBTS_KEYS = 65536,
	WEIR__REDIS_DEBTS_BYTES = 1 << 25, /* of names, keys and what is known of them */
	WEIR__REDIS_PAYMENT_KEYS = 128,
	WEIR__REDIS_PAYMENT_PLANS = 64, /* a call may have as many */
};

struct weir__redis_debts;
struct weir__redis_debt;

/* Units but for the first. */
struct weir__redis_debts_info {
	uint64_t keys;      /* that are still to be paid in */
	uint64_t paid;      /* taken there */
	uint64_t drift;     /* more than was left there */
	uint64_t unsure;    /* sent to be taken, and no answer came: it is not sent again */
	uint64_t forgotten; /* no room to remember */
};

/* Some of it on its way. Large: there is one. */
struct weir__redis_payment {
	struct weir__redis_job job;
	size_t n;
	struct weir__redis_debt *debts[WEIR__REDIS_PAYMENT_KEYS];
	struct weir__redis_claim claims[WEIR__REDIS_PAYMENT_KEYS];
	struct weir__redis_request requests[WEIR__REDIS_PAYMENT_KEYS];
	struct weir_verdict verdicts[WEIR__REDIS_PAYMENT_KEYS];
	size_t n_plans;
	struct weir__redis_plan plans[WEIR__REDIS_PAYMENT_PLANS];
	const void *limits[WEIR__REDIS_PAYMENT_PLANS]; /* whose plans they are */
};

/* NULL: no memory. The seed is a secret: with it, keys could be found that meet in one place. */
struct weir__redis_debts *weir__redis_debts_new(uint64_t seed);

/* No payment is on its way. */
void weir__redis_debts_free(struct weir__redis_debts *debts);

/* Adds to what the key owes. A limit is known by its name; the plan that came last is paid by. True: before, nothing was
 * owed at all. */
bool weir__redis_debts_owe(struct weir__redis_debts *debts, const struct weir__redis_plan *plan,
			   struct weir__resp_slice name, struct weir__resp_slice key, uint64_t cost);

/* Takes out what has been owed longest, as requests of a job. False: there is nothing. */
bool weir__redis_debts_begin(struct weir__redis_debts *debts, struct weir__redis_payment *payment);

/* The job is done: what was not asked for is owed as before. */
void weir__redis_debts_end(struct weir__redis_debts *debts, struct weir__redis_payment *payment);

void weir__redis_debts_info(struct weir__redis_debts *debts, struct weir__redis_debts_info *ret_info);

#endif
