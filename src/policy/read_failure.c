/* read_failure.c: reads store, on_store_failure and store_budget: where state is kept, and what decides when the store
 * does not reply. Whatever belongs to the store of a limit is read and inherited here. */
#include <stdio.h>

#include "policy/read.h"

static const weir_ns ms = UINT64_C(1000000), budget_least = UINT64_C(1000000), budget_most = UINT64_C(10000000000);

static const char right[] = "use share, open, closed, or {local: 200/s burst 400}";

static void set(const struct weir__policy_reading *reading, uint32_t plan, enum weir_store_failure failure,
		uint32_t local)
{
	if (plan == WEIR__NO_PLAN)
		return;
	reading->policy->plans[plan].on_store_failure = failure;
	reading->policy->plans[plan].local = local;
}

/* NAME~local, for an override NAME~local|WHEN. Names of limits contain neither ~ nor |, so the name is unique. */
static struct weir__slice local_name(const struct weir__policy_reading *reading, struct weir__slice limit,
				     struct weir__slice apart)
{
	char room[WEIR__LIMIT_NAME_MAX + sizeof("~local")];
	const int length = snprintf(room, sizeof(room), "%.*s~local", (int)limit.n, limit.at);
	const struct weir__slice name = { room, (size_t)length };

	return apart.n > 0 ? weir__policy_plan_name(reading, name, apart) :
			     weir__pool_copy(&reading->policy->pool, name);
}

static void read_local(struct weir__policy_reading *reading, const struct weir__node *map,
		       const struct weir__policy_limit *limit, uint32_t plan, struct weir__slice apart)
{
	static const char *const keys[] = { "local", NULL };
	const struct weir__node *const text = weir__node_member(map, "local");
	uint32_t local;

	(void)weir__node_check_keys(reading->diagnostics, map, "on_store_failure", keys);
	if (text == NULL) {
		weir__diagnostics_add(reading->diagnostics, map->at, "on_store_failure has no local limit; %s", right);
		return;
	}
	if (weir__node_text(reading->diagnostics, text, "local") == NULL || limit->name.at == NULL)
		return;
	local = weir__policy_read_plan(reading, limit, local_name(reading, limit->name, apart), text->text,
				       (struct weir__mark){ text->at.line, text->at.column + text->is_quoted });
	if (local == WEIR__NO_PLAN)
		return;
	reading->policy->plans[local].is_local = true;
	set(reading, plan, WEIR_STORE_FAILURE_LOCAL, local);
}

static void read_failure(struct weir__policy_reading *reading, const struct weir__node *node,
			 const struct weir__policy_limit *limit, uint32_t plan, struct weir__slice apart)
{
	static const struct {
		const char *word;
		enum weir_store_failure failure;
	} words[] = { { "share", WEIR_STORE_FAILURE_SHARE },
		      { "open", WEIR_STORE_FAILURE_OPEN },
		      { "closed", WEIR_STORE_FAILURE_CLOSED } };

	if (node->kind == WEIR__NODE_MAP) {
		read_local(reading, node, limit, plan, apart);
		return;
	}
	for (size_t i = 0; node->kind == WEIR__NODE_TEXT && i < sizeof(words) / sizeof(words[0]); i++)
		if (weir__slice_is(node->text, words[i].word)) {
			set(reading, plan, words[i].failure, WEIR__NO_PLAN);
			return;
		}
	if (node->kind == WEIR__NODE_TEXT)
		weir__diagnostics_add(reading->diagnostics, node->at, "on_store_failure '%.80s'; %s", node->text.at,
				      right);
	else
		weir__diagnostics_add(reading->diagnostics, node->at, "%s; on_store_failure: %s",
				      weir__node_kind_words(node), right);
}

