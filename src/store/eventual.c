/* eventual.c: which limits can be eventual, and how many units ahead of the store. */
#include "store/eventual.h"

enum weir__eventual_obstacle weir__eventual_ahead_of(const struct weir_plan *plan, uint32_t ahead, uint64_t *ret_units)
{
	const uint64_t units = weir__saturate(weir__mul(plan->most, ahead) / 100);

	*ret_units = 0;
	if (ahead == 0)
		return WEIR__EVENTUAL_UNSET;
	if (plan->flags & WEIR_PLAN_SHAPE)
		return WEIR__EVENTUAL_QUEUE;
	if (plan->kind == WEIR_KIND_LOG)
		return WEIR__EVENTUAL_LOG;
	if (plan->flags & WEIR_PLAN_COUNT_ALL)
		return WEIR__EVENTUAL_COUNT_ALL;
	if (plan->kind >= WEIR_KIND_SEGMENTS ||
	    (plan->kind == WEIR_KIND_COUNTER && plan->most > WEIR_TABLE_SLIDING_MAX))
		return WEIR__EVENTUAL_LARGE;
	if (units == 0)
		return WEIR__EVENTUAL_FEW;
	*ret_units = weir__min(units, WEIR__WAITING_MOST);
	return WEIR__EVENTUAL_POSSIBLE;
}

const char *weir__eventual_obstacle_text(enum weir__eventual_obstacle obstacle)
{
	static const char *const texts[] = {
		[WEIR__EVENTUAL_POSSIBLE] = "",
		[WEIR__EVENTUAL_UNSET] = "",
		[WEIR__EVENTUAL_QUEUE] = "it delays requests, which only one place can put in order",
		[WEIR__EVENTUAL_LOG] = "a sliding log keeps each event in Redis; use a sliding_counter",
		[WEIR__EVENTUAL_COUNT_ALL] = "it counts denied requests, which Redis must see",
		[WEIR__EVENTUAL_LARGE] =
			"servers cannot mirror sub-windows; use a sliding_counter without segments, of at most 16383",
		[WEIR__EVENTUAL_FEW] = "servers may be ahead by less than 1 unit; raise ahead or the limit",
	};

	return texts[obstacle];
}
