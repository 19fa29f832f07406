/* guard_state_test.c: what happens to a key's usage when the policy changes. The rows are the table of
 * docs/reference/policy.md. */
#include <weir/guard.h>

#include "guard/bound_policy.h"
#include "guard/guard.h"
#include "guards.h"

static const weir_ns start = UINT64_C(1700000000000000000);

static const struct change {
	const char *what, *before, *after;
	uint64_t left; /* of the key, after three requests before the change and one after it */
} changes[] = {
	{ "burst of a bucket", "{name: a, key: user, limit: 10/min}", "{name: a, key: user, limit: 10/min burst 8}",
	  4 },
	{ "rate of a bucket", "{name: a, key: user, limit: 10/min}", "{name: a, key: user, limit: 20/min burst 10}",
	  6 },
	{ "period of a bucket", "{name: a, key: user, limit: 10/min}", "{name: a, key: user, limit: 10/hour}", 6 },
	{ "count of a window", "{name: a, key: user, limit: 10/min fixed_window}",
	  "{name: a, key: user, limit: 8/min fixed_window}", 4 },
	{ "period of a window", "{name: a, key: user, limit: 10/min fixed_window}",
	  "{name: a, key: user, limit: 10/hour fixed_window}", 9 },
	{ "the algorithm", "{name: a, key: user, limit: 10/min}", "{name: a, key: user, limit: 10/min fixed_window}",
	  9 },
	{ "the limit of an override",
	  "{name: a, key: user, limit: 9/min, overrides: [{when: {plan: gold}, limit: 20/min burst 10}]}",
	  "{name: a, key: user, limit: 9/min, overrides: [{when: {plan: gold}, limit: 30/min burst 10}]}", 6 },
	{ "an override comes", "{name: a, key: user, limit: 9/min}",
	  "{name: a, key: user, limit: 9/min, overrides: [{when: {plan: gold}, limit: 10/min}]}", 9 },
	{ "an override goes", "{name: a, key: user, limit: 9/min, overrides: [{when: {plan: gold}, limit: 10/min}]}",
	  "{name: a, key: user, limit: 9/min}", 8 },
	{ "another override", "{name: a, key: user, limit: 9/min, overrides: [{when: {plan: gold}, limit: 10/min}]}",
	  "{name: a, key: user, limit: 9/min, overrides: [{when: {plan: [gold]}, limit: 10/min}, {when: {user: x}, mode: off}]}",
	  6 },
	{ "the name", "{name: a, key: user, limit: 10/min}", "{name: b, key: user, limit: 10/min}", 9 },
	{ "match", "{name: a, key: user, limit: 10/min}", "{name: a, key: user, match: {plan: gold}, limit: 10/min}",
	  6 },
	{ "cost", "{name: a, key: user, limit: 10/min}", "{name: a, key: user, cost: 2, limit: 10/min}", 5 },
	{ "parts of the key", "{name: a, key: user, limit: 10/min}", "{name: a, key: [user, plan], limit: 10/min}", 9 },
};

static struct weir_policy *policy_of_limit(const char *limit)
{
	char text[512];
	struct weir_policy *policy;

	(void)snprintf(text, sizeof(text), "limits:\n  - %s\n", limit);
	policy = policy_of(text);
	CHECK_TEXT(reported, "");
	return policy;
}

static uint64_t ask(struct weir_guard *guard)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(WORDS("user=ann", "plan=gold"), attributes);
	struct weir_guard_answer answer;
	struct weir_message why;

	CHECK(weir_guard_check(guard, attributes, n, 1, start, &answer, &why) == WEIR_OK);
	CHECK(answer.verdict.allowed);
	return answer.verdict.remaining;
}

static struct weir_guard *guard_of(const char *limit, struct weir_table **ret_table)
{
	return guard_over(policy_of_limit(limit), start, ret_table);
}

static void change(struct weir_guard *guard, const char *limit)
{
	struct weir_message why;

	CHECK(weir_guard_change(guard, policy_of_limit(limit), start, &why) == WEIR_OK);
}

static void row_by_row(void)
{
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct weir_table *table;
		struct weir_guard *const guard = guard_of(changes[i].before, &table);
		uint64_t left;

		for (int k = 0; k < 3; k++)
			(void)ask(guard);
		change(guard, changes[i].after);
		left = ask(guard);
		if (left != changes[i].left)
			check_fail(__FILE__, __LINE__, changes[i].what);
		CHECK_EQ(left, changes[i].left);
		end_guard(guard, table);
	}
}

