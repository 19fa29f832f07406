/* Policies as people write them: what is said of mistakes. */
#include "policy/read.h"

#include <stdlib.h>

#include "policies.h"

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
		"p.yaml:18:1: unknown key 'speed' in a policy; use limits, attributes, unmatched\n"
		"p.yaml:4:5: unknown key 'rate' in a limit; use name, limit, key, match, cost, mode, overrides, overrides_from, store, on_store_failure, store_budget, wait\n"
		"p.yaml:2:11: 'a b': a name has 1 to 40 letters, digits and -_./:\n"
		"p.yaml:3:16: limit '100/fortnight': at 4: \"fortnight\": unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s\n"
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

static void kinds_that_are_wrong(void)
{
	static const struct mistake rows[] = {
		{ "[limits]", "p.yaml:1:1: a list; a policy is a map with limits in it\n" },
		{ "limits: 5", "p.yaml:1:9: a text; limits is a list\n" },
		{ "limits: [a]", "p.yaml:1:10: a text; a limit is a map\n" },
		{ "limits: [{limit: 1/s}]", "p.yaml:1:10: a limit has a name\n" },
		{ "limits: [{name: [a], limit: 1/s}]", "p.yaml:1:17: a list; name is a text\n" },
		{ "limits: [{name: a, limit: {rate: 1/s}}]", "p.yaml:1:27: a map; limit is a text\n" },
		{ "limits: [{name: a, limit: 1/s, mode: [off]}]", "p.yaml:1:38: a list; mode is a text\n" },
		{ "limits: [{name: a, limit: 1/s, overrides: x}]", "p.yaml:1:43: a text; overrides is a list\n" },
		{ "limits: [{name: a, limit: 1/s, overrides: [x]}]", "p.yaml:1:44: a text; an override is a map\n" },
		{ "limits: [{name: a, limit: 1/s, overrides: [{when: {p: x}, limit: [1/s]}]}]",
		  "p.yaml:1:66: a list; limit is a text\n" },
		{ "attributes: [ip]", "p.yaml:1:13: a list; attributes is a map\n" },
		{ "attributes: {user: text}", "p.yaml:1:20: a text; an attribute is a map\n" },
		{ "attributes: {user: {size: 5}}",
		  "p.yaml:1:21: unknown key 'size' in an attribute; use type, lower, default\n" },
		{ "attributes: {user: {type: name}}", "p.yaml:1:27: type 'name'; it is text, ip or path\n" },
		{ "attributes: {user: {type: [ip]}}", "p.yaml:1:27: a list; type is a text\n" },
		{ "attributes: {user: {lower: 1}}", "p.yaml:1:28: lower is true or false\n" },
		{ "attributes: {user: {default: [x]}}", "p.yaml:1:30: a list; default is a text\n" },
		{ "attributes: {'': {lower: true}}",
		  "p.yaml:1:14: '': the name of an attribute has 1 to 63 bytes, and no control characters\n" },
	};

	CHECK_MISTAKES(rows);
}

static void mistakes_in_keys_and_costs(void)
{
	static const struct mistake rows[] = {
		{ "limits: [{name: a, limit: 1/s, key: [b, c, d, e, f, g, h, i, j]}]",
		  "p.yaml:1:62: a key has at most 8 parts\n" },
		{ "limits: [{name: a, limit: 1/s, key: [b, ip, {attribute: b}]}]",
		  "p.yaml:1:45: the attribute is in this key already\n" },
		{ "limits: [{name: a, limit: 1/s, key: {attribute: ip, bits: 8}}]",
		  "p.yaml:1:53: unknown key 'bits' in a part of a key; use attribute, ipv4, ipv6, default\n" },
		{ "limits: [{name: a, limit: 1/s, key: {attribute: ip, ipv4: 33}}]",
		  "p.yaml:1:59: 'ipv4' is a whole number, 0 to 32\n" },
		{ "limits: [{name: a, limit: 1/s, key: {attribute: ip, ipv6: [64]}}]",
		  "p.yaml:1:59: 'ipv6' is a whole number, 0 to 128\n" },
		{ "limits: [{name: a, limit: 1/s, key: {attribute: ip, default: []}}]",
		  "p.yaml:1:62: a list; default is a text\n" },
		{ "limits: [{name: a, limit: 1/s, cost: 1.5}]",
		  "p.yaml:1:38: 'cost' is a whole number, 0 to 9223372036854775807\n" },
		{ "limits: [{name: a, limit: 1/s, cost: 99999999999999999999}]",
		  "p.yaml:1:38: 'cost' is a whole number, 0 to 9223372036854775807\n" },
		{ "limits: [{name: a, limit: 1/s, cost: {default: 3}}]",
		  "p.yaml:1:38: a cost is a number, or says which attribute: {attribute: items}\n" },
		{ "limits: [{name: a, limit: 1/s, cost: {attribute: n, most: 3}}]",
		  "p.yaml:1:53: unknown key 'most' in a cost; use attribute, default\n" },
	};

	CHECK_MISTAKES(rows);
}

