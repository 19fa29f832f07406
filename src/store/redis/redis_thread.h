/* redis_thread.h: a thread that runs a Redis client (redis_client.h) with an event loop, sockets and TLS.
 *
 * Jobs come from any thread, and none waits for another. The thread also charges to Redis what was allowed during an
 * outage, as soon as Redis is back.
 * The reasons are in docs/internals/redis.md. */
#ifndef WEIR_STORE_REDIS_REDIS_THREAD_H
#define WEIR_STORE_REDIS_REDIS_THREAD_H

#include "store/redis/redis_backlog.h"
#include "store/redis/redis_client.h"

struct weir__redis_thread;

/* Starts the thread. Does not wait for Redis. The URL is copied. Deferred charges take at most deferred_bytes. The
 * thread calls log with log lines; NULL: no log. WEIR_ERR_SYSTEM: no memory, or no thread. WEIR_ERR_LIMIT: a file named
 * in the URL (CA, certificate, key) cannot be used. ret_message has the details. */
int weir__redis_thread_new(const struct weir__redis_url *url, size_t deferred_bytes,
			   void (*log)(void *context, const char *line), void *context,
			   struct weir__redis_thread **ret_store, struct weir_message *ret_message);

/* No thread may use it any more. Finishes all jobs first, which takes at most their budgets, and sends deferred charges
 * for at most 1 s, plus 1 s for the last reply. NULL is allowed. */
void weir__redis_thread_free(struct weir__redis_thread *store);

/* May be called from any thread. The Redis thread calls job->done. */
void weir__redis_thread_ask(struct weir__redis_thread *store, struct weir__redis_job *job);

/* The same, but waits until the job is done. job->done is not called. */
void weir__redis_thread_ask_and_wait(struct weir__redis_thread *store, struct weir__redis_job *job);

/* Waits until Redis can be called, for at most this long. Returns false if it still cannot. */
bool weir__redis_thread_wait(struct weir__redis_thread *store, weir_ns at_most);

/* Defers an operation on a key that was done without Redis. It is repeated in Redis, up to what is left there, when
 * Redis is back. Units that do not fit the backlog count as dropped. Plan, name and key are copied. May be called from
 * any thread. */
void weir__redis_thread_defer(struct weir__redis_thread *store, const struct weir__redis_plan *plan,
			      struct weir__resp_slice name, struct weir__resp_slice key, enum weir__redis_deferred what,
			      uint64_t units);

/* Whether a reply that Redis decided at this time may lack earlier deferred charges: see redis_backlog.h. May be called
 * from any thread. */
bool weir__redis_thread_is_behind(const struct weir__redis_thread *store, weir_ns decided_at);

enum { WEIR__REDIS_LATENCIES = 16 };

struct weir__redis_thread_info {
	struct weir__redis_client_info client;
	bool was_up;                                  /* Redis could be called at least once */
	uint64_t deferred_keys;                       /* keys with charges still to be made */
	uint64_t charged, excess, uncertain, dropped; /* units, as in struct weir__redis_backlog_info */
	/* Decided requests by duration: up to 2^i * 64 us; the last one also counts longer ones. */
	uint64_t latency_counts[WEIR__REDIS_LATENCIES];
	uint64_t latency_sum_us;
};

/* As of the thread's last turn. May be called from any thread. */
void weir__redis_thread_info(struct weir__redis_thread *store, struct weir__redis_thread_info *ret_info);

#endif
