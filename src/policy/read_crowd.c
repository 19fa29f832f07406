/* read_crowd.c: checks whether more limits can apply to one request than are allowed.
 *
 * Finding the request to which the most limits apply is hard, so a few requests are tried. For each limit, it tries a
 * request that matches the limit and has, for all other attributes, the values that most limits want. A request that
 * matches too many limits, and that this check did not find, is an error when it arrives. */
#include <stdlib.h>

#include "policy/read.h"

enum { TEXT_ROOM = 256 };

struct trial {
	struct weir__values values;
	char texts[WEIR__ATTRIBUTES_MAX][TEXT_ROOM];
};

/* A text that matches a pattern: `**` segments are dropped, and each other star is replaced by a character. */
static struct weir__slice text_for(const struct weir__pattern *pattern, bool is_path, char room[TEXT_ROOM])
{
	size_t length = 0;

	for (size_t i = 0; i < pattern->text.n && length < TEXT_ROOM - 1; i++) {
		const char c = pattern->text.at[i];

		if (is_path && pattern->text.n - i >= 3 && memcmp(pattern->text.at + i, "/**", 3) == 0 &&
		    (pattern->text.n - i == 3 || pattern->text.at[i + 3] == '/'))
			i += 2;
		else
			room[length++] = c == '*' && pattern->kind == WEIR__PATTERN_GLOB ? 'x' : c;
	}
	if (length == 0 && is_path)
		room[length++] = '/';
	return (struct weir__slice){ room, length };
}

/* Sets the attribute so that the condition holds, in the simple cases. */
static void meet(struct trial *trial, const struct weir__condition *condition)
{
	const struct weir__pattern *const pattern = &condition->patterns[0];
	struct weir__value *const value = &trial->values.of[condition->attribute];

	*value = (struct weir__value){ .text = weir__slice_of("~") };
	if (condition->is_negated) {
		if (pattern->kind == WEIR__PATTERN_PRESENT)
			value->text.at = NULL;
		return;
	}
	if (pattern->kind == WEIR__PATTERN_NETWORK) {
		value->is_address = true;
		value->address = pattern->network.address;
	} else if (pattern->kind != WEIR__PATTERN_PRESENT) {
		value->text = text_for(pattern, condition->is_path, trial->texts[condition->attribute]);
	}
}

static bool asks_the_same(const struct weir__condition *a, const struct weir__condition *b)
{
	const struct weir__pattern *const of_a = &a->patterns[0], *const of_b = &b->patterns[0];

	return a->is_negated == b->is_negated && of_a->kind == of_b->kind &&
	       weir__slice_equal(of_a->text, of_b->text) && weir__network_equal(&of_a->network, &of_b->network);
}

/* Boyer-Moore majority vote: finds the condition on each attribute that more than half of its conditions are equal to.
 * Without such a majority, it is any condition. */
static void find_usual(const struct weir_policy *policy, const struct weir__condition *usual[WEIR__ATTRIBUTES_MAX])
{
	uint32_t lead[WEIR__ATTRIBUTES_MAX] = { 0 };

	for (uint32_t i = 0; i < policy->n_limits; i++)
		for (size_t k = 0; k < policy->rules.of[i].n; k++) {
			const struct weir__condition *const condition = &policy->rules.of[i].conditions[k];
			const unsigned attribute = condition->attribute;

			if (lead[attribute] == 0)
				usual[attribute] = condition;
			if (asks_the_same(usual[attribute], condition))
				lead[attribute]++;
			else
				lead[attribute]--;
		}
}

void weir__policy_check_crowd(const struct weir__policy_reading *reading)
{
	const struct weir_policy *const policy = reading->policy;
	const struct weir__condition *usual[WEIR__ATTRIBUTES_MAX] = { NULL };
	struct weir__found found[WEIR_POLICY_CLAIMS_MAX];
	uint32_t n = 0;
	struct trial *trial;

	if (policy->n_limits <= WEIR_POLICY_CLAIMS_MAX)
		return;
	trial = malloc(sizeof(*trial));
	if (trial == NULL) {
		(void)weir__policy_no_memory(reading, (struct weir__mark){ 1, 1 });
		return;
	}
	find_usual(policy, usual);
	for (uint32_t i = 0; i < policy->n_limits && n <= WEIR_POLICY_CLAIMS_MAX; i++) {
		for (unsigned k = 0; k < policy->attributes.n; k++)
			if (usual[k])
				meet(trial, usual[k]);
			else
				trial->values.of[k].text.at = NULL;
		for (size_t k = 0; k < policy->rules.of[i].n; k++)
			meet(trial, &policy->rules.of[i].conditions[k]);
		n = weir__rules_all(&policy->rules, &trial->values, found, WEIR_POLICY_CLAIMS_MAX);
		if (n > WEIR_POLICY_CLAIMS_MAX) {
			reading->diagnostics->file = policy->limits[i].file;
			weir__diagnostics_add(
				reading->diagnostics, policy->limits[i].at,
				"more than %d limits can apply to one request, '%s' and '%s' among them; at most %d may",
				WEIR_POLICY_CLAIMS_MAX, policy->limits[i].name.at,
				policy->limits[found[found[0].number == i].number].name.at, WEIR_POLICY_CLAIMS_MAX);
		}
	}
	free(trial);
}
