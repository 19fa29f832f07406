/* guard_test.c: a policy and a table, also while threads decide and the policy changes.
 *
 *     guard_test [CHANGES] */
/* Covers: src/guard/bound_policy.c, src/guard/guard_check.c */
#include <weir/guard.h>

#include <pthread.h>
#include <stdatomic.h>

#include "guards.h"
#include "policy/policy.h"

static const weir_ns start = UINT64_C(1700000000000000000);

static struct weir_guard *guard_of(const char *text, struct weir_table **ret_table)
{
	return guard_over(policy_of(text), start, ret_table);
}

static struct weir_guard_answer ask(struct weir_guard *guard, weir_ns now, const char *const *words)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(words, attributes);
	struct weir_guard_answer answer = { .limits = 99 };
	struct weir_message why;

	CHECK(weir_guard_check(guard, attributes, n, 1, now, &answer, &why) == WEIR_OK);
	return answer;
}

/* The reply has the numbers of the limit that it names. */
static void numbers_are_of_the_decider(void)
{
	static const weir_ns second = UINT64_C(1000000000), hour = 3600 * second;
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("limits:\n"
						  "  - {name: small, limit: 5/hour, cost: 1}\n"
						  "  - {name: big, limit: 100/hour}\n"
						  "  - {name: quick, limit: 4/s}\n",
						  &table);
	struct weir_guard_answer answer;
	struct weir_message why;

	answer = ask(guard, start, WORDS("user=ann"));
	CHECK_TEXT(answer.decided_by, "quick");
	CHECK(answer.verdict.limit == 4 && answer.verdict.remaining == 3);
	CHECK(answer.verdict.reset_after == second / 4);
	CHECK(weir_guard_check(guard, NULL, 0, 101, start, &answer, &why) == WEIR_OK);
	CHECK(!answer.verdict.allowed && answer.verdict.never);
	CHECK_TEXT(answer.decided_by, "big");
	CHECK(answer.verdict.limit == 100 && answer.verdict.remaining == 99 &&
	      answer.verdict.reset_after == hour / 100);
	end_guard(guard, table);
}

static void all_or_nothing(void)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("limits:\n"
						  "  - {name: all, limit: 3/min}\n"
						  "  - {name: each, key: user, limit: 2/min}\n",
						  &table);
	struct weir_guard_answer answer;

	answer = ask(guard, start, WORDS("user=ann"));
	CHECK(answer.verdict.allowed && answer.limits == 2 && answer.verdict.remaining == 1);
	CHECK_TEXT(answer.decided_by, "each");
	CHECK(ask(guard, start, WORDS("user=ann")).verdict.allowed);
	answer = ask(guard, start, WORDS("user=ann"));
	CHECK(!answer.verdict.allowed);
	CHECK_TEXT(answer.decided_by, "each");
	/* the denied request was not charged to `all`: one is left */
	CHECK(ask(guard, start, WORDS("user=bob")).verdict.allowed);
	answer = ask(guard, start, WORDS("user=bob"));
	CHECK(!answer.verdict.allowed);
	CHECK_TEXT(answer.decided_by, "all");
	end_guard(guard, table);
}

static void nothing_applies(void)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("limits:\n  - {name: a, key: user, limit: 1/min}\n", &table);
	const struct weir_guard_answer answer = ask(guard, start, WORDS("x=y"));

	CHECK(answer.verdict.allowed && !answer.is_limited && answer.limits == 0);
	CHECK(answer.is_unmatched);
	CHECK_TEXT(answer.decided_by, "");
	CHECK(!ask(guard, start, WORDS("user=ann")).is_unmatched);
	end_guard(guard, table);
}

