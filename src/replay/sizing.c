/* sizing.c: the arithmetic of queues. With in the inflow, out the outflow, and all k requests before it allowed, request
 * k (from 0) meets k - k * out / in others: it is allowed if k * (1 - out / in) + 1 <= places. */
#include "replay/sizing.h"

#include <string.h>

#include <weir/limiter.h>

#include "core/wide.h"

#define START UINT64_C(1000000000) /* any time that is not 0 */

static weir__u128 divisor_of(weir__u128 a, weir__u128 b)
{
	while (b != 0) {
		const weir__u128 rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* count / period * time, rounded down. */
static weir__u128 flow_down(struct weir__rate rate, weir_ns time)
{
	return weir__mul(rate.count, time) / rate.period;
}

/* The time in which n requests flow, rounded up. */
static weir_ns time_up(struct weir__rate rate, uint64_t n)
{
	return weir__saturate(weir__div_up(weir__mul(n, rate.period), rate.count));
}

/* (in - out) / in in lowest terms. Returns false if it does not fit. */
static bool surplus_of(const struct weir__sizing_wish *wish, uint64_t *ret_surplus, uint64_t *ret_of)
{
	const weir__u128 in = weir__mul(wish->inflow.count, wish->outflow.period);
	const weir__u128 out = weir__mul(wish->outflow.count, wish->inflow.period);
	const weir__u128 divisor = divisor_of(in, in - out);

	if (in / divisor > UINT64_MAX)
		return false;
	*ret_surplus = (uint64_t)((in - out) / divisor);
	*ret_of = (uint64_t)(in / divisor);
	return true;
}

/* The least outflow per outflow.period at which the last of n requests, n > 1, waits no longer than `wait`:
 * (n - 1) * (1 / out - 1 / in) <= wait, so out >= (n - 1) * in / (wait * in + n - 1). Returns false if that does not fit. */
static bool enough_for(const struct weir__sizing_wish *wish, uint64_t n, uint64_t *ret_count)
{
	weir__u128 above = weir__mul(n - 1, wish->inflow.count), below = weir__mul(wish->wait, wish->inflow.count);

	if (__builtin_mul_overflow(above, (weir__u128)wish->outflow.period, &above) ||
	    __builtin_add_overflow(below, weir__mul(n - 1, wish->inflow.period), &below))
		return false;
	*ret_count = weir__saturate(above / below + (above % below != 0));
	return true;
}

static const char *size_for_duration(const struct weir__sizing_wish *wish, struct weir__sizing *sizing)
{
	const weir__u128 arrive = weir__div_up(weir__mul(wish->inflow.count, wish->lasts), wish->inflow.period);

	if (arrive > UINT64_C(1) << 62)
		return "more than 2^62 requests arrive in this time";
	sizing->arrive = arrive == 0 ? 1 : (uint64_t)arrive;
	sizing->places_needed = 1;
	if (sizing->overflows) {
		/* denied / denied_of is 1 - out / in */
		const weir__u128 more = weir__div_up(weir__mul(sizing->arrive - 1, sizing->denied), sizing->denied_of);

		sizing->places_needed += (uint64_t)more;
		sizing->would_wait = weir__saturate(
			weir__div_up(weir__mul_div_up(weir__mul(sizing->arrive - 1, sizing->denied),
						      wish->outflow.period, sizing->denied_of),
				     wish->outflow.count));
	}
	sizing->is_too_long = sizing->places_needed > sizing->places;
	if (sizing->is_too_long && !enough_for(wish, sizing->arrive, &sizing->enough))
		return "the numbers need more than 128 bits; use rounder rates";
	return NULL;
}

const char *weir__sizing_calculate(const struct weir__sizing_wish *wish, struct weir__sizing *ret_sizing)
{
	const weir__u128 behind = flow_down(wish->outflow, wish->wait);
	struct weir__sizing sizing = { 0 };

	if (behind >= UINT64_C(1) << 62)
		return "the queue would have more than 2^62 places";
	sizing.places = (uint64_t)behind + 1;
	sizing.last_waits = time_up(wish->outflow, sizing.places - 1);
	sizing.drains = time_up(wish->outflow, sizing.places);
	sizing.overflows = weir__mul(wish->inflow.count, wish->outflow.period) >
			   weir__mul(wish->outflow.count, wish->inflow.period);
	if (sizing.overflows) {
		weir__u128 passes;

		if (!surplus_of(wish, &sizing.denied, &sizing.denied_of))
			return "the quotient of these rates needs more than 64 bits; use rounder numbers";
		WEIR__HOLDS(sizing.denied > 0);
		passes = weir__mul(sizing.places - 1, sizing.denied_of) / sizing.denied + 1;
		if (passes > UINT64_C(1) << 62)
			return "more than 2^62 requests would pass before the first denial; the inflow exceeds the "
			       "outflow by too little";
		sizing.passes = (uint64_t)passes;
		sizing.denies_at = time_up(wish->inflow, sizing.passes);
	}
	if (wish->lasts > 0) {
		const char *const why = size_for_duration(wish, &sizing);

		if (why)
			return why;
	}
	*ret_sizing = sizing;
	return NULL;
}

int weir__sizing_try(const struct weir_limit *limit, struct weir__rate inflow, uint64_t n,
		     struct weir__sizing_run *ret_run, struct weir_message *ret_message)
{
	static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE];
	struct weir_limiter *limiter;
	struct weir__sizing_run run = { 0 };
	const int error = weir_limiter_init(memory, sizeof(memory), limit, &limiter, ret_message);

	if (error != WEIR_OK)
		return error;
	for (uint64_t i = 0; i < n; i++) {
		const weir_ns at = time_up(inflow, i);
		const struct weir_verdict verdict = weir_limiter_take(limiter, START + at, 1);

		if (verdict.allowed) {
			run.allowed++;
			run.passed += run.denied == 0;
			if (verdict.delay > run.longest_delay)
				run.longest_delay = verdict.delay;
		} else if (run.denied++ == 0) {
			run.denied_at = at;
		}
	}
	*ret_run = run;
	return WEIR_OK;
}
