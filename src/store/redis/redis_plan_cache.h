/* redis_plan_cache.h: limits as Redis knows them: their plans, and their names in Redis.
 *
 * A limit of the table may change at any time. The cache, shared by all workers, has the newest plan of each limit,
 * which records when it was set on Redis's clock. Until a reply has told the time of that clock, a plan has its age
 * instead. Each worker has a lookup with the plans that it uses, and checks that they are still the newest. Inline
 * limits never change, so a lookup makes their plans itself. Plans are reference-counted: the cache, a lookup or a call
 * under way keeps them alive. */
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
	char name[WEIR__REDIS_LIMIT_NAME_SIZE]; /* prefix of the limit's keys in Redis */
};

/* Drops one reference. NULL is allowed. */
void weir__redis_shared_plan_drop(struct weir__redis_shared_plan *plan);

/* Checks whether a limit fits Redis. WEIR_ERR_...: it does not, and the message says what would. */
int weir__redis_check_limit(const struct weir_limit *limit, struct weir_message *ret_message);

/* The name of a limit in Redis: the name of its plan in a policy. */
const char *weir__redis_limit_name(const struct weir_table_limit *limit);

/* --- shared by all workers --------------------------------------------------------------------------------------- */

struct weir__redis_plan_cache;

/* NULL: no memory. */
struct weir__redis_plan_cache *weir__redis_plan_cache_new(struct weir_table *table);
void weir__redis_plan_cache_free(struct weir__redis_plan_cache *cache); /* NULL is allowed */

/* Reports the current time of Redis's clock. */
void weir__redis_plan_cache_set_clock(struct weir__redis_plan_cache *cache, weir_ns redis_now);

/* --- of one worker ----------------------------------------------------------------------------------------------- */

struct weir__redis_plan_lookup;

/* Where limits come from. */
struct weir__redis_plan_source {
	uint64_t (*changes)(void *context); /* how often limits were added or removed; their changes need not count */
	/* When a limit was put into force, on the table's clock. 0: unknown. It may have changed since. */
	weir_ns (*since)(void *context, const struct weir_table_limit *limit);
	void *context;
};

/* throttle_secret identifies the inline limits of CL.THROTTLE. Like those of THROTTLE, they share one state per key,
 * whatever their numbers. NULL: no memory. */
struct weir__redis_plan_lookup *weir__redis_plan_lookup_new(struct weir__redis_plan_cache *cache,
							    struct weir__hash_secret throttle_secret,
							    const struct weir__redis_plan_source *source);
void weir__redis_plan_lookup_free(struct weir__redis_plan_lookup *lookup); /* NULL is allowed */

/* Call it before each batch: plans with ages are made again, and after a change of the source all plans. Until the next
 * call, a limit that does not change keeps its plan. */
void weir__redis_plan_lookup_begin(struct weir__redis_plan_lookup *lookup);

/* Returns the current plan of a limit, valid until the next call. Add a reference to use it for longer. NULL: the limit
 * does not fit Redis, or no memory. */
struct weir__redis_shared_plan *weir__redis_plan_lookup_find(struct weir__redis_plan_lookup *lookup,
							     const struct weir_table_limit *limit);

#endif
