/* Policies as people write them: what applies to a request, and what is said of mistakes. */
#include "policies.h"

#include <stdlib.h>

/* The policy that the documentation begins with. */
static const char example[] = "limits:\n"
			      "  - name: everyone\n"
			      "    limit: 50000/s\n"
			      "  - name: per-client\n"
			      "    key: [ip]\n"
			      "    limit: 100/s burst 200\n"
			      "    overrides:\n"
			      "      - when: {plan: gold}\n"
			      "        limit: 1000/s burst 2000\n"
			      "      - when: {ip: 10.0.0.0/8}\n"
			      "        mode: off\n"
			      "  - name: orders-writes\n"
			      "    key: [api_key]\n"
			      "    match: {method: [POST, PUT], path: /v1/orders/**}\n"
			      "    limit: 20/s leaky queue 100\n"
			      "    cost: {attribute: items}\n"
			      "  - name: signup-canary\n"
			      "    key: [ip]\n"
			      "    match: {path: /signup}\n"
			      "    limit: 5/hour sliding_log\n"
			      "    mode: shadow\n";

/* What applies, as "plan:mode:key:cost ..."; keys of addresses as their bytes in hex. */
static const char *applies(const struct weir_policy *policy, const char *const *words)
{
	static struct weir_policy_answer answer;
	static char text[4096];
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	struct weir_message why;

	text[0] = '\0';
	if (weir_policy_match(policy, attributes, n, 1, &answer, &why) != WEIR_OK)
		return strcpy(text, why.text);
	for (size_t i = 0; i < answer.n; i++) {
		const struct weir_policy_claim *const claim = &answer.claims[i];
		static const char *const modes[] = { "enforce", "shadow", "off" };
		char *at = text + strlen(text);

		at += sprintf(at, "%s%s:%s:", i ? " " : "", weir_policy_plan_of(policy, claim->plan)->name,
			      modes[claim->mode]);
		for (size_t k = 0; k < claim->key_length; k++) {
			const unsigned char c = (unsigned char)claim->key[k];

			at += c > ' ' && c < 0x7f ? sprintf(at, "%c", c) : sprintf(at, "\\%02x", c);
		}
		(void)sprintf(at, ":%" PRIu64, claim->cost);
	}
	return text;
}

