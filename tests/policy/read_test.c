/* read_test.c: messages for mistakes in policies. */
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
		"p.yaml:4:5: unknown key 'rate' in a limit; use name, limit, key, match, cost, mode, overrides, overrides_from, store, on_store_failure, store_budget, consistency, wait\n"
		"p.yaml:2:11: invalid name 'a b'; use 1 to 40 letters, digits and -_./:\n"
		"p.yaml:3:16: limit '100/fortnight': at 4: \"fortnight\": unknown period; use ns, us, ms, s, min, hour, day or week, as in 10/30s\n"
		"p.yaml:7:11: unknown mode 'on'; use enforce, shadow or off\n"
		"p.yaml:9:17: '10.0.0.1/8' has bits set beyond its prefix length; use 10.0.0.0/8 for the network\n"
		"p.yaml:9:35: path '/a?b' contains '?'; leave out the query\n"
		"p.yaml:9:47: empty list: this condition can never match\n"
		"p.yaml:8:11: a part of a key needs an attribute; use {attribute: ip, ipv6: 56}\n"
		"p.yaml:8:23: found a list; the name of an attribute must be a string\n"
		"p.yaml:5:12: limit '0/s': a count of 0: a rate needs 1 or more\n"
		"p.yaml:12:35: invalid default; use a whole number, 0 to 9223372036854775807\n"
		"p.yaml:13:17: an override needs conditions; use when: {plan: gold}\n"
		"p.yaml:13:31: an override needs a limit, a mode, or both\n"
		"p.yaml:13:77: this override can never match: number 3 before it matches whenever it would\n"
		"p.yaml:17:17: this override can never match: the limit does not apply to such requests\n"
		"p.yaml:10:5: duplicate name 'b'; it was first given in line 5\n");
}

static void names_of_attributes_fit_a_line(void)
{
	CHECK(policy_of("limits:\n"
			"  - name: a\n"
			"    limit: 1/s\n"
			"    key: [\"api\\tkey\", \"\"]\n"
			"    match: {\"line\\nbreak\": x}\n") == NULL);
	CHECK_TEXT(reported,
		   "p.yaml:5:13: invalid attribute name 'line?break'; use 1 to 63 bytes without control characters\n"
		   "p.yaml:4:11: invalid attribute name 'api?key'; use 1 to 63 bytes without control characters\n"
		   "p.yaml:4:23: invalid attribute name ''; use 1 to 63 bytes without control characters\n");
}

static void kinds_that_are_wrong(void)
{
	static const struct mistake rows[] = {
		{ "[limits]", "p.yaml:1:1: found a list; a policy must be a map with limits\n" },
		{ "limits: 5", "p.yaml:1:9: found a string; limits must be a list\n" },
		{ "limits: [a]", "p.yaml:1:10: found a string; a limit must be a map\n" },
		{ "limits: [{limit: 1/s}]", "p.yaml:1:10: a limit needs a name; use name: NAME\n" },
		{ "limits: [{name: [a], limit: 1/s}]", "p.yaml:1:17: found a list; name must be a string\n" },
		{ "limits: [{name: a, limit: {rate: 1/s}}]", "p.yaml:1:27: found a map; limit must be a string\n" },
		{ "limits: [{name: a, limit: 1/s, mode: [off]}]",
		  "p.yaml:1:38: found a list; mode must be a string\n" },
		{ "limits: [{name: a, limit: 1/s, overrides: x}]",
		  "p.yaml:1:43: found a string; overrides must be a list\n" },
		{ "limits: [{name: a, limit: 1/s, overrides: [x]}]",
		  "p.yaml:1:44: found a string; an override must be a map\n" },
		{ "limits: [{name: a, limit: 1/s, overrides: [{when: {p: x}, limit: [1/s]}]}]",
		  "p.yaml:1:66: found a list; limit must be a string\n" },
		{ "attributes: [ip]", "p.yaml:1:13: found a list; attributes must be a map\n" },
		{ "attributes: {user: text}", "p.yaml:1:20: found a string; an attribute must be a map\n" },
		{ "attributes: {user: {size: 5}}",
		  "p.yaml:1:21: unknown key 'size' in an attribute; use type, lower, default\n" },
		{ "attributes: {user: {type: name}}", "p.yaml:1:27: unknown type 'name'; use text, ip or path\n" },
		{ "attributes: {user: {type: [ip]}}", "p.yaml:1:27: found a list; type must be a string\n" },
		{ "attributes: {user: {lower: 1}}", "p.yaml:1:28: invalid lower; use true or false\n" },
		{ "attributes: {user: {default: [x]}}", "p.yaml:1:30: found a list; default must be a string\n" },
		{ "attributes: {'': {lower: true}}",
		  "p.yaml:1:14: invalid attribute name ''; use 1 to 63 bytes without control characters\n" },
	};

	CHECK_MISTAKES(rows);
}

