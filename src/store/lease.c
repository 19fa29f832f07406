/* lease.c: terms, demand and ends of leases. */
#include "store/lease.h"

#include <stddef.h>

static const weir_ns ms = 1000000;
static const weir_ns duration_least = UINT64_C(20000000), duration_most = UINT64_C(10000000000);
static const weir_ns two_round_trips = UINT64_C(2000000); /* of 1 ms under load */

enum { ELAPSED_PARTS = 16 };

/* The rate of a plan: n units in this time. */
static void rate_of(const struct weir_plan *plan, uint64_t *ret_n, weir__u128 *ret_time)
{
	const bool is_bucket = plan->kind == WEIR_KIND_BUCKET || plan->kind == WEIR_KIND_INTERVAL;

	*ret_n = is_bucket ? plan->count : plan->most;
	*ret_time = plan->kind == WEIR_KIND_SEGMENTS ? weir__mul(plan->period, plan->room) : plan->period;
}

enum weir__lease_obstacle weir__lease_terms_of(const struct weir_plan *plan, uint32_t stranded,
					       struct weir__lease_terms *ret_terms)
{
	const uint64_t most = weir__saturate(weir__mul(plan->most, stranded) / 100);
	weir__u128 duration, time;
	uint64_t n;

	*ret_terms = (struct weir__lease_terms){ 0, 0 };
	if (stranded == 0)
		return WEIR__LEASE_UNSET;
	if (plan->flags & WEIR_PLAN_SHAPE)
		return WEIR__LEASE_QUEUE;
	if (plan->kind == WEIR_KIND_LOG)
		return WEIR__LEASE_LOG;
	if (plan->flags & WEIR_PLAN_COUNT_ALL)
		return WEIR__LEASE_COUNT_ALL;
	if (most < WEIR__LEASE_LEAST_MOST)
		return WEIR__LEASE_FEW;
	rate_of(plan, &n, &time);
	duration = time >> 64 ? duration_most : weir__mul(most, (uint64_t)time) / n;
	if (duration < two_round_trips)
		return WEIR__LEASE_FAST;
	duration = duration < duration_least ? duration_least : duration > duration_most ? duration_most : duration;
	*ret_terms = (struct weir__lease_terms){ most, (weir_ns)duration / ms * ms };
	return WEIR__LEASE_POSSIBLE;
}

const char *weir__lease_obstacle_text(enum weir__lease_obstacle obstacle)
{
	static const char *const texts[] = {
		[WEIR__LEASE_POSSIBLE] = "",
		[WEIR__LEASE_UNSET] = "",
		[WEIR__LEASE_QUEUE] = "it delays requests, which only one place can put in order",
		[WEIR__LEASE_LOG] = "a sliding log keeps each event in Redis; use a sliding_counter",
		[WEIR__LEASE_COUNT_ALL] = "it counts denied requests, which Redis must see",
		[WEIR__LEASE_FEW] = "servers may hold fewer than 2 units; raise stranded or the limit",
		[WEIR__LEASE_FAST] = "the units that servers may hold are used in less than 2 ms; raise stranded",
	};

	return texts[obstacle];
}

uint64_t weir__lease_want(const struct weir__lease_terms *terms, uint64_t spent, weir_ns elapsed, uint32_t nodes)
{
	const uint64_t part = weir__min(terms->most / (nodes > 0 ? nodes : 1), WEIR__LOT_UNITS_MOST);
	const weir_ns least = terms->duration / ELAPSED_PARTS; /* a burst of requests must not count as a rate */
	const weir_ns time = elapsed < least ? least : elapsed;
	const uint64_t demand = weir__saturate(weir__div_up(weir__mul(spent, terms->duration), time));
	const uint64_t want = weir__min(demand, part);

	return want < WEIR__LEASE_LEAST_MOST ? 0 : weir__lot_size(weir__lot_size_code(want));
}

uint32_t weir__lot_size_code(uint64_t units)
{
	uint32_t shift = 0;

	while (units >> shift >= 128)
		shift++;
	return (uint32_t)(units >> shift) + 64 * shift;
}

uint64_t weir__lot_end_near(const struct weir__lease_terms *terms, uint32_t index, uint64_t now_us)
{
	const uint64_t step = terms->duration / 4000, at = now_us / step;
	const uint64_t first = at < 4 ? 0 : at - 4;

	return (first + (index - first % WEIR__LOT_INDEXES + WEIR__LOT_INDEXES) % WEIR__LOT_INDEXES) * step;
}
