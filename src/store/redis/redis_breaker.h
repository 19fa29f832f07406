/* redis_breaker.h: whether Redis is asked at all. Pure.
 *
 * It opens when jobs fail in a row for a while, or at once when Redis refuses or cannot be reached; then nobody waits for
 * it. After a pause, which grows from 100 ms on and differs between nodes, one harmless command probes it. */
#ifndef WEIR_STORE_REDIS_REDIS_BREAKER_H
#define WEIR_STORE_REDIS_REDIS_BREAKER_H

#include "store/redis/redis_client.h"

struct weir__redis_breaker {
	enum weir__redis_health health;
	weir_ns changed_at;
	weir_ns at;      /* DOWN: when to probe. PROBING: until when there must be an answer */
	bool is_new;     /* nothing is known yet: jobs wait for the first probe */
	uint32_t opened; /* how often in a row without a decision in between */
	uint32_t failures;
	weir_ns failing_since;
};

/* The first link is being opened. */
void weir__redis_breaker_init(struct weir__redis_breaker *breaker, weir_ns now);

/* Are jobs taken? */
bool weir__redis_breaker_admits(const struct weir__redis_breaker *breaker);

/* A call was decided in time. */
void weir__redis_breaker_decided(struct weir__redis_breaker *breaker);

/* A job was not. True: that is too many, open it. */
bool weir__redis_breaker_failed(struct weir__redis_breaker *breaker, weir_ns budget, weir_ns now);

/* Also when a probe has failed. */
void weir__redis_breaker_open(struct weir__redis_breaker *breaker, uint64_t *seed, weir_ns now);
void weir__redis_breaker_probe(struct weir__redis_breaker *breaker, weir_ns budget, weir_ns now);
void weir__redis_breaker_close(struct weir__redis_breaker *breaker, weir_ns now);

/* When something is to be done about it. */
weir_ns weir__redis_breaker_next(const struct weir__redis_breaker *breaker);

#endif
