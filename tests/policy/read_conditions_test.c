/* read_conditions_test.c: conditions in a policy: what matches them, and messages for mistakes. */
#include "policies.h"

static void conditions_of_all_kinds(void)
{
	struct weir_policy *const policy = policy_of(
		"limits:\n"
		"  - {name: not, match: {plan: {not: [gold, 'plat*']}}, limit: 1/s}\n"
		"  - {name: absent, match: {plan: {present: false}}, limit: 1/s}\n"
		"  - {name: present, match: {plan: {present: true}}, limit: 1/s}\n"
		"  - {name: star, match: {plan: {is: 'a*'}}, limit: 1/s}\n"
		"  - {name: glob, match: {plan: 'a*z'}, limit: 1/s}\n"
		"  - {name: prefix, match: {plan: {prefix: 'a*'}}, limit: 1/s}\n"
		"  - {name: nets, match: {ip: [192.0.2.0/24, '2001:db8::/32']}, limit: 1/s}\n"
		"  - {name: not-nets, match: {ip: {not: 192.0.2.0/24}}, limit: 1/s}\n");

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(applies(policy, WORDS("x=y")), "absent:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("plan=gold")), "present:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("plan=platinum")), "present:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("plan=free")), "not:enforce::1 present:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("plan=a*")),
		   "not:enforce::1 present:enforce::1 star:enforce::1 prefix:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("plan=a*z")),
		   "not:enforce::1 present:enforce::1 glob:enforce::1 prefix:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("ip=192.0.2.9")), "absent:enforce::1 nets:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("ip=2001:db8:1::")), "absent:enforce::1 nets:enforce::1 not-nets:enforce::1");
	weir_policy_free(policy);
}

static void mistakes(void)
{
	static const struct mistake rows[] = {
		{ "limits: [{name: a, limit: 1/s, match: {plan: [[gold]]}}]",
		  "p.yaml:1:47: found a list; a value to compare with must be a string\n" },
		{ "limits: [{name: a, limit: 1/s, match: {ip: local}}]",
		  "p.yaml:1:44: 'local' is neither an address nor a network; use one such as 192.0.2.1 or 2001:db8::/32\n" },
		{ "limits: [{name: a, limit: 1/s, match: {ip: 192.0.2.1/24}}]",
		  "p.yaml:1:44: '192.0.2.1/24' has bits set beyond its prefix length; use 192.0.2.0/24 for the network\n" },
		{ "limits: [{name: a, limit: 1/s, match: {path: {is: '/a?b'}}}]",
		  "p.yaml:1:51: path '/a?b' contains '?'; leave out the query\n" },
		{ "limits: [{name: a, limit: 1/s, match: {plan: {not: []}}}]",
		  "p.yaml:1:52: empty list: this condition can never match\n" },
		{ "limits: [{name: a, limit: 1/s, match: {plan: {present: maybe}}}]",
		  "p.yaml:1:56: invalid present; use true or false\n" },
		{ "limits: [{name: a, limit: 1/s, match: {plan: {present: [true]}}}]",
		  "p.yaml:1:56: invalid present; use true or false\n" },
		{ "limits: [{name: a, limit: 1/s, match: {plan: {}}}]",
		  "p.yaml:1:46: wrong number of keys in a condition; use one of is, not, prefix and present\n" },
		{ "limits: [{name: a, limit: 1/s, match: {plan: {is: a, not: b}}}]",
		  "p.yaml:1:46: wrong number of keys in a condition; use one of is, not, prefix and present\n" },
		{ "limits: [{name: a, limit: 1/s, match: [plan]}]",
		  "p.yaml:1:39: found a list; conditions must be a map, such as {method: POST, path: /v1/**}\n" },
		{ "limits: [{name: a, limit: 1/s, overrides: [{when: gold, mode: off}]}]",
		  "p.yaml:1:51: found a string; conditions must be a map, such as {method: POST, path: /v1/**}\n" },
	};

	CHECK_MISTAKES(rows);
	CHECK(policy_of("limits: [{name: a, limit: 1/s, match: {plan: {ends: b}}}]") == NULL);
	CHECK(strstr(reported, "p.yaml:1:47: unknown key 'ends' in a condition; use is, not, prefix, present\n"));
}

