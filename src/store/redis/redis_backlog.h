/* redis_backlog.h: deferred charges: units that were allowed without Redis and are charged there when it is back.
 * Refunds are deferred, too.
 *
 * A map from a limit's key to units, within a budget of bytes. Charges of a key are summed. Any thread adds. One thread
 * sends the charges, many keys in a call. Units that do not fit count as dropped. */
#ifndef WEIR_STORE_REDIS_REDIS_BACKLOG_H
#define WEIR_STORE_REDIS_REDIS_BACKLOG_H

#include "store/redis/redis_job.h"

enum {
	WEIR__REDIS_BACKLOG_BYTES = 1 << 26, /* memory for names, keys and bookkeeping, unless it is set */
	WEIR__REDIS_BACKLOG_LEAST = 1 << 16,
	WEIR__REDIS_CHARGE_KEYS = 128,
	WEIR__REDIS_CHARGE_REQUESTS = 2 * WEIR__REDIS_CHARGE_KEYS, /* a key may have a refund and a charge */
	WEIR__REDIS_CHARGE_PLANS = 64,                             /* plans in one call */
};

struct weir__redis_backlog;
struct weir__redis_backlog_key;

/* All in units, except `keys`. */
struct weir__redis_backlog_info {
	uint64_t keys;      /* keys with charges still to be made */
	uint64_t charged;   /* charged in Redis */
	uint64_t excess;    /* more than was left in Redis */
	uint64_t uncertain; /* sent, and no reply came; not sent again */
	uint64_t dropped;   /* memory was full */
};

/* Charges on their way to Redis. Large: there is one per thread. */
struct weir__redis_backlog_charge {
	struct weir__redis_job job;
	size_t n;
	struct weir__redis_backlog_key *keys[WEIR__REDIS_CHARGE_KEYS];
	struct weir__redis_claim claims[WEIR__REDIS_CHARGE_REQUESTS];
	struct weir__redis_request requests[WEIR__REDIS_CHARGE_REQUESTS];
	struct weir_verdict verdicts[WEIR__REDIS_CHARGE_REQUESTS];
	size_t n_plans;
	struct weir__redis_plan plans[WEIR__REDIS_CHARGE_PLANS];
	const void *limits[WEIR__REDIS_CHARGE_PLANS]; /* the limits that the plans belong to */
};

/* Uses at most this many bytes, at least WEIR__REDIS_BACKLOG_LEAST. NULL: no memory. The seed must stay secret: knowing
 * it, a client could choose keys that hash to one chain. */
struct weir__redis_backlog *weir__redis_backlog_new(uint64_t seed, size_t bytes);

/* Call it when no charge is on its way. */
void weir__redis_backlog_free(struct weir__redis_backlog *backlog);

/* An operation on a key that was done without Redis. */
enum weir__redis_deferred {
	WEIR__REDIS_DEFER_CHARGE,
	WEIR__REDIS_DEFER_REFUND, /* reduces the deferred charge. The rest is refunded in Redis, before later charges */
	WEIR__REDIS_DEFER_UNDO,   /* reduces the deferred charge; the rest is ignored */
	WEIR__REDIS_DEFER_RESET,  /* forgets the deferred charge and refund, whatever the units */
};

/* Limits are identified by name, and the latest plan of a limit is used. Returns true if no charge was waiting
 * before. */
bool weir__redis_backlog_add(struct weir__redis_backlog *backlog, const struct weir__redis_plan *plan,
			     struct weir__resp_slice name, struct weir__resp_slice key, enum weir__redis_deferred what,
			     uint64_t units);

/* Whether a reply of Redis may lack charges that were deferred before the reply was read, because some wait, are on
 * their way, or were made after Redis decided. Takes no lock. */
bool weir__redis_backlog_is_behind(const struct weir__redis_backlog *backlog, weir_ns decided_at);

/* Whether charges wait or are on their way. Takes no lock. */
bool weir__redis_backlog_has_keys(const struct weir__redis_backlog *backlog);

/* Takes out the oldest charges, as requests of a job. Returns false if there are none. */
bool weir__redis_backlog_begin(struct weir__redis_backlog *backlog, struct weir__redis_backlog_charge *charge);

/* The job is done. If Redis was not called (UNREACHED), the charges wait again. */
void weir__redis_backlog_end(struct weir__redis_backlog *backlog, struct weir__redis_backlog_charge *charge);

void weir__redis_backlog_info(struct weir__redis_backlog *backlog, struct weir__redis_backlog_info *ret_info);

#endif
