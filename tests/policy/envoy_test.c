/* envoy_test.c: which limit of an Envoy ratelimit configuration applies to a descriptor. */
#include "envoys.h"

static void the_most_exact_comes_first(void)
{
	struct weir_policy *const policy = envoy_of(nested, 0);
	static const struct {
		const char *domain, *descriptor, *expected;
	} rows[] = {
		{ "shop", "user=ann", "shop|user: 10/min fixed_window" },
		{ "shop", "user=bot", "shop|user_bot: 1/hour fixed_window shadow" },
		{ "shop", "user=", "shop|user: 10/min fixed_window" },
		{ "shop", "code=404", "shop|code_404: 7/7day fixed_window" },
		{ "shop", "code=500", "none" },
		/* a limit applies only to descriptors of its own depth */
		{ "shop", "plan=gold", "none" },
		{ "shop", "user=ann path=/", "none" },
		{ "shop", "plan=gold path=/a", "shop|plan_gold|path: 1000/day fixed_window" },
		{ "shop", "plan=gold path=/admin", "shop|plan_gold|path_/admin: closed" },
		{ "shop", "plan=gold path=/health", "shop|plan_gold|path_/health: unlimited" },
		{ "shop", "plan=gold path=/a x=y", "none" },
		{ "shop", "path=/a", "none" },
		{ "shop", "plan=silver path=/a", "none" },
		/* names are joined by '_', which must not be ambiguous */
		{ "shop", "plan_gold=x", "none" },
		{ "other", "user=ann", "none" },
	};

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_TEXT(claims_of(policy, rows[i].domain, WORDS(rows[i].descriptor)), rows[i].expected);
	weir_policy_free(policy);
}

static void patterns_in_the_order_of_the_file(void)
{
	struct weir_policy *const policy = envoy_of(
		"domain: d\n"
		"descriptors:\n"
		"  - {key: p, rate_limit: {unit: second, requests_per_unit: 1}}\n"
		"  - {key: p, value: a*, rate_limit: {unit: second, requests_per_unit: 2}}\n"
		"  - {key: p, value: ab*, rate_limit: {unit: second, requests_per_unit: 3}}\n"
		"  - {key: p, value: abc, rate_limit: {unit: second, requests_per_unit: 4}}\n"
		"  - {key: p, value: '*.x.*', rate_limit: {unit: second, requests_per_unit: 5}}\n"
		"  - key: q\n"
		"    descriptors:\n"
		"      - {key: p, value: '*', rate_limit: {unit: second, requests_per_unit: 6}}\n"
		"  - {key: k*, value: v, rate_limit: {unit: second, requests_per_unit: 7}}\n",
		0);

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(claims_of(policy, "d", WORDS("p=abc")), "d|p_abc: 4/s fixed_window");
	CHECK_TEXT(claims_of(policy, "d", WORDS("p=abd")), "d|p_a*: 2/s fixed_window");
	CHECK_TEXT(claims_of(policy, "d", WORDS("p=a")), "d|p_a*: 2/s fixed_window");
	CHECK_TEXT(claims_of(policy, "d", WORDS("p=b")), "d|p: 1/s fixed_window");
	CHECK_TEXT(claims_of(policy, "d", WORDS("p=1.x.2.x.3")), "d|p_*.x.*: 5/s fixed_window");
	CHECK_TEXT(claims_of(policy, "d", WORDS("p=1.y.2")), "d|p: 1/s fixed_window");
	CHECK_TEXT(claims_of(policy, "d", WORDS("q=1 p=")), "d|q|p_*: 6/s fixed_window");
	/* stars in keys, and in other places, are not patterns */
	CHECK_TEXT(claims_of(policy, "d", WORDS("r=abd")), "none");
	CHECK_TEXT(claims_of(policy, "d", WORDS("kk=v")), "none");
	CHECK_TEXT(claims_of(policy, "d", WORDS("k*=v")), "d|k*_v: 7/s fixed_window");
	weir_policy_free(policy);
}

