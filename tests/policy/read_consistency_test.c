/* read_consistency_test.c: which limits are leased, what overrides inherit, and that all mistakes are reported. */
#include "policies.h"

static const char *consistency_of(const struct weir_policy *policy, const char *const *words)
{
	static struct weir_policy_answer answer;
	static char text[32];
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	const struct weir_policy_plan *plan;
	struct weir_message why;

	if (weir_policy_match(policy, attributes, n, 1, &answer, &why) != WEIR_OK || answer.n != 1)
		return "not one claim";
	plan = weir_policy_plan_of(policy, answer.claims[0].plan);
	if (plan->consistency == WEIR_POLICY_EVENTUAL)
		(void)sprintf(text, "eventual %u%% %ums", plan->ahead, (unsigned)(plan->sync / 1000000));
	else
		(void)sprintf(text, "%s %u%%", plan->consistency == WEIR_POLICY_LEASE ? "lease" : "exact",
			      plan->stranded);
	return text;
}

static void limits_say_how_servers_agree(void)
{
	struct weir_policy *const policy = policy_of(
		"limits:\n"
		"  - {name: unset, match: {l: unset}, limit: 1/s}\n"
		"  - {name: exact, match: {l: exact}, limit: 1/s, consistency: exact}\n"
		"  - {name: lease, match: {l: lease}, limit: 100/s, consistency: lease, on_store_failure: open}\n"
		"  - {name: empty, match: {l: empty}, limit: 100/s, consistency: {lease: {}}}\n"
		"  - name: most\n"
		"    match: {l: most}\n"
		"    limit: 100/s\n"
		"    consistency: {lease: {stranded: 50%}}\n"
		"    overrides:\n"
		"      - {when: {o: as-it}, limit: 4/s}\n"
		"      - {when: {o: mode}, mode: shadow}\n"
		"      - {when: {o: exact}, limit: 5/s, consistency: exact}\n"
		"      - {when: {o: table}, limit: 5/s, store: table}\n"
		"      - {when: {o: own}, limit: 7/s, consistency: {lease: {stranded: '1%'}}}\n"
		"      - {when: {o: eventual}, limit: 8/s, consistency: eventual}\n"
		"  - name: far\n"
		"    match: {l: far}\n"
		"    limit: 100/s\n"
		"    consistency: {eventual: {sync: 10s, ahead: 50%}}\n"
		"    overrides:\n"
		"      - {when: {o: as-it}, limit: 4/s}\n"
		"      - {when: {o: lease}, limit: 5/s, consistency: lease}\n"
		"  - {name: near, match: {l: near}, limit: 100/s, consistency: {eventual: {sync: 10ms}}}\n"
		"  - {name: none, match: {l: none}, limit: 100/s, consistency: {eventual: {}}}\n");

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(consistency_of(policy, WORDS("l=unset")), "exact 0%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=exact")), "exact 0%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=lease")), "lease 5%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=empty")), "lease 5%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=most")), "lease 50%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=most", "o=as-it")), "lease 50%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=most", "o=mode")), "lease 50%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=most", "o=exact")), "exact 0%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=most", "o=own")), "lease 1%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=most", "o=eventual")), "eventual 1% 100ms");
	CHECK_TEXT(consistency_of(policy, WORDS("l=far")), "eventual 50% 10000ms");
	CHECK_TEXT(consistency_of(policy, WORDS("l=far", "o=as-it")), "eventual 50% 10000ms");
	CHECK_TEXT(consistency_of(policy, WORDS("l=far", "o=lease")), "lease 5%");
	CHECK_TEXT(consistency_of(policy, WORDS("l=near")), "eventual 1% 10ms");
	CHECK_TEXT(consistency_of(policy, WORDS("l=none")), "eventual 1% 100ms");
	CHECK_TEXT(explanation_of(policy, WORDS("l=exact")), "exact: applies: 1/s, one for all requests\n");
	CHECK_TEXT(
		explanation_of(policy, WORDS("l=lease")),
		"lease: applies: 100/s, one for all requests, leased with up to 5% stranded, if the store fails open\n");
	CHECK_TEXT(explanation_of(policy, WORDS("l=most", "o=table")),
		   "most: applies: 5/s by the override most|o=table, one for all requests, in the table\n");
	weir_policy_free(policy);
}