static void so_many_attributes(void)
{
	char text[1024] = "attributes: {";
	struct weir_policy *policy;

	for (int i = 0; i < 29; i++) /* three more are known: ip, path and host */
		(void)sprintf(text + strlen(text), "a%d: {}, ", i);
	policy = policy_of(strcat(text, "}\n"));
	CHECK_TEXT(reported, "");
	weir_policy_free(policy);
	CHECK(policy_of(strcat(text, "limits: [{name: a, limit: 1/s, key: b}]\n")) == NULL);
	CHECK_TEXT(reported, "p.yaml:2:37: 'b': one attribute too many; a policy has at most 32\n");
}

static void attributes_have_types(void)
{
	struct weir_policy *const policy = policy_of("attributes: {route: {type: path}, ip: {type: text}}\n"
						     "limits:\n"
						     "  - {name: a, key: route, limit: 1/s}\n"
						     "  - {name: b, key: ip, limit: 1/s}\n");

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(applies(policy, WORDS("route=/x//y/../z?q")), "a:enforce:/x/z:1");
	CHECK_TEXT(applies(policy, WORDS("ip=192.0.2.1")), "b:enforce:192.0.2.1:1");
	weir_policy_free(policy);
}

static void what_is_unmatched(void)
{
	static const struct mistake rows[] = {
		{ "unmatched: maybe\n", "p.yaml:1:12: unmatched 'maybe'; it is allow or deny\n" },
		{ "unmatched: [deny]\n", "p.yaml:1:12: a list; unmatched is a text\n" },
		{ "limits: [{name: a, limit: 1/s, unmatched: deny}]\n",
		  "p.yaml:1:32: unknown key 'unmatched' in a limit; use name, limit, key, match, cost, mode, overrides, "
		  "overrides_from, store, on_store_failure, store_budget, wait\n" },
	};
	struct weir_policy *policy = policy_of("unmatched: deny\nlimits: []\n");

	CHECK(policy && policy->unmatched == WEIR__UNMATCHED_DENY);
	weir_policy_free(policy);
	policy = policy_of("unmatched: allow\nlimits: []\n");
	CHECK(policy && policy->unmatched == WEIR__UNMATCHED_ALLOW);
	weir_policy_free(policy);
	policy = policy_of("limits: []\n");
	CHECK(policy && policy->unmatched == WEIR__UNMATCHED_UNSET);
	weir_policy_free(policy);
	CHECK_MISTAKES(rows);
	CHECK(policy_of("domain: shop\nunmatched: deny\n") == NULL);
	CHECK(strstr(reported,
		     "p.yaml:2:12: unmatched is for policies of Weir's own: in Envoy's form, requests without a limit "
		     "are allowed\n") != NULL);
}

/* --- of several files ------------------------------------------------------------------------------------------- */

static struct weir_policy *policy_of_parts(const struct weir__policy_part *parts, size_t n)
{
	struct weir__diagnostics diagnostics = { "", report_into, NULL, 0 };

	reported[0] = '\0';
	return weir__policy_of_parts(parts, n, &diagnostics, false);
}

static struct weir__policy_part part_of(const char *file, const char *text)
{
	return (struct weir__policy_part){ .text = weir__slice_of(text), .file = file };
}