/* A second override is rejected if the first one matches whenever it would. */
static void what_implies_what(void)
{
	static const struct {
		const char *first, *second;
		bool is_hidden;
	} rows[] = {
		{ "plan: {present: true}", "plan: gold", true },
		{ "plan: gold", "plan: {present: true}", false },
		{ "plan: [gold, silver]", "plan: silver", true },
		{ "plan: silver", "plan: [gold, silver]", false },
		{ "plan: 'g*'", "plan: gold", true },
		{ "plan: 'g*'", "plan: 'g*'", true },
		{ "plan: 'g*'", "plan: 's*'", false },
		{ "plan: {prefix: g}", "plan: {prefix: go}", true },
		{ "plan: {prefix: go}", "plan: {prefix: g}", false },
		{ "plan: {not: gold}", "plan: {not: [gold, silver]}", true },
		{ "plan: {not: [gold, silver]}", "plan: {not: gold}", false },
		{ "plan: {not: gold}", "plan: silver", false },
		{ "ip: 10.0.0.0/8", "ip: 10.1.0.0/16", true },
		{ "ip: 10.1.0.0/16", "ip: 10.0.0.0/8", false },
		{ "ip: 10.0.0.0/8", "ip: '2001:db8::/32'", false },
		{ "plan: gold", "plan: gold, user: ann", true },
		{ "plan: gold, user: ann", "plan: gold", false },
		{ "plan: gold", "user: ann", false },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_policy *policy;

		(void)sprintf(text,
			      "limits:\n  - name: a\n    limit: 1/s\n    overrides:\n"
			      "    - {mode: off, when: {%s}}\n    - {mode: off, when: {%s}}\n",
			      rows[i].first, rows[i].second);
		policy = policy_of(text);
		CHECK_TEXT(
			reported,
			rows[i].is_hidden ?
				"p.yaml:6:7: this override can never match: number 1 before it matches whenever it would\n" :
				"");
		weir_policy_free(policy);
	}
}

/* An override is rejected if it matches no request that its limit matches. */
static void what_excludes_what(void)
{
	static const struct {
		const char *match, *when;
		bool is_excluded;
	} rows[] = {
		{ "plan: gold", "plan: silver", true },
		{ "plan: gold", "plan: [silver, gold]", false },
		{ "plan: gold", "plan: {not: gold}", true },
		{ "plan: gold", "plan: {present: false}", true },
		{ "plan: gold", "plan: 's*'", true },
		{ "plan: 'g*'", "plan: silver", true },
		{ "plan: 'g*'", "plan: 's*'", false }, /* undecided for two patterns */
		{ "plan: {not: gold}", "plan: {not: silver}", false },
		{ "plan: gold", "user: ann", false },
		{ "ip: 192.0.2.1", "ip: 10.0.0.0/8", true },
		{ "ip: 10.0.0.1", "ip: 10.0.0.0/8", false },
		{ "ip: 10.0.0.0/8", "ip: 192.0.2.0/24", true },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_policy *policy;

		(void)sprintf(text,
			      "limits:\n  - name: a\n    limit: 1/s\n    match: {%s}\n    overrides:\n"
			      "    - {mode: off, when: {%s}}\n",
			      rows[i].match, rows[i].when);
		policy = policy_of(text);
		CHECK_TEXT(
			reported,
			rows[i].is_excluded ?
				"p.yaml:6:7: this override can never match: the limit does not apply to such requests\n" :
				"");
		weir_policy_free(policy);
	}
}

static void addresses_have_no_prefixes(void)
{
	CHECK(policy_of("limits:\n  - {name: a, limit: 1/s, match: {ip: {prefix: '10.'}}}\n") == NULL);
	CHECK_TEXT(reported, "p.yaml:2:48: prefix '10.' on an address; use a network, as in ip: 10.0.0.0/8\n");
}

TESTS(TEST(conditions_of_all_kinds), TEST(mistakes), TEST(addresses_have_no_prefixes), TEST(what_implies_what),
      TEST(what_excludes_what))
