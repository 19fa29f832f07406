/* envoy_read_test.c: parsing of configurations of Envoy's ratelimit service, and messages for mistakes. */
#include "envoys.h"

static void mistakes_are_all_told(void)
{
	CHECK(envoy_of("domain: d\n"
		       "descriptors:\n"
		       "  - value: x\n"
		       "  - key: a\n"
		       "    rate_limit: {unit: fortnight, requests_per_unit: 1}\n"
		       "  - key: a\n"
		       "  - key: b\n"
		       "    ratelimit: 5\n"
		       "    rate_limit: {unlimited: true, unit: second}\n"
		       "  - key: c\n"
		       "    rate_limit: {requests_per_unit: -1, name: me, replaces: [{name: me}, {}, you]}\n"
		       "  - {key: e_f, value: g}\n"
		       "  - {key: e, value: f_g}\n"
		       "  - {key: h, value: x, share_threshold: true, shadow_mode: maybe, rate_limit: 5}\n"
		       "  - just a text\n"
		       "  - {key: i, descriptors: {key: j}}\n"
		       "  - {key: k, rate_limit: {unit: second, requests_per_unit: 4294967295}}\n"
		       "  - {key: [l]}\n",
		       0) == NULL);
	CHECK_TEXT(
		reported,
		"e.yaml:8:5: unknown key 'ratelimit' in an Envoy configuration; use domain, descriptors, key, value, "
		"rate_limit, unit, requests_per_unit, unlimited, name, replaces, shadow_mode, quota_mode, "
		"detailed_metric, value_to_metric, share_threshold, metadata\n"
		"e.yaml:11:78: found a string; lists must contain maps\n"
		"e.yaml:15:5: found a string; lists must contain maps\n"
		"e.yaml:18:12: found a string; lists must contain maps\n"
		"e.yaml:3:5: a descriptor needs a key; use key: NAME\n"
		"e.yaml:5:24: unknown unit 'fortnight'; use second, minute, hour, day, week, month or year\n"
		"e.yaml:6:5: duplicate descriptor 'a'; it was first given in e.yaml:4\n"
		"e.yaml:9:41: unit and unlimited are both set; remove one\n"
		"e.yaml:11:37: invalid requests_per_unit; use a whole number, 0 to 4294967295\n"
		"e.yaml:11:17: unknown unit ''; use second, minute, hour, day, week, month or year\n"
		"e.yaml:11:62: 'me' replaces itself\n"
		"e.yaml:11:74: an item of replaces needs a name; use {name: NAME}\n"
		"e.yaml:13:5: duplicate descriptor 'e_f_g'; it was first given in e.yaml:12\n"
		"e.yaml:14:5: share_threshold needs a pattern, and 'x' is not one; use a value with a '*'\n"
		"e.yaml:14:60: invalid shadow_mode; use true or false\n"
		"e.yaml:14:79: found a string; rate_limit must be a map\n"
		"e.yaml:16:27: found a map; descriptors must be a list\n"
		"e.yaml:18:11: found a list; key must be a string\n");
}

static void what_envoy_accepts(void)
{
	static const char *const texts[] = {
		"domain: d\n",
		"domain: d\ndescriptors:\n",
		"domain: 7\ndescriptors: []\n",
		"domain: d\ndescriptors: [{key: a, value: ~, rate_limit: null, descriptors: }]\n",
		"domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, unit: ''}}]\n",
		"domain: d\ndescriptors: [{key: a, rate_limit: {unit: second}}]\n",
		"domain: d\ndescriptors: [{key: a, shadow_mode: yes, quota_mode: off, detailed_metric: on}]\n",
		"domain: d\ndescriptors: [{key: a, metadata: {any: [thing, [1]], x: {y: z}}}]\n",
		/* a known key in the wrong place */
		"domain: d\nunit: second\ndescriptors: [{key: a, rate_limit: {unit: hour, shadow_mode: true}}]\n",
		"domain: d\ndescriptors: [{key: a, value: a}, {key: a}, {key: b, value: a}]\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct weir_policy *const policy = envoy_of(texts[i], 0);

		CHECK_TEXT(reported, "");
		CHECK(policy != NULL);
		weir_policy_free(policy);
	}
	CHECK(envoy_of("descriptors: []\n", 0) == NULL);
	CHECK_TEXT(reported, "e.yaml:1:1: the file needs a domain at the top level; use domain: NAME\n");
	CHECK(envoy_of("- domain\n", 0) == NULL);
	CHECK_TEXT(reported, "e.yaml:1:1: found a list; an Envoy configuration must be a map with a domain\n");
}

