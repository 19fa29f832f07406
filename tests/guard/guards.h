/* guards.h: guards with their own policy and table. */
#ifndef WEIR_TESTS_GUARDS_H
#define WEIR_TESTS_GUARDS_H

#include <weir/guard.h>

#include <stdlib.h>

#include "../policy/policies.h"

enum { TABLE_LIMITS = 128 };

/* Makes a guard that owns the policy, which must be valid, and a table that is made at `start`. */
static inline struct weir_guard *guard_over(struct weir_policy *policy, weir_ns start, struct weir_table **ret_table)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(10000, TABLE_LIMITS) + (1 << 20),
						    .limits_max = TABLE_LIMITS,
						    .arena_bytes = 1 << 20,
						    .made_at = start };
	struct weir_guard *guard = NULL;
	struct weir_message why = { 0 };

	CHECK_TEXT(reported, "");
	CHECK(weir_table_new(&options, ret_table, &why) == WEIR_OK);
	if (policy == NULL || weir_guard_new(*ret_table, policy, &guard, &why) != WEIR_OK) {
		check_fail(__FILE__, __LINE__, why.text);
		exit(1);
	}
	return guard;
}

static inline void end_guard(struct weir_guard *guard, struct weir_table *table)
{
	weir_guard_free(guard);
	weir_table_free(table);
}

#endif
