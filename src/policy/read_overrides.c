/* read_overrides.c: reads the overrides of a limit, and reports overrides that can never apply. */
#include "policy/read.h"

/* Writes the conditions of an override as they are in the file, to distinguish its name. */
static size_t describe(const struct weir__node *node, char *room, size_t size, size_t length)
{
	if (length + 2 >= size)
		return length;
	if (node->kind == WEIR__NODE_TEXT) {
		const size_t n = node->text.n < size - 1 - length ? node->text.n : size - 1 - length;

		memcpy(room + length, node->text.at, n);
		return length + n;
	}
	for (const struct weir__node *member = node->members; member; member = member->next) {
		if (member != node->members && length + 1 < size)
			room[length++] = ',';
		if (member->key) {
			length = describe(member->key, room, size, length);
			if (length + 1 < size)
				room[length++] = '=';
		}
		length = describe(member, room, size, length);
	}
	return length;
}

/* Returns an attribute that the limit's key requires and the rule requires to be missing. NULL: no conflict. */
static const struct weir__attribute *missing_part(const struct weir__policy_reading *reading,
						  const struct weir__policy_limit *limit, const struct weir__rule *rule)
{
	for (unsigned i = 0; i < limit->n_parts; i++) {
		const struct weir__key_part *const part = &limit->parts[i];
		const struct weir__attribute *const attribute = &reading->policy->attributes.of[part->attribute];

		if (part->fallback.at == NULL && attribute->fallback.at == NULL &&
		    weir__rule_needs_absence(rule, part->attribute))
			return attribute;
	}
	return NULL;
}

static void check_override(const struct weir__policy_reading *reading, const struct weir__policy_limit *limit,
			   const struct weir__node *node, const struct weir__rule *rules, uint32_t number,
			   const struct weir__rule *match)
{
	const struct weir__attribute *const missing = missing_part(reading, limit, &rules[number]);

	if (missing)
		weir__diagnostics_add(
			reading->diagnostics, node->at,
			"this override can never match: the limit's key needs %s; give that attribute a default",
			missing->name.at);
	else if (weir__rules_exclude(&rules[number], match))
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "this override can never match: the limit does not apply to such requests");
	for (uint32_t i = 0; i < number && i < 1000; i++)
		if (rules[i].conditions && weir__rule_implies(&rules[number], &rules[i])) {
			weir__diagnostics_add(
				reading->diagnostics, node->at,
				"this override can never match: number %u before it matches whenever it would", i + 1);
			return;
		}
}

static void read_override(struct weir__policy_reading *reading, const struct weir__policy_limit *limit,
			  const struct weir__node *node, struct weir__rule *rule, struct weir__override *instead)
{
	static const char *const keys[] = { "when",         "limit",       "mode", "store", "on_store_failure",
					    "store_budget", "consistency", "wait", NULL };
	const struct weir__node *when, *text, *mode;
	struct weir__slice apart;
	char room[1024];

	*instead = (struct weir__override){ WEIR__NO_PLAN, limit->mode };
	if (!weir__node_check_keys(reading->diagnostics, node, "an override", keys))
		return;
	when = weir__node_member(node, "when");
	text = weir__node_member(node, "limit");
	mode = weir__node_member(node, "mode");
	if (when == NULL)
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "an override needs conditions; use when: {plan: gold}");
	else
		(void)weir__policy_read_rule(reading, when, rule);
	if (text == NULL && mode == NULL)
		weir__diagnostics_add(reading->diagnostics, node->at, "an override needs a limit, a mode, or both");
	instead->mode = weir__policy_read_mode(reading->diagnostics, mode, limit->mode);
	apart = (struct weir__slice){ room, when ? describe(when, room, sizeof(room), 0) : 0 };
	if (when && text && weir__node_text(reading->diagnostics, text, "limit"))
		instead->plan = weir__policy_read_plan(
			reading, limit, weir__policy_plan_name(reading, limit->name, apart), text->text,
			(struct weir__mark){ text->at.line, text->at.column + text->is_quoted });
	weir__policy_read_failure(reading, node, limit, instead->plan, apart);
	weir__policy_read_wait(reading, node, limit, instead->plan);
}

void weir__policy_read_overrides(struct weir__policy_reading *reading, const struct weir__node *list,
				 const struct weir__node *from, struct weir__policy_limit *limit,
				 const struct weir__rule *match)
{
	struct weir__pool *const pool = &reading->policy->pool;
	const uint32_t n = list ? list->n : 0;
	struct weir__rule *rules;
	struct weir__override *instead;
	uint32_t number = 0;

	if (list && list->kind != WEIR__NODE_LIST) {
		weir__diagnostics_add(reading->diagnostics, list->at, "found %s; overrides must be a list",
				      weir__node_kind_words(list));
		return;
	}
	rules = weir__pool_take_array(pool, n, sizeof(*rules));
	instead = weir__pool_take_array(pool, n, sizeof(*instead));
	if (rules == NULL || instead == NULL) {
		(void)weir__policy_no_memory(reading, limit->at);
		return;
	}
	limit->instead = n ? instead : NULL;
	for (const struct weir__node *node = n ? list->members : NULL; node; node = node->next, number++) {
		const uint32_t before = reading->diagnostics->n;

		read_override(reading, limit, node, &rules[number], &instead[number]);
		if (reading->diagnostics->n == before)
			check_override(reading, limit, node, rules, number, match);
		else
			rules[number] = (struct weir__rule){ NULL, 0, 0 };
	}
	if (n > 0 && !weir__rules_init(&limit->overrides, pool, rules, n))
		(void)weir__policy_no_memory(reading, limit->at);
	if (from)
		(void)weir__policy_read_entries(reading, limit, from, instead, n);
}