static void mistakes_in_keys_and_costs(void)
{
	static const struct mistake rows[] = {
		{ "limits: [{name: a, limit: 1/s, key: [b, c, d, e, f, g, h, i, j]}]",
		  "p.yaml:1:62: a key has at most 8 parts\n" },
		{ "limits: [{name: a, limit: 1/s, key: [b, ip, {attribute: b}]}]",
		  "p.yaml:1:45: duplicate attribute in this key\n" },
		{ "limits: [{name: a, limit: 1/s, key: {attribute: ip, bits: 8}}]",
		  "p.yaml:1:53: unknown key 'bits' in a part of a key; use attribute, ipv4, ipv6, default\n" },
		{ "limits: [{name: a, limit: 1/s, key: {attribute: ip, ipv4: 33}}]",
		  "p.yaml:1:59: invalid ipv4; use a whole number, 0 to 32\n" },
		{ "limits: [{name: a, limit: 1/s, key: {attribute: ip, ipv6: [64]}}]",
		  "p.yaml:1:59: invalid ipv6; use a whole number, 0 to 128\n" },
		{ "limits: [{name: a, limit: 1/s, key: {attribute: ip, default: []}}]",
		  "p.yaml:1:62: found a list; default must be a string\n" },
		{ "limits: [{name: a, limit: 1/s, cost: 1.5}]",
		  "p.yaml:1:38: invalid cost; use a whole number, 0 to 9223372036854775807\n" },
		{ "limits: [{name: a, limit: 1/s, cost: 99999999999999999999}]",
		  "p.yaml:1:38: invalid cost; use a whole number, 0 to 9223372036854775807\n" },
		{ "limits: [{name: a, limit: 1/s, cost: {default: 3}}]",
		  "p.yaml:1:38: invalid cost; use a number, or an attribute as in {attribute: items}\n" },
		{ "limits: [{name: a, limit: 1/s, cost: {attribute: n, most: 3}}]",
		  "p.yaml:1:53: unknown key 'most' in a cost; use attribute, default\n" },
	};

	CHECK_MISTAKES(rows);
}

static void so_many_attributes(void)
{
	char text[1024] = "attributes: {";
	struct weir_policy *policy;

	for (int i = 0; i < 29; i++) /* three more are predefined: ip, path and host */
		(void)sprintf(text + strlen(text), "a%d: {}, ", i);
	policy = policy_of(strcat(text, "}\n"));
	CHECK_TEXT(reported, "");
	weir_policy_free(policy);
	CHECK(policy_of(strcat(text, "limits: [{name: a, limit: 1/s, key: b}]\n")) == NULL);
	CHECK_TEXT(reported, "p.yaml:2:37: too many attributes, at 'b'; a policy has at most 32\n");
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
		{ "unmatched: maybe\n", "p.yaml:1:12: unknown value of unmatched 'maybe'; use allow or deny\n" },
		{ "unmatched: [deny]\n", "p.yaml:1:12: found a list; unmatched must be a string\n" },
		{ "limits: [{name: a, limit: 1/s, unmatched: deny}]\n",
		  "p.yaml:1:32: unknown key 'unmatched' in a limit; use name, limit, key, match, cost, mode, overrides, "
		  "overrides_from, store, on_store_failure, store_budget, consistency, wait\n" },
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
		     "p.yaml:2:12: unmatched is not supported in Envoy's format, where requests without a limit are "
		     "allowed\n") != NULL);
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
	CHECK_TEXT(reported, "same.yaml:2:10: duplicate name 'a'; it was first given in line 1 of own.yaml\n");
	CHECK(policy_of_parts((const struct weir__policy_part[]){ allow, own, deny }, 3) == NULL);
	CHECK_TEXT(
		reported,
		"deny.yaml:1:25: unmatched is 'deny' here and in allow.yaml 'allow'; use the same value, or set it only once\n");
	policy = policy_of_parts((const struct weir__policy_part[]){ own, deny, deny }, 3);
	CHECK_TEXT(reported, "");
	CHECK(policy && policy->unmatched == WEIR__UNMATCHED_DENY);
	weir_policy_free(policy);
	CHECK(policy_of_parts((const struct weir__policy_part[]){ envoy, own }, 2) == NULL);
	CHECK_TEXT(
		reported,
		"own.yaml:1:1: this file is in Weir's format, and others of the policy are in Envoy's; use one or the other\n");
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

/* "limits: [,...]" with n of them. The caller frees it. */
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
