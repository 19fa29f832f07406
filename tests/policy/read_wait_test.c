/* read_wait_test.c: how long a policy lets requests wait. */
#include <stdlib.h>

#include "policies.h"

/* The wait of the plan that applies, in ms. */
static unsigned long long wait_of(const struct weir_policy *policy, const char *const *words)
{
	const char *at;

	(void)explained(policy, words);
	at = strstr(reported, ", waits up to ");
	return at ? strtoull(at + strlen(", waits up to "), NULL, 10) : 0;
}

static void waits_of_limits_and_overrides(void)
{
	struct weir_policy *const policy = policy_of(
		"limits:\n"
		"  - {name: none, match: {l: none}, limit: 5/s leaky queue 20}\n"
		"  - {name: ms, match: {l: ms}, limit: 5/s leaky queue 20, wait: 1ms}\n"
		"  - {name: day, match: {l: day}, limit: 5/s leaky queue 20, wait: 1day}\n"
		"  - name: own\n"
		"    match: {l: own}\n"
		"    limit: 5/s leaky queue 20\n"
		"    wait: 5s\n"
		"    overrides:\n"
		"      - {when: {o: other}, limit: 6/s leaky queue 20}\n"
		"      - {when: {o: longer}, limit: 7/s leaky queue 20, wait: 1min}\n"
		"      - {when: {o: polices}, limit: 8/s burst 20}\n"
		"      - {when: {o: mode}, mode: shadow}\n");

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_EQ(wait_of(policy, WORDS("l=none")), 0);
	CHECK_EQ(wait_of(policy, WORDS("l=ms")), 1);
	CHECK_EQ(wait_of(policy, WORDS("l=day")), 86400000);
	CHECK_EQ(wait_of(policy, WORDS("l=own")), 5000);
	CHECK_EQ(wait_of(policy, WORDS("l=own", "o=other")), 5000);
	CHECK_EQ(wait_of(policy, WORDS("l=own", "o=longer")), 60000);
	CHECK_EQ(wait_of(policy, WORDS("l=own", "o=polices")), 0);
	CHECK_EQ(wait_of(policy, WORDS("l=own", "o=mode")), 5000);
	weir_policy_free(policy);
}

static void mistakes_are_told(void)
{
	static const struct {
		const char *limit, *error;
	} rows[] = {
		{ "limit: 5/s leaky queue 20, wait: 5",
		  "1:53: invalid wait '5'; use whole ms from 1ms to 1day, such as 5s\n" },
		{ "limit: 5/s leaky queue 20, wait: s",
		  "1:53: invalid wait 's'; use whole ms from 1ms to 1day, such as 5s\n" },
		{ "limit: 5/s leaky queue 20, wait: 0s",
		  "1:53: invalid wait '0s'; use whole ms from 1ms to 1day, such as 5s\n" },
		{ "limit: 5/s leaky queue 20, wait: 1500us",
		  "1:53: invalid wait '1500us'; use whole ms from 1ms to 1day, such as 5s\n" },
		{ "limit: 5/s leaky queue 20, wait: 86400001ms",
		  "1:53: invalid wait '86400001ms'; use whole ms from 1ms to 1day, such as 5s\n" },
		{ "limit: 5/s leaky queue 20, wait: 99999999999999999999s",
		  "1:53: invalid wait '99999999999999999999s'; use whole ms from 1ms to 1day, such as 5s\n" },
		{ "limit: 5/s leaky queue 20, wait: 5fortnights",
		  "1:53: invalid wait '5fortnights'; use whole ms from 1ms to 1day, such as 5s\n" },
		{ "limit: 5/s leaky queue 20, wait: [5s]", "1:53: found a list; wait must be a string\n" },
		{ "limit: 5/s, wait: 5s",
		  "1:32: wait needs a limit that delays requests, and this limit only denies; use a queue, as in 5/s leaky queue 20\n" },
		{ "limit: 5/s leaky burst 20, wait: 5s",
		  "1:47: wait needs a limit that delays requests, and this limit only denies; use a queue, as in 5/s leaky queue 20\n" },
		{ "limit: 5/s, overrides: [{when: {o: x}, mode: off, wait: 5s}]",
		  "1:70: wait needs a limit; add limit beside it\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256], expected[256];

		(void)snprintf(text, sizeof(text), "limits: [{name: a, %s}]\n", rows[i].limit);
		(void)snprintf(expected, sizeof(expected), "p.yaml:%s", rows[i].error);
		CHECK(policy_of(text) == NULL);
		CHECK_TEXT(reported, expected);
	}
}

TESTS(TEST(waits_of_limits_and_overrides), TEST(mistakes_are_told))
