/* small.h: the decision of every kind whose state is a struct weir_state, inline for stores on their hot path. */
#ifndef WEIR_CORE_SMALL_H
#define WEIR_CORE_SMALL_H

#include "core/bucket.h"
#include "core/counter.h"
#include "core/interval.h"
#include "core/window.h"

/* Call it only for plans for which weir__small_has is true. */
static inline enum weir__answer weir__small_decide(const struct weir_plan *plan, struct weir_state *state, weir_ns now,
						   uint64_t cost)
{
	if (plan->kind == WEIR_KIND_BUCKET)
		return weir__bucket_decide(plan, state, now, cost, false);
	if (plan->kind == WEIR_KIND_COUNTER)
		return weir__counter_decide(plan, state, now, cost, false);
	if (plan->kind == WEIR_KIND_INTERVAL)
		return weir__interval_decide(plan, state, now, cost, false);
	return weir__window_decide(plan, state, now, cost, false);
}

static inline bool weir__small_has(const struct weir_plan *plan)
{
	return plan->kind < WEIR_KIND_SEGMENTS;
}

#endif
