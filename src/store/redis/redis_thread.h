/* redis_thread.h: a thread that calls Redis, with a loop, sockets and TLS around redis_client.h.
 *
 * Jobs come from any thread; none waits for another. Also what was admitted without Redis is paid in here when it is
 * back. */
#ifndef WEIR_STORE_REDIS_REDIS_THREAD_H
#define WEIR_STORE_REDIS_REDIS_THREAD_H

#include "store/redis/redis_client.h"

struct weir__redis_thread;

/* Starts the thread; does not wait for Redis. The URL is copied. log is called with lines for people, by the thread; NULL:
 * nobody reads them. WEIR_ERR_SYSTEM: no memory, no thread. WEIR_ERR_LIMIT: a file of the URL (CA, certificate, key)
 * cannot be used. ret_message tells. */
int weir__redis_thread_new(const struct weir__redis_url *url, void (*log)(void *context, const char *line),
			   void *context, struct weir__redis_thread **ret_store, struct weir_message *ret_message);

/* Nobody asks any more. All jobs are done first, which takes their budgets at most. NULL is allowed. */
void weir__redis_thread_free(struct weir__redis_thread *store);

/* From any thread; job->done is called by the store's. */
void weir__redis_thread_ask(struct weir__redis_thread *store, struct weir__redis_job *job);

/* The same, and waits until it is done; job->done is not called. */
void weir__redis_thread_ask_and_wait(struct weir__redis_thread *store, struct weir__redis_job *job);

/* Waits until Redis can be asked, at most so long. False: it cannot yet. */
bool weir__redis_thread_wait(struct weir__redis_thread *store, weir_ns at_most);

/* This much was admitted for a key while Redis was not asked: it is taken there (up to what is left) when Redis is back.
 * What there is no room to remember is counted as lost. Plan, name and key are copied. From any thread. */
void weir__redis_thread_defer(struct weir__redis_thread *store, const struct weir__redis_plan *plan,
			      struct weir__resp_slice name, struct weir__resp_slice key, uint64_t cost);

enum { WEIR__REDIS_LATENCIES = 16 };

struct weir__redis_thread_info {
	struct weir__redis_client_info client;
	uint64_t deferred_keys;                       /* that are still to be paid in */
	uint64_t charged, excess, uncertain, dropped; /* units: as in struct weir__redis_backlog_info */
	/* Jobs that were decided, by how long they took: up to 2^i * 64 us; the last one also what took longer. */
	uint64_t latency_counts[WEIR__REDIS_LATENCIES];
	uint64_t latency_sum_us;
};

/* As of when the thread last did something. From any thread. */
void weir__redis_thread_info(struct weir__redis_thread *store, struct weir__redis_thread_info *ret_info);

#endif
