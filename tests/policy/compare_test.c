/* compare_test.c: which keys start over when one policy replaces another. */
#include "policy/compare.h"

#include <stdlib.h>
#include <unistd.h>

#include "policies.h"
#include "test_folder.h"

static char found[8192];

static void note(void *n_anew, const struct weir__policy_difference *difference)
{
	char line[WEIR__POLICY_DIFFERENCE_SIZE];

	weir__policy_difference_write(difference, line);
	strcat(strcat(found, line), "\n");
	*(unsigned *)n_anew += weir__policy_difference_is_anew(difference);
}

static struct weir__policy_agreement agree(const struct weir_policy_plan *plan)
{
	return (struct weir__policy_agreement){ plan->consistency,
						plan->consistency == WEIR_POLICY_LEASE ? plan->stranded : plan->ahead,
						plan->sync };
}

/* Frees both policies. Returns for how many limits the keys start over. */
static unsigned compare(struct weir_policy *before, struct weir_policy *after)
{
	unsigned n_anew = 0;

	found[0] = '\0';
	CHECK(before && after && weir__policy_compare(before, after, agree, note, &n_anew));
	weir_policy_free(before);
	weir_policy_free(after);
	return n_anew;
}

/* clang-format off */
static const struct {
	const char *before, *after, *found;
} rows[] = {
	{ "5/s",                      "5/s",                        "kept: 5/s" },
	{ "5/s",                      "5/s burst 5",                "kept: 5/s" },
	{ "5/s",                      "6/min burst 9",              "converted, keys keep their usage: 6/min burst 9, before 5/s" },
	{ "5/s",                      "5/s refill interval",               "keys start over, because options of the algorithm changed: 5/s refill interval, before 5/s" },
	{ "5/s",                      "5/s fixed_window",           "keys start over, because the algorithm changed: 5/s fixed_window, before 5/s" },
	{ "5/s leaky",                "5/s leaky queue 5",          "keys start over, because options of the algorithm changed: 5/s leaky queue 5, before 5/s leaky" },
	{ "5/min fixed_window",       "6/min fixed_window",         "converted, keys keep their usage: 6/min fixed_window, before 5/min fixed_window" },
	{ "5/min fixed_window",       "5/hour fixed_window",        "keys start over, because the period of the window changed: 5/hour fixed_window, before 5/min fixed_window" },
	{ "5/min fixed_window",       "5/min fixed_window align first", "keys start over, because options of the algorithm changed: 5/min fixed_window align first, before 5/min fixed_window" },
	{ "5/min sliding_log",        "5000/min sliding_log",       "converted, keys keep their usage: 5000/min sliding_log, before 5/min sliding_log" },
	{ "5/min sliding_log",        "5/hour sliding_log",         "keys start over, because the period of the window changed: 5/hour sliding_log, before 5/min sliding_log" },
	{ "5/min sliding_counter",    "16383/min sliding_counter",  "converted, keys keep their usage: 16383/min sliding_counter, before 5/min sliding_counter" },
	{ "5/min sliding_counter",    "16384/min sliding_counter",  "converted, keys keep their usage: 16384/min sliding_counter, before 5/min sliding_counter" },
	{ "5000000000/min sliding_counter", "5/min sliding_counter", "converted, keys keep their usage: 5/min sliding_counter, before 5000000000/min sliding_counter" },
	{ "20000/min sliding_counter", "20000/hour sliding_counter", "keys start over, because the period of the window changed: 20000/hour sliding_counter, before 20000/min sliding_counter" },
	{ "5/min sliding_counter",    "5/min sliding_counter segments 4", "keys start over, because options of the algorithm changed: 5/min sliding_counter segments 4, before 5/min sliding_counter" },
	{ "5/min sliding_counter segments 4", "9/min sliding_counter segments 4", "converted, keys keep their usage: 9/min sliding_counter segments 4, before 5/min sliding_counter segments 4" },
};
/* clang-format on */

static struct weir_policy *policy_with(const char *limit)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "limits: [{name: a, limit: %s}]\n", limit);
	return policy_of(text);
}

static void limits_are_converted_or_start_anew(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char expected[512];

		(void)compare(policy_with(rows[i].before), policy_with(rows[i].after));
		(void)snprintf(expected, sizeof(expected), "a: %s\n", rows[i].found);
		CHECK_TEXT(found, expected);
	}
}

static void limits_come_and_go(void)
{
	CHECK_EQ(
		compare(policy_of("limits:\n  - {name: a, limit: 1/s}\n  - {name: gone, limit: 2/s}\n"),
			policy_of(
				"limits:\n  - {name: new, limit: 3/s}\n  - {name: a, limit: 1/s, mode: shadow, match: {path: /}}\n")),
		0);
	CHECK_TEXT(found, "new: new: 3/s\na: kept: 1/s\ngone: removed: 2/s\n");
	CHECK_EQ(compare(policy_of("limits: []\n"), policy_of("limits: []\n")), 0);
	CHECK_TEXT(found, "");
}