static void windows_are_as_long_as_units(void)
{
	static const struct {
		const char *unit;
		uint64_t days;
	} rows[] = { { "day", 1 }, { "week", 7 }, { "Month", 30 }, { "YEAR", 365 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256];
		struct weir_policy *policy;

		(void)sprintf(text,
			      "domain: d\ndescriptors: [{key: k, rate_limit: {unit: %s, requests_per_unit: 5}}]\n",
			      rows[i].unit);
		policy = envoy_of(text, 0);
		CHECK(policy != NULL);
		if (policy) {
			const struct weir_limit limit = weir_policy_plan_of(policy, 0)->limit;

			CHECK_EQ(limit.period, rows[i].days * 86400 * UINT64_C(1000000000));
			CHECK(limit.algorithm == WEIR_FIXED_WINDOW && !limit.align_first && !limit.count_all);
		}
		weir_policy_free(policy);
	}
}

/* State is stored under these names: they do not depend on the rest of the file, and no two are equal. */
static void names_of_plans(void)
{
	struct weir_policy *const policy = envoy_of(
		"domain: d\n"
		"descriptors:\n"
		"  - {key: a, value: b|c, rate_limit: {unit: second}}\n"
		"  - {key: a, value: b, descriptors: [{key: c, rate_limit: {unit: second}}]}\n"
		"  - {key: a-key-that-is-long, value: and-a-value-that-is-longer-than-one, rate_limit: {unit: second}, descriptors: "
		"[{key: a-key-below, rate_limit: {unit: second}}, {key: a-key-below, value: x, rate_limit: {unit: second}}]}\n",
		0);
	static const char *const names[] = { "d|a_b|c~", "d|a_b|c",
					     "d|a-key-that-is-long_and-a-value-that-is-longer-than-one",
					     "d|a-key-that-is-long_and-a-value-that-is-longe~",
					     "d|a-key-that-is-long_and-a-value-that-is-longe~" };

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_EQ(weir_policy_plans(policy), 5);
	CHECK_EQ(weir_policy_limits(policy), 5);
	for (uint32_t i = 0; i < weir_policy_plans(policy); i++) {
		const char *const name = weir_policy_plan_of(policy, i)->name;

		CHECK(strlen(name) <= 63);
		CHECK_TEXT(weir_policy_limit_name(policy, i), name);
		CHECK(strncmp(name, names[i], strlen(names[i])) == 0);
		for (uint32_t j = 0; j < i; j++)
			CHECK(strcmp(name, weir_policy_plan_of(policy, j)->name) != 0);
	}
	CHECK(weir_policy_limit_name(policy, 5) == NULL);
	weir_policy_free(policy);
}

