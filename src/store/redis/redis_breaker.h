/* redis_breaker.h: the circuit breaker: whether Redis is called at all. Pure.
 *
 * It opens when jobs fail in a row for a while, and at once when Redis cannot be reached or replies with an error that
 * stops all calls. While it is open, no job waits for Redis. After a pause, which starts at 100 ms, grows, and is
 * jittered between nodes, one harmless command probes Redis. */
#ifndef WEIR_STORE_REDIS_REDIS_BREAKER_H
#define WEIR_STORE_REDIS_REDIS_BREAKER_H

#include "store/redis/redis_client.h"

struct weir__redis_breaker {
	enum weir__redis_health health;
	weir_ns changed_at;
	weir_ns at;      /* DOWN: when to probe. PROBING: deadline of the reply */
	bool is_new;     /* nothing is known yet: jobs wait for the first probe */
	uint32_t opened; /* how often in a row, without a decision in between */
	uint32_t failures;
	weir_ns failing_since;
};

/* Starts as PROBING and new: the first link is being opened. */
void weir__redis_breaker_init(struct weir__redis_breaker *breaker, weir_ns now);

/* Whether jobs are accepted. */
bool weir__redis_breaker_admits(const struct weir__redis_breaker *breaker);

/* A job was decided in time. */
void weir__redis_breaker_decided(struct weir__redis_breaker *breaker);

/* A job failed. Returns true if the breaker has to open now. */
bool weir__redis_breaker_failed(struct weir__redis_breaker *breaker, weir_ns budget, weir_ns now);

/* weir__redis_breaker_open is also called when a probe has failed. */
void weir__redis_breaker_open(struct weir__redis_breaker *breaker, uint64_t *seed, weir_ns now);
void weir__redis_breaker_probe(struct weir__redis_breaker *breaker, weir_ns budget, weir_ns now);
void weir__redis_breaker_close(struct weir__redis_breaker *breaker, weir_ns now);

/* When to probe, or to give up a probe. WEIR_NEVER: nothing to do. */
weir_ns weir__redis_breaker_next(const struct weir__redis_breaker *breaker);

#endif
