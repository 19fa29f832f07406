/* read_failure_test.c: a policy's settings for store failures. */
#include "policies.h"

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

static const char *store_of(const struct weir_policy *policy, const char *const *words)
{
	static const char *const stores[] = { [WEIR_POLICY_STORE_UNSET] = "unset",
					      [WEIR_POLICY_STORE_TABLE] = "table",
					      [WEIR_POLICY_STORE_REDIS] = "redis" };

	static struct weir_policy_answer answer;
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	struct weir_message why;

	if (weir_policy_match(policy, attributes, n, 1, &answer, &why) != WEIR_OK || answer.n != 1)
		return "not one claim";
	return stores[weir_policy_plan_of(policy, answer.claims[0].plan)->store];
}

/* An override with a limit has the store of its limit, unless it names another. */
static void state_is_kept_where_the_limit_says(void)
{
	struct weir_policy *const policy = policy_of("limits:\n"
						     "  - {name: unset, match: {l: unset}, limit: 1/s}\n"
						     "  - {name: redis, match: {l: redis}, limit: 1/s, store: redis}\n"
						     "  - name: table\n"
						     "    match: {l: table}\n"
						     "    limit: 1/s\n"
						     "    store: table\n"
						     "    on_store_failure: {local: 2/s}\n"
						     "    overrides:\n"
						     "      - {when: {o: as-it}, limit: 4/s}\n"
						     "      - {when: {o: mode}, mode: shadow}\n"
						     "      - {when: {o: own}, limit: 7/s, store: redis}\n");

	CHECK_TEXT(reported, "");
	if (policy == NULL)
		return;
	CHECK_TEXT(store_of(policy, WORDS("l=unset")), "unset");
	CHECK_TEXT(store_of(policy, WORDS("l=redis")), "redis");
	CHECK_TEXT(store_of(policy, WORDS("l=table")), "table");
	CHECK_TEXT(store_of(policy, WORDS("l=table", "o=as-it")), "table");
	CHECK_TEXT(store_of(policy, WORDS("l=table", "o=mode")), "table");
	CHECK_TEXT(store_of(policy, WORDS("l=table", "o=own")), "redis");
	CHECK_TEXT(explanation_of(policy, WORDS("l=redis")), "redis: applies: 1/s, one for all requests, in Redis\n");
	CHECK_TEXT(explanation_of(policy, WORDS("l=table")),
		   "table: applies: 1/s, one for all requests, in the table, if the store fails 2/s\n");
	weir_policy_free(policy);
}

static void mistakes_about_where_state_is(void)
{
	CHECK(policy_of("limits:\n"
			"  - {name: a, limit: 1/s, store: memory}\n"
			"  - {name: b, limit: 1/s, store: [table]}\n"
			"  - {name: c, store: table}\n"
			"  - {name: d, limit: 1/s, overrides: [{when: {p: x}, mode: off, store: redis}]}\n") == NULL);
	CHECK_TEXT(reported, "p.yaml:2:34: unknown store 'memory'; use table or redis\n"
			     "p.yaml:3:34: found a list; store must be a string\n"
			     "p.yaml:4:5: a limit needs a rate; use limit: 100/s burst 200\n"
			     "p.yaml:4:15: store needs a limit; add limit beside it\n"
			     "p.yaml:5:65: store needs a limit; add limit beside it\n");
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
		"p.yaml:2:45: on_store_failure 'maybe'; use share, open, closed, or {local: 200/s burst 400}\n"
		"p.yaml:2:66: invalid store_budget '5us'; use a duration from 1ms to 10s, such as 5ms\n"
		"p.yaml:3:24: limit '1/fortnight': at 2: \"fortnight\": unknown period; use ns, us, ms, s, min, hour, "
		"day or week, as in 10/30s\n"
		"p.yaml:3:61: limit '0/s': a count of 0: a rate needs 1 or more\n"
		"p.yaml:3:81: invalid store_budget '11s'; use a duration from 1ms to 10s, such as 5ms\n"
		"p.yaml:6:24: unknown key 'share' in on_store_failure; use local\n"
		"p.yaml:6:23: on_store_failure has no local limit; use share, open, closed, or {local: 200/s burst 400}\n"
		"p.yaml:7:19: found a list; store_budget must be a string\n"
		"p.yaml:9:35: on_store_failure needs a limit; add limit beside it\n"
		"p.yaml:10:64: limit '1/x': at 2: \"x\": unknown period; use ns, us, ms, s, min, hour, day or week, as in "
		"10/30s\n"
		"p.yaml:11:54: a list; on_store_failure: use share, open, closed, or {local: 200/s burst 400}\n"
		"p.yaml:11:76: invalid store_budget '0ms'; use a duration from 1ms to 10s, such as 5ms\n"
		"p.yaml:12:35: store_budget needs a limit; add limit beside it\n"
		"p.yaml:13:5: a limit needs a rate; use limit: 100/s burst 200\n"
		"p.yaml:13:15: on_store_failure needs a limit; add limit beside it\n"
		"p.yaml:13:44: limit '1/x': at 2: \"x\": unknown period; use ns, us, ms, s, min, hour, day or week, as in "
		"10/30s\n");
}

TESTS(TEST(stores_that_fail), TEST(mistakes_about_stores_are_all_told), TEST(state_is_kept_where_the_limit_says),
      TEST(mistakes_about_where_state_is))
