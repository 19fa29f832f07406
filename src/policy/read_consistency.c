/* read_consistency.c: reads consistency: how servers that share a limit in Redis agree on it. */
#include "policy/read.h"

enum { STRANDED_DEFAULT = 5, STRANDED_MOST = 50 }; /* percent */

static const char right[] = "use exact, lease, or {lease: {stranded: 5%}}";

static void set(const struct weir__policy_reading *reading, uint32_t plan, enum weir_policy_consistency consistency,
		uint32_t stranded)
{
	if (plan == WEIR__NO_PLAN)
		return;
	reading->policy->plans[plan].consistency = consistency;
	reading->policy->plans[plan].stranded = stranded;
}

/* A whole number of percent. Returns 0 if the text is not one from 1 to 50. */
static uint32_t percent_of(struct weir__slice text)
{
	uint32_t number = 0;
	size_t digits = 0;

	for (; digits < text.n && text.at[digits] >= '0' && text.at[digits] <= '9' && number <= STRANDED_MOST; digits++)
		number = number * 10 + (uint32_t)(text.at[digits] - '0');
	if (digits == 0 || digits + 1 != text.n || text.at[digits] != '%' || number > STRANDED_MOST)
		return 0;
	return number;
}

static void read_lease(const struct weir__policy_reading *reading, const struct weir__node *map, uint32_t plan)
{
	static const char *const keys[] = { "stranded", NULL };
	const struct weir__node *stranded;
	uint32_t percent;

	if (!weir__node_check_keys(reading->diagnostics, map, "lease", keys))
		return;
	stranded = weir__node_member(map, "stranded");
	if (stranded == NULL) {
		set(reading, plan, WEIR_POLICY_LEASE, STRANDED_DEFAULT);
		return;
	}
	if (weir__node_text(reading->diagnostics, stranded, "stranded") == NULL)
		return;
	percent = percent_of(stranded->text);
	if (percent == 0)
		weir__diagnostics_add(reading->diagnostics, stranded->at,
				      "invalid stranded '%.80s'; use a whole number from 1%% to 50%%, such as 5%%",
				      stranded->text.at);
	else
		set(reading, plan, WEIR_POLICY_LEASE, percent);
}

static void read_map(const struct weir__policy_reading *reading, const struct weir__node *map, uint32_t plan)
{
	static const char *const keys[] = { "lease", NULL };
	const struct weir__node *const lease = weir__node_member(map, "lease");

	if (!weir__node_check_keys(reading->diagnostics, map, "consistency", keys))
		return;
	if (lease)
		read_lease(reading, lease, plan);
	else
		weir__diagnostics_add(reading->diagnostics, map->at, "consistency has no lease; %s", right);
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
		set(reading, plan, WEIR_POLICY_EXACT, 0);
	else if (weir__slice_is(node->text, "lease"))
		set(reading, plan, WEIR_POLICY_LEASE, STRANDED_DEFAULT);
	else
		weir__diagnostics_add(reading->diagnostics, node->at, "unknown consistency '%.80s'; %s", node->text.at,
				      right);
}
