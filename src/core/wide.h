/* wide.h: 128-bit integers, and sums and products that saturate instead of wrapping. */
#ifndef WEIR_CORE_WIDE_H
#define WEIR_CORE_WIDE_H

#include <weir/step.h>

__extension__ typedef unsigned __int128 weir__u128;

#define WEIR__U128_MAX (~(weir__u128)0)

#define WEIR__LIKELY(x) __builtin_expect(!!(x), 1)
#define WEIR__UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The result of deciding a small kind. BEHIND: the clock may have gone far back. Nothing was changed. Call notice, then
 * decide again with `noticed`. So the decision itself calls nothing, and a store that inlines it keeps plan and state
 * in registers. */
enum weir__answer { WEIR__DENIED, WEIR__ALLOWED, WEIR__BEHIND };

/* An invariant: the static analyzer assumes it, debug builds assert it, other builds ignore it. */
#if defined(__clang_analyzer__)
#define WEIR__HOLDS(condition) ((condition) ? (void)0 : __builtin_unreachable())
#else
#include <assert.h>
#define WEIR__HOLDS(condition) assert(condition)
#endif

/* The bits of a state under WEIR_PLAN_SLIM. The store may use the rest. */
#define WEIR__SLIM_BITS 112
#define WEIR__SLIM_HI_MAX ((UINT64_C(1) << (WEIR__SLIM_BITS - 64)) - 1)

/* A clock that steps back by more than this is a new clock. */
#define WEIR__STEP_BACK_MAX UINT64_C(60000000000)

/* The clocks of threads and processes that use the same state differ by less than this. */
#define WEIR__CLOCKS_DIFFER_MAX UINT64_C(1000000)

static inline weir__u128 weir__mul(uint64_t a, uint64_t b)
{
	return (weir__u128)a * b;
}

static inline uint64_t weir__saturate(weir__u128 value)
{
	return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

static inline uint64_t weir__add_saturating(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t weir__min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Most numbers here fit 64 bits, where a division is one instruction instead of a call into libgcc. */
static inline weir__u128 weir__div(weir__u128 a, uint64_t b)
{
	return a <= UINT64_MAX ? (uint64_t)a / b : a / b;
}

static inline weir__u128 weir__div_up(weir__u128 a, uint64_t b)
{
	return a == 0 ? 0 : weir__div(a - 1, b) + 1;
}

/* Returns a * b / c, rounded up and saturating. It is exact, although the product may need 192 bits. */
static inline weir__u128 weir__mul_div_up(weir__u128 a, uint64_t b, uint64_t c)
{
	const weir__u128 low = weir__mul((uint64_t)a, b);
	const weir__u128 high = weir__mul((uint64_t)(a >> 64), b) + (uint64_t)(low >> 64);
	const weir__u128 quotient_high = high / c;
	const weir__u128 rest = ((high % c) << 64) | (uint64_t)low;

	if (quotient_high > UINT64_MAX)
		return WEIR__U128_MAX;
	return (quotient_high << 64) + weir__div_up(rest, c); /* rest / c < 2^64, so only the sum can carry */
}

static inline weir__u128 weir__state_wide(const struct weir_state *state)
{
	return (weir__u128)state->hi << 64 | state->lo;
}

static inline void weir__state_set_wide(struct weir_state *state, weir__u128 value)
{
	state->lo = (uint64_t)value;
	state->hi = (uint64_t)(value >> 64);
}

/* Returns the time until `end`, which may lie beyond 2^64-1; 0 if it has passed. */
static inline weir_ns weir__until(weir__u128 end, weir_ns now)
{
	return end <= now ? 0 : weir__saturate(end - now);
}

/* The greatest common divisor; of 0 and b it is b. */
static inline uint64_t weir__common_divisor(uint64_t a, uint64_t b)
{
	while (b != 0) {
		const uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

#endif
