/* rule_cache_test.c: a cache entry is found by its hash and agrees with its rule and limit. */
#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>

#include "policies.h"

enum { CARDS = 1000, BESIDE = 24 };

static uint64_t hash_at(uint32_t i)
{
	/* Every third hash has the place of another, and every fifth its tag, too. */
	return (uint64_t)(i % 5 ? i : i - i % 15) << 56 | (uint64_t)i << 16 | i % 3;
}

static void cards_are_found_by_their_hash_alone(void)
{
	static const struct weir__rule always = { .conditions = NULL, .n = 0 };
	struct weir__pool pool = weir__pool_of(8 << 20);
	struct weir__rule_cache rule_cache;

	CHECK(weir__rule_cache_init(&rule_cache, &pool, CARDS, BESIDE, weir__rule_cache_entry_room(&always)));
	for (uint32_t i = 1; i <= CARDS; i++) {
		char beside[BESIDE];

		(void)snprintf(beside, sizeof(beside), "%d", (int)i);
		weir__rule_cache_add(&rule_cache, hash_at(i), i, &always, beside);
	}
	for (uint32_t i = 1; i <= CARDS; i++) {
		const struct weir__rule_cache_entry *const entry = weir__rule_cache_find(&rule_cache, hash_at(i));

		CHECK(entry != NULL && entry->number == i);
		CHECK_EQ((uintptr_t)entry % WEIR__POOL_LINE, 0);
		CHECK_EQ((uint64_t)atoi((const char *)entry->beside), i);
		CHECK(weir__rule_cache_find(&rule_cache, hash_at(i) | UINT64_C(1) << 15) == NULL);
	}
	weir__pool_free(&pool);
}

static void none_are_found_where_there_are_none(void)
{
	const struct weir__rule_cache none = { .n_places = 0 };

	CHECK(weir__rule_cache_find(&none, 1) == NULL);
}

static void too_many_are_not_made(void)
{
	struct weir__pool small = weir__pool_of(1 << 16), large = weir__pool_of(SIZE_MAX / 2);
	struct weir__rule_cache rule_cache;

	CHECK(!weir__rule_cache_init(&rule_cache, &small, CARDS, BESIDE, 0));
	CHECK(weir__rule_cache_find(&rule_cache, 1) == NULL);
	CHECK(!weir__rule_cache_init(&rule_cache, &large, 1 << 20, 64, 256));
	CHECK(weir__rule_cache_find(&rule_cache, 1) == NULL);
	weir__pool_free(&small);
	weir__pool_free(&large);
}

/* Limits that fit a cache entry and limits that do not, found alone and with others. */
static const char many_kinds[] =
	"attributes:\n"
	"  region: {lower: true}\n"
	"limits:\n"
	"  - {name: plain, key: [ip], match: {tenant: a}, limit: 1/s}\n"
	"  - {name: both, key: [ip, user], match: {tenant: b, path: /v1/**}, limit: 2/s}\n"
	"  - {name: net, key: [user], match: {ip: 10.0.0.0/8, tenant: {not: z}}, limit: 3/s, cost: {attribute: items}}\n"
	"  - {name: none, match: {tenant: c}, limit: 4/s burst 9, cost: 7, mode: shadow}\n"
	"  - {name: default, key: [region, user], match: {region: EU}, limit: 5/s}\n"
	"  - {name: twice-1, key: [ip], match: {method: PUT}, limit: 6/s}\n"
	"  - {name: twice-2, key: [user], match: {method: PUT}, limit: 7/s}\n"
	"  - {name: listed, key: [user], match: {tenant: [d, e, f, g, h, i, j, k]}, limit: 8/s}\n"
	"  - {name: here, match: {api_key: {present: true}}, limit: 9/s}\n"
	"  - {name: begins, key: [user], match: {host: {prefix: api.}}, limit: 10/s}\n"
	"  - {name: long, match: {tenant: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}, "
	"limit: 11/s}\n"
	"  - name: instead\n"
	"    key: [user]\n"
	"    match: {tenant: l}\n"
	"    limit: 12/s\n"
	"    overrides: [{when: {plan: gold}, limit: 13/s}, {when: {plan: off}, mode: off}]\n";

