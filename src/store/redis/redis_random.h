/* redis_random.h: random numbers from a seed, so that a run can be repeated, and durations jittered so that nodes do
 * not act in step. */
#ifndef WEIR_STORE_REDIS_REDIS_RANDOM_H
#define WEIR_STORE_REDIS_REDIS_RANDOM_H

#include <weir/types.h>

/* Nanoseconds. */
#define WEIR__REDIS_MS UINT64_C(1000000)

/* SplitMix64: any seed is good. */
static inline uint64_t weir__redis_random(uint64_t *seed)
{
	uint64_t word = *seed += UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return word ^ word >> 31;
}

/* A random duration from 3/4 to 5/4 of the given one, which is at least 2 ns. */
static inline weir_ns weir__redis_jittered(weir_ns duration, uint64_t *seed)
{
	return duration - duration / 4 + weir__redis_random(seed) % (duration / 2);
}

#endif