/* A limit that is off or in shadow matches if the request has its key. */
static void unmatched_requests_are_denied(void)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("unmatched: deny\n"
						  "limits:\n"
						  "  - {name: a, key: user, limit: 1/min}\n"
						  "  - {name: off, key: team, limit: 1/min, mode: off}\n"
						  "  - {name: shadow, match: {path: /x}, limit: 1/min, mode: shadow}\n"
						  "  - name: some\n"
						  "    match: {plan: [free, gold]}\n"
						  "    limit: 1/min\n"
						  "    overrides: [{when: {plan: gold}, mode: off}]\n",
						  &table);
	static const struct {
		const char *word;
		bool is_unmatched;
	} rows[] = {
		{ "usr=ann", true },    { "user=ann", false },  { "team=x", false },
		{ "tem=x", true },      { "path=/x", false },   { "path=/y", true },
		{ "plan=gold", false }, { "plan=free", false }, { "plan=none", true },
	};
	struct weir_guard_answer answer;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		answer = ask(guard, start, WORDS(rows[i].word));
		CHECK(answer.is_unmatched == rows[i].is_unmatched);
		CHECK(answer.verdict.allowed == !rows[i].is_unmatched);
		CHECK(!rows[i].is_unmatched ||
		      (answer.verdict.never && answer.verdict.granted == 0 && !answer.is_limited));
		CHECK((strcmp(answer.decided_by, "(unmatched)") == 0) == rows[i].is_unmatched);
	}
	end_guard(guard, table);
}

static void shadows_change_no_answer(void)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("limits:\n"
						  "  - {name: real, key: user, limit: 3/min}\n"
						  "  - {name: canary, key: user, limit: 2/min, mode: shadow}\n",
						  &table);
	struct weir_guard_answer answer;

	for (int i = 0; i < 2; i++) {
		answer = ask(guard, start, WORDS("user=ann"));
		CHECK(answer.verdict.allowed && answer.shadow_denied == 0 && answer.limits == 2);
	}
	answer = ask(guard, start, WORDS("user=ann"));
	CHECK(answer.verdict.allowed && answer.shadow_denied == 1);
	CHECK_TEXT(answer.decided_by, "real");
	answer = ask(guard, start, WORDS("user=ann"));
	CHECK(!answer.verdict.allowed && answer.shadow_denied == 1);
	/* After half a minute one unit of canary has leaked: requests that `real` denied were not charged to it. */
	answer = ask(guard, start + UINT64_C(30000000000), WORDS("user=ann"));
	CHECK(answer.verdict.allowed && answer.shadow_denied == 0);
	end_guard(guard, table);
}

static int change(struct weir_guard *guard, const char *text, weir_ns now, struct weir_message *ret_message)
{
	struct weir_policy *const policy = policy_of(text);

	CHECK_TEXT(reported, "");
	return policy ? weir_guard_change(guard, policy, now, ret_message) : WEIR_ERR_SYNTAX;
}

static void state_stays_by_name(void)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("limits:\n  - {name: a, key: user, limit: 10/min}\n", &table);
	struct weir_message why = { 0 };

	for (int i = 0; i < 8; i++)
		CHECK(ask(guard, start, WORDS("user=ann")).verdict.allowed);
	/* The usage of eight stays with a larger and with a smaller burst. */
	CHECK(change(guard, "limits:\n  - {name: a, key: user, limit: 20/min}\n", start, &why) == WEIR_OK);
	CHECK_EQ(ask(guard, start, WORDS("user=ann")).verdict.remaining, 11);
	CHECK(change(guard, "limits:\n  - {name: a, key: user, limit: 1/min}\n", start, &why) == WEIR_OK);
	CHECK(!ask(guard, start, WORDS("user=ann")).verdict.allowed);
	CHECK_EQ(weir_guard_changes(guard), 2);
	/* With another algorithm the key starts over. */
	CHECK(change(guard, "limits:\n  - {name: a, key: user, limit: 5/min sliding_log}\n", start, &why) == WEIR_OK);
	CHECK_EQ(ask(guard, start, WORDS("user=ann")).verdict.remaining, 4);
	/* With the old limit back, its usage is back. */
	CHECK(change(guard, "limits:\n  - {name: a, key: user, limit: 1/min}\n", start, &why) == WEIR_OK);
	CHECK(!ask(guard, start, WORDS("user=ann")).verdict.allowed);
	end_guard(guard, table);
}

static void one_limit_by_call(void)
{
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("limits:\n  - {name: a, limit: 2/min}\n", &table);
	const struct weir_limit five = weir_limit_of(WEIR_TOKEN_BUCKET, 1, 60000000000);
	struct weir_message why;

	CHECK(weir_guard_change_limit(guard, "b", &five, start, &why) == WEIR_ERR_LIMIT);
	CHECK_TEXT(why.text, "the policy has no limit \"b\"");
	CHECK(weir_guard_change_limit(guard, "a", &five, start, &why) == WEIR_OK);
	CHECK_EQ(ask(guard, start, WORDS("x=y")).verdict.limit, 1);
	end_guard(guard, table);
}

