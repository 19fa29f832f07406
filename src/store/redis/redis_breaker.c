/* redis_breaker.c: the circuit breaker. */
#include "store/redis/redis_breaker.h"

#include "store/redis/redis_random.h"

/* The breaker opens after this many failed jobs in a row, over at least this many budgets. One slow call that carries
 * many jobs is not enough. */
enum { FAILURES = 5, FAILING_BUDGETS = 3 };

/* The longest pause with its jitter leaves 200 ms for the probe itself: Redis is in use again within 1 s of its
 * return. */
#define PAUSE_FIRST (100 * WEIR__REDIS_MS)
#define PAUSE_MOST (640 * WEIR__REDIS_MS)

/* Redis must reply to a probe as fast as to a decision, otherwise decisions would be too late again. */
#define PROBE_LEAST (10 * WEIR__REDIS_MS)
#define PROBE_MOST (200 * WEIR__REDIS_MS)

static void become(struct weir__redis_breaker *breaker, enum weir__redis_health health, weir_ns now)
{
	if (breaker->health != health)
		breaker->changed_at = now;
	breaker->health = health;
}

void weir__redis_breaker_init(struct weir__redis_breaker *breaker, weir_ns now)
{
	*breaker = (struct weir__redis_breaker){
		.health = WEIR__REDIS_PROBING, .changed_at = now, .at = WEIR_NEVER, .is_new = true
	};
}

bool weir__redis_breaker_admits(const struct weir__redis_breaker *breaker)
{
	return breaker->health == WEIR__REDIS_UP || breaker->is_new;
}

void weir__redis_breaker_decided(struct weir__redis_breaker *breaker)
{
	breaker->failures = 0;
	breaker->opened = 0;
}

bool weir__redis_breaker_failed(struct weir__redis_breaker *breaker, weir_ns budget, weir_ns now)
{
	if (breaker->failures++ == 0)
		breaker->failing_since = now;
	return breaker->health == WEIR__REDIS_UP && breaker->failures >= FAILURES &&
	       now - breaker->failing_since >= FAILING_BUDGETS * budget;
}

void weir__redis_breaker_open(struct weir__redis_breaker *breaker, uint64_t *seed, weir_ns now)
{
	weir_ns pause = PAUSE_FIRST;

	for (uint32_t i = 0; i < breaker->opened && pause < PAUSE_MOST; i++)
		pause *= 2;
	breaker->at = now + weir__redis_jittered(pause < PAUSE_MOST ? pause : PAUSE_MOST, seed);
	breaker->opened += breaker->opened < UINT32_MAX;
	breaker->is_new = false;
	become(breaker, WEIR__REDIS_DOWN, now);
}

void weir__redis_breaker_probe(struct weir__redis_breaker *breaker, weir_ns budget, weir_ns now)
{
	const weir_ns wait = budget < PROBE_LEAST ? PROBE_LEAST : budget < PROBE_MOST ? budget : PROBE_MOST;

	breaker->at = now + wait;
	become(breaker, WEIR__REDIS_PROBING, now);
}

void weir__redis_breaker_close(struct weir__redis_breaker *breaker, weir_ns now)
{
	breaker->failures = 0;
	breaker->is_new = false;
	breaker->at = WEIR_NEVER;
	become(breaker, WEIR__REDIS_UP, now);
}

weir_ns weir__redis_breaker_next(const struct weir__redis_breaker *breaker)
{
	return breaker->health == WEIR__REDIS_UP ? WEIR_NEVER : breaker->at;
}