static void mistakes_are_all_reported(void)
{
	CHECK(policy_of("limits:\n"
			"  - {name: a, limit: 1/s, consistency: exactly}\n"
			"  - {name: b, limit: 1/s, consistency: [lease]}\n"
			"  - {name: c, limit: 1/s, consistency: {}}\n"
			"  - {name: d, limit: 1/s, consistency: {lease: 5%}}\n"
			"  - {name: e, limit: 1/s, consistency: {lease: {stranded: 51%}}}\n"
			"  - {name: f, limit: 1/s, consistency: {lease: {stranded: 0%}, exact: true}}\n"
			"  - {name: g, limit: 1/s, consistency: {lease: {stranded: [5%]}}}\n"
			"  - {name: h, limit: 1/s, store: table, consistency: lease}\n"
			"  - {name: i, limit: 1/s, overrides: [{when: {p: x}, mode: off, consistency: lease}]}\n"
			"  - {name: j, limit: 1/s, consistency: {eventual: {sync: 9ms, ahead: 51%}}}\n"
			"  - {name: k, limit: 1/s, consistency: {eventual: {sync: 10001ms, often: 1}}}\n"
			"  - {name: l, limit: 1/s, consistency: {eventual: {sync: [1s]}}}\n"
			"  - {name: m, limit: 1/s, consistency: {eventual: {}, lease: {}}}\n"
			"  - {name: n, limit: 1/s, store: table, consistency: eventual}\n"
			"  - {name: o, limit: 1/s, consistency: {exact: {}}}\n"
			"  - {name: p, limit: 1/s, consistency: {eventual: 1s}}\n") == NULL);
	CHECK_TEXT(
		reported,
		"p.yaml:2:40: unknown consistency 'exactly'; use exact, lease, eventual, {lease: {stranded: 5%}} or {eventual: {sync: 100ms, ahead: 1%}}\n"
		"p.yaml:3:40: a list; consistency: use exact, lease, eventual, {lease: {stranded: 5%}} or {eventual: {sync: 100ms, ahead: 1%}}\n"
		"p.yaml:4:40: consistency has no lease or eventual; use exact, lease, eventual, {lease: {stranded: 5%}} or {eventual: {sync: 100ms, ahead: 1%}}\n"
		"p.yaml:5:48: found a string; lease must be a map, such as {stranded: 5%}\n"
		"p.yaml:6:59: invalid stranded '51%'; use a whole number from 1% to 50%, such as 5%\n"
		"p.yaml:7:64: unknown key 'exact' in consistency; use lease, eventual\n"
		"p.yaml:7:59: invalid stranded '0%'; use a whole number from 1% to 50%, such as 5%\n"
		"p.yaml:8:59: found a list; stranded must be a string\n"
		"p.yaml:9:41: consistency: lease needs Redis, and the limit says store: table; remove one\n"
		"p.yaml:10:65: consistency needs a limit; add limit beside it\n"
		"p.yaml:11:58: invalid sync '9ms'; use a duration from 10ms to 10s, such as 100ms\n"
		"p.yaml:11:70: invalid ahead '51%'; use a whole number from 1% to 50%, such as 1%\n"
		"p.yaml:12:67: unknown key 'often' in eventual; use sync, ahead\n"
		"p.yaml:12:58: invalid sync '10001ms'; use a duration from 10ms to 10s, such as 100ms\n"
		"p.yaml:13:58: found a list; sync must be a string\n"
		"p.yaml:14:40: consistency has lease and eventual; remove one\n"
		"p.yaml:15:41: consistency: eventual needs Redis, and the limit says store: table; remove one\n"
		"p.yaml:16:40: consistency has no lease or eventual; use exact, lease, eventual, {lease: {stranded: 5%}} or {eventual: {sync: 100ms, ahead: 1%}}\n"
		"p.yaml:17:51: found a string; eventual must be a map, such as {sync: 100ms, ahead: 1%}\n");
}

TESTS(TEST(limits_say_how_servers_agree), TEST(mistakes_are_all_reported))