/* The policy has more limits than the table has room for. */
static void a_bad_policy_changes_nothing(void)
{
	static char text[64 * TABLE_LIMITS] = "limits:\n  - {name: a, limit: 1/min}\n";
	struct weir_table *table;
	struct weir_guard *const guard = guard_of("limits:\n  - {name: a, limit: 2/min}\n", &table);
	struct weir_message why = { 0 };

	for (int i = 0; i <= TABLE_LIMITS; i++)
		(void)sprintf(text + strlen(text), "  - {name: b%d, match: {n: '%d'}, limit: 1/min}\n", i, i);
	CHECK(change(guard, text, start, &why) == WEIR_ERR_FULL);
	CHECK(why.text[0] != '\0');
	CHECK_EQ(ask(guard, start, WORDS("x=y")).verdict.limit, 2);
	CHECK_EQ(weir_guard_changes(guard), 0);
	end_guard(guard, table);
}

/* --- threads ---------------------------------------------------------------------------------------------------- */

enum { DECIDERS = 3 };
static uint32_t changes = 100;

struct crowd {
	struct weir_guard *guard;
	_Atomic bool is_over;
	_Atomic uint64_t admitted, asked, wrong;
};

static void *decide(void *crowd_)
{
	struct crowd *const crowd = crowd_;

	while (!atomic_load(&crowd->is_over)) {
		const struct weir_guard_answer answer = ask(crowd->guard, start, WORDS("user=ann", "plan=gold"));

		atomic_fetch_add(&crowd->admitted, answer.verdict.allowed);
		atomic_fetch_add(&crowd->asked, 1);
		/* Both policies have two limits. A mix of them would have one or three. */
		atomic_fetch_add(&crowd->wrong, answer.limits != 2);
	}
	return NULL;
}

/* Both policies have the same burst, so no more than 500 requests are allowed at one time, in any order. */
static void swapped_under_load(void)
{
	static const char *const texts[] = { "limits:\n"
					     "  - {name: a, key: user, limit: 1000/day burst 500}\n"
					     "  - {name: b, match: {plan: gold}, limit: 1000000/day}\n",
					     "limits:\n"
					     "  - {name: c, match: {user: [ann, bob]}, limit: 1000000/day}\n"
					     "  - {name: a, key: user, limit: 2000/day burst 500}\n" };
	struct crowd crowd = { .is_over = false };
	pthread_t threads[DECIDERS];
	struct weir_message why;
	struct weir_table *table;

	crowd.guard = guard_of(texts[0], &table);
	for (int i = 0; i < DECIDERS; i++)
		(void)pthread_create(&threads[i], NULL, decide, &crowd);
	for (uint32_t i = 1; i <= changes; i++) {
		const uint64_t before = atomic_load(&crowd.asked);

		CHECK(change(crowd.guard, texts[i % 2], start, &why) == WEIR_OK);
		while (atomic_load(&crowd.asked) == before)
			sched_yield();
	}
	atomic_store(&crowd.is_over, true);
	for (int i = 0; i < DECIDERS; i++)
		(void)pthread_join(threads[i], NULL);
	CHECK_EQ(atomic_load(&crowd.wrong), 0);
	CHECK(atomic_load(&crowd.admitted) <= 500);
	CHECK(atomic_load(&crowd.asked) < 500 || atomic_load(&crowd.admitted) == 500);
	end_guard(crowd.guard, table);
}

