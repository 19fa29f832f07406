/* example.c: makes attributes that fulfil the conditions and the key of a limit, and checks by the policy that the
 * limit then applies. */
#include "policy/example.h"

#include <strings.h>

#include "core/utf8.h"

static const char an_address[] = "203.0.113.7"; /* for documentation, RFC 5737 */

/* Returns false if the room is full. */
static bool add_bytes(struct weir__policy_example *example, const char *bytes, size_t n)
{
	if (n > sizeof(example->room) - example->used)
		return false;
	memcpy(example->room + example->used, bytes, n);
	example->used += n;
	return true;
}

/* Writes the pattern with an x for each * or **. */
static bool add_glob(struct weir__policy_example *example, struct weir__slice pattern)
{
	bool is_good = true;

	for (size_t i = 0; i < pattern.n && is_good; i++)
		if (pattern.at[i] != '*')
			is_good = add_bytes(example, pattern.at + i, 1);
		else if (i == 0 || pattern.at[i - 1] != '*')
			is_good = add_bytes(example, "x", 1);
	return is_good;
}

static bool add_any_value(struct weir__policy_example *example, const struct weir__attribute *attribute)
{
	if (attribute->type == WEIR__ADDRESS_ATTRIBUTE || weir__slice_is(attribute->name, "ip"))
		return add_bytes(example, an_address, strlen(an_address));
	if (attribute->type == WEIR__PATH_ATTRIBUTE)
		return add_bytes(example, "/", 1);
	return add_bytes(example, "example", strlen("example"));
}

/* NULL: any value will do. */
static bool add_value(struct weir__policy_example *example, const struct weir__attribute *attribute,
		      const struct weir__pattern *pattern)
{
	char address[WEIR__ADDRESS_TEXT];

	if (pattern == NULL || pattern->kind == WEIR__PATTERN_PRESENT)
		return add_any_value(example, attribute);
	if (pattern->kind == WEIR__PATTERN_GLOB)
		return add_glob(example, pattern->text);
	if (pattern->kind != WEIR__PATTERN_NETWORK)
		return add_bytes(example, pattern->text.at, pattern->text.n);
	weir__address_write(&pattern->network.address, address);
	return add_bytes(example, address, strlen(address));
}

static bool has(const struct weir__policy_example *example, struct weir__slice name)
{
	for (size_t i = 0; i < example->n; i++)
		if (weir__slice_equal(
			    (struct weir__slice){ example->attributes[i].name, example->attributes[i].name_length },
			    name))
			return true;
	return false;
}

/* Names such as COST and TRACEPARENT are options in a request, not attributes. */
static bool is_sendable(struct weir__slice name)
{
	return !(name.n == 4 && strncasecmp(name.at, "cost", 4) == 0) &&
	       !(name.n == 11 && strncasecmp(name.at, "traceparent", 11) == 0);
}

static bool is_plain(const char *bytes, size_t n)
{
	for (size_t i = 0; i < n;) {
		const struct weir__utf8 first = weir__utf8_first((const unsigned char *)bytes + i, n - i);

		if (!first.is_character || weir__utf8_is_control(first.character))
			return false;
		i += first.length;
	}
	return n > 0;
}

/* Adds an attribute, unless the example has it. */
static bool add(struct weir__policy_example *example, const struct weir__attribute *attribute,
		const struct weir__pattern *pattern)
{
	struct weir_attribute *const one = &example->attributes[example->n];

	if (has(example, attribute->name))
		return true;
	one->name = example->room + example->used;
	one->name_length = attribute->name.n;
	if (!is_sendable(attribute->name) || !add_bytes(example, attribute->name.at, attribute->name.n))
		return false;
	one->value = example->room + example->used;
	if (!add_value(example, attribute, pattern))
		return false;
	one->value_length = (size_t)(example->room + example->used - one->value);
	example->n++;
	return is_plain(one->value, one->value_length);
}

static bool applies(const struct weir_policy *policy, uint32_t limit, const struct weir__policy_example *example)
{
	struct weir_policy_answer answer;

	if (weir_policy_match(policy, example->attributes, example->n, 1, &answer, NULL) != WEIR_OK)
		return false;
	for (size_t i = 0; i < answer.n; i++)
		if (answer.claims[i].limit == limit)
			return true;
	return false;
}

static bool try_limit(const struct weir_policy *policy, uint32_t number, struct weir__policy_example *example)
{
	static const struct weir__attribute ip = { .name = { "ip", 2 }, .type = WEIR__TEXT_ATTRIBUTE };
	const struct weir__policy_limit *const limit = &policy->limits[number];
	const struct weir__rule *const rule = &policy->rules.of[number];
	const struct weir__attribute *const attributes = policy->attributes.of;

	example->n = example->used = 0;
	for (uint32_t i = 0; i < rule->n; i++) {
		const struct weir__condition *const condition = &rule->conditions[i];

		if (!condition->is_negated && condition->n > 0 &&
		    !add(example, &attributes[condition->attribute], &condition->patterns[0]))
			return false;
	}
	for (unsigned i = 0; i < limit->n_parts; i++)
		if (!add(example, &attributes[limit->parts[i].attribute], NULL))
			return false;
	for (uint32_t i = 0; i < rule->n; i++) { /* {not: gold} wants a value, {present: false} none */
		const struct weir__condition *const condition = &rule->conditions[i];

		if (condition->is_negated && condition->n > 0 && condition->patterns[0].kind != WEIR__PATTERN_PRESENT &&
		    !add(example, &attributes[condition->attribute], NULL))
			return false;
	}
	if (example->n == 0 && !add(example, &ip, NULL)) /* a request has one at least */
		return false;
	return applies(policy, number, example);
}

bool weir__policy_example(const struct weir_policy *policy, struct weir__policy_example *ret_example)
{
	if (policy->envoy)
		return false;
	for (uint32_t i = 0; i < policy->n_limits; i++)
		if (policy->limits[i].mode == WEIR_MODE_ENFORCE && try_limit(policy, i, ret_example))
			return true;
	return false;
}