static void more_mistakes(void)
{
	char text[8192] = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: second, replaces: [";
	struct weir_policy *policy;

	CHECK(envoy_of("domain: [d]\n", 0) == NULL);
	CHECK_TEXT(reported, "e.yaml:1:10: found a string; lists must contain maps\n"
			     "e.yaml:1:9: found a list; domain must be a string\n"
			     "e.yaml:1:1: the file needs a domain at the top level; use domain: NAME\n");
	CHECK(envoy_of("domain: d\ndescriptors: [{key: a, rate_limit: {unit: second, replaces: {name: b}}}]\n", 0) ==
	      NULL);
	CHECK_TEXT(reported, "e.yaml:2:61: found a map; replaces must be a list\n");
	for (int i = 0; i < 256; i++)
		(void)sprintf(text + strlen(text), "{name: n%d},", i);
	policy = envoy_of(strcat(text, "]}}]"), 0);
	CHECK_TEXT(reported, "");
	weir_policy_free(policy);
	strcpy(text + strlen(text) - strlen("]}}]"), "{name: n}]}}]");
	CHECK(envoy_of(text, 0) == NULL);
	CHECK_TEXT(reported, "e.yaml:2:62: too many limits to replace; use at most 256\n");
}

static const struct weir_metadata *metadata_of(const struct weir_policy *policy)
{
	struct request request;

	request_of(WORDS("k=v"), &request);
	return match(policy, "d", &request)[0].metadata;
}

/* As YAML reads them: a quoted value is text. */
static void metadata(void)
{
	static const struct {
		const char *text;
		enum weir_metadata_kind kind;
	} rows[] = {
		{ "7", WEIR_METADATA_NUMBER },    { "-1.5e+3", WEIR_METADATA_NUMBER }, { "+.5", WEIR_METADATA_NUMBER },
		{ "5.", WEIR_METADATA_NUMBER },   { "1e", WEIR_METADATA_TEXT },        { ".", WEIR_METADATA_TEXT },
		{ "1.2.3", WEIR_METADATA_TEXT },  { "7x", WEIR_METADATA_TEXT },        { "'7'", WEIR_METADATA_TEXT },
		{ "yes", WEIR_METADATA_TRUE },    { "False", WEIR_METADATA_FALSE },    { "'true'", WEIR_METADATA_TEXT },
		{ "~", WEIR_METADATA_NULL },      { "null", WEIR_METADATA_NULL },      { "''", WEIR_METADATA_TEXT },
		{ "[a, b]", WEIR_METADATA_LIST }, { "[]", WEIR_METADATA_LIST },        { "{a: b}", WEIR_METADATA_MAP },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_policy *policy;
		const struct weir_metadata *map;
		char text[256];

		(void)sprintf(
			text,
			"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day}, metadata: {a: 1, name: %s}}]\n",
			rows[i].text);
		policy = envoy_of(text, 0);
		CHECK_TEXT(reported, "");
		map = policy ? metadata_of(policy) : NULL;
		CHECK(map && map->kind == WEIR_METADATA_MAP && map->members && map->members->next);
		if (map && map->members && map->members->next) {
			const struct weir_metadata *const value = map->members->next;

			CHECK_TEXT(value->name, "name");
			CHECK_EQ(value->kind, rows[i].kind);
			CHECK(value->next == NULL && value->name_length == 4);
			if (value->kind == WEIR_METADATA_NUMBER)
				CHECK_TEXT(value->text, rows[i].text);
		}
		weir_policy_free(policy);
	}
}

/* The map and 63 values below it, at any depth. */
static void much_metadata(void)
{
	char text[4096] = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day}, metadata: {a: [";
	struct weir_policy *policy;

	for (int i = 0; i < 62; i++)
		strcat(text, "1,");
	policy = envoy_of(strcat(text, "]}}]"), 0);
	CHECK_TEXT(reported, "");
	CHECK(policy && metadata_of(policy));
	weir_policy_free(policy);
	strcpy(text + strlen(text) - 4, "1]}}]");
	CHECK(envoy_of(text, 0) == NULL);
	CHECK_TEXT(reported, "e.yaml:2:59: too many values in metadata; use at most 64\n");
	CHECK(envoy_of("domain: d\ndescriptors: [{key: k, metadata: [{key: a}]}]\n", 0) == NULL);
	CHECK_TEXT(reported, "e.yaml:2:34: found a list; metadata must be a map\n");
	strcpy(text, "domain: d\ndescriptors: [{key: k, value: ");
	for (int i = 0; i < 513; i++)
		strcat(text, "v");
	CHECK(envoy_of(strcat(text, "}]\n"), 0) == NULL);
	CHECK_TEXT(reported, "e.yaml:2:15: the value is too long; use at most 512 bytes\n");
	policy = envoy_of("domain: d\ndescriptors: [{key: k, metadata: , rate_limit: {unit: day}}]\n", 0);
	CHECK(policy && metadata_of(policy) == NULL);
	weir_policy_free(policy);
}

/* A name in a claim is cut after whole characters. */
static void names_of_limits(void)
{
	static const struct {
		size_t n;
		size_t shown;
	} rows[] = { { 1, 2 }, { 31, 62 }, { 32, 62 }, { 1000, 62 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[4096] = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, name: \"";
		struct weir_policy *policy;
		struct request request;

		for (size_t j = 0; j < rows[i].n; j++)
			strcat(text, "\u00e4");
		policy = envoy_of(strcat(text, "\"}}]"), 0);
		CHECK_TEXT(reported, "");
		request_of(WORDS("k=v"), &request);
		if (policy)
			CHECK_EQ(strlen(match(policy, "d", &request)[0].name), rows[i].shown);
		weir_policy_free(policy);
	}
}

TESTS(TEST(metadata), TEST(much_metadata), TEST(names_of_limits), TEST(mistakes_are_all_told), TEST(more_mistakes),
      TEST(what_envoy_accepts), TEST(windows_are_as_long_as_units), TEST(names_of_plans))
