/* guard_list.c: lists plans of the policy in force.
 *
 * The table's limits change one by one after the policy was replaced, so a reader that goes through them meanwhile
 * would see limits of the old and of the new policy. All rows are therefore read first, and are reported only if the
 * policy is still in force. Otherwise they are read again, by the next policy. */
#include <stdio.h>
#include <stdlib.h>

#include "guard/guard_internal.h"

/* Call it with `noting` locked. */
static void describe(const struct weir__bound_policy *bound, uint32_t plan, struct weir__guard_row *row)
{
	const struct weir_policy *const policy = bound->policy;
	const struct weir_policy_plan *const what = weir_policy_plan_of(policy, plan);
	const struct weir__policy_limit *limit;
	size_t length = 0;

	*row = (struct weir__guard_row){ .name = what->name,
					 .limit = weir__bound_policy_limit(bound, plan),
					 .store = what->store,
					 .consistency = what->consistency,
					 .stranded = what->stranded,
					 .ahead = what->ahead,
					 .sync = what->sync,
					 .on_store_failure = what->on_store_failure,
					 .is_local = what->is_local,
					 .store_budget = what->store_budget,
					 .wait = what->wait };
	if (row->limit)
		row->now = weir_table_limit_limit(row->limit);
	row->is_changed = weir__guard_change_of(bound, plan, &row->change);
	if (policy->n_limits == 0) { /* Envoy's form has plans only */
		row->is_keyed = true;
		row->mode = what->is_shadow ? WEIR_MODE_SHADOW : WEIR_MODE_ENFORCE;
		return;
	}
	limit = weir__policy_limit_of_plan(policy, plan);
	row->is_keyed = limit->n_parts > 0;
	row->mode = limit->mode;
	for (uint32_t i = 0; i < limit->overrides.n && plan != limit->plan; i++)
		if (limit->instead[i].plan == plan)
			row->mode = limit->instead[i].mode;
	for (unsigned i = 0; i < limit->n_parts && length < sizeof(row->key); i++)
		length += (size_t)snprintf(row->key + length, sizeof(row->key) - length, "%s%s", i ? "," : "",
					   policy->attributes.of[limit->parts[i].attribute].name.at);
}

/* A policy that is being listed. */
struct reading {
	struct weir_guard *guard;
	uint32_t phase;
	const struct weir__bound_policy *bound;
};

static void enter(struct reading *reading)
{
	reading->phase = weir__epoch_enter(&reading->guard->epoch);
	reading->bound = atomic_load(&reading->guard->bound);
}

static void leave(const struct reading *reading)
{
	weir__epoch_leave(&reading->guard->epoch, reading->phase);
}

/* Reads n rows: of `plans`, or if that is NULL from plan `first` on. If the policy was replaced meanwhile, leaves it,
 * enters the next one, and returns false. That happens at most once for each new policy, so callers try again without
 * an end. */
static bool read_rows(struct reading *reading, const uint32_t *plans, uint32_t first, uint32_t n,
		      struct weir__guard_row *rows)
{
	(void)pthread_mutex_lock(&reading->guard->noting);
	for (uint32_t i = 0; i < n; i++)
		describe(reading->bound, plans ? plans[i] : first + i, &rows[i]);
	(void)pthread_mutex_unlock(&reading->guard->noting);
	if (weir__guard_is_current(reading->guard, reading->bound))
		return true;
	leave(reading);
	enter(reading);
	return false;
}

bool weir__guard_row(struct weir_guard *guard, const char *plan, size_t length,
		     void (*tell)(void *context, const struct weir__guard_row *row), void *context)
{
	struct reading reading = { .guard = guard };
	struct weir__guard_row row;
	uint32_t number;

	enter(&reading);
	do {
		number = weir__bound_policy_plan_named(reading.bound, plan, length);
	} while (number != WEIR_POLICY_NO_PLAN && !read_rows(&reading, NULL, number, 1, &row));
	if (number != WEIR_POLICY_NO_PLAN)
		tell(context, &row);
	leave(&reading);
	return number != WEIR_POLICY_NO_PLAN;
}

static void tell_one_by_one(const struct reading *reading, uint32_t first, uint32_t n,
			    void (*tell)(void *context, const struct weir__guard_row *row), void *context)
{
	struct weir__guard_row row;

	for (uint32_t i = 0; i < n; i++) {
		(void)pthread_mutex_lock(&reading->guard->noting);
		describe(reading->bound, first + i, &row);
		(void)pthread_mutex_unlock(&reading->guard->noting);
		tell(context, &row);
	}
}

void weir__guard_list(struct weir_guard *guard, uint32_t first, uint32_t most,
		      void (*begin)(void *context, uint32_t n, uint32_t all),
		      void (*tell)(void *context, const struct weir__guard_row *row), void *context)
{
	struct weir__guard_row *const rows = most <= WEIR__GUARD_ROWS_MAX ? malloc((most + (size_t)1) * sizeof(*rows)) :
									    NULL;
	struct reading reading = { .guard = guard };
	uint32_t all, n;

	enter(&reading);
	do {
		all = weir_policy_plans(reading.bound->policy);
		n = (uint32_t)weir__min(first < all ? all - first : 0, most);
	} while (rows && !read_rows(&reading, NULL, first, n, rows));
	begin(context, n, all);
	if (rows == NULL)
		tell_one_by_one(&reading, first, n, tell, context);
	for (uint32_t i = 0; rows && i < n; i++)
		tell(context, &rows[i]);
	leave(&reading);
	free(rows);
}

static uint32_t choose(const struct reading *reading, uint32_t most, const struct weir__guard_choice *choice,
		       void *context, const uint32_t **ret_plans)
{
	const uint32_t n = weir_policy_plans(reading->bound->policy);

	choice->begin(context);
	for (uint32_t i = 0; i < n && i < most; i++)
		if (reading->bound->limits[i])
			choice->visit(context, i, reading->bound->limits[i]);
	return choice->choose(context, ret_plans);
}

bool weir__guard_list_chosen(struct weir_guard *guard, uint32_t most, const struct weir__guard_choice *choice,
			     void *context)
{
	struct weir__guard_row *const rows = malloc(WEIR__GUARD_ROWS_MAX * sizeof(*rows));
	struct reading reading = { .guard = guard };
	const uint32_t *plans = NULL;
	uint32_t n;

	if (rows == NULL)
		return false;
	enter(&reading);
	do {
		n = choose(&reading, most, choice, context, &plans);
	} while (!read_rows(&reading, plans, 0, n, rows));
	for (uint32_t i = 0; i < n; i++)
		choice->tell(context, &rows[i]);
	leave(&reading);
	free(rows);
	return true;
}