/* Large policies have a rule cache, which must not change any reply. */
static void limits_on_cards_decide_alike(void)
{
	static const char text[] =
		"limits:\n"
		"  - {name: a, key: user, match: {plan: free}, limit: 3/day}\n"
		"  - {name: b, key: [user, plan], match: {plan: silver}, limit: 4/day}\n"
		"  - {name: c, key: user, match: {plan: gold}, limit: 5/day,\n"
		"     overrides: [{when: {user: u3}, limit: 9/day}, {when: {user: u4}, mode: off}]}\n"
		"  - {name: d, key: user, match: {user: [u1, u2]}, limit: 2/day, mode: shadow}\n"
		"  - {name: e, match: {user: u5}, limit: 6/day}\n";
	static const char *const plans[] = { "free", "silver", "gold", "none" };
	struct weir_policy *const carded = policy_of(text);
	struct weir_table *tables[2];
	struct weir_guard *guards[2];
	struct weir_message why;

	weir__rules_make_cache(&carded->rules, &carded->pool);
	CHECK(carded->rules.rule_cache.n_places > 0);
	guards[0] = guard_over(carded, start, &tables[0]);
	guards[1] = guard_of(text, &tables[1]);
	for (uint32_t i = 0; i < 600; i++) {
		const char user[3] = { 'u', (char)('0' + i * 7 % 10), '\0' };
		const struct weir_attribute attributes[] = { { "user", 4, user, 2 },
							     { "plan", 4, plans[i % 4], strlen(plans[i % 4]) } };
		struct weir_guard_answer answers[2];

		for (int k = 0; k < 2; k++) {
			memset(&answers[k], 0, sizeof(answers[k]));
			CHECK(weir_guard_check(guards[k], attributes, 2, 1, start + i, &answers[k], &why) == WEIR_OK);
		}
		CHECK_EQ(answers[0].verdict.allowed, answers[1].verdict.allowed);
		CHECK_EQ(answers[0].verdict.remaining, answers[1].verdict.remaining);
		CHECK_EQ(answers[0].limits, answers[1].limits);
		CHECK_EQ(answers[0].shadow_denied, answers[1].shadow_denied);
		CHECK_TEXT(answers[0].decided_by, answers[1].decided_by);
	}
	for (int k = 0; k < 2; k++)
		end_guard(guards[k], tables[k]);
}

/* Names of plans contain keys and values, which may have control characters. A table does not accept those, so they are
 * replaced, and a hash keeps the names distinct. */
static void values_with_control_characters(void)
{
	static const char own[] = "limits:\n"
				  "  - name: a\n"
				  "    limit: 5/s\n"
				  "    overrides:\n"
				  "      - {when: {tenant: \"x\\ty\"}, limit: 1/s}\n"
				  "      - {when: {tenant: \"x\\ny\"}, limit: 2/s}\n";
	static const char envoy[] = "domain: d\n"
				    "descriptors:\n"
				    "  - key: \"x\\x7fy\"\n"
				    "    rate_limit: {unit: second, requests_per_unit: 1}\n"
				    "  - key: \"x\\x9by\"\n"
				    "    rate_limit: {unit: second, requests_per_unit: 2}\n";
	/* In Weir's own format, the first plan is the limit itself. */
	const uint32_t firsts[] = { 1, 0 };

	for (size_t i = 0; i < 2; i++) {
		struct weir_policy *policy = NULL;
		struct weir_guard *guard;
		struct weir_table *table;
		const char *first, *second;

		if (i == 0)
			CHECK_EQ(weir_policy_read(own, strlen(own), NULL, NULL, NULL, &policy), WEIR_OK);
		else
			CHECK_EQ(weir_policy_read_envoy(envoy, strlen(envoy), NULL, 0, NULL, NULL, &policy), WEIR_OK);
		first = weir_policy_plan_of(policy, firsts[i])->name;
		second = weir_policy_plan_of(policy, firsts[i] + 1)->name;
		CHECK(strcmp(first, second) != 0);
		CHECK(strstr(first, "x?") != NULL && strchr(first, '~') != NULL);
		for (const char *at = first; *at != '\0'; at++)
			CHECK((unsigned char)*at >= ' ' && *at != 0x7f);
		guard = guard_over(policy, UINT64_C(4000000000000000000), &table);
		end_guard(guard, table);
	}
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = { TEST(numbers_are_of_the_decider),
						   TEST(all_or_nothing),
						   TEST(nothing_applies),
						   TEST(unmatched_requests_are_denied),
						   TEST(shadows_change_no_answer),
						   TEST(state_stays_by_name),
						   TEST(one_limit_by_call),
						   TEST(a_bad_policy_changes_nothing),
						   TEST(swapped_under_load),
						   TEST(limits_on_cards_decide_alike),
						   TEST(values_with_control_characters) };

	if (argc > 1)
		changes = (uint32_t)strtoul(argv[1], NULL, 10);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
