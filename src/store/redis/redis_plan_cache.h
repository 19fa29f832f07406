/* redis_plan_cache.h: limits as Redis knows them: their plans, and their names there.
 *
 * A limit of the table may be changed at any time. The cache, of all workers, has its newest plan, which tells when it was
 * changed by Redis's clock. Each worker has a lookup with the plans that it uses, and checks that they are still the newest.
 * Inline limits never change: a lookup makes their plans itself. Plans are counted, and live as long as something uses them:
 * the cache, a lookup, a call that is under way. */
#ifndef WEIR_STORE_REDIS_REDIS_PLAN_CACHE_H
#define WEIR_STORE_REDIS_REDIS_PLAN_CACHE_H

#include <stdatomic.h>

#include "store/redis/redis_plan.h"
#include "store/table/table.h"

enum { WEIR__REDIS_LIMIT_NAME_SIZE = 3 * WEIR_TABLE_NAME_MAX + WEIR_LIMIT_TEXT_MAX };

struct weir__redis_shared_plan {
	_Atomic uint32_t users;
	struct weir__redis_plan redis;
	size_t name_length;
	char name[WEIR__REDIS_LIMIT_NAME_SIZE]; /* what keys in Redis begin with */
};

/* One user is done with it. NULL is allowed. */
void weir__redis_shared_plan_drop(struct weir__redis_shared_plan *plan);

/* Can it be in Redis? WEIR_ERR_...: no, and the message tells what would be right. */
int weir__redis_check_limit(const struct weir_limit *limit, struct weir_message *ret_message);

/* Where the state of a limit is found in Redis: the name of its plan in a policy. */
const char *weir__redis_limit_name(const struct weir_table_limit *limit);

/* --- of all workers ---------------------------------------------------------------------------------------------- */

struct weir__redis_plan_cache;

/* NULL: no memory. */
struct weir__redis_plan_cache *weir__redis_plan_cache_new(struct weir_table *table);
void weir__redis_plan_cache_free(struct weir__redis_plan_cache *cache); /* NULL is allowed */

/* What Redis's clock was a moment ago. */
void weir__redis_plan_cache_set_clock(struct weir__redis_plan_cache *cache, weir_ns redis_now);

/* --- of one worker ----------------------------------------------------------------------------------------------- */

struct weir__redis_plan_lookup;

/* Inline limits that share one state for all their numbers have this secret, of CL.THROTTLE, or else THROTTLE's. NULL: no
 * memory. */
struct weir__redis_plan_lookup *weir__redis_plan_lookup_new(struct weir__redis_plan_cache *cache,
							    struct weir__hash_secret throttle_secret);
void weir__redis_plan_lookup_free(struct weir__redis_plan_lookup *lookup); /* NULL is allowed */

/* The plan of a limit as it is now. Count it to use it for longer than until the next call. NULL: there is none, or no
 * memory. */
struct weir__redis_shared_plan *weir__redis_plan_lookup_find(struct weir__redis_plan_lookup *lookup,
							     const struct weir_table_limit *limit);

#endif
