/* read_conditions.c: `match` and `when`, which map attributes to conditions.
 *
 *     method: POST                   exactly; a list: one of them
 *     path: /v1/orders/ **            with a star: a pattern (without the blank)
 *     ip: 10.0.0.0/8                 for an address: a network
 *     plan: {present: false}
 *     plan: {not: [gold, silver]}
 *     name: {is: 'a*b'}              exactly, a star is literal
 *     name: {prefix: 'a*'}           begins with these bytes */
#include "policy/read.h"

/* Suggests the network without these bits, unless it is an IPv4-mapped one with a prefix too short for IPv4. */
static void refuse_host_bits(const struct weir__policy_reading *reading, const struct weir__node *word,
			     const struct weir__network *network)
{
	const bool is_mapped = !network->address.is_v6 && memchr(word->text.at, ':', word->text.n);
	const struct weir__address masked = weir__address_mask(&network->address, network->bits);
	char text[WEIR__ADDRESS_TEXT];

	weir__address_write(&masked, text);
	if (is_mapped)
		weir__diagnostics_add(reading->diagnostics, word->at,
				      "'%s' has bits set beyond its prefix length; use a network such as 10.1.0.0/16",
				      word->text.at);
	else
		weir__diagnostics_add(reading->diagnostics, word->at,
				      "'%s' has bits set beyond its prefix length; use %s/%u for the network",
				      word->text.at, text, network->bits);
}

/* Reads one pattern, according to the attribute's type. */
static bool read_pattern(const struct weir__policy_reading *reading, const struct weir__attribute *attribute,
			 const struct weir__node *node, enum weir__pattern_kind kind, struct weir__pattern *ret_pattern)
{
	const struct weir__node *const word = weir__node_text(reading->diagnostics, node, "a value to compare with");
	bool has_host_bits;
	char *room;

	if (word == NULL)
		return false;
	if (attribute->type == WEIR__ADDRESS_ATTRIBUTE && kind == WEIR__PATTERN_PREFIX) {
		weir__diagnostics_add(reading->diagnostics, word->at,
				      "prefix '%s' on an address; use a network, as in %s: 10.0.0.0/8", word->text.at,
				      attribute->name.at);
		return false;
	}
	if (attribute->type == WEIR__ADDRESS_ATTRIBUTE) {
		if (weir__network_read(word->text, &ret_pattern->network, &has_host_bits)) {
			ret_pattern->kind = WEIR__PATTERN_NETWORK;
			return true;
		}
		if (has_host_bits)
			refuse_host_bits(reading, word, &ret_pattern->network);
		else
			weir__diagnostics_add(
				reading->diagnostics, word->at,
				"'%s' is neither an address nor a network; use one such as 192.0.2.1 or 2001:db8::/32",
				word->text.at);
		return false;
	}
	if (kind == WEIR__PATTERN_GLOB && memchr(word->text.at, '*', word->text.n) == NULL)
		kind = WEIR__PATTERN_IS;
	if (attribute->type == WEIR__PATH_ATTRIBUTE && memchr(word->text.at, '?', word->text.n)) {
		weir__diagnostics_add(reading->diagnostics, word->at, "path '%s' contains '?'; leave out the query",
				      word->text.at);
		return false;
	}
	room = weir__pool_take(&reading->policy->pool, 2 * (word->text.n + 1));
	if (room == NULL)
		return weir__policy_no_memory(reading, node->at);
	memcpy(room, word->text.at, word->text.n); /* the document is freed after reading */
	ret_pattern->kind = kind;
	ret_pattern->text = weir__attribute_normalise(attribute, (struct weir__slice){ room, word->text.n },
						      room + word->text.n + 1);
	return true;
}

/* A text or a list of texts. */
static bool read_patterns(const struct weir__policy_reading *reading, const struct weir__node *node,
			  enum weir__pattern_kind kind, struct weir__condition *condition)
{
	const struct weir__attribute *const attribute = &reading->policy->attributes.of[condition->attribute];
	const bool is_list = node->kind == WEIR__NODE_LIST;
	const size_t n = is_list ? node->n : 1;
	const struct weir__node *one = is_list ? node->members : node;

	if (n == 0) {
		weir__diagnostics_add(reading->diagnostics, node->at, "empty list: this condition can never match");
		return false;
	}
	condition->patterns = weir__pool_take_array(&reading->policy->pool, n, sizeof(condition->patterns[0]));
	if (condition->patterns == NULL)
		return weir__policy_no_memory(reading, node->at);
	for (; condition->n < n; one = one->next)
		if (!read_pattern(reading, attribute, one, kind, &condition->patterns[condition->n++]))
			return false;
	return true;
}

