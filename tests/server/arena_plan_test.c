/* arena_plan_test.c: how much arena a policy needs, and warnings about keys that do not fit. */
#include "server/arena_plan.h"

#include <weir/table.h>

#include "check.h"

static struct weir_policy *policy_of(const char *text)
{
	struct weir_policy *policy = NULL;

	CHECK_EQ(weir_policy_read(text, strlen(text), "policy", NULL, NULL, &policy), WEIR_OK);
	return policy;
}

static size_t size_for(const char *text, uint64_t keys)
{
	struct weir_limit limit;

	CHECK_EQ(weir_limit_parse(text, strlen(text), &limit, NULL), WEIR_OK);
	return weir_table_arena_size(&limit, keys, 0);
}

static size_t needed(const char *text, uint64_t keys)
{
	struct weir_policy *const policy = policy_of(text);
	const size_t size = weir__arena_plan_size(policy, keys, false);

	weir_policy_free(policy);
	return size;
}

static void the_largest_limit_decides(void)
{
	CHECK_EQ(needed("limits: [{name: a, key: [u], limit: 5/s}]", 1000), 0);
	CHECK_EQ(
		needed("limits: [{name: a, key: [u], limit: 5/s sliding_log}, {name: b, key: [u], limit: 90/s sliding_log}]",
		       1000),
		size_for("90/s sliding_log", 1000));
	/* An override is a limit, too. */
	CHECK_EQ(
		needed("limits: [{name: a, key: [u], limit: 5/s, overrides: [{when: {u: x}, limit: 90/s sliding_log}]}]",
		       1000),
		size_for("90/s sliding_log", 1000));
	CHECK_EQ(needed("limits: [{name: a, key: [u], limit: 100000/s sliding_log}]", UINT64_C(1000000)), SIZE_MAX);
}

/* Limits in a store need no arena. */
static void with_a_store_only_limits_in_the_table_count(void)
{
	struct weir_policy *const policy = policy_of("limits: [{name: a, key: [u], limit: 90/s sliding_log}, "
						     "{name: b, key: [u], limit: 70/s sliding_log, store: redis}, "
						     "{name: c, key: [u], limit: 5/s sliding_log, store: table}]");
	char text[WEIR__ARENA_WARNING_SIZE] = "";

	CHECK_EQ(weir__arena_plan_size(policy, 1000, false), size_for("90/s sliding_log", 1000));
	CHECK_EQ(weir__arena_plan_size(policy, 1000, true), size_for("5/s sliding_log", 1000));
	CHECK(!weir__arena_plan_warn(policy, 1000, true, size_for("5/s sliding_log", 1000), text));
	CHECK(weir__arena_plan_warn(policy, 1000, true, size_for("5/s sliding_log", 999), text));
	weir_policy_free(policy);
}

static void a_limit_without_a_key_has_one(void)
{
	CHECK_EQ(needed("limits: [{name: a, limit: 5000/s sliding_log}]", 1000), size_for("5000/s sliding_log", 1));
}

static void the_size_is_bounded(void)
{
	CHECK_EQ(weir__arena_plan_choose(0, 16, 8000), 16);
	CHECK_EQ(weir__arena_plan_choose(16, 16, 8000), 16);
	CHECK_EQ(weir__arena_plan_choose(17, 16, 8000), 17);
	CHECK_EQ(weir__arena_plan_choose(1000, 16, 8000), 1000);
	CHECK_EQ(weir__arena_plan_choose(1001, 16, 8000), 1000);
	CHECK_EQ(weir__arena_plan_choose(SIZE_MAX, 16, 8000), 1000);
	CHECK_EQ(weir__arena_plan_choose(SIZE_MAX, 16, 100), 16); /* little memory is left */
}

static void what_does_not_fit_is_told(void)
{
	struct weir_policy *const policy = policy_of("limits: [{name: api, key: [u], limit: 100/hour sliding_log}]");
	const size_t enough = size_for("100/hour sliding_log", 40000);
	char text[WEIR__ARENA_WARNING_SIZE] = "";

	CHECK(!weir__arena_plan_warn(policy, 40000, false, enough, text));
	CHECK_TEXT(text, "");
	CHECK(weir__arena_plan_warn(policy, 40000, false, enough - 1, text));
	CHECK(strstr(text, " holds 39999 of 40000 keys ") != NULL);
	CHECK(weir__arena_plan_warn(policy, 40000, false, 16 << 20, text));
	CHECK_TEXT(
		text,
		"api: an arena of 16777216 bytes holds 16681 of 40000 keys that have used all of 100/hour sliding_log; "
		"beyond that, keys are denied too much: set arena to 39MiB, use a sliding_counter, or set keys to a lower number");
	/* More than the largest arena. */
	CHECK(weir__arena_plan_warn(policy, UINT64_C(1000000000), false, 16 << 20, text));
	CHECK(strstr(text, " holds 16681 of 1000000000 keys ") != NULL && strstr(text, "set arena") == NULL);
	weir_policy_free(policy);
}

static void one_key_alone_is_told(void)
{
	struct weir_policy *const policy = policy_of("limits: [{name: all, limit: 1000000/hour sliding_log}]");
	char text[WEIR__ARENA_WARNING_SIZE] = "";

	CHECK(weir__arena_plan_warn(policy, 40000, false, 1 << 20, text));
	CHECK(strstr(text, "all: an arena of 1048576 bytes holds 0 of 1 keys ") == text &&
	      strstr(text, "fewer") == NULL);
	weir_policy_free(policy);
}

TESTS(TEST(the_largest_limit_decides), TEST(with_a_store_only_limits_in_the_table_count),
      TEST(a_limit_without_a_key_has_one), TEST(the_size_is_bounded), TEST(what_does_not_fit_is_told),
      TEST(one_key_alone_is_told))