static const char *const requests[][WORDS_MAX] = {
	{ "tenant=a", "ip=192.0.2.1", NULL },
	{ "tenant=a", NULL },
	{ "tenant=b", "ip=2001:db8::1", "user=u", "path=/v1/x/../y", NULL },
	{ "tenant=b", "ip=2001:db8::1", "user=u", "path=/v2", NULL },
	{ "tenant=y", "ip=10.1.2.3", "user=u", "items=5", NULL },
	{ "tenant=z", "ip=10.1.2.3", "user=u", "items=5", NULL },
	{ "tenant=y", "ip=10.1.2.3", "user=u", "items=many", NULL },
	{ "tenant=c", NULL },
	{ "region=eu", NULL },
	{ "region=Eu", "user=u", NULL },
	{ "method=PUT", "ip=192.0.2.1", "user=u", NULL },
	{ "tenant=g", "user=u", NULL },
	{ "api_key=x", "host=api.example.com", "user=u", NULL },
	{ "tenant=l", "user=u", NULL },
	{ "tenant=l", "user=u", "plan=gold", NULL },
	{ "tenant=l", "user=u", "plan=off", NULL },
	{ "tenant=nobody", "user=u", NULL },
};

static void limits_apply_as_without_cards(void)
{
	struct weir_policy *const policy = policy_of(many_kinds), *const carded = policy_of(many_kinds);
	char expected[4096];
	uint32_t n = 0;

	CHECK_TEXT(reported, "");
	if (policy == NULL || carded == NULL)
		return;
	weir__rules_make_cache(&carded->rules, &carded->pool);
	for (uint32_t i = 0; i < carded->rules.rule_cache.n_places; i++)
		n += carded->rules.rule_cache.tags[i] != 0;
	CHECK_EQ(n, 8); /* not those that are too long or listed, nor those found with others */
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		strcpy(expected, applies(policy, requests[i]));
		CHECK_TEXT(applies(carded, requests[i]), expected);
	}
	CHECK_TEXT(applies(carded, WORDS("tenant=a", "ip=192.0.2.1")), "plain:enforce:\\04\\c0\\00\\02\\01:1");
	weir_policy_free(policy);
	weir_policy_free(carded);
}

/* Enough that the cache is made by default. */
static void very_many_limits_are_told_apart(void)
{
	enum { LIMITS = 6000 };
	char *text, words[2][32];
	size_t length;
	FILE *const file = open_memstream(&text, &length);
	struct weir_policy *policy;

	fprintf(file, "limits:\n");
	for (int i = 0; i < LIMITS; i++)
		fprintf(file, "  - {name: l%d, key: [user], match: {tenant: t%d, path: /v1/**}, limit: %d/s}\n", i, i,
			i + 1);
	CHECK_EQ(fclose(file), 0);
	policy = policy_of(text);
	CHECK(policy != NULL && policy->rules.rule_cache.n_places > 0);
	for (int i = 0; i <= LIMITS; i++) {
		char expected[32] = "";

		(void)snprintf(words[0], sizeof(words[0]), "tenant=t%d", i);
		(void)snprintf(words[1], sizeof(words[1]), "user=u%d", i);
		if (i < LIMITS)
			(void)snprintf(expected, sizeof(expected), "l%d:enforce:u%d:1", i, i);
		CHECK_TEXT(applies(policy, WORDS(words[0], words[1], "path=/v1/a")), expected);
		CHECK_TEXT(applies(policy, WORDS(words[0], words[1], "path=/v2/a")), "");
	}
	weir_policy_free(policy);
	free(text);
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(cards_are_found_by_their_hash_alone),
		TEST(none_are_found_where_there_are_none),
		TEST(too_many_are_not_made),
		TEST(limits_apply_as_without_cards),
		TEST(very_many_limits_are_told_apart),
	};

	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