static void several_files(void)
{
	const struct weir__policy_part own = part_of("own.yaml", "limits: [{name: a, limit: 1/s}]");
	const struct weir__policy_part same = part_of("same.yaml", "\nlimits: [{name: a, limit: 1/s}]");
	const struct weir__policy_part envoy = part_of("envoy.yaml", "domain: d");
	const struct weir__policy_part other = part_of("other.yaml", "domain: e");
	const struct weir__policy_part allow = part_of("allow.yaml", "unmatched: allow");
	const struct weir__policy_part deny = part_of("deny.yaml", "{limits: [], unmatched: deny}");
	struct weir__policy_part many[WEIR__POLICY_FILES_MAX + 1];
	struct weir_policy *policy;

	CHECK(policy_of_parts((const struct weir__policy_part[]){ own, same }, 2) == NULL);
	CHECK_TEXT(reported, "same.yaml:2:10: the name 'a' again; it was given in line 1 of own.yaml\n");
	CHECK(policy_of_parts((const struct weir__policy_part[]){ allow, own, deny }, 3) == NULL);
	CHECK_TEXT(reported,
		   "deny.yaml:1:25: unmatched 'deny', but allow.yaml says 'allow'; say the same in both, or in one of "
		   "them only\n");
	policy = policy_of_parts((const struct weir__policy_part[]){ own, deny, deny }, 3);
	CHECK_TEXT(reported, "");
	CHECK(policy && policy->unmatched == WEIR__UNMATCHED_DENY);
	weir_policy_free(policy);
	CHECK(policy_of_parts((const struct weir__policy_part[]){ envoy, own }, 2) == NULL);
	CHECK_TEXT(reported,
		   "own.yaml:1:1: this is a policy of Weir's own, and others beside it are of Envoy's ratelimit; "
		   "use one or the other\n");
	policy = policy_of_parts((const struct weir__policy_part[]){ envoy, other }, 2);
	CHECK_TEXT(reported, "");
	weir_policy_free(policy);
	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		many[i] = part_of("many.yaml", "limits: []");
	CHECK(policy_of_parts(many, WEIR__POLICY_FILES_MAX + 1) == NULL);
	CHECK_TEXT(reported, ":1:1: a policy has at most 256 files\n");
	policy = policy_of_parts(many, WEIR__POLICY_FILES_MAX);
	CHECK_TEXT(reported, "");
	weir_policy_free(policy);
}

/* "limits: [,...]" with so many of them; the caller frees it. */
static char *many_limits(size_t n)
{
	static const char begin[] = "limits: [";
	char *const text = malloc(sizeof(begin) + 2 * n + 1);
	char *at = text;

	if (text == NULL)
		abort();
	at = stpcpy(at, begin);
	for (size_t i = 0; i < n; i++)
		at = stpcpy(at, "x,");
	(void)strcpy(at, "]");
	return text;
}

static void so_many_limits(void)
{
	char *const most = many_limits(WEIR__LIMITS_MAX), *const more = many_limits(WEIR__LIMITS_MAX + 1);
	const struct weir__policy_part parts[] = { part_of("a.yaml", "limits: [{name: a, limit: 1/s}]"),
						   part_of("b.yaml", most) };

	CHECK(policy_of(more) == NULL);
	CHECK_TEXT(reported, "p.yaml:1:9: more than 1048576 limits\n");
	CHECK(policy_of_parts(parts, 2) == NULL);
	CHECK_TEXT(reported, "b.yaml:1:1: with this file more than 1048576 limits\n");
	free(most);
	free(more);
}

static void files_that_are_not_there(void)
{
	struct weir_policy *policy = NULL;

	reported[0] = '\0';
	CHECK_EQ(weir_policy_load("/nowhere/at/all.yaml", report_into, NULL, &policy), WEIR_ERR_SYSTEM);
	CHECK_TEXT(reported, "/nowhere/at/all.yaml:0:0: No such file or directory\n");
}

TESTS(TEST(mistakes_are_all_told), TEST(names_of_attributes_fit_a_line), TEST(kinds_that_are_wrong),
      TEST(attributes_have_types), TEST(mistakes_in_keys_and_costs), TEST(so_many_attributes), TEST(what_is_unmatched),
      TEST(several_files), TEST(so_many_limits), TEST(files_that_are_not_there))
