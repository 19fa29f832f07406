/* redis_store.h: Redis as a store (store/store.h), for the requests of one worker.
 *
 * What the worker submits before a flush goes to Redis as one batch. The thread of redis_thread.h sends it together
 * with batches of other workers. A batch is a task: it returns to the worker's mailbox with the verdicts. Requests that
 * Redis did not decide in time complete as UNREACHED or UNANSWERED, and fallback_store.h handles them.
 * The reasons are in docs/internals/redis.md. */
#ifndef WEIR_STORE_REDIS_REDIS_STORE_H
#define WEIR_STORE_REDIS_REDIS_STORE_H

#include "os/loop.h"
#include "store/redis/redis_plan_cache.h"
#include "store/redis/redis_thread.h"
#include "store/store.h"

struct weir__redis_store_options {
	struct weir_table *table; /* the table of the limits; counts what Redis decides */
	struct weir__redis_thread *thread;
	struct weir__redis_plan_cache *plans;
	struct weir__redis_plan_source source;
	struct weir__hash_secret throttle_secret; /* see weir__redis_plan_lookup_new */
	struct weir__loop *loop;                  /* the worker's; woken when there is something to collect */
	uint32_t worker;                          /* index of the worker, from 0; its requests take effect in order */
};

/* NULL: no memory. */
struct weir__store *weir__redis_store_new(const struct weir__redis_store_options *options);

/* The status of a Redis thread as a store's status. */
void weir__redis_store_status(struct weir__redis_thread *thread, struct weir__store_status *ret_status);

#endif
