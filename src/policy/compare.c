/* compare.c: compares policies plan by plan, and their CSV files row by row. */
#include "policy/compare.h"

#include <weir/step.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* --- plans by name ------------------------------------------------------------------------------------------------ */

/* Open addressing; number + 1, or 0. */
struct names {
	const struct weir_policy *policy;
	uint32_t *places;
	uint64_t size; /* a power of two, at least twice the number of plans */
};

static uint64_t hash_name(const char *name)
{
	return weir__policy_hash(0, name, strlen(name));
}

static bool names_init(struct names *names, const struct weir_policy *policy)
{
	*names = (struct names){ .policy = policy, .size = 2 };
	while (names->size < 2 * (uint64_t)policy->n_plans)
		names->size *= 2;
	names->places = calloc(names->size, sizeof(names->places[0]));
	for (uint32_t i = 0; names->places && i < policy->n_plans; i++) {
		uint64_t place = hash_name(policy->plans[i].name);

		while (names->places[place % names->size] != 0)
			place++;
		names->places[place % names->size] = i + 1;
	}
	return names->places != NULL;
}

/* The number of the plan with this name, or NO_PLAN. */
static uint32_t find_name(const struct names *names, const char *name)
{
	uint32_t number;

	for (uint64_t place = hash_name(name); (number = names->places[place % names->size]) != 0; place++)
		if (strcmp(names->policy->plans[number - 1].name, name) == 0)
			return number - 1;
	return WEIR__NO_PLAN;
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void write_limit(const struct weir_policy_plan *plan, char ret_text[WEIR_LIMIT_TEXT_MAX])
{
	if (plan->is_unlimited)
		(void)snprintf(ret_text, WEIR_LIMIT_TEXT_MAX, "unlimited");
	else
		(void)weir_limit_print(&plan->limit, ret_text);
}

/* A table converts sliding counters of any counts into each other, although it keeps large ones in another form. */
static bool is_counter(const struct weir_limit *limit)
{
	return limit->algorithm == WEIR_SLIDING_COUNTER && limit->segments <= 1;
}

static bool is_convertible(const struct weir_limit *before, const struct weir_limit *after)
{
	struct weir_plan from, to;

	if (is_counter(before) && is_counter(after))
		return before->period == after->period && before->count_all == after->count_all;
	if (weir_plan_compile(before, &from, NULL) != WEIR_OK || weir_plan_compile(after, &to, NULL) != WEIR_OK)
		return false;
	if (from.kind == WEIR_KIND_LOG)
		from.room = UINT64_MAX; /* a log grows as needed */
	return weir_step_convertible(&from, &to, NULL) == WEIR_OK;
}

static const char *why_anew(const struct weir_limit *before, const struct weir_limit *after)
{
	if (before->algorithm != after->algorithm)
		return "the algorithm changed";
	if (before->period != after->period && before->algorithm != WEIR_TOKEN_BUCKET &&
	    before->algorithm != WEIR_LEAKY_BUCKET)
		return "the period of the window changed";
	return "options of the algorithm changed";
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static bool is_same_name(const struct weir_policy *before, unsigned a, const struct weir_policy *after, unsigned b)
{
	return weir__slice_equal(before->attributes.of[a].name, after->attributes.of[b].name);
}

static bool is_same_part(const struct weir_policy *before, const struct weir__key_part *a,
			 const struct weir_policy *after, const struct weir__key_part *b)
{
	return is_same_name(before, a->attribute, after, b->attribute) && a->is_address == b->is_address &&
	       a->bits_v4 == b->bits_v4 && a->bits_v6 == b->bits_v6;
}

static bool is_same_key(const struct weir_policy *before, uint32_t old_plan, const struct weir_policy *after,
			uint32_t plan)
{
	const struct weir__policy_limit *a, *b;

	if (before->n_limits == 0 || after->n_limits == 0) /* in Envoy's form the name of a limit says its key */
		return (before->n_limits == 0) == (after->n_limits == 0);
	a = weir__policy_limit_of_plan(before, old_plan);
	b = weir__policy_limit_of_plan(after, plan);
	if (a->n_parts != b->n_parts)
		return false;
	for (unsigned i = 0; i < a->n_parts; i++)
		if (!is_same_part(before, &a->parts[i], after, &b->parts[i]))
			return false;
	return true;
}

/* --- rows of CSV files -------------------------------------------------------------------------------------------- */

static bool have_same_columns(const struct weir_policy *before, const struct weir__entries *a,
			      const struct weir_policy *after, const struct weir__entries *b)
{
	if (a->n_columns != b->n_columns)
		return false;
	for (unsigned i = 0; i < a->n_columns; i++)
		if (!is_same_name(before, a->columns[i], after, b->columns[i]) || a->is_address[i] != b->is_address[i])
			return false;
	return true;
}

/* The plan that a row gives; NULL: the file does not have the row, so the limit's own plan applies. */
static const char *plan_by(const struct weir_policy *policy, const struct weir__policy_limit *limit,
			   const struct weir__entry *entry)
{
	const uint32_t plan = entry ? limit->instead[limit->overrides.n + entry->what].plan : WEIR__NO_PLAN;

	return policy->plans[plan == WEIR__NO_PLAN ? limit->plan : plan].name;
}

static uint64_t count_rows_of(const struct weir_policy *policy, const struct weir__policy_limit *limit,
			      const struct weir_policy *other, const struct weir__policy_limit *other_limit,
			      bool only_missing)
{
	const bool is_comparable = have_same_columns(policy, &limit->entries, other, &other_limit->entries);
	uint64_t n = 0;

	for (uint64_t i = 0; limit->entries.n_columns > 0 && i < limit->entries.size; i++) {
		const struct weir__entry *const entry = &limit->entries.of[i];
		const struct weir__entry *found;

		if (entry->key.at == NULL)
			continue;
		found = is_comparable ? weir__entries_find_key(&other_limit->entries, entry->key) : NULL;
		if (found && only_missing)
			continue;
		n += strcmp(plan_by(policy, limit, entry), plan_by(other, other_limit, found)) != 0;
	}
	return n;
}

/* Rows that were changed or removed, and rows that were added. */
static uint64_t count_rows(const struct weir_policy *before, uint32_t old_plan, const struct weir_policy *after,
			   uint32_t plan)
{
	const struct weir__policy_limit *a, *b;

	if (before->n_limits == 0 || after->n_limits == 0)
		return 0;
	a = weir__policy_limit_of_plan(before, old_plan);
	b = weir__policy_limit_of_plan(after, plan);
	if (a->plan != old_plan || b->plan != plan) /* an override; its limit has the file */
		return 0;
	return count_rows_of(before, a, after, b, false) + count_rows_of(after, b, before, a, true);
}

/* --- comparison --------------------------------------------------------------------------------------------------- */

static void compare_plans(const struct weir_policy *before, uint32_t old_plan, const struct weir_policy *after,
			  uint32_t plan, struct weir__policy_difference *difference)
{
	const struct weir_policy_plan *const a = &before->plans[old_plan], *const b = &after->plans[plan];

	write_limit(a, difference->before);
	difference->rows = count_rows(before, old_plan, after, plan);
	if (a->is_unlimited || b->is_unlimited) {
		difference->fate = a->is_unlimited && b->is_unlimited ? WEIR__FATE_KEPT :
				   a->is_unlimited                    ? WEIR__FATE_ADDED :
									WEIR__FATE_REMOVED;
	} else if (!is_same_key(before, old_plan, after, plan)) {
		difference->fate = WEIR__FATE_ANEW;
		difference->why = "the parts of the key changed";
	} else if (strcmp(difference->before, difference->after) == 0) {
		difference->fate = WEIR__FATE_KEPT;
	} else if (is_convertible(&a->limit, &b->limit)) {
		difference->fate = WEIR__FATE_CONVERTED;
	} else {
		difference->fate = WEIR__FATE_ANEW;
		difference->why = why_anew(&a->limit, &b->limit);
	}
}

static void compare_all(const struct names *before, const struct names *after, weir__policy_agree *agree,
			weir__policy_compare_report *report, void *context)
{
	struct weir__policy_difference difference;

	for (uint32_t i = 0; i < after->policy->n_plans; i++) {
		const struct weir_policy_plan *const plan = &after->policy->plans[i];
		const uint32_t old_plan = find_name(before, plan->name);

		difference = (struct weir__policy_difference){ .fate = WEIR__FATE_ADDED, .name = plan->name };
		write_limit(plan, difference.after);
		if (old_plan != WEIR__NO_PLAN)
			compare_plans(before->policy, old_plan, after->policy, i, &difference);
		if (old_plan != WEIR__NO_PLAN && agree) {
			difference.agreed_before = agree(&before->policy->plans[old_plan]);
			difference.agreed_after = agree(plan);
		}
		report(context, &difference);
	}
	for (uint32_t i = 0; i < before->policy->n_plans; i++) {
		const struct weir_policy_plan *const plan = &before->policy->plans[i];

		if (find_name(after, plan->name) != WEIR__NO_PLAN)
			continue;
		difference = (struct weir__policy_difference){ .fate = WEIR__FATE_REMOVED, .name = plan->name };
		write_limit(plan, difference.before);
		report(context, &difference);
	}
}

bool weir__policy_compare(const struct weir_policy *before, const struct weir_policy *after, weir__policy_agree *agree,
			  weir__policy_compare_report *report, void *context)
{
	struct names of_before, of_after;
	const bool has_before = names_init(&of_before, before), has_after = names_init(&of_after, after);

	if (has_before && has_after)
		compare_all(&of_before, &of_after, agree, report, context);
	free(of_before.places);
	free(of_after.places);
	return has_before && has_after;
}

bool weir__policy_denies_unmatched(const struct weir_policy *policy)
{
	return policy->unmatched == WEIR__UNMATCHED_DENY;
}

bool weir__policy_difference_is_anew(const struct weir__policy_difference *difference)
{
	return difference->fate == WEIR__FATE_ANEW || difference->rows > 0;
}

static bool is_same(const struct weir__policy_agreement *a, const struct weir__policy_agreement *b)
{
	return a->consistency == b->consistency && a->percent == b->percent && a->sync == b->sync;
}

/* Servers find what they hold by the limit and by how it is leased (store/lease_store.c). If either changed, they do not
 * find it, and Redis charges it when the leases end. Keys that start over take what was lent with them. */
static bool drops_held(const struct weir__policy_difference *difference)
{
	return difference->agreed_before.consistency == WEIR_POLICY_LEASE &&
	       (difference->fate == WEIR__FATE_CONVERTED ||
		(difference->fate == WEIR__FATE_KEPT &&
		 !is_same(&difference->agreed_before, &difference->agreed_after)));
}

/* Writes how servers agree. is_short: only the numbers. Returns the length. */
static int write_agreement(const struct weir__policy_agreement *agreed, bool is_short, char *text, size_t size)
{
	const uint64_t sync_ms = agreed->sync / 1000000;

	if (agreed->consistency == WEIR_POLICY_EXACT)
		return snprintf(text, size, "exact");
	if (agreed->consistency == WEIR_POLICY_LEASE)
		return snprintf(text, size, is_short ? "%" PRIu32 "%%" : "leased with up to %" PRIu32 "%% stranded",
				agreed->percent);
	return snprintf(text, size,
			is_short ? "%" PRIu32 "%% every %" PRIu64 "ms" :
				   "eventual with up to %" PRIu32 "%% ahead, pushed every %" PRIu64 "ms",
			agreed->percent, sync_ms);
}

/* Writes how servers agree on the limit, if that changed, and what becomes of the units that they hold. Returns the
 * length. */
static int write_consistency(const struct weir__policy_difference *difference, char *text, size_t size)
{
	const struct weir__policy_agreement *const before = &difference->agreed_before;
	const struct weir__policy_agreement *const after = &difference->agreed_after;
	const bool has_both = difference->fate != WEIR__FATE_ADDED && difference->fate != WEIR__FATE_REMOVED;
	int length = 0;

	text[0] = '\0';
	if (has_both && !is_same(before, after)) {
		length = snprintf(text, size, "; ");
		length += write_agreement(after, false, text + length, size - (size_t)length);
		length += snprintf(text + length, size - (size_t)length, ", before ");
		length += write_agreement(before, before->consistency == after->consistency, text + length,
					  size - (size_t)length);
	}
	if (has_both && drops_held(difference))
		length += snprintf(text + length, size - (size_t)length,
				   "; units that servers hold are not spent any more, and count as used");
	return length;
}

void weir__policy_difference_write(const struct weir__policy_difference *difference,
				   char ret_text[WEIR__POLICY_DIFFERENCE_SIZE])
{
	const char *const before = difference->before, *const after = difference->after;
	const size_t size = WEIR__POLICY_DIFFERENCE_SIZE;
	int length = 0;

	switch (difference->fate) {
	case WEIR__FATE_KEPT:
		length = snprintf(ret_text, size, "%s: kept: %s", difference->name, after);
		break;
	case WEIR__FATE_CONVERTED:
		length = snprintf(ret_text, size, "%s: converted, keys keep their usage: %s, before %s",
				  difference->name, after, before);
		break;
	case WEIR__FATE_ANEW:
		length = snprintf(ret_text, size, "%s: keys start over, because %s: %s, before %s", difference->name,
				  difference->why, after, before);
		break;
	case WEIR__FATE_ADDED:
		length = snprintf(ret_text, size, "%s: new: %s", difference->name, after);
		break;
	default:
		length = snprintf(ret_text, size, "%s: removed: %s", difference->name, before);
	}
	length += write_consistency(difference, ret_text + length, size - (size_t)length);
	if (difference->rows > 0)
		(void)snprintf(ret_text + length, size - (size_t)length,
			       "; keys of %" PRIu64 " CSV row%s start over, because the limit of the row changed",
			       difference->rows, difference->rows == 1 ? "" : "s");
}