static bool read_present(const struct weir__policy_reading *reading, const struct weir__node *node,
			 struct weir__condition *condition)
{
	const bool is_true = node->kind == WEIR__NODE_TEXT && weir__slice_is(node->text, "true");

	if (!is_true && !(node->kind == WEIR__NODE_TEXT && weir__slice_is(node->text, "false"))) {
		weir__diagnostics_add(reading->diagnostics, node->at, "invalid present; use true or false");
		return false;
	}
	condition->patterns = weir__pool_take(&reading->policy->pool, sizeof(condition->patterns[0]));
	if (condition->patterns == NULL)
		return weir__policy_no_memory(reading, node->at);
	condition->patterns[0].kind = WEIR__PATTERN_PRESENT;
	condition->n = 1;
	condition->is_negated = !is_true;
	return true;
}

/* {not: ...}, {is: ...} and the like: one key. */
static bool read_map(const struct weir__policy_reading *reading, const struct weir__node *node,
		     struct weir__condition *condition)
{
	static const char *const keys[] = { "is", "not", "prefix", "present", NULL };
	const struct weir__node *const only = node->members;

	if (!weir__node_check_keys(reading->diagnostics, node, "a condition", keys))
		return false;
	if (node->n != 1) {
		weir__diagnostics_add(reading->diagnostics, node->at,
				      "wrong number of keys in a condition; use one of is, not, prefix and present");
		return false;
	}
	if (weir__slice_is(only->key->text, "present"))
		return read_present(reading, only, condition);
	if (weir__slice_is(only->key->text, "prefix"))
		return read_patterns(reading, only, WEIR__PATTERN_PREFIX, condition);
	condition->is_negated = weir__slice_is(only->key->text, "not");
	return read_patterns(reading, only, condition->is_negated ? WEIR__PATTERN_GLOB : WEIR__PATTERN_IS, condition);
}

static bool read_condition(const struct weir__policy_reading *reading, const struct weir__node *node,
			   struct weir__condition *condition)
{
	const int attribute = weir__policy_attribute(reading, node->key);
	bool is_good;

	if (attribute < 0)
		return false;
	condition->attribute = (unsigned)attribute;
	condition->is_path = reading->policy->attributes.of[attribute].type == WEIR__PATH_ATTRIBUTE;
	is_good = node->kind == WEIR__NODE_MAP ? read_map(reading, node, condition) :
						 read_patterns(reading, node, WEIR__PATTERN_GLOB, condition);
	if (is_good)
		weir__condition_sort(condition);
	return is_good;
}

/* The number of bytes, from the conditions on, that hold the rule's data: its patterns and texts follow the conditions,
 * unless they are in another block of the pool. For a long rule only the first bytes are worth a prefetch. */
static uint32_t bytes_of(struct weir__pool *pool, const struct weir__rule *rule)
{
	enum { MOST = 512 };
	const char *const end = weir__pool_take(pool, 0), *const begin = (const char *)rule->conditions;
	const size_t bytes = (uintptr_t)end - (uintptr_t)begin;

	return bytes <= MOST ? (uint32_t)bytes : MOST / 2;
}

bool weir__policy_read_rule(const struct weir__policy_reading *reading, const struct weir__node *map,
			    struct weir__rule *ret_rule)
{
	bool is_good = true;

	*ret_rule = (struct weir__rule){ NULL, 0, 0 };
	if (map->kind != WEIR__NODE_MAP) {
		weir__diagnostics_add(reading->diagnostics, map->at,
				      "found %s; conditions must be a map, such as {method: POST, path: /v1/**}",
				      weir__node_kind_words(map));
		return false;
	}
	ret_rule->conditions = weir__pool_take_lines(&reading->policy->pool, map->n ? map->n : 1,
						     sizeof(ret_rule->conditions[0]));
	if (ret_rule->conditions == NULL)
		return weir__policy_no_memory(reading, map->at);
	for (const struct weir__node *member = map->members; member; member = member->next)
		is_good = read_condition(reading, member, &ret_rule->conditions[ret_rule->n++]) && is_good;
	ret_rule->bytes = bytes_of(&reading->policy->pool, ret_rule);
	return is_good;
}

/* --- relations between conditions ------------------------------------------------------------------------------- */