static void keys_are_told_apart(void)
{
	struct weir_policy *const policy = envoy_of(
		"domain: d\n"
		"descriptors:\n"
		"  - key: a\n"
		"    rate_limit: {unit: second, requests_per_unit: 1}\n"
		"    descriptors: [{key: b, rate_limit: {unit: second, requests_per_unit: 1}}]\n"
		"  - {key: f, value: 'x/*', share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1}}\n"
		"  - {key: g, value: 'x/*', rate_limit: {unit: second, requests_per_unit: 1}}\n",
		0);
	static const struct {
		const char *one, *other;
		bool is_same;
	} rows[] = { { "a=1", "a=1", true },        { "a=1", "a=2", false },     { "a=1 b=23", "a=12 b=3", false },
		     { "f=x/1", "f=x/2", true },    { "g=x/1", "g=x/2", false }, { "a=", "a=1", false },
		     { "a=1 b=2", "a=1 b=2", true } };

	CHECK_TEXT(reported, "");
	for (size_t i = 0; policy && i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request request;
		const struct weir_descriptor_claim *claims;

		request_of(WORDS(rows[i].one, rows[i].other), &request);
		claims = match(policy, "d", &request);
		CHECK(claims[0].applies && claims[1].applies);
		CHECK_EQ(claims[0].key_length == claims[1].key_length &&
				 memcmp(claims[0].key, claims[1].key, claims[0].key_length) == 0,
			 rows[i].is_same);
	}
	weir_policy_free(policy);
}

static void some_replace_others(void)
{
	struct weir_policy *const policy = envoy_of(
		"domain: d\n"
		"descriptors:\n"
		"  - {key: a, rate_limit: {name: base, unit: second, requests_per_unit: 1}}\n"
		"  - {key: b, rate_limit: {name: better, unit: second, requests_per_unit: 2, replaces: [{name: base}]}}\n"
		"  - {key: c, rate_limit: {unlimited: true, name: free, replaces: [{name: better}, {name: none}]}}\n"
		"  - {key: e, rate_limit: {unit: second, requests_per_unit: 3, replaces: [{name: free}]}}\n",
		0);

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(claims_of(policy, "d", WORDS("a=1", "e=1")), "d|a: 1/s fixed_window; d|e: 3/s fixed_window");
	CHECK_TEXT(claims_of(policy, "d", WORDS("a=1", "b=1")), "none; d|b: 2/s fixed_window");
	/* `replaces` removes a limit; an unlimited descriptor stays */
	CHECK_TEXT(claims_of(policy, "d", WORDS("a=1", "b=1", "c=1", "e=1")),
		   "none; none; d|c: unlimited; d|e: 3/s fixed_window");
	weir_policy_free(policy);
}

static void requests_bring_limits_and_hits(void)
{
	struct weir_policy *const policy = envoy_of(nested, 0);
	struct request request;
	const struct weir_descriptor_claim *claims;

	if (policy == NULL) {
		check_fail(__FILE__, __LINE__, reported);
		return;
	}
	request_of(WORDS("user=ann", "user=bot", "any=thing", "user=ann"), &request);
	request.descriptors[1].unit = WEIR_UNIT_MONTH;
	request.descriptors[1].requests_per_unit = 9;
	request.descriptors[1].has_hits = true;
	request.descriptors[1].hits = 4;
	request.descriptors[2].unit = WEIR_UNIT_SECOND;
	request.descriptors[3].has_hits = true;
	claims = match(policy, "shop", &request);
	CHECK_EQ(claims[0].cost, 1);
	CHECK(claims[1].applies && claims[1].plan == WEIR_POLICY_NO_PLAN && claims[1].mode == WEIR_MODE_ENFORCE);
	CHECK_EQ(claims[1].limit.count, 9);
	CHECK_EQ(claims[1].limit.period, UINT64_C(2592000000000000));
	CHECK_EQ(claims[1].cost, 4);
	CHECK(claims[2].applies && claims[2].is_closed);
	CHECK_EQ(claims[3].cost, 0);
	/* an unknown domain */
	claims = match(policy, "bakery", &request);
	CHECK(!claims[1].applies && !claims[2].applies);
	weir_policy_free(policy);
}