static void the_example(void)
{
	struct weir_policy *const policy = policy_of(example);

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_EQ(weir_policy_limits(policy), 4);
	CHECK_EQ(weir_policy_plans(policy), 5);
	CHECK_TEXT(applies(policy, WORDS("x=y")), "everyone:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("ip=33.33.33.33")), "everyone:enforce::1 per-client:enforce:\\04!!!!:1");
	CHECK_TEXT(applies(policy, WORDS("ip=33.33.33.33", "plan=gold")),
		   "everyone:enforce::1 per-client|plan=gold:enforce:\\04!!!!:1");
	CHECK_TEXT(applies(policy, WORDS("ip=10.1.1.1")), "everyone:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("ip=10.1.1.1", "plan=gold")),
		   "everyone:enforce::1 per-client|plan=gold:enforce:\\04\\0a\\01\\01\\01:1");
	CHECK_TEXT(applies(policy, WORDS("method=POST", "path=/v1//orders/7?x", "api_key=k", "items=12")),
		   "everyone:enforce::1 orders-writes:enforce:k:12");
	CHECK_TEXT(applies(policy, WORDS("method=POST", "path=/v1/orders", "api_key=k")),
		   "everyone:enforce::1 orders-writes:enforce:k:1");
	CHECK_TEXT(applies(policy, WORDS("method=GET", "path=/v1/orders", "api_key=k")), "everyone:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("method=PUT", "path=/v1/orders")), "everyone:enforce::1");
	CHECK_TEXT(applies(policy, WORDS("path=/%73ignup/", "ip=33.33.33.33")),
		   "everyone:enforce::1 per-client:enforce:\\04!!!!:1 signup-canary:shadow:\\04!!!!:1");
	CHECK_TEXT(applies(policy, WORDS("method=PUT", "path=/v1/orders", "api_key=k", "items=many")),
		   "the attribute \"items\" is a cost: a whole number, 0 or more");
	weir_policy_free(policy);
}

static void keys_are_in_one_form(void)
{
	struct weir_policy *const policy = policy_of("attributes:\n"
						     "  user: {lower: true, default: nobody}\n"
						     "  from: {type: ip}\n"
						     "limits:\n"
						     "  - {name: a, key: [user, host], limit: 1/s}\n"
						     "  - {name: b, key: ip, limit: 1/s}\n"
						     "  - name: c\n"
						     "    key: [{attribute: from, ipv4: 8, ipv6: 16, default: none}]\n"
						     "    limit: 1/s\n");

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(applies(policy, WORDS("user=Ann", "host=WEIR.Example")),
		   "a:enforce:\\03\\00ann\\0c\\00weir.example:1 c:enforce:\\00none:1");
	CHECK_TEXT(applies(policy, WORDS("host=x")), "a:enforce:\\06\\00nobody\\01\\00x:1 c:enforce:\\00none:1");
	CHECK_TEXT(applies(policy, WORDS("ip=4142:4344:4546:4748:1:2:3:4", "from=65.66.67.68")),
		   "b:enforce:\\10ABCDEFGH\\00\\00\\00\\00\\00\\00\\00\\00:1 c:enforce:\\04A\\00\\00\\00:1");
	CHECK_TEXT(applies(policy, WORDS("ip=::ffff:65.66.67.68", "from=4142::1")),
		   "b:enforce:\\04ABCD:1 c:enforce:\\10AB\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00:1");
	CHECK_TEXT(applies(policy, WORDS("ip=ABCD")), "b:enforce:\\00ABCD:1 c:enforce:\\00none:1");
	weir_policy_free(policy);
}

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

static void mistakes_are_all_told(void)
{
	CHECK(policy_of(
		      "limits:\n"
		      "  - name: a b\n"
		      "    limit: 100/fortnight\n"
		      "    rate: 5\n"
		      "  - limit: 0/s\n"
		      "    name: b\n"
		      "    mode: on\n"
		      "    key: [{ipv6: 64}, [x]]\n"
		      "    match: {ip: 10.0.0.1/8, path: /a?b, plan: []}\n"
		      "  - name: b\n"
		      "    limit: 1/s\n"
		      "    cost: {attribute: n, default: -1}\n"
		      "    overrides: [{limit: 2/s}, {when: {plan: x}}, {when: {p: x}, mode: off}, {when: {p: x, q: y}, mode: off}]\n"
		      "  - name: c\n"
		      "    limit: 1/s\n"
		      "    match: {method: POST}\n"
		      "    overrides: [{when: {method: GET}, mode: off}]\n"
		      "speed: 3\n") == NULL);
	CHECK_TEXT(
		reported,
		"p.yaml:18:1: 'speed' is nothing that a policy has: limits, attributes\n"
		"p.yaml:4:5: 'rate' is nothing that a limit has: name, limit, key, match, cost, mode, overrides, overrides_from, on_store_failure, store_budget\n"
		"p.yaml:2:11: 'a b': a name has 1 to 40 letters, digits and -_./:\n"
		"p.yaml:3:16: limit '100/fortnight': at 4: \"fortnight\": unknown period; use ns, us, ms, s, min, hour or day, as in 10/30s\n"
		"p.yaml:7:11: mode 'on'; it is enforce, shadow or off\n"
		"p.yaml:9:17: '10.0.0.1/8' has bits set beyond its length; 10.1.0.0/16 has none\n"
		"p.yaml:9:35: '/a?b': a path has no '?' in it; what follows it is no part of a path\n"
		"p.yaml:9:47: an empty list: nothing is one of no values\n"
		"p.yaml:8:11: a part of a key says which attribute: {attribute: ip, ipv6: 56}\n"
		"p.yaml:8:23: a list; the name of an attribute is a text\n"
		"p.yaml:5:12: limit '0/s': a count of 0: a rate needs 1 or more\n"
		"p.yaml:12:35: 'default' is a whole number, 0 to 9223372036854775807\n"
		"p.yaml:13:17: an override says when it applies: when: {plan: gold}\n"
		"p.yaml:13:31: an override has a limit, a mode, or both\n"
		"p.yaml:13:77: this override can never match: number 3 before it matches whenever it would\n"
		"p.yaml:17:17: this override can never match: the limit does not apply to such requests\n"
		"p.yaml:10:5: the name 'b' again; it was given in line 5\n");
}

static void names_of_attributes_fit_a_line(void)
{
	CHECK(policy_of("limits:\n"
			"  - name: a\n"
			"    limit: 1/s\n"
			"    key: [\"api\\tkey\", \"\"]\n"
			"    match: {\"line\\nbreak\": x}\n") == NULL);
	CHECK_TEXT(reported,
		   "p.yaml:5:13: 'line?break': the name of an attribute has 1 to 63 bytes, and no control characters\n"
		   "p.yaml:4:11: 'api?key': the name of an attribute has 1 to 63 bytes, and no control characters\n"
		   "p.yaml:4:23: '': the name of an attribute has 1 to 63 bytes, and no control characters\n");
}

/* "share 5ms", "local 9/s 0ms" and the like, of the plan that applies. */
static const char *failure_of(const struct weir_policy *policy, const char *const *words)
{
	static const char *const failures[] = { "unset", "share", "open", "closed", "local" };
	static struct weir_policy_answer answer;
	static char text[256];
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	const struct weir_policy_plan *plan, *local;
	char limit[WEIR_LIMIT_TEXT_MAX] = "";
	struct weir_message why;

	if (weir_policy_match(policy, attributes, n, 1, &answer, &why) != WEIR_OK || answer.n != 1)
		return "not one claim";
	plan = weir_policy_plan_of(policy, answer.claims[0].plan);
	local = weir_policy_plan_of(policy, plan->local);
	CHECK((plan->on_store_failure == WEIR_STORE_FAILURE_LOCAL) == (local != NULL));
	CHECK(!plan->is_local && (local == NULL || local->is_local));
	if (local)
		(void)weir_limit_print(&local->limit, limit);
	(void)sprintf(text, "%s%s%s%s%s %dms", failures[plan->on_store_failure], local ? " " : "",
		      local ? local->name : "", local ? ": " : "", limit, (int)(plan->store_budget / 1000000));
	return text;
}

/* The line of the one that applies. */
static const char *explanation_of(const struct weir_policy *policy, const char *const *words)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	char *at;

	reported[0] = '\0';
	weir_policy_explain(policy, attributes, n, report_into, NULL);
	at = strstr(reported, ": applies");
	if (at == NULL)
		return "nothing applies";
	at[strcspn(at, "\n") + 1] = '\0';
	while (at > reported && at[-1] != '\n')
		at--;
	return at;
}

static void stores_that_fail(void)
{
	struct weir_policy *const policy = policy_of(
		"limits:\n"
		"  - {name: unset, match: {l: unset}, limit: 1/s}\n"
		"  - {name: share, match: {l: share}, limit: 1/s, on_store_failure: share, store_budget: 5ms}\n"
		"  - {name: open, match: {l: open}, limit: 1/s, on_store_failure: open, store_budget: 10s}\n"
		"  - {name: closed, match: {l: closed}, limit: 1/s, on_store_failure: 'closed'}\n"
		"  - name: local\n"
		"    match: {l: local}\n"
		"    limit: 1/s\n"
		"    on_store_failure: {local: 2/s burst 3}\n"
		"    store_budget: 7ms\n"
		"    overrides:\n"
		"      - {when: {o: as-it}, limit: 4/s}\n"
		"      - {when: {o: mode}, mode: shadow}\n"
		"      - {when: {o: open}, limit: 5/s, on_store_failure: open}\n"
		"      - {when: {o: budget}, limit: 6/s, store_budget: 1s}\n"
		"      - {when: {o: own}, limit: 7/s, on_store_failure: {local: 8/s}}\n");

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_EQ(weir_policy_plans(policy), 11);
	CHECK_TEXT(failure_of(policy, WORDS("l=unset")), "unset 0ms");
	CHECK_TEXT(failure_of(policy, WORDS("l=share")), "share 5ms");
	CHECK_TEXT(failure_of(policy, WORDS("l=open")), "open 10000ms");
	CHECK_TEXT(failure_of(policy, WORDS("l=closed")), "closed 0ms");
	CHECK_TEXT(failure_of(policy, WORDS("l=local")), "local local~local: 2/s burst 3 7ms");
	CHECK_TEXT(failure_of(policy, WORDS("l=local", "o=as-it")), "local local~local: 2/s burst 3 7ms");
	CHECK_TEXT(failure_of(policy, WORDS("l=local", "o=mode")), "local local~local: 2/s burst 3 7ms");
	CHECK_TEXT(failure_of(policy, WORDS("l=local", "o=open")), "open 7ms");
	CHECK_TEXT(failure_of(policy, WORDS("l=local", "o=budget")), "local local~local: 2/s burst 3 1000ms");
	CHECK_TEXT(failure_of(policy, WORDS("l=local", "o=own")), "local local~local|o=own: 8/s 7ms");
	CHECK_TEXT(explanation_of(policy, WORDS("l=unset")), "unset: applies: 1/s, one for all requests\n");
	CHECK_TEXT(
		explanation_of(policy, WORDS("l=share")),
		"share: applies: 1/s, one for all requests, if the store fails a share of it, waits 5ms for the store\n");
	CHECK_TEXT(explanation_of(policy, WORDS("l=closed")),
		   "closed: applies: 1/s, one for all requests, if the store fails closed\n");
	CHECK_TEXT(
		explanation_of(policy, WORDS("l=local", "o=own")),
		"local: applies: 7/s by the override local|o=own, one for all requests, if the store fails 8/s, waits 7ms "
		"for the store\n");
	weir_policy_free(policy);
}

static void mistakes_about_stores_are_all_told(void)
{
	CHECK(policy_of("limits:\n"
			"  - {name: a, limit: 1/s, on_store_failure: maybe, store_budget: 5us}\n"
			"  - {name: b, limit: 1/fortnight, on_store_failure: {local: 0/s}, store_budget: 11s}\n"
			"  - name: c\n"
			"    limit: 1/s\n"
			"    on_store_failure: {share: true}\n"
			"    store_budget: [5ms]\n"
			"    overrides:\n"
			"      - {when: {p: x}, mode: off, on_store_failure: open}\n"
			"      - {when: {p: y}, limit: 1/s, on_store_failure: {local: 1/x}}\n"
			"      - {when: {p: z}, limit: 1/s, on_store_failure: [open], store_budget: 0ms}\n"
			"      - {when: {p: w}, mode: off, store_budget: 5ms}\n"
			"  - {name: d, on_store_failure: {local: '1/x'}}\n") == NULL);
	CHECK_TEXT(
		reported,
		"p.yaml:2:45: on_store_failure 'maybe'; it is share, open, closed, or {local: 200/s burst 400}\n"
		"p.yaml:2:66: store_budget '5us'; it is a time from 1ms to 10s, such as 5ms\n"
		"p.yaml:3:24: limit '1/fortnight': at 2: \"fortnight\": unknown period; use ns, us, ms, s, min, hour "
		"or day, as in 10/30s\n"
		"p.yaml:3:61: limit '0/s': a count of 0: a rate needs 1 or more\n"
		"p.yaml:3:81: store_budget '11s'; it is a time from 1ms to 10s, such as 5ms\n"
		"p.yaml:6:24: 'share' is nothing that on_store_failure has: local\n"
		"p.yaml:6:23: on_store_failure has no local limit; it is share, open, closed, or {local: 200/s burst 400}\n"
		"p.yaml:7:19: a list; store_budget is a text\n"
		"p.yaml:9:35: on_store_failure goes with a limit, and there is none beside it\n"
		"p.yaml:10:64: limit '1/x': at 2: \"x\": unknown period; use ns, us, ms, s, min, hour or day, as in "
		"10/30s\n"
		"p.yaml:11:54: a list; on_store_failure: it is share, open, closed, or {local: 200/s burst 400}\n"
		"p.yaml:11:76: store_budget '0ms'; it is a time from 1ms to 10s, such as 5ms\n"
		"p.yaml:12:35: store_budget goes with a limit, and there is none beside it\n"
		"p.yaml:13:5: a limit says how much: limit: 100/s burst 200\n"
		"p.yaml:13:15: on_store_failure goes with a limit, and there is none beside it\n"
		"p.yaml:13:44: limit '1/x': at 2: \"x\": unknown period; use ns, us, ms, s, min, hour or day, as in "
		"10/30s\n");
}

static void sixteen_at_most(void)
{
	char text[4096] = "limits:\n";
	struct weir_policy *policy;

	for (int i = 0; i < 17; i++)
		(void)sprintf(text + strlen(text), "  - {name: l%d, match: {a%d: {present: true}}, limit: 1/s}\n", i,
			      i % 2);
	CHECK(policy_of(text) == NULL);
	CHECK(strstr(reported, "more than 16 limits can apply to one request") != NULL);
	policy = policy_of("limits:\n  - {name: a, limit: 1/s}\n");
	CHECK(policy != NULL);
	weir_policy_free(policy);
}

static void entries_of_a_file(void)
{
	char folder[] = "/tmp/weir-policy-XXXXXX", path[256], command[300];
	struct weir_policy *policy = NULL;
	FILE *file;

	CHECK(mkdtemp(folder) != NULL);
	(void)sprintf(path, "%s/customers.csv", folder);
	file = fopen(path, "w");
	fputs("api_key,limit,mode\r\nann,1000/s burst 2000,\r\n\"b,\"\"b\",,off\ncarl,5/s,shadow\n\ndora,1000/s burst 2000,\n",
	      file);
	fclose(file);
	(void)sprintf(path, "%s/p.yaml", folder);
	file = fopen(path, "w");
	fputs("limits:\n  - {name: a, key: api_key, limit: 1/s, on_store_failure: {local: 9/s}, overrides_from: customers.csv}\n",
	      file);
	fclose(file);
	reported[0] = '\0';
	CHECK(weir_policy_load(path, report_into, NULL, &policy) == WEIR_OK);
	CHECK_TEXT(reported, "");
	if (policy) {
		CHECK_EQ(weir_policy_plans(policy), 4);
		CHECK_TEXT(failure_of(policy, WORDS("api_key=ann")), "local a~local: 9/s 0ms");
		CHECK_TEXT(applies(policy, WORDS("api_key=ann")), "a|=1000/s burst 2000:enforce:ann:1");
		CHECK_TEXT(applies(policy, WORDS("api_key=dora")), "a|=1000/s burst 2000:enforce:dora:1");
		CHECK_TEXT(applies(policy, WORDS("api_key=b,\"b")), "");
		CHECK_TEXT(applies(policy, WORDS("api_key=carl")), "a|=5/s:shadow:carl:1");
		CHECK_TEXT(applies(policy, WORDS("api_key=emma")), "a:enforce:emma:1");
		weir_policy_free(policy);
	}
	(void)sprintf(path, "%s/customers.csv", folder);
	file = fopen(path, "w");
	fputs("api_key,limit\nann,1/s\nann,2/s\nbob,2/fortnight\ncarl\n", file);
	fclose(file);
	(void)sprintf(path, "%s/p.yaml", folder);
	reported[0] = '\0';
	CHECK(weir_policy_load(path, report_into, NULL, &policy) == WEIR_ERR_SYNTAX);
	CHECK(strstr(reported, "customers.csv:3:1: 'ann': there is an entry for it before\n"));
	CHECK(strstr(reported, "customers.csv:4:3: limit '2/fortnight': "));
	CHECK(strstr(reported, "customers.csv:5:1: 'carl': as many values as columns are named in the first line\n"));
	(void)sprintf(command, "rm -r %s", folder);
	CHECK(system(command) == 0);
}

static void explained(void)
{
	struct weir_policy *const policy = policy_of(example);
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(WORDS("ip=2001:db8::7", "plan=gold", "method=GET\n"), attributes);

	if (policy == NULL) {
		check_fail(__FILE__, __LINE__, reported);
		return;
	}
	weir_policy_explain(policy, attributes, n, report_into, NULL);
	CHECK_TEXT(
		reported,
		"everyone: applies: 50000/s, one for all requests\n"
		"per-client: applies: 1000/s burst 2000 by the override per-client|plan=gold, key ip=2001:db8::7/64\n"
		"orders-writes: does not apply: method is 'GET\\x0a'\n"
		"signup-canary: does not apply: the request has no path\n");
	weir_policy_free(policy);
}

TESTS(TEST(the_example), TEST(keys_are_in_one_form), TEST(conditions_of_all_kinds), TEST(mistakes_are_all_told),
      TEST(names_of_attributes_fit_a_line), TEST(stores_that_fail), TEST(mistakes_about_stores_are_all_told),
      TEST(sixteen_at_most), TEST(entries_of_a_file), TEST(explained))
