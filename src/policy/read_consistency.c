/* read_consistency.c: reads consistency: how servers that share a limit in Redis agree on it. */
#include "policy/read.h"

enum { STRANDED_DEFAULT = 5, AHEAD_DEFAULT = 1, PERCENT_MOST = 50 };

static const weir_ns sync_default = 100000000, sync_least = 10000000, sync_most = UINT64_C(10000000000);
static const char right[] =
	"use exact, lease, eventual, {lease: {stranded: 5%}} or {eventual: {sync: 100ms, ahead: 1%}}";

/* What a consistency needs besides its name. */
struct terms {
	enum weir_policy_consistency consistency;
	uint32_t stranded, ahead; /* percent */
	weir_ns sync;
};

static const struct terms exact = { .consistency = WEIR_POLICY_EXACT };
static const struct terms lease = { .consistency = WEIR_POLICY_LEASE, .stranded = STRANDED_DEFAULT };
static const struct terms eventual = { .consistency = WEIR_POLICY_EVENTUAL,
				       .ahead = AHEAD_DEFAULT,
				       .sync = sync_default };

static void set(const struct weir__policy_reading *reading, uint32_t plan, const struct terms *terms)
{
	if (plan == WEIR__NO_PLAN)
		return;
	reading->policy->plans[plan].consistency = terms->consistency;
	reading->policy->plans[plan].stranded = terms->stranded;
	reading->policy->plans[plan].ahead = terms->ahead;
	reading->policy->plans[plan].sync = terms->sync;
}

/* A whole number of percent. Returns 0 if the text is not one from 1 to 50. */
static uint32_t percent_of(struct weir__slice text)
{
	uint32_t number = 0;
	size_t digits = 0;

	for (; digits < text.n && text.at[digits] >= '0' && text.at[digits] <= '9' && number <= PERCENT_MOST; digits++)
		number = number * 10 + (uint32_t)(text.at[digits] - '0');
	if (digits == 0 || digits + 1 != text.n || text.at[digits] != '%' || number > PERCENT_MOST)
		return 0;
	return number;
}

/* Leaves *percent as it is if the map has no such key. Returns false after a report. */
static bool read_percent(const struct weir__policy_reading *reading, const struct weir__node *map, const char *key,
			 const char *example, uint32_t *percent)
{
	const struct weir__node *const node = weir__node_member(map, key);

	if (node == NULL)
		return true;
	if (weir__node_text(reading->diagnostics, node, key) == NULL)
		return false;
	*percent = percent_of(node->text);
	if (*percent == 0)
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "invalid %s '%.80s'; use a whole number from 1%% to 50%%, such as %s", key,
				      node->text.at, example);
	return *percent != 0;
}

static bool read_sync(const struct weir__policy_reading *reading, const struct weir__node *map, weir_ns *sync)
{
	const struct weir__node *const node = weir__node_member(map, "sync");

	if (node == NULL)
		return true;
	if (weir__node_text(reading->diagnostics, node, "sync") == NULL)
		return false;
	*sync = weir__policy_time_of(node->text);
	if (*sync >= sync_least && *sync <= sync_most)
		return true;
	weir__diagnostics_add(reading->diagnostics, node->at,
			      "invalid sync '%.80s'; use a duration from 10ms to 10s, such as 100ms", node->text.at);
	return false;
}

static bool is_map(const struct weir__policy_reading *reading, const struct weir__node *node, const char *key,
		   const char *example)
{
	if (node->kind != WEIR__NODE_MAP)
		weir__diagnostics_add(reading->diagnostics, node->at, "found %s; %s must be a map, such as %s",
				      weir__node_kind_words(node), key, example);
	return node->kind == WEIR__NODE_MAP;
}

static void read_lease(const struct weir__policy_reading *reading, const struct weir__node *map, uint32_t plan)
{
	static const char *const keys[] = { "stranded", NULL };
	struct terms terms = lease;

	if (is_map(reading, map, "lease", "{stranded: 5%}") &&
	    weir__node_check_keys(reading->diagnostics, map, "lease", keys) &&
	    read_percent(reading, map, "stranded", "5%", &terms.stranded))
		set(reading, plan, &terms);
}

static void read_eventual(const struct weir__policy_reading *reading, const struct weir__node *map, uint32_t plan)
{
	static const char *const keys[] = { "sync", "ahead", NULL };
	struct terms terms = eventual;
	bool is_good;

	if (!is_map(reading, map, "eventual", "{sync: 100ms, ahead: 1%}") ||
	    !weir__node_check_keys(reading->diagnostics, map, "eventual", keys))
		return;
	is_good = read_sync(reading, map, &terms.sync);
	if (read_percent(reading, map, "ahead", "1%", &terms.ahead) && is_good)
		set(reading, plan, &terms);
}

static void read_map(const struct weir__policy_reading *reading, const struct weir__node *map, uint32_t plan)
{
	static const char *const keys[] = { "lease", "eventual", NULL };
	const struct weir__node *const of_lease = weir__node_member(map, "lease");
	const struct weir__node *const of_eventual = weir__node_member(map, "eventual");

	if (of_lease && of_eventual)
		weir__diagnostics_add(reading->diagnostics, map->at, "consistency has lease and eventual; remove one");
	else if (of_lease == NULL && of_eventual == NULL) /* one error for {exact: ...} and the like */
		weir__diagnostics_add(reading->diagnostics, map->at, "consistency has no lease or eventual; %s", right);
	else if (!weir__node_check_keys(reading->diagnostics, map, "consistency", keys))
		return;
	else if (of_lease)
		read_lease(reading, of_lease, plan);
	else
		read_eventual(reading, of_eventual, plan);
}

void weir__policy_read_consistency(const struct weir__policy_reading *reading, const struct weir__node *node,
				   uint32_t plan)
{
	if (node->kind == WEIR__NODE_MAP)
		read_map(reading, node, plan);
	else if (node->kind != WEIR__NODE_TEXT)
		weir__diagnostics_add(reading->diagnostics, node->at, "%s; consistency: %s",
				      weir__node_kind_words(node), right);
	else if (weir__slice_is(node->text, "exact"))
		set(reading, plan, &exact);
	else if (weir__slice_is(node->text, "lease"))
		set(reading, plan, &lease);
	else if (weir__slice_is(node->text, "eventual"))
		set(reading, plan, &eventual);
	else
		weir__diagnostics_add(reading->diagnostics, node->at, "unknown consistency '%.80s'; %s", node->text.at,
				      right);
}