weir_ns weir__policy_time_of(struct weir__slice text)
{
	struct weir__slice unit;
	uint64_t number = 0;
	size_t digits = 0;

	for (; digits < text.n && text.at[digits] >= '0' && text.at[digits] <= '9'; digits++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(text.at[digits] - '0'), &number))
			return 0;
	unit = (struct weir__slice){ text.at + digits, text.n - digits };
	if (digits == 0 || (!weir__slice_is(unit, "ms") && !weir__slice_is(unit, "s")))
		return 0;
	return __builtin_mul_overflow(number, unit.n == 2 ? ms : 1000 * ms, &number) ? 0 : number;
}

static void read_budget(const struct weir__policy_reading *reading, const struct weir__node *node, uint32_t plan)
{
	weir_ns budget;

	if (weir__node_text(reading->diagnostics, node, "store_budget") == NULL)
		return;
	budget = weir__policy_time_of(node->text);
	if (budget < budget_least || budget > budget_most)
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "invalid store_budget '%.80s'; use a duration from 1ms to 10s, such as 5ms",
				      node->text.at);
	else if (plan != WEIR__NO_PLAN)
		reading->policy->plans[plan].store_budget = budget;
}

static void read_store(const struct weir__policy_reading *reading, const struct weir__node *node, uint32_t plan)
{
	bool is_table;

	if (weir__node_text(reading->diagnostics, node, "store") == NULL)
		return;
	is_table = weir__slice_is(node->text, "table");
	if (!is_table && !weir__slice_is(node->text, "redis"))
		weir__diagnostics_add(reading->diagnostics, node->at, "unknown store '%.80s'; use table or redis",
				      node->text.at);
	else if (plan != WEIR__NO_PLAN)
		reading->policy->plans[plan].store = is_table ? WEIR_POLICY_STORE_TABLE : WEIR_POLICY_STORE_REDIS;
}

void weir__policy_inherit_failure(struct weir__policy_reading *reading, const struct weir__policy_limit *limit,
				  uint32_t plan)
{
	const struct weir_policy_plan *of;

	if (plan == WEIR__NO_PLAN || limit->plan == WEIR__NO_PLAN || plan == limit->plan)
		return;
	of = &reading->policy->plans[limit->plan];
	set(reading, plan, of->on_store_failure, of->local);
	reading->policy->plans[plan].store_budget = of->store_budget;
	reading->policy->plans[plan].store = of->store;
	reading->policy->plans[plan].consistency = of->consistency;
	reading->policy->plans[plan].stranded = of->stranded;
	reading->policy->plans[plan].ahead = of->ahead;
	reading->policy->plans[plan].sync = of->sync;
}

void weir__policy_read_failure(struct weir__policy_reading *reading, const struct weir__node *map,
			       const struct weir__policy_limit *limit, uint32_t plan, struct weir__slice apart)
{
	const struct weir__node *const failure = weir__node_member(map, "on_store_failure");
	const struct weir__node *const budget = weir__node_member(map, "store_budget");
	const struct weir__node *const store = weir__node_member(map, "store");
	const struct weir__node *const consistency = weir__node_member(map, "consistency");
	const struct weir__node *const first = failure ? failure : budget ? budget : store ? store : consistency;

	if (first && weir__node_member(map, "limit") == NULL)
		weir__diagnostics_add(reading->diagnostics, first->key->at, "%s needs a limit; add limit beside it",
				      first->key->text.at);
	weir__policy_inherit_failure(reading, limit, plan);
	if (store)
		read_store(reading, store, plan);
	if (failure)
		read_failure(reading, failure, limit, plan, apart);
	if (budget)
		read_budget(reading, budget, plan);
	if (consistency)
		weir__policy_read_consistency(reading, consistency, plan);
	if (consistency && store && plan != WEIR__NO_PLAN &&
	    reading->policy->plans[plan].consistency != WEIR_POLICY_EXACT &&
	    reading->policy->plans[plan].store == WEIR_POLICY_STORE_TABLE)
		weir__diagnostics_add(reading->diagnostics, consistency->key->at,
				      "consistency: %s needs Redis, and the limit says store: table; remove one",
				      reading->policy->plans[plan].consistency == WEIR_POLICY_LEASE ? "lease" :
												      "eventual");
}
