/* demand.c: virtual queues, in the units of core/bucket.h: a unit of cost is `period`, a nanosecond drains `count`. */
#include "replay/demand.h"

#include "core/wide.h"

struct level {
	weir__u128 used;
	weir_ns at;
};

/* The level when a row arrives, before it is added. Arrivals never decrease. */
static weir__u128 drain(struct level *level, struct weir__rate rate, weir_ns at)
{
	const weir__u128 drained = weir__mul(at - level->at, rate.count);

	level->used = level->used > drained ? level->used - drained : 0;
	level->at = at;
	return level->used;
}

static void fill(struct level *level, struct weir__rate rate, uint32_t cost)
{
	if (__builtin_add_overflow(level->used, weir__mul(cost, rate.period), &level->used))
		level->used = WEIR__U128_MAX;
}

uint64_t weir__demand_burst(const struct weir__arrival *rows, size_t n, struct weir__rate rate,
			    const struct weir__interval *skip)
{
	struct level level = { 0, 0 };
	weir__u128 most = 0;

	for (size_t i = 0; i < n; i++) {
		if (weir__interval_has(skip, rows[i].at))
			continue;
		drain(&level, rate, rows[i].at);
		fill(&level, rate, rows[i].cost);
		if (level.used > most)
			most = level.used;
	}
	return weir__saturate(weir__div_up(most, rate.period));
}

uint64_t weir__demand_count(const struct weir__arrival *rows, size_t n, weir_ns period,
			    const struct weir__interval *skip)
{
	uint64_t sum = 0, most = 0;

	for (size_t i = 0, oldest = 0; i < n; i++) {
		if (weir__interval_has(skip, rows[i].at))
			continue;
		for (; rows[i].at - rows[oldest].at >= period; oldest++)
			if (!weir__interval_has(skip, rows[oldest].at))
				sum -= rows[oldest].cost;
		sum += rows[i].cost;
		if (sum > most)
			most = sum;
	}
	return most;
}

void weir__demand_try(const struct weir__arrival *rows, size_t n, const struct weir_plan *plan, void *state,
		      const struct weir__interval *marked, weir_ns wait, struct weir__demand_tried *counts)
{
	const bool has_delays = (plan->flags & WEIR_PLAN_SHAPE) != 0;

	for (size_t i = 0; i < n; i++) {
		struct weir_verdict verdict = { .delay = 0 };
		const bool is_marked = weir__interval_has(marked, rows[i].at);

		if (has_delays)
			verdict = weir_step_take(plan, state, rows[i].at, rows[i].cost);
		else
			verdict.allowed = weir_step_allow(plan, state, rows[i].at, rows[i].cost);
		*(is_marked ? &counts->marked : &counts->requests) += 1;
		*(is_marked ? &counts->marked_denied : &counts->denied) += !verdict.allowed;
		if (!verdict.allowed)
			continue;
		counts->late += verdict.delay > wait;
		if (verdict.delay > counts->longest_delay)
			counts->longest_delay = verdict.delay;
	}
}
