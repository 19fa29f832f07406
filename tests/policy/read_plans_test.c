/* read_plans_test.c: plans of a policy: their names, their limits and how many there may be. */
#include "policies.h"

static const char *name_of(const struct weir_policy *policy, uint32_t plan)
{
	return weir_policy_plan_of(policy, plan)->name;
}

/* State is stored under these names. A name that is too long ends in a hash of what distinguishes it. */
static void names_have_an_end(void)
{
	struct weir_policy *const policy = policy_of("limits:\n"
						     "  - name: a-name-of-forty-letters-that-is-the-most\n"
						     "    limit: 1/s\n"
						     "    overrides:\n"
						     "      - {when: {plan: gold}, limit: 2/s}\n"
						     "      - {when: {region: somewhere-far-away}, limit: 3/s}\n"
						     "      - {when: {region: somewhere-far-off}, limit: 4/s}\n");
	static const char begin[] = "a-name-of-forty-letters-that-is-the-most|regio~";

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(name_of(policy, 0), "a-name-of-forty-letters-that-is-the-most");
	CHECK_TEXT(name_of(policy, 1), "a-name-of-forty-letters-that-is-the-most|plan=gold");
	for (uint32_t i = 2; i < 4; i++) {
		CHECK_EQ(strlen(name_of(policy, i)), 63);
		CHECK(strncmp(name_of(policy, i), begin, strlen(begin)) == 0);
	}
	CHECK(strcmp(name_of(policy, 2), name_of(policy, 3)) != 0);
	weir_policy_free(policy);
}

static void there_may_be_many(void)
{
	enum { MANY = 1000 };
	static char text[64 * MANY] = "limits:\n";
	char *at = text + strlen(text), limit[WEIR_LIMIT_TEXT_MAX], expected[32];
	struct weir_policy *policy;

	for (int i = 0; i < MANY; i++)
		at += sprintf(at, "  - {name: l%d, match: {user: u%d}, limit: %d/s}\n", i, i, i + 1);
	policy = policy_of(text);
	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_EQ(weir_policy_plans(policy), MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		(void)weir_limit_print(&weir_policy_plan_of(policy, i)->limit, limit);
		(void)sprintf(expected, "%u/s", i + 1);
		CHECK_TEXT(limit, expected);
	}
	CHECK(weir_policy_plan_of(policy, MANY) == NULL);
	weir_policy_free(policy);
}

static void mistakes(void)
{
	static const struct mistake rows[] = {
		{ "limits: [{name: a, limit: 1/x}]",
		  "p.yaml:1:29: limit '1/x': at 2: \"x\": unknown period; use ns, us, ms, s, min, hour, day or week, as in "
		  "10/30s\n" },
		{ "limits: [{name: a, limit: '1/x'}]",
		  "p.yaml:1:30: limit '1/x': at 2: \"x\": unknown period; use ns, us, ms, s, min, hour, day or week, as in "
		  "10/30s\n" },
		{ "limits: [{name: a, limit: 0/s}]",
		  "p.yaml:1:27: limit '0/s': a count of 0: a rate needs 1 or more\n" },
		{ "limits: [{name: a, limit: 1/s, mode: maybe}]",
		  "p.yaml:1:38: unknown mode 'maybe'; use enforce, shadow or off\n" },
	};

	CHECK_MISTAKES(rows);
}

/* Limits that no table accepts are reported when the file is read, all of them, wherever they are written. */
static void limits_that_no_table_has(void)
{
	CHECK(policy_of("limits:\n"
			"  - {name: a, limit: 1/10000day}\n"
			"  - {name: b, limit: '18446744073709551615/s', on_store_failure: {local: 1/7000day}}\n"
			"  - name: c\n"
			"    limit: 5/s\n"
			"    overrides: [{when: {plan: gold}, limit: 4294967295/s fixed_window align first}]\n"
			"  - {name: d, limit: 1/6671day}\n"
			"  - {name: e, limit: 4294967295/s}\n"
			"  - {name: f, limit: 4294967295/s fixed_window}\n") == NULL);
	CHECK_TEXT(
		reported,
		"p.yaml:2:22: limit '1/10000day' of 'a': in a table a used-up key must be full again after at most "
		"576460632303423488 ns: 6671 whole days\n"
		"p.yaml:3:23: limit '18446744073709551615/s' of 'b': in a table the count of a rate in lowest terms is at "
		"most 4294967295\n"
		"p.yaml:3:74: limit '1/7000day' of 'b': in a table a used-up key must be full again after at most "
		"576460632303423488 ns: 6671 whole days\n"
		"p.yaml:6:45: limit '4294967295/s fixed_window align first' of 'c': in a table the count of a fixed_window "
		"with align first, or with a period that is not in whole milliseconds, is at most 268435455\n");
}

#define NEVER(limit, name, cost, most)                                                                                 \
	"limit '" limit "' of '" name "' never allows a cost of " cost ": its capacity is " most                       \
	"; use a lower cost or more at once\n"

static void costs_that_never_fit(void)
{
	CHECK(policy_of("limits:\n"
			"  - {name: a, limit: 10/s, cost: 11}\n"
			"  - {name: b, limit: 10/s burst 5, cost: 6}\n"
			"  - {name: c, limit: 10/s leaky queue 5, cost: 7}\n"
			"  - {name: d, limit: 10/s sliding_log, cost: '11'}\n"
			"  - name: e\n"
			"    limit: 10/s burst 20\n"
			"    cost: 15\n"
			"    on_store_failure: {local: 10/s}\n"
			"    overrides: [{when: {plan: free}, limit: 14/s}]\n") == NULL);
	CHECK_TEXT(reported, "p.yaml:2:22: " NEVER("10/s", "a", "11", "10")   /* */
		   "p.yaml:3:22: " NEVER("10/s burst 5", "b", "6", "5")       /* */
		   "p.yaml:4:22: " NEVER("10/s leaky queue 5", "c", "7", "5") /* */
		   "p.yaml:5:22: " NEVER("10/s sliding_log", "d", "11", "10") /* */
		   "p.yaml:9:31: " NEVER("10/s", "e", "15", "10")             /* */
		   "p.yaml:10:45: " NEVER("14/s", "e", "15", "14"));
}

static void costs_that_fit_once(void)
{
	struct weir_policy *const policy = policy_of(
		"limits:\n"
		"  - {name: a, limit: 10/s, cost: 10}\n"
		"  - {name: b, limit: 10/s, cost: 0}\n"
		"  - {name: c, limit: 10/s, cost: {attribute: items, default: 11}}\n"
		"  - {name: d, limit: 10/s burst 20, cost: 20}\n"
		"  - {name: e, limit: 10/s leaky queue 5, cost: 5}\n");

	CHECK_TEXT(reported, "");
	weir_policy_free(policy);
}

TESTS(TEST(names_have_an_end), TEST(there_may_be_many), TEST(mistakes), TEST(limits_that_no_table_has),
      TEST(costs_that_never_fit), TEST(costs_that_fit_once))
