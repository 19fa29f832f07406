/* read_overrides_test.c: overrides that can never match are reported where that is simple to see; others are not. */
#include "policies.h"

#define EXCLUDED "the limit does not apply to such requests"
#define KEYLESS "the limit's key needs plan; give that attribute a default"

static const struct {
	const char *limit, *when, *verdict;
} rows[] = {
	{ "match: {plan: gold}", "plan: silver", EXCLUDED },
	{ "match: {plan: gold}", "plan: [silver, gold]", "good" },
	{ "match: {plan: [gold, silver]}", "plan: [free, trial]", EXCLUDED },
	{ "match: {plan: 'g*'}", "plan: silver", EXCLUDED },
	{ "match: {plan: 'g*'}", "plan: gold", "good" },
	{ "match: {plan: {prefix: go}}", "plan: {prefix: si}", EXCLUDED },
	{ "match: {plan: {prefix: go}}", "plan: {prefix: gold}", "good" },
	{ "match: {plan: {not: gold}}", "plan: gold", EXCLUDED },
	{ "match: {plan: {not: gold}}", "plan: {not: silver}", "good" },
	{ "match: {ip: 10.0.0.0/8}", "ip: 192.0.2.0/24", EXCLUDED },
	{ "match: {ip: 10.0.0.0/8}", "ip: '2001:db8::/32'", EXCLUDED },
	{ "match: {ip: 10.0.0.0/8}", "ip: 10.1.0.0/16", "good" },
	{ "match: {ip: 10.1.0.0/16}", "ip: 10.0.0.0/8", "good" },
	{ "match: {ip: [10.0.0.0/8, 192.0.2.0/24]}", "ip: 192.0.2.7", "good" },
	{ "match: {ip: {not: 10.0.0.0/8}}", "ip: 10.1.0.0/16", EXCLUDED },
	{ "match: {ip: {not: 10.1.0.0/16}}", "ip: 10.0.0.0/8", "good" },
	{ "match: {plan: {present: true}}", "plan: {present: false}", EXCLUDED },
	{ "match: {plan: {present: false}}", "plan: {present: true}", EXCLUDED },
	{ "match: {plan: {present: false}}", "plan: {not: gold}", EXCLUDED },
	{ "match: {plan: {present: false}}", "plan: {present: false}", "good" },
	{ "match: {plan: gold}", "plan: {present: true}", "good" },
	{ "match: {plan: gold}", "tier: silver", "good" },
	{ "key: plan", "plan: {present: false}", KEYLESS },
	{ "key: [ip, plan]", "plan: {present: false}", KEYLESS },
	{ "key: plan, match: {plan: {present: true}}", "plan: {present: false}", KEYLESS },
	{ "key: {attribute: plan, default: none}", "plan: {present: false}", "good" },
	{ "key: known", "known: {present: false}", "good" },
	{ "key: ip", "plan: {present: false}", "good" },
};

/* "good", or why the only override of a limit can never match. */
static const char *verdict_of(const char *limit, const char *when)
{
	static const char never[] = "p.yaml:3:";
	const char *found;
	struct weir_policy *policy;
	char text[512];

	(void)sprintf(text,
		      "attributes: {known: {default: x}}\n"
		      "limits:\n  - {name: a, limit: 1/s, %s, overrides: [{when: {%s}, mode: off}]}\n",
		      limit, when);
	policy = policy_of(text);
	if (policy) {
		weir_policy_free(policy);
		return "good";
	}
	found = strstr(reported, "this override can never match: ");
	CHECK(strncmp(reported, never, strlen(never)) == 0);
	reported[strlen(reported) - 1] = '\0';
	return found ? strchr(found, ':') + 2 : reported;
}

static void overrides_that_never_match(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *const verdict = verdict_of(rows[i].limit, rows[i].when);

		if (strcmp(verdict, rows[i].verdict) != 0)
			check_fail(__FILE__, __LINE__, rows[i].limit);
		CHECK_TEXT(verdict, rows[i].verdict);
	}
}

TESTS(TEST(overrides_that_never_match))