static void other_keys_start_anew(void)
{
	static const char *const keys[] = { "key: [ip]", "key: [user]", "key: [ip, user]", "key: [ip/24]", "cost: 1" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		for (size_t j = 0; j < sizeof(keys) / sizeof(keys[0]); j++) {
			char text[2][128];

			(void)snprintf(text[0], sizeof(text[0]), "limits: [{name: a, %s, limit: 1/s}]\n", keys[i]);
			(void)snprintf(text[1], sizeof(text[1]), "limits: [{name: a, %s, limit: 1/s}]\n", keys[j]);
			CHECK_EQ(compare(policy_of(text[0]), policy_of(text[1])), i != j);
			CHECK_TEXT(
				found,
				i == j ? "a: kept: 1/s\n" :
					 "a: keys start over, because the parts of the key changed: 1/s, before 1/s\n");
		}
}

static void overrides_are_compared_by_name(void)
{
	CHECK_EQ(
		compare(policy_of(
				"limits: [{name: a, key: [ip], limit: 1/s, overrides: [{when: {plan: gold}, limit: 5/s}]}]\n"),
			policy_of(
				"limits: [{name: a, key: [ip], limit: 1/s, overrides: [{when: {plan: gold}, limit: 5/min fixed_window}]}]\n")),
		1);
	CHECK_TEXT(found,
		   "a: kept: 1/s\n"
		   "a|plan=gold: keys start over, because the algorithm changed: 5/min fixed_window, before 5/s\n");
}

/* clang-format off */
static const struct {
	const char *before, *after, *found;
} leases[] = {
	{ "limit: 5/s", "limit: 5/s, consistency: exact", "kept: 5/s" },
	{ "limit: 5/s", "limit: 5/s, consistency: lease", "kept: 5/s; leased with up to 5% stranded, before exact" },
	{ "limit: 5/s", "limit: 6/s, consistency: lease", "converted, keys keep their usage: 6/s, before 5/s; leased with up to 5% stranded, before exact" },
	{ "limit: 5/s, consistency: lease", "limit: 5/s, consistency: {lease: {stranded: 5%}}", "kept: 5/s" },
	{ "limit: 5/s, consistency: lease", "limit: 5/s, consistency: {lease: {stranded: 10%}}", "kept: 5/s; leased with up to 10% stranded, before 5%; units that servers hold are not spent any more, and count as used" },
	{ "limit: 5/s, consistency: lease", "limit: 5/s", "kept: 5/s; exact, before leased with up to 5% stranded; units that servers hold are not spent any more, and count as used" },
	{ "limit: 5/s, consistency: lease", "limit: 6/s, consistency: lease", "converted, keys keep their usage: 6/s, before 5/s; units that servers hold are not spent any more, and count as used" },
	{ "limit: 5/s, consistency: lease", "limit: 6/s", "converted, keys keep their usage: 6/s, before 5/s; exact, before leased with up to 5% stranded; units that servers hold are not spent any more, and count as used" },
	{ "limit: 5/s, consistency: lease", "limit: 5/s fixed_window", "keys start over, because the algorithm changed: 5/s fixed_window, before 5/s; exact, before leased with up to 5% stranded" },
	{ "limit: 5/s, consistency: lease", "limit: 5/s fixed_window, consistency: lease", "keys start over, because the algorithm changed: 5/s fixed_window, before 5/s" },
	{ "limit: 5/s, overrides: [{when: {p: x}, limit: 9/s}]", "limit: 5/s, overrides: [{when: {p: x}, limit: 9/s, consistency: lease}]", "kept: 5/s\na|p=x: kept: 9/s; leased with up to 5% stranded, before exact" },
	{ "limit: 5/s", "limit: 5/s, consistency: eventual", "kept: 5/s; eventual with up to 1% ahead, pushed every 100ms, before exact" },
	{ "limit: 5/s, consistency: eventual", "limit: 5/s", "kept: 5/s; exact, before eventual with up to 1% ahead, pushed every 100ms" },
	{ "limit: 5/s, consistency: eventual", "limit: 5/s, consistency: {eventual: {ahead: 2%, sync: 1s}}", "kept: 5/s; eventual with up to 2% ahead, pushed every 1000ms, before 1% every 100ms" },
	{ "limit: 5/s, consistency: eventual", "limit: 6/s, consistency: lease", "converted, keys keep their usage: 6/s, before 5/s; leased with up to 5% stranded, before eventual with up to 1% ahead, pushed every 100ms" },
	{ "limit: 5/s, consistency: lease", "limit: 5/s, consistency: eventual", "kept: 5/s; eventual with up to 1% ahead, pushed every 100ms, before leased with up to 5% stranded; units that servers hold are not spent any more, and count as used" },
	{ "limit: 5/s, consistency: eventual", "limit: 5/s, consistency: {eventual: {sync: 100ms}}", "kept: 5/s" },
};
/* clang-format on */

static void a_change_of_consistency_is_told(void)
{
	for (size_t i = 0; i < sizeof(leases) / sizeof(leases[0]); i++) {
		char text[2][256], expected[512];

		(void)snprintf(text[0], sizeof(text[0]), "limits: [{name: a, %s}]\n", leases[i].before);
		(void)snprintf(text[1], sizeof(text[1]), "limits: [{name: a, %s}]\n", leases[i].after);
		(void)compare(policy_of(text[0]), policy_of(text[1]));
		(void)snprintf(expected, sizeof(expected), "a: %s\n", leases[i].found);
		CHECK_TEXT(found, expected);
	}
}

/* The longest names and limits fit. */
static void the_longest_difference_fits(void)
{
	struct weir__policy_difference difference = { .fate = WEIR__FATE_CONVERTED,
						      .agreed_before = { WEIR_POLICY_LEASE, 50, 0 },
						      .agreed_after = { WEIR_POLICY_EVENTUAL, 50,
									UINT64_C(10000000000) },
						      .rows = UINT64_MAX };
	char name[WEIR__PLAN_NAME_MAX + 1], line[WEIR__POLICY_DIFFERENCE_SIZE];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memset(difference.before, 'b', WEIR_LIMIT_TEXT_MAX - 1);
	memset(difference.after, 'a', WEIR_LIMIT_TEXT_MAX - 1);
	difference.name = name;
	weir__policy_difference_write(&difference, line);
	CHECK(strstr(line, "because the limit of the row changed") != NULL);
}

static void envoys_form_is_compared(void)
{
	CHECK_EQ(
		compare(policy_of(
				"domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: hour, requests_per_unit: 5}}\n  - {key: l, rate_limit: {unlimited: true}}\n"),
			policy_of(
				"domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}\n  - {key: l, rate_limit: {unit: hour, requests_per_unit: 1}}\n")),
		1);
	CHECK_TEXT(
		found,
		"d|k: keys start over, because the period of the window changed: 5/min fixed_window, before 5/hour fixed_window\n"
		"d|l: new: 1/hour fixed_window\n");
}

/* --- CSV files ---------------------------------------------------------------------------------------------------- */

static char folder[TEST_FOLDER_SIZE];

static struct weir_policy *policy_with_rows(const char *csv)
{
	struct weir_policy *policy = NULL;
	char path[256];

	write_file(folder, "rows.csv", csv);
	write_file(folder, "p.yaml", "limits: [{name: a, key: [user], limit: 1/s, overrides_from: rows.csv}]\n");
	(void)snprintf(path, sizeof(path), "%s/p.yaml", folder);
	reported[0] = '\0';
	CHECK_EQ(weir_policy_load(path, report_into, NULL, &policy), WEIR_OK);
	CHECK_TEXT(reported, "");
	return policy;
}

static void rows_with_another_limit_are_counted(void)
{
	static const char before[] = "user,limit,mode\nann,5/s,\nbob,9/s,\ncarl,9/s,\ndora,,off\n";
	/* clang-format off */
	static const struct {
		const char *after;
		unsigned n;
	} files[] = {
		{ before, 0 },
		{ "user,limit,mode\ndora,,off\ncarl,9/s,\nbob,9/s,\nann,5/s,\n", 0 },       /* another order */
		{ "user,limit,mode\nann,9/s,\nbob,9/s,\ncarl,9/s,\ndora,,off\n", 1 },       /* ann has another tier */
		{ "user,limit,mode\nann,5/s,\nbob,9/s,\ndora,,off\n", 1 },                  /* carl has the limit's own */
		{ "user,limit,mode\nann,5/s,\nbob,9/s,\ncarl,9/s,\nemma,5/s,\ndora,,off\n", 1 }, /* emma had it */
		{ "user,limit,mode\nann,5/s,\nbob,9/s,\ncarl,9/s,\n", 0 },                  /* dora's limit is unchanged */
		{ "user,limit,mode\nann,6/s,\nbob,10/s,\ncarl,10/s,\ndora,,off\n", 3 },
		{ "user,limit,mode\ndora,,off\n", 3 },
	};
	/* clang-format on */
	char expected[128], path[256];

	test_folder_new(folder, "compare");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct weir_policy *const old = policy_with_rows(before);

		CHECK_EQ(compare(old, policy_with_rows(files[i].after)), files[i].n > 0);
		(void)snprintf(
			expected, sizeof(expected),
			files[i].n > 0 ?
				"a: kept: 1/s; keys of %u CSV row%s start over, because the limit of the row changed\n" :
				"a: kept: 1/s\n",
			files[i].n, files[i].n == 1 ? "" : "s");
		if (strncmp(found, expected, strlen(expected)) != 0)
			check_fail(__FILE__, __LINE__, found);
	}
	(void)compare(policy_with_rows(before), policy_with_rows("ip,limit\n192.0.2.1,5/s\n"));
	CHECK(strncmp(found, "a: kept: 1/s; keys of 4 CSV rows", 32) == 0);
	(void)snprintf(path, sizeof(path), "%s/rows.csv", folder);
	CHECK_EQ(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/p.yaml", folder);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(rmdir(folder), 0);
}

TESTS(TEST(limits_are_converted_or_start_anew), TEST(limits_come_and_go), TEST(other_keys_start_anew),
      TEST(overrides_are_compared_by_name), TEST(a_change_of_consistency_is_told), TEST(the_longest_difference_fits),
      TEST(envoys_form_is_compared), TEST(rows_with_another_limit_are_counted))