static bool pattern_implies(const struct weir__pattern *a, const struct weir__pattern *b, bool is_path)
{
	struct weir__value value = { .text = a->text };

	if (b->kind == WEIR__PATTERN_PRESENT)
		return true;
	if (a->kind == WEIR__PATTERN_IS && b->kind != WEIR__PATTERN_NETWORK)
		return weir__pattern_fits(b, is_path, &value);
	if (a->kind == WEIR__PATTERN_NETWORK && b->kind == WEIR__PATTERN_NETWORK)
		return a->network.bits >= b->network.bits && weir__network_has(&b->network, &a->network.address);
	if (a->kind == WEIR__PATTERN_PREFIX && b->kind == WEIR__PATTERN_PREFIX)
		return weir__slice_begins_with(a->text, b->text);
	return a->kind == b->kind && weir__slice_equal(a->text, b->text);
}

static bool is_covered(const struct weir__pattern *pattern, const struct weir__condition *by)
{
	for (size_t i = 0; i < by->n; i++)
		if (pattern_implies(pattern, &by->patterns[i], by->is_path))
			return true;
	return false;
}

static bool condition_implies(const struct weir__condition *a, const struct weir__condition *b)
{
	if (a->is_negated != b->is_negated)
		return false;
	if (a->is_negated) { /* for negations the implication is reversed */
		const struct weir__condition *const swapped = a;

		a = b;
		b = swapped;
	}
	for (size_t i = 0; i < a->n; i++)
		if (!is_covered(&a->patterns[i], b))
			return false;
	return true;
}

bool weir__rule_implies(const struct weir__rule *rule, const struct weir__rule *other)
{
	for (size_t k = 0; k < other->n; k++) {
		bool is_implied = false;

		for (size_t i = 0; i < rule->n && !is_implied; i++)
			is_implied = rule->conditions[i].attribute == other->conditions[k].attribute &&
				     condition_implies(&rule->conditions[i], &other->conditions[k]);
		if (!is_implied)
			return false;
	}
	return true;
}

/* Whether the condition holds only for a missing attribute. */
static bool is_absence(const struct weir__condition *condition)
{
	return condition->is_negated && condition->n == 1 && condition->patterns[0].kind == WEIR__PATTERN_PRESENT;
}

static bool patterns_exclude(const struct weir__pattern *a, const struct weir__pattern *b)
{
	if (a->kind == WEIR__PATTERN_NETWORK && b->kind == WEIR__PATTERN_NETWORK)
		return !weir__network_has(a->network.bits < b->network.bits ? &a->network : &b->network,
					  a->network.bits < b->network.bits ? &b->network.address :
									      &a->network.address);
	if (a->kind == WEIR__PATTERN_PREFIX && b->kind == WEIR__PATTERN_PREFIX)
		return !weir__slice_begins_with(a->text, b->text) && !weir__slice_begins_with(b->text, a->text);
	return false;
}

/* Whether no value that matches the pattern meets the condition. False if that is unknown. */
static bool is_excluded(const struct weir__pattern *pattern, const struct weir__condition *by)
{
	if (is_absence(by))
		return true;
	if (pattern->kind == WEIR__PATTERN_IS) {
		struct weir__values values;

		values.of[by->attribute] = (struct weir__value){ .text = pattern->text };
		return !weir__condition_holds(by, &values);
	}
	if (by->is_negated)
		return is_covered(pattern, by);
	for (size_t i = 0; i < by->n; i++)
		if (!patterns_exclude(pattern, &by->patterns[i]))
			return false;
	return true;
}

static bool excludes(const struct weir__condition *a, const struct weir__condition *b)
{
	if (a->is_negated)
		return is_absence(a) && !is_absence(b);
	for (size_t i = 0; i < a->n; i++)
		if (!is_excluded(&a->patterns[i], b))
			return false;
	return true;
}

bool weir__rules_exclude(const struct weir__rule *a, const struct weir__rule *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++)
			if (a->conditions[i].attribute == b->conditions[k].attribute &&
			    (excludes(&a->conditions[i], &b->conditions[k]) ||
			     excludes(&b->conditions[k], &a->conditions[i])))
				return true;
	return false;
}

bool weir__rule_needs_absence(const struct weir__rule *rule, unsigned attribute)
{
	for (size_t i = 0; i < rule->n; i++)
		if (rule->conditions[i].attribute == attribute && is_absence(&rule->conditions[i]))
			return true;
	return false;
}
