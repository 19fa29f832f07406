/* small.h: the decision of every kind whose state is a struct weir_state, inline for stores on their hot path. */
#ifndef WEIR_CORE_SMALL_H
#define WEIR_CORE_SMALL_H

#include "core/bucket.h"
#include "core/counter.h"
#include "core/interval.h"
#include "core/window.h"

/* plan->kind is none of those with more state. */
static inline bool weir__small_allow(const struct weir_plan *plan, struct weir_state *state, weir_ns now, uint64_t cost)
{
	if (plan->kind == WEIR_KIND_BUCKET)
		return weir__bucket_allow(plan, state, now, cost);
	if (plan->kind == WEIR_KIND_COUNTER)
		return weir__counter_allow(plan, state, now, cost);
	if (plan->kind == WEIR_KIND_INTERVAL)
		return weir__interval_allow(plan, state, now, cost);
	if (weir__window_allow(plan, state, now, cost))
		return true;
	if (plan->flags & WEIR_PLAN_COUNT_ALL)
		weir__window_count_denied(plan, state, now, cost);
	return false;
}

static inline bool weir__small_has(const struct weir_plan *plan)
{
	return plan->kind < WEIR_KIND_SEGMENTS;
}

#endif
