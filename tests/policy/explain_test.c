/* explain_test.c: explanations of whether and why each limit applies to a request. */
#include "policies.h"

static void the_example_explained(void)
{
	struct weir_policy *const policy = policy_of(example_policy);

	if (policy == NULL) {
		check_fail(__FILE__, __LINE__, reported);
		return;
	}
	CHECK_TEXT(explained(policy, WORDS("ip=2001:db8::7", "plan=gold", "method=GET\n")),
		   "everyone: applies: 50000/s, one for all requests\n"
		   "per-client: applies: 1000/s burst 2000 by the override per-client|plan=gold, key ip=2001:db8::/64\n"
		   "orders-writes: does not apply: method is 'GET\\x0a'\n"
		   "signup-canary: does not apply: the request has no path\n");
	weir_policy_free(policy);
}

static void all_that_is_said(void)
{
	struct weir_policy *const policy = policy_of(
		"attributes: {host: {lower: true}}\n"
		"limits:\n"
		"  - {name: off, limit: 1/s, mode: off}\n"
		"  - name: overridden\n"
		"    limit: 1/s\n"
		"    mode: shadow\n"
		"    overrides: [{when: {plan: none}, mode: off}, {when: {plan: few}, limit: 2/s}]\n"
		"  - {name: keyed, key: [user, ip, {attribute: team, default: nobody}], limit: 3/s}\n"
		"  - {name: fails-open, match: {host: a}, limit: 4/s, on_store_failure: open}\n");
	char long_word[9000] = "plan=", expected[1024];

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(explained(policy, WORDS("plan=none", "host=b")),
		   "off: does not apply: it is off\n"
		   "overridden: does not apply: it is off by an override\n"
		   "keyed: does not apply: its key needs user, which the request does not have\n"
		   "fails-open: does not apply: host is 'b'\n");
	CHECK_TEXT(explained(policy, WORDS("plan=few", "host=A", "user=ann", "ip=192.0.2.1")),
		   "off: does not apply: it is off\n"
		   "overridden: applies in shadow: 2/s by the override overridden|plan=few, one for all requests\n"
		   "keyed: applies: 3/s, key user=ann ip=192.0.2.1 team=nobody\n"
		   "fails-open: applies: 4/s, one for all requests, if the store fails open\n");
	CHECK_TEXT(explained(policy, WORDS("user=\x7f", "ip=no address", "team=\xc3\xa4")),
		   "off: does not apply: it is off\n"
		   "overridden: applies in shadow: 1/s, one for all requests\n"
		   "keyed: applies: 3/s, key user=\\x7f ip=no address team=\xc3\xa4\n"
		   "fails-open: does not apply: the request has no host\n");
	/* long words are cut, or rejected where they would have to be rewritten */
	memset(long_word + 5, 'x', 200);
	memcpy(long_word, "user=", 5);
	(void)explained(policy, WORDS(long_word, "ip=192.0.2.1"));
	(void)sprintf(expected, "keyed: applies: 3/s, key user=%.126s...\n", long_word + 5);
	CHECK(strstr(reported, expected) != NULL);
	memcpy(long_word, "host=", 5);
	memset(long_word + 5, 'x', sizeof(long_word) - 6);
	CHECK_TEXT(explained(policy, WORDS(long_word)), "the attribute host is too long\n");
	weir_policy_free(policy);
}

/* Explanations show the real keys, and two requests with one key show the same. */
static void explained_keys_are_the_keys(void)
{
	static const struct {
		const char *word, *key;
	} rows[] = {
		{ "ip=1.2.3.4", "ip=1.2.3.4" },
		{ "ip=::ffff:1.2.3.4", "ip=1.2.3.4" },
		{ "ip=[2001:DB8::1]", "ip=2001:db8::/64" },
		{ "ip=2001:db8::2:3", "ip=2001:db8::/64" },
		{ "ip=2001:db8:0:1::1%eth0", "ip=2001:db8:0:1::/64" },
		{ "ip=no\taddress", "ip=no\\x09address" },
		{ "from=10.1.2.3", "from=10.0.0.0/8" },
		{ "user=J\xc3\xb6rg", "user=j\xc3\xb6rg" },
		{ "pair=x", "pair=x ip=none" },
	};
	struct weir_policy *const policy = policy_of("attributes: {from: {type: ip}, user: {lower: true}}\n"
						     "limits:\n"
						     "  - {name: a, key: ip, limit: 1/s}\n"
						     "  - {name: b, key: {attribute: from, ipv4: 8}, limit: 1/s}\n"
						     "  - {name: c, key: user, limit: 1/s}\n"
						     "  - name: d\n"
						     "    key: [pair, {attribute: ip, default: none}]\n"
						     "    limit: 1/s\n");

	for (size_t i = 0; policy && i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *const line = explained(policy, WORDS(rows[i].word));
		char key[64] = "";

		if (strstr(line, ", key "))
			(void)sscanf(strstr(line, ", key "), ", key %63[^\n]", key);
		CHECK_TEXT(key, rows[i].key);
	}
	weir_policy_free(policy);
}

static void if_no_limit_applies(void)
{
	struct weir_policy *policy = policy_of(
		"limits: [{name: a, key: [user], limit: 1/s}, {name: b, match: {x: y}, limit: 1/s, "
		"mode: off}]\n");

	CHECK_TEXT(explained(policy, WORDS("usr=ann")),
		   "a: does not apply: its key needs user, which the request does not have\n"
		   "b: does not apply: the request has no x\n"
		   "no limit applies: allowed; did you mean user= instead of usr=?\n");
	CHECK_TEXT(explained(policy, WORDS("x=y")),
		   "a: does not apply: its key needs user, which the request does not have\n"
		   "b: does not apply: it is off\n");
	weir_policy_free(policy);
	policy = policy_of("unmatched: deny\nlimits: [{name: a, key: [user], limit: 1/s}]\n");
	CHECK_TEXT(explained(policy, WORDS("account=ann")),
		   "a: does not apply: its key needs user, which the request does not have\n"
		   "no limit applies: denied, because the policy says unmatched: deny\n");
	weir_policy_free(policy);
}

TESTS(TEST(if_no_limit_applies), TEST(explained_keys_are_the_keys), TEST(the_example_explained), TEST(all_that_is_said))