static const struct weir_descriptor_claim *claim_of(const struct weir_policy *policy,
						    const struct weir_attribute *entry)
{
	static struct weir_descriptors_answer answer;
	const struct weir_descriptor descriptor = { .entries = entry, .n = 1 };
	struct weir_message why;

	CHECK_EQ(weir_policy_match_descriptors(policy, "d", 1, &descriptor, 1, 1, &answer, &why), WEIR_OK);
	return answer.claims;
}

/* A long value matches as any other. Its key has a hash instead, so that a long header is not an error. */
static void long_values(void)
{
	static const struct {
		char begin;
		size_t n;
		uint32_t plan;
		bool is_short; /* in the key */
	} rows[] = { { 'a', 512, 0, false },   { 'a', 513, 0, true },  { 'a', 100000, 0, true }, { 's', 513, 1, true },
		     { 's', 100000, 1, true }, { 'q', 512, 2, false }, { 'q', 100000, 2, true } };
	static char value[100001];
	struct weir_policy *const policy = envoy_of(
		"domain: d\n"
		"descriptors:\n"
		"  - {key: k, value: a*, rate_limit: {unit: day}}\n"
		"  - {key: k, value: s*, share_threshold: true, rate_limit: {unit: day}}\n"
		"  - {key: k, rate_limit: {unit: day}}\n"
		"  - {key: k_a, rate_limit: {unit: day}}\n",
		0);

	CHECK_TEXT(reported, "");
	for (size_t i = 0; policy && i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir_attribute entry = { "k", 1, value, rows[i].n };
		const struct weir_descriptor_claim *claim;
		char key[1024];
		size_t n;

		memset(value, 'a', sizeof(value));
		value[0] = rows[i].begin;
		claim = claim_of(policy, &entry);
		CHECK(claim->applies && claim->plan == rows[i].plan);
		CHECK_EQ(claim->key_length < 60, rows[i].is_short);
		n = claim->key_length;
		memcpy(key, claim->key, n < sizeof(key) ? n : sizeof(key));
		claim = claim_of(policy, &entry);
		CHECK(claim->key_length == n && memcmp(claim->key, key, n) == 0);
		value[rows[i].n - 1] = 'b';
		claim = claim_of(policy, &entry);
		CHECK_EQ(claim->key_length == n && memcmp(claim->key, key, n) == 0, rows[i].plan == 1);
	}
	weir_policy_free(policy);
}

static void bad_requests(void)
{
	static char long_value[20000];
	struct weir_policy *policy = envoy_of(nested, 0);
	static struct weir_descriptors_answer answer;
	struct weir_attribute entry = { long_value, sizeof(long_value), "ann", 3 };
	struct weir_descriptor descriptors[WEIR_DESCRIPTORS_MAX + 1] = { { .entries = &entry, .n = 1 } };
	struct weir_message why;

	if (policy == NULL) {
		check_fail(__FILE__, __LINE__, reported);
		return;
	}
	CHECK_EQ(weir_policy_match_descriptors(policy, "", 0, descriptors, 1, 1, &answer, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "the domain is empty; name the domain in the request");
	CHECK_EQ(weir_policy_match_descriptors(policy, "shop", 4, descriptors, 0, 1, &answer, &why), WEIR_ERR_LIMIT);
	CHECK_EQ(weir_policy_match_descriptors(policy, "shop", 4, descriptors, 65, 1, &answer, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "wrong number of descriptors; use 1 to 64");
	CHECK_EQ(weir_policy_match_descriptors(policy, "shop", 4, descriptors, 1, 1, &answer, &why), WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "descriptors are too long: all keys of a request have at most 16384 bytes");
	entry.name_length = 5;
	descriptors[0].unit = (enum weir_unit)8;
	CHECK_EQ(weir_policy_match_descriptors(policy, "shop", 4, descriptors, 1, 1, &answer, &why), WEIR_ERR_LIMIT);
	weir_policy_free(policy);
	policy = policy_of("limits: []");
	CHECK_EQ(weir_policy_match_descriptors(policy, "shop", 4, descriptors, 1, 1, &answer, &why),
		 WEIR_ERR_UNSUPPORTED);
	weir_policy_free(policy);
}

static void attributes_are_one_descriptor(void)
{
	struct weir_policy *const policy = envoy_of(nested, 0);
	struct weir_attribute attributes[WORDS_MAX];
	static struct weir_policy_answer answer;
	struct weir_message why;
	size_t n;

	if (policy == NULL) {
		check_fail(__FILE__, __LINE__, reported);
		return;
	}
	n = attributes_of(WORDS("plan=gold", "domain=shop", "path=/a"), attributes);
	CHECK_EQ(weir_policy_match(policy, attributes, n, 3, &answer, &why), WEIR_OK);
	CHECK_EQ(answer.n, 1);
	CHECK_TEXT(weir_policy_plan_of(policy, answer.claims[0].plan)->name, "shop|plan_gold|path");
	CHECK_EQ(answer.claims[0].cost, 3);
	n = attributes_of(WORDS("path=/a", "domain=shop", "plan=gold"), attributes);
	CHECK_EQ(weir_policy_match(policy, attributes, n, 3, &answer, &why), WEIR_OK);
	CHECK_EQ(answer.n, 0);
	n = attributes_of(WORDS("path=/a"), attributes);
	CHECK_EQ(weir_policy_match(policy, attributes, n, 3, &answer, &why), WEIR_ERR_LIMIT);
	weir_policy_free(policy);
}

/* --- a simple matcher ------------------------------------------------------------------------------------------- */

/* Matches one level without hash tables or lists of patterns. */
static bool plain_fits(const char *pattern, const char *text)
{
	if (*pattern == '\0')
		return *text == '\0';
	if (*pattern == '*')
		return plain_fits(pattern + 1, text) || (*text && plain_fits(pattern, text + 1));
	return *pattern == *text && plain_fits(pattern + 1, text + 1);
}

static uint64_t random_state = 88172645463325252U;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 33) % n;
}

