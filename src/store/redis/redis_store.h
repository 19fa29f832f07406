/* redis_store.h: Redis as a store (store/store.h), for the requests of one worker.
 *
 * What the worker submits until it flushes goes to Redis as one batch, which the thread of redis_thread.h sends together with
 * those of other workers. A batch is a task: it returns to the worker's mailbox with the verdicts. Requests that Redis did not
 * decide in time complete as UNREACHED or UNANSWERED; fallback_store.h says what happens then. */
#ifndef WEIR_STORE_REDIS_REDIS_STORE_H
#define WEIR_STORE_REDIS_REDIS_STORE_H

#include "os/loop.h"
#include "store/redis/redis_plan_cache.h"
#include "store/redis/redis_thread.h"
#include "store/store.h"

struct weir__redis_store_options {
	struct weir_table *table; /* whose limits are meant; it counts what is decided */
	struct weir__redis_thread *thread;
	struct weir__redis_plan_cache *plans;
	struct weir__hash_secret throttle_secret; /* see weir__redis_plan_lookup_new */
	struct weir__loop *loop;                  /* of the worker: woken when there is something to collect */
	uint32_t worker;                          /* which one, from 0: its requests take effect in order */
};

/* NULL: no memory. */
struct weir__store *weir__redis_store_new(const struct weir__redis_store_options *options);

/* What the thread knows, as a status. */
void weir__redis_store_status(struct weir__redis_thread *thread, struct weir__store_status *ret_status);

#endif