static void gone_and_back(void)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("{name: a, key: user, limit: 10/min}", &table);

	for (int k = 0; k < 3; k++)
		(void)ask(guard);
	change(guard, "{name: other, key: user, limit: 10/min}");
	CHECK_EQ(ask(guard), 9);
	change(guard, "{name: a, key: user, limit: 10/min}");
	CHECK_EQ(ask(guard), 6);
	end_guard(guard, table);
}

/* After a change of algorithm the limit has an internal name in the table, which replies do not show. */
static void called_by_its_name(void)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("{name: a, limit: 10/min}", &table);
	struct weir_guard_answer answer;
	struct weir_message why;

	change(guard, "{name: a, limit: 10/min fixed_window}");
	CHECK(weir_guard_check(guard, NULL, 0, 1, start, &answer, &why) == WEIR_OK);
	CHECK_TEXT(answer.decided_by, "a");
	end_guard(guard, table);
}

/* How many of ten requests are allowed. */
static unsigned admitted(struct weir_table *table, const struct weir_table_limit *limit)
{
	unsigned n = 0;

	for (int i = 0; i < 10; i++)
		n += weir_table_allow(table, limit, "ann", 3, start, 1);
	return n;
}

/* The limit for store failures is a separate limit in the same table, with its own state. */
static void limit_for_a_store_that_fails(void)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0), .made_at = start };
	struct weir__bound_policy *bound, *next;
	struct weir_table *table;
	struct weir_message why;

	CHECK(weir_table_new(&options, &table, &why) == WEIR_OK);
	CHECK(weir__bound_policy_new(
		      table,
		      policy_of_limit("{name: a, key: user, limit: 2/min, on_store_failure: {local: 5/min},"
				      " overrides: [{when: {plan: x}, limit: 3/min},"
				      " {when: {plan: y}, limit: 4/min, on_store_failure: open}]}"),
		      NULL, start, &bound, &why) == WEIR_OK);
	weir__bound_policy_settle_all(table, bound, start);
	CHECK(weir__bound_policy_local(bound, 0) == weir__bound_policy_limit_named(bound, "a~local", 7));
	CHECK(weir__bound_policy_local(bound, weir__bound_policy_plan_named(bound, "a|plan=x", 8)) ==
	      weir__bound_policy_local(bound, 0));
	CHECK(weir__bound_policy_local(bound, weir__bound_policy_plan_named(bound, "a|plan=y", 8)) == NULL);
	CHECK_EQ(admitted(table, weir__bound_policy_limit(bound, 0)), 2);
	CHECK_EQ(admitted(table, weir__bound_policy_local(bound, 0)), 5);
	CHECK(weir__bound_policy_new(
		      table,
		      policy_of_limit("{name: a, key: user, limit: 2/min, on_store_failure: {local: 60/min burst 9}}"),
		      NULL, start, &next, &why) == WEIR_OK);
	weir__bound_policy_settle_all(table, next, start);
	CHECK(weir__bound_policy_local(next, 0) == weir__bound_policy_local(bound, 0));
	CHECK(weir_table_limit_limit(weir__bound_policy_local(next, 0)).burst == 9);
	CHECK_EQ(admitted(table, weir__bound_policy_local(next, 0)), 4);
	weir__bound_policy_free(bound);
	weir__bound_policy_free(next);
	weir_table_free(table);
}

static void limit_for_a_store_that_fails_changed_live(void)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_of(
		"{name: a, key: user, limit: 2/min, on_store_failure: {local: 5/min}}", &table);
	const struct weir_limit to = weir_limit_of(WEIR_TOKEN_BUCKET, 7, UINT64_C(60000000000));
	struct weir_message why;

	CHECK(weir_guard_change_limit(guard, "a~local", &to, start, &why) == WEIR_OK);
	CHECK_EQ(weir_table_limit_limit(weir__guard_limit(guard, "a~local", 7)).count, 7);
	change(guard, "{name: a, key: user, limit: 2/min, on_store_failure: closed}");
	CHECK(weir_guard_change_limit(guard, "a~local", &to, start, &why) == WEIR_ERR_LIMIT);
	end_guard(guard, table);
}

TESTS(TEST(row_by_row), TEST(gone_and_back), TEST(called_by_its_name), TEST(limit_for_a_store_that_fails),
      TEST(limit_for_a_store_that_fails_changed_live))
