/* read_crowd_test.c: policies in which more limits could apply to one request than are allowed. */
#include "policies.h"

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

/* Seventeen limits with the same conditions: the reader finds a request that matches all of them, or proves that none
 * does. */
static void requests_are_found(void)
{
	static const struct {
		const char *match;
		bool is_refused;
	} rows[] = {
		{ "plan: gold", true },
		{ "plan: 'g*d'", true },
		{ "plan: {prefix: 'g*'}", true },
		{ "plan: {not: gold}", true },
		{ "plan: {present: false}", true },
		{ "plan: {present: true}", true },
		{ "ip: 10.0.0.0/8", true },
		{ "path: /v1/**", true },
		{ "path: '/**/orders/*'", true },
		{ "path: /**", true },
		{ "plan: gold, ip: '2001:db8::/32', path: /a", true },
		{ "plan: p%d", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[4096] = "limits:\n", match[128];
		struct weir_policy *policy;

		for (int k = 0; k < 17; k++) {
			(void)sprintf(match, rows[i].match, k);
			(void)sprintf(text + strlen(text), "  - {name: l%d, match: {%s}, limit: 1/s}\n", k, match);
		}
		policy = policy_of(text);
		CHECK_TEXT(
			reported,
			rows[i].is_refused ?
				"p.yaml:2:5: more than 16 limits can apply to one request, 'l0' and 'l1' among them; at most 16 may\n" :
				"");
		weir_policy_free(policy);
	}
}

TESTS(TEST(sixteen_at_most), TEST(requests_are_found))
