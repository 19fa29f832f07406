/* redis_random.h: chance that comes from a seed, so that a run can be repeated; and times that nodes do not share. */
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

/* From three quarters of a span, at least 2 ns, up to five quarters. */
static inline weir_ns weir__redis_jittered(weir_ns duration, uint64_t *seed)
{
	return duration - duration / 4 + weir__redis_random(seed) % (duration / 2);
}

#endif