enum { LINES = 12, VALUE = 5 };

static void random_value(char *to, const char *letters)
{
	const uint32_t n = random_below(VALUE);

	for (uint32_t i = 0; i < n; i++)
		to[i] = letters[random_below((uint32_t)strlen(letters))];
	to[n] = '\0';
}

/* Which line a value finds: the equal one, the first pattern that matches, or the one without a value. */
static int plain_find(char values[LINES][VALUE + 1], int n, const char *value)
{
	for (int i = 0; i < n; i++)
		if (values[i][0] && strcmp(values[i], value) == 0)
			return i;
	for (int i = 0; i < n; i++)
		if (strchr(values[i], '*') && plain_fits(values[i], value))
			return i;
	for (int i = 0; i < n; i++)
		if (values[i][0] == '\0')
			return i;
	return -1;
}

static void agrees_with_a_plain_matcher(void)
{
	for (int round = 0; round < 300; round++) {
		char values[LINES][VALUE + 1], text[4096] = "domain: d\ndescriptors:\n", word[16], expected[64];
		struct weir_policy *policy;
		int n = 0;

		for (int i = 0; i < LINES; i++) {
			int same = 0;

			random_value(values[n], "ab*");
			while (strcmp(values[same], values[n]) != 0)
				same++;
			if (same < n)
				continue;
			(void)sprintf(text + strlen(text),
				      "  - {key: k, value: '%s', rate_limit: {unit: second, requests_per_unit: %d}}\n",
				      values[n], n + 1);
			n++;
		}
		policy = envoy_of(text, 0);
		CHECK_TEXT(reported, "");
		for (int i = 0; policy && i < 50; i++) {
			int found;

			strcpy(word, "k=");
			random_value(word + 2, "ab");
			found = plain_find(values, n, word + 2);
			strcpy(expected, "none");
			if (found >= 0)
				(void)sprintf(expected, "d|k%s%s: %d/s fixed_window", values[found][0] ? "_" : "",
					      values[found], found + 1);
			CHECK_TEXT(claims_of(policy, "d", WORDS(word)), expected);
		}
		weir_policy_free(policy);
	}
}

TESTS(TEST(the_most_exact_comes_first), TEST(patterns_in_the_order_of_the_file), TEST(keys_are_told_apart),
      TEST(some_replace_others), TEST(requests_bring_limits_and_hits), TEST(long_values), TEST(bad_requests),
      TEST(attributes_are_one_descriptor), TEST(agrees_with_a_plain_matcher))
