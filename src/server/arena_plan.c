/* arena_plan.c: sizes the arena for the limit that needs the most, since all limits together have no more keys than the
 * table. */
#include "server/arena_plan.h"

#include <stdio.h>

#include <weir/table.h>

#include "policy/policy.h"

enum { MEMORY_PART = 8 }; /* an arena whose size is not set takes at most an eighth of the memory that is left */

static const uint64_t mib = 1 << 20;

/* How many keys of a plan can be in use. */
static uint64_t keys_of(const struct weir_policy *policy, uint32_t plan, uint64_t keys)
{
	return policy->envoy || weir__policy_limit_of_plan(policy, plan)->n_parts > 0 ? keys : 1;
}

/* Bytes for one plan. Local limits, which decide while a store fails, do not count. */
static size_t size_of(const struct weir_policy *policy, uint32_t plan, uint64_t keys, bool has_store)
{
	const struct weir_policy_plan *const of = weir_policy_plan_of(policy, plan);

	if (of->is_local || of->is_unlimited || of->is_closed || (has_store && of->store != WEIR_POLICY_STORE_TABLE))
		return 0;
	return weir_table_arena_size(&of->limit, keys_of(policy, plan, keys), 0);
}

/* Finds the plan that needs the most, and returns its bytes. */
static size_t find_largest(const struct weir_policy *policy, uint64_t keys, bool has_store, uint32_t *ret_plan)
{
	size_t largest = 0;

	*ret_plan = 0;
	for (uint32_t plan = 0; plan < weir_policy_plans(policy); plan++) {
		const size_t size = size_of(policy, plan, keys, has_store);

		if (size > largest) {
			largest = size;
			*ret_plan = plan;
		}
	}
	return largest;
}

size_t weir__arena_plan_size(const struct weir_policy *policy, uint64_t keys, bool has_store)
{
	uint32_t plan;

	return find_largest(policy, keys, has_store, &plan);
}

size_t weir__arena_plan_choose(size_t needed, size_t least, uint64_t left_bytes)
{
	const uint64_t most = left_bytes / MEMORY_PART;

	if (needed <= least || most <= least)
		return least;
	return needed < most ? needed : (size_t)most;
}

/* How many keys of this limit fit, at most `keys`. */
static uint64_t count_fitting(const struct weir_limit *limit, uint64_t keys, size_t arena_bytes)
{
	uint64_t least = 0, above = keys;

	while (least < above) {
		const uint64_t middle = least + (above - least + 1) / 2;

		if (weir_table_arena_size(limit, middle, 0) <= arena_bytes)
			least = middle;
		else
			above = middle - 1;
	}
	return least;
}

bool weir__arena_plan_warn(const struct weir_policy *policy, uint64_t keys, bool has_store, size_t arena_bytes,
			   char ret_text[WEIR__ARENA_WARNING_SIZE])
{
	uint32_t plan;
	const size_t needed = find_largest(policy, keys, has_store, &plan);
	const struct weir_policy_plan *of;
	char limit[WEIR_LIMIT_TEXT_MAX], hint[64] = "";
	uint64_t of_keys;

	if (needed <= arena_bytes)
		return false;
	of = weir_policy_plan_of(policy, plan);
	of_keys = keys_of(policy, plan, keys);
	(void)weir_limit_print(&of->limit, limit);
	if (needed < SIZE_MAX)
		(void)snprintf(hint, sizeof(hint), "set arena to %lluMiB, ",
			       (unsigned long long)((needed + mib - 1) / mib));
	(void)snprintf(
		ret_text, WEIR__ARENA_WARNING_SIZE,
		"%s: an arena of %llu bytes holds %llu of %llu keys that have used all of %s; beyond that, keys are "
		"denied too much: %suse a sliding_counter%s",
		of->name, (unsigned long long)arena_bytes,
		(unsigned long long)count_fitting(&of->limit, of_keys, arena_bytes), (unsigned long long)of_keys, limit,
		hint, of_keys > 1 ? ", or set keys to a lower number" : "");
	return true;
}
