/* condition.c: tries the patterns one by one, except for exact values, which a binary search finds. */
#include "policy/condition.h"

#include <stdlib.h>

static int compare_slices(struct weir__slice a, struct weir__slice b)
{
	if (a.n != b.n)
		return a.n < b.n ? -1 : 1;
	return a.n == 0 ? 0 : memcmp(a.at, b.at, a.n);
}

static int compare_patterns(const void *a_, const void *b_)
{
	const struct weir__pattern *const a = a_, *const b = b_;
	const int a_is_other = a->kind != WEIR__PATTERN_IS, b_is_other = b->kind != WEIR__PATTERN_IS;

	return a_is_other != b_is_other ? a_is_other - b_is_other : compare_slices(a->text, b->text);
}

void weir__condition_sort(struct weir__condition *condition)
{
	if (condition->n > 0)
		qsort(condition->patterns, condition->n, sizeof(condition->patterns[0]), compare_patterns);
	for (condition->n_exact = 0; condition->n_exact < condition->n; condition->n_exact++)
		if (condition->patterns[condition->n_exact].kind != WEIR__PATTERN_IS)
			break;
}

bool weir__pattern_fits(const struct weir__pattern *pattern, bool is_path, const struct weir__value *value)
{
	switch (pattern->kind) {
	case WEIR__PATTERN_IS:
		return weir__slice_equal(pattern->text, value->text);
	case WEIR__PATTERN_PREFIX:
		return weir__slice_begins_with(value->text, pattern->text);
	case WEIR__PATTERN_GLOB:
		return is_path ? weir__path_fits(pattern->text, value->text) :
				 weir__glob_fits(pattern->text, value->text);
	case WEIR__PATTERN_NETWORK:
		return value->is_address && weir__network_has(&pattern->network, &value->address);
	default:
		return true;
	}
}

static bool is_among(const struct weir__pattern *sorted, size_t n, struct weir__slice text)
{
	while (n > 0) {
		const size_t half = n / 2;
		const int order = compare_slices(sorted[half].text, text);

		if (order == 0)
			return true;
		sorted += order < 0 ? half + 1 : 0;
		n = order < 0 ? n - half - 1 : half;
	}
	return false;
}

static bool one_fits(const struct weir__condition *condition, const struct weir__value *value)
{
	if (is_among(condition->patterns, condition->n_exact, value->text))
		return true;
	for (size_t i = condition->n_exact; i < condition->n; i++)
		if (weir__pattern_fits(&condition->patterns[i], condition->is_path, value))
			return true;
	return false;
}

bool weir__condition_holds(const struct weir__condition *condition, const struct weir__values *values)
{
	const struct weir__value *const value = &values->of[condition->attribute];

	if (value->text.at == NULL)
		return condition->is_negated && condition->n == 1 &&
		       condition->patterns[0].kind == WEIR__PATTERN_PRESENT;
	return one_fits(condition, value) != condition->is_negated;
}
