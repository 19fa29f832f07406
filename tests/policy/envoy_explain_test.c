/* envoy_explain_test.c: explanations of requests by a configuration of Envoy's ratelimit service, level by level. */
#include "envoys.h"

static void level_by_level(void)
{
	struct weir_policy *const policy = envoy_of(nested, 0);

	if (policy == NULL) {
		check_fail(__FILE__, __LINE__, reported);
		return;
	}
	CHECK_TEXT(explained(policy, WORDS("domain=shop", "plan=gold", "path=/a\n")),
		   "plan=gold: matches plan_gold, exactly, of e.yaml:9\n"
		   "path=/a?: matches path, by its key alone, of e.yaml:12\n"
		   "shop|plan_gold|path: applies: 1000/day fixed_window\n");
	CHECK_TEXT(explained(policy, WORDS("domain=shop", "user=bot")),
		   "user=bot: matches user_bot, exactly, of e.yaml:5\n"
		   "shop|user_bot: applies in shadow: 1/hour fixed_window\n");
	CHECK_TEXT(explained(policy, WORDS("domain=shop", "plan=gold")),
		   "plan=gold: matches plan_gold, exactly, of e.yaml:9\n"
		   "no limit applies: this descriptor has no rate_limit\n");
	CHECK_TEXT(explained(policy, WORDS("domain=shop", "a=b")), "a=b: no descriptor matches: no limit applies\n");
	CHECK_TEXT(explained(policy, WORDS("domain=bakery", "a=b")), "bakery: unknown domain: no limit applies\n");
	CHECK_TEXT(explained(policy, WORDS("a=b")),
		   "this policy is in Envoy's format; send domain=NAME and at most 64 other attributes\n");
	weir_policy_free(policy);
}

static void all_that_is_said(void)
{
	struct weir_policy *const policy = envoy_of(
		"domain: d\n"
		"descriptors:\n"
		"  - {key: free, rate_limit: {unlimited: true}}\n"
		"  - {key: closed, rate_limit: {unit: second, requests_per_unit: 0}}\n"
		"  - {key: quota, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 1}}\n"
		"  - {key: each, value: 'a*', rate_limit: {unit: second, requests_per_unit: 2}}\n"
		"  - {key: all, value: 'a*', share_threshold: true, rate_limit: {unit: second, requests_per_unit: 3}}\n",
		0);
	static char long_word[17000] = "free=", expected[1024];

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(explained(policy, WORDS("domain=d", "free=1")),
		   "free=1: matches free, by its key alone, of e.yaml:3\nd|free: applies: unlimited\n");
	CHECK_TEXT(explained(policy, WORDS("domain=d", "closed=1")),
		   "closed=1: matches closed, by its key alone, of e.yaml:4\n"
		   "d|closed: applies: nothing is allowed\n");
	CHECK_TEXT(explained(policy, WORDS("domain=d", "quota=1")),
		   "quota=1: matches quota, by its key alone, of e.yaml:5\n"
		   "d|quota: applies as a quota: 1/s fixed_window\n");
	CHECK_TEXT(explained(policy, WORDS("domain=d", "each=ab")),
		   "each=ab: matches each_a*, by a pattern, of e.yaml:6\nd|each_a*: applies: 2/s fixed_window\n");
	CHECK_TEXT(explained(policy, WORDS("domain=d", "all=ab")),
		   "all=ab: matches all_a*, by a pattern, of e.yaml:7\n"
		   "d|all_a*: applies: 3/s fixed_window, one for all that match the pattern\n");
	/* long values are cut, long names are rejected */
	memset(long_word + 5, 'x', 61);
	(void)sprintf(expected,
		      "free=%.60s...: matches free, by its key alone, of e.yaml:3\nd|free: applies: unlimited\n",
		      long_word + 5);
	CHECK_TEXT(explained(policy, WORDS("domain=d", long_word)), expected);
	memset(long_word + 5, 'x', sizeof(long_word) - 6);
	CHECK_TEXT(explained(policy, WORDS("domain=d", long_word)), expected);
	memset(long_word, 'x', sizeof(long_word) - 3);
	long_word[sizeof(long_word) - 3] = '=';
	CHECK_TEXT(explained(policy, WORDS("domain=d", long_word)), "an attribute is too long: no limit applies\n");
	weir_policy_free(policy);
}

TESTS(TEST(level_by_level), TEST(all_that_is_said))
