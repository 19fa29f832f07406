/* read_plans.c: parses limits, and names their plans. */
#include <weir/plan.h>
#include <weir/table.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"
#include "policy/read.h"

bool weir__policy_mode_of(struct weir__slice word, enum weir_mode *ret_mode)
{
	static const char *const words[] = {
		[WEIR_MODE_ENFORCE] = "enforce", [WEIR_MODE_SHADOW] = "shadow", [WEIR_MODE_OFF] = "off"
	};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (weir__slice_is(word, words[i])) {
			*ret_mode = (enum weir_mode)i;
			return true;
		}
	return false;
}

enum weir_mode weir__policy_read_mode(struct weir__diagnostics *diagnostics, const struct weir__node *node,
				      enum weir_mode otherwise)
{
	enum weir_mode mode = otherwise;

	if (node == NULL || weir__node_text(diagnostics, node, "mode") == NULL)
		return otherwise;
	if (!weir__policy_mode_of(node->text, &mode))
		weir__diagnostics_add(diagnostics, node->at, "unknown mode '%s'; use enforce, shadow or off",
				      node->text.at);
	return mode;
}

bool weir__policy_clean_name(char *name, size_t length)
{
	bool is_clean = true;

	for (size_t at = 0; at < length;) {
		const struct weir__utf8 next = weir__utf8_first((const unsigned char *)name + at, length - at);

		if (next.is_character && weir__utf8_is_control(next.character)) {
			memset(name + at, '?', next.length);
			is_clean = false;
		}
		at += next.length;
	}
	return is_clean;
}

/* A name that is too long, or has control characters, ends in a hash, to distinguish it from others. */
struct weir__slice weir__policy_plan_name(const struct weir__policy_reading *reading, struct weir__slice limit,
					  struct weir__slice apart)
{
	enum { HASH = 17 /* '~' and 16 digits */ };
	char name[WEIR__PLAN_NAME_MAX + HASH + 1];
	const uint64_t hash = weir__policy_hash(2, apart.at, apart.n);
	size_t length = (size_t)snprintf(name, WEIR__PLAN_NAME_MAX + 1, "%.*s|%.*s", (int)limit.n, limit.at,
					 (int)(apart.n < WEIR__PLAN_NAME_MAX ? apart.n : WEIR__PLAN_NAME_MAX),
					 apart.at);

	const bool is_clean = weir__policy_clean_name(name,
						      length < WEIR__PLAN_NAME_MAX ? length : WEIR__PLAN_NAME_MAX);

	if (!is_clean || length > WEIR__PLAN_NAME_MAX) {
		if (length > WEIR__PLAN_NAME_MAX - HASH)
			length = WEIR__PLAN_NAME_MAX - HASH;
		(void)snprintf(name + length, HASH + 1, "~%016llx", (unsigned long long)hash);
		length += HASH;
	}
	return weir__pool_copy(&reading->policy->pool, (struct weir__slice){ name, length });
}

static bool make_room(struct weir__policy_reading *reading)
{
	struct weir_policy *const policy = reading->policy;
	const uint32_t size = reading->plans_size ? 2 * reading->plans_size : 64;
	struct weir_policy_plan *plans;

	if (policy->n_plans < reading->plans_size)
		return true;
	plans = weir__pool_take_array(&policy->pool, size, sizeof(*plans));
	if (plans == NULL)
		return false;
	if (policy->n_plans > 0)
		memcpy(plans, policy->plans, policy->n_plans * sizeof(*plans));
	policy->plans = plans;
	reading->plans_size = size;
	return true;
}

uint32_t weir__policy_add_plan(struct weir__policy_reading *reading, const struct weir_policy_plan *plan,
			       struct weir__mark at)
{
	struct weir_policy *const policy = reading->policy;

	if (plan->name == NULL || !make_room(reading)) {
		(void)weir__policy_no_memory(reading, at);
		return WEIR__NO_PLAN;
	}
	policy->plans[policy->n_plans] = *plan;
	return policy->n_plans++;
}

/* A fixed cost must not exceed the most that the limit can have at once. */
static bool check_cost(const struct weir__policy_reading *reading, const struct weir__policy_limit *of,
		       const struct weir_plan *plan, struct weir__slice text, struct weir__mark at)
{
	if (of->cost_attribute >= 0 || of->cost == UINT64_MAX || of->cost <= plan->most)
		return true;
	weir__diagnostics_add(
		reading->diagnostics, at,
		"limit '%.80s' of '%s' never allows a cost of %llu: its capacity is %llu; use a lower cost or more "
		"at once",
		text.at, of->name.at, (unsigned long long)of->cost, (unsigned long long)plan->most);
	return false;
}

uint32_t weir__policy_read_plan(struct weir__policy_reading *reading, const struct weir__policy_limit *of,
				struct weir__slice name, struct weir__slice text, struct weir__mark at)
{
	struct weir_message why;
	struct weir_limit limit;
	struct weir_plan plan;
	const int error = weir_limit_parse(text.at, text.n, &limit, &why);

	if (error != WEIR_OK || weir_plan_compile(&limit, &plan, &why) != WEIR_OK) {
		if (error != WEIR_OK)
			at.column += (uint32_t)why.at;
		weir__diagnostics_add(reading->diagnostics, at, "limit '%.80s': %s", text.at, why.text);
		return WEIR__NO_PLAN;
	}
	if (weir_table_check_limit(&limit, &why) != WEIR_OK) {
		weir__diagnostics_add(reading->diagnostics, at, "limit '%.80s' of '%s': %s", text.at, of->name.at,
				      why.text);
		return WEIR__NO_PLAN;
	}
	if (!check_cost(reading, of, &plan, text, at))
		return WEIR__NO_PLAN;
	return weir__policy_add_plan(
		reading, &(struct weir_policy_plan){ .name = name.at, .limit = limit, .local = WEIR_POLICY_NO_PLAN },
		at);
}
