/* read_wait.c: reads `wait`: how long a server holds back a request that a limit delays. */
#include "core/duration.h"
#include "policy/read.h"

static const weir_ns ms = UINT64_C(1000000), most = UINT64_C(86400000000000);

static void set(const struct weir__policy_reading *reading, uint32_t plan, weir_ns wait)
{
	struct weir_policy *const policy = reading->policy;

	policy->plans[plan].wait = wait;
	policy->has_waits = policy->has_waits || wait > 0;
}

void weir__policy_inherit_wait(struct weir__policy_reading *reading, const struct weir__policy_limit *limit,
			       uint32_t plan)
{
	const struct weir_policy *const policy = reading->policy;

	if (plan != WEIR__NO_PLAN && limit->plan != WEIR__NO_PLAN && policy->plans[plan].limit.shape)
		set(reading, plan, policy->plans[limit->plan].wait);
}

void weir__policy_read_wait(struct weir__policy_reading *reading, const struct weir__node *map,
			    const struct weir__policy_limit *limit, uint32_t plan)
{
	const struct weir__node *const node = weir__node_member(map, "wait");
	weir_ns wait = 0;

	weir__policy_inherit_wait(reading, limit, plan);
	if (node == NULL || weir__node_text(reading->diagnostics, node, "wait") == NULL)
		return;
	if (weir__node_member(map, "limit") == NULL)
		weir__diagnostics_add(reading->diagnostics, node->key->at, "wait needs a limit; add limit beside it");
	else if (!weir__duration_read(node->text.at, node->text.n, most, &wait) || wait < ms || wait % ms != 0)
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "invalid wait '%.80s'; use whole ms from 1ms to 1day, such as 5s", node->text.at);
	else if (plan != WEIR__NO_PLAN && !reading->policy->plans[plan].limit.shape)
		weir__diagnostics_add(
			reading->diagnostics, node->key->at,
			"wait needs a limit that delays requests, and this limit only denies; use a queue, as in 5/s leaky queue 20");
	else if (plan != WEIR__NO_PLAN)
		set(reading, plan, wait);
}
