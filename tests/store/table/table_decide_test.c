/* table_decide_test.c: several limits in one decision. table_undo_test.c tests lost races. */
#include <stdlib.h>

#include "tables.h"

enum { MOST = WEIR_TABLE_CLAIMS_MAX, DECISIONS = 30000, KEYS = 6 };

static struct weir_decision decide(struct weir_table *table, const struct weir_claim *claims, size_t n, weir_ns now)
{
	struct weir_decision decision = { .decided_by = 99 };

	CHECK_EQ(weir_table_decide(table, claims, n, now, NULL, &decision), WEIR_OK);
	return decision;
}

static uint64_t left(struct weir_table *table, const struct weir_table_limit *limit, const char *key, weir_ns now)
{
	return weir_table_peek(table, limit, key, strlen(key), now, 0).remaining;
}

static void all_or_nothing(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *const user = limit_in(table, "3/min"), *const all = limit_in(table, "10/s");
	const struct weir_claim claims[] = { { user, "ann", 3, 1 }, { all, "", 0, 4 } };
	struct weir_table_limit_stats stats;

	CHECK(decide(table, claims, 2, MADE_AT).verdict.allowed);
	CHECK(decide(table, claims, 2, MADE_AT).verdict.allowed);
	CHECK(!decide(table, claims, 2, MADE_AT).verdict.allowed); /* 2 are left of all */
	CHECK_EQ(left(table, user, "ann", MADE_AT), 1);
	CHECK_EQ(left(table, all, "", MADE_AT), 2);
	CHECK(decide(table, claims, 2, MADE_AT + S(1)).verdict.allowed);
	CHECK(!decide(table, claims, 2, MADE_AT + S(2)).verdict.allowed); /* none is left of ann's */
	CHECK_EQ(left(table, all, "", MADE_AT + S(2)), 10);
	weir_table_limit_stats(table, user, &stats);
	CHECK(stats.allowed == 3 && stats.denied == 1); /* a limit that would have allowed it does not count a denial */
	weir_table_limit_stats(table, all, &stats);
	CHECK(stats.allowed == 3 && stats.denied == 1);
	CHECK_EQ(stats_of(table, MADE_AT).lost_races, 0);
	weir_table_free(table);
}

/* One decision each, on new keys: their usage before, the costs, and the result. */
static const struct {
	const char *what;
	const char *limits[3];
	uint64_t used[3], costs[3];
	bool allowed;
	size_t decided_by;
	uint64_t limit, remaining; /* these and the durations are those of the limit that decided */
	weir_ns retry_after;       /* WEIR_NEVER: never */
	weir_ns reset_after;
} deciders[] = {
	/* clang-format off */
	{ "the one with least left",   { "8/s", "5/s", "7/min" },     { 0, 0, 0 }, { 1, 1, 1 }, true,  1, 5, 4, 0,          MS(200) },
	{ "after the charge",          { "8/s", "5/min", "7/s" },     { 0, 0, 0 }, { 7, 1, 1 }, true,  0, 8, 1, 0,          MS(875) },
	{ "of equals the first",       { "8/s", "5/s", "7/min" },     { 5, 2, 4 }, { 1, 1, 1 }, true,  0, 8, 2, 0,          MS(750) },
	{ "the one that denies",       { "9/s", "5/hour", "8/s" },    { 0, 4, 8 }, { 1, 1, 1 }, false, 2, 8, 0, MS(125),    S(1) },
	{ "with most left of all",     { "1/s", "2/min", "8/s" },     { 0, 1, 4 }, { 1, 1, 8 }, false, 2, 8, 4, MS(500),    MS(500) },
	{ "of several the longest",    { "1/s", "1/min", "1/ms" },    { 1, 1, 1 }, { 1, 1, 1 }, false, 1, 1, 0, S(60),      S(60) },
	{ "of equally long the first", { "9/s", "1/s", "1/s leaky" }, { 0, 1, 1 }, { 1, 1, 1 }, false, 1, 1, 0, S(1),       S(1) },
	{ "never is the longest",      { "1/day", "5/s", "7/s" },     { 1, 1, 0 }, { 1, 6, 1 }, false, 1, 5, 4, WEIR_NEVER, MS(200) },
	/* clang-format on */
};

static void it_names_the_limit_that_decided(void)
{
	for (size_t i = 0; i < sizeof(deciders) / sizeof(deciders[0]); i++) {
		struct weir_table *const table = table_for(100, MADE_AT);
		struct weir_claim claims[3];
		struct weir_decision decision;

		for (size_t k = 0; k < 3; k++) {
			const struct weir_table_limit *const limit = limit_in(table, deciders[i].limits[k]);

			claims[k] = (struct weir_claim){ limit, "key", 3, deciders[i].costs[k] };
			CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT, deciders[i].used[k]));
		}
		decision = decide(table, claims, 3, MADE_AT);
		if (decision.verdict.allowed != deciders[i].allowed || decision.verdict.limit != deciders[i].limit ||
		    decision.verdict.remaining != deciders[i].remaining ||
		    decision.verdict.retry_after != deciders[i].retry_after ||
		    decision.verdict.reset_after != deciders[i].reset_after)
			check_fail(__FILE__, (int)i, deciders[i].what);
		if (!CHECK_EQ(decision.decided_by, deciders[i].decided_by))
			printf("# %s\n", deciders[i].what);
		CHECK_EQ(decision.verdict.never, deciders[i].retry_after == WEIR_NEVER);
		weir_table_free(table);
	}
}

static void duplicates_are_one_claim(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "5/s");
	struct weir_claim claims[] = { { limit, "a", 1, 2 }, { limit, "b", 1, 1 }, { limit, "a", 1, 2 } };
	struct weir_verdict verdicts[3];
	struct weir_decision decision;

	CHECK_EQ(weir_table_decide(table, claims, 3, MADE_AT, verdicts, &decision), WEIR_OK);
	CHECK(decision.verdict.allowed);
	CHECK_EQ(decision.decided_by, 0);
	CHECK_EQ(decision.verdict.granted, 4);
	CHECK_VERDICT("answered alike", &verdicts[0], &verdicts[2]);
	CHECK_EQ(verdicts[0].remaining, 1);
	CHECK_EQ(verdicts[1].remaining, 4);
	claims[0].cost = claims[2].cost = 1; /* each fits alone, but not both */
	CHECK(!decide(table, claims, 3, MADE_AT).verdict.allowed);
	CHECK_EQ(left(table, limit, "b", MADE_AT), 4);
	/* The sum does not wrap to one that fits. */
	claims[0].cost = UINT64_MAX;
	claims[2].cost = 2;
	decision = decide(table, claims, 3, MADE_AT + S(9));
	CHECK(!decision.verdict.allowed && decision.verdict.never);
	claims[0].cost = claims[2].cost = UINT64_C(1) << 63;
	CHECK(decide(table, claims, 3, MADE_AT + S(9)).verdict.never);
	CHECK_EQ(left(table, limit, "a", MADE_AT + S(9)), 5);
	/* Only itself, twice. */
	claims[0].cost = 2;
	claims[1] = claims[2] = claims[0];
	CHECK(!decide(table, claims, 3, MADE_AT + S(9)).verdict.allowed);
	CHECK(decide(table, claims, 2, MADE_AT + S(9)).verdict.allowed);
	CHECK_EQ(left(table, limit, "a", MADE_AT + S(9)), 1);
	weir_table_free(table);
}

static void count_all_counts_the_attempt(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *const counts = limit_in(table, "5/min fixed_window count all");
	const struct weir_table_limit *const other = limit_in(table, "1/min");
	const struct weir_claim claims[] = { { counts, "a", 1, 1 }, { other, "a", 1, 1 } };
	struct weir_decision decision = decide(table, claims, 2, MADE_AT);

	CHECK(decision.verdict.allowed);
	for (uint64_t i = 0; i < 4; i++) { /* the other limit denies, and this one counts */
		decision = decide(table, claims, 2, MADE_AT);
		CHECK(!decision.verdict.allowed);
		CHECK_EQ(decision.decided_by, 1);
		CHECK_EQ(left(table, counts, "a", MADE_AT), 3 - i);
	}
	CHECK(weir_table_reset(table, other, "a", 1));
	CHECK(!decide(table, claims, 2, MADE_AT).verdict.allowed); /* now this one denies */
	CHECK_EQ(left(table, other, "a", MADE_AT), 1);
	CHECK_EQ(weir_table_refund(table, counts, "a", 1, MADE_AT, 5).remaining, 4); /* six were counted */
	/* Alone, an attempt counts once, not twice. */
	CHECK(!decide(table, &(struct weir_claim){ counts, "b", 1, 6 }, 1, MADE_AT).verdict.allowed);
	CHECK_EQ(weir_table_refund(table, counts, "b", 1, MADE_AT, 5).remaining, 4);
	weir_table_free(table);
}

/* The attempt uses up what a limit that allowed it has left. That limit did not deny. */
static void a_limit_that_counts_all_and_allowed_is_not_named(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *const counts = limit_in(table, "1/min fixed_window align first count all");
	const struct weir_table_limit *const other = limit_in(table, "1/s");
	const struct weir_claim claims[] = { { counts, "a", 1, 1 }, { other, "a", 1, 1 } };
	struct weir_table_limit_stats stats;
	struct weir_verdict verdicts[2];
	struct weir_decision decision;

	CHECK(weir_table_allow(table, other, "a", 1, MADE_AT, 1));
	CHECK_EQ(weir_table_decide(table, claims, 2, MADE_AT, verdicts, &decision), WEIR_OK);
	CHECK(!decision.verdict.allowed && decision.decided_by == 1);
	CHECK(decision.verdict.retry_after == S(1) && decision.verdict.reset_after == S(1));
	CHECK(verdicts[0].allowed && verdicts[0].remaining == 0 && verdicts[0].retry_after == S(60));
	weir_table_limit_stats(table, counts, &stats);
	CHECK(stats.allowed == 0 && stats.denied == 0);
	CHECK_EQ(weir_table_decide(table, claims, 2, MADE_AT, verdicts, &decision), WEIR_OK);
	CHECK(!verdicts[0].allowed && decision.decided_by == 0 && decision.verdict.retry_after == S(60));
	weir_table_free(table);
}

static void one_to_sixteen_claims(void)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "1/min");
	struct weir_decision decision = { .decided_by = 99 };
	struct weir_claim claims[MOST + 1];

	for (size_t i = 0; i <= MOST; i++)
		claims[i] = (struct weir_claim){ limit, &"0123456789abcdefg"[i], 1, 1 };
	CHECK_EQ(weir_table_decide(table, claims, 0, MADE_AT, NULL, &decision), WEIR_ERR_LIMIT);
	CHECK_EQ(weir_table_decide(table, claims, MOST + 1, MADE_AT, NULL, &decision), WEIR_ERR_LIMIT);
	CHECK_EQ(weir_table_decide(table, claims, SIZE_MAX, MADE_AT, NULL, &decision), WEIR_ERR_LIMIT);
	CHECK_EQ(decision.decided_by, 99);
	CHECK_EQ(stats_of(table, MADE_AT).live, 0);
	CHECK(decide(table, claims, MOST, MADE_AT).verdict.allowed);
	CHECK_EQ(stats_of(table, MADE_AT).live, MOST);
	CHECK(!decide(table, claims + 1, MOST, MADE_AT).verdict.allowed); /* the last one is new, the others are not */
	CHECK_EQ(stats_of(table, MADE_AT).live, MOST);
	CHECK_EQ(weir_table_decide(table, claims + MOST, 1, MADE_AT, NULL, &decision), WEIR_OK);
	CHECK(decision.verdict.allowed);
	CHECK_EQ(stats_of(table, MADE_AT).live, MOST + 1);
	weir_table_free(table);
}

static void nothing_costs_nothing(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "1/min");
	const struct weir_claim claims[] = { { limit, "a", 1, 0 }, { limit, "b", 1, 1 } };

	CHECK(weir_table_allow(table, limit, "a", 1, MADE_AT, 1)); /* a is used up, and is not needed */
	CHECK(decide(table, claims, 2, MADE_AT).verdict.allowed);
	CHECK(!decide(table, claims, 2, MADE_AT).verdict.allowed);
	CHECK(decide(table, claims, 1, MADE_AT).verdict.allowed);
	weir_table_free(table);
}

/* --- compared with a serial model ------------------------------------------------------------------------------- */

/* A key of a limit: its core state, and its part in the current decision. */
struct subject {
	const struct weir_table_limit *limit;
	uint32_t key;
	struct weir_state state;
	uint64_t cost;
	bool is_claimed;
	struct weir_verdict verdict;
};

static struct weir_verdict step(struct subject *subject, weir__step *core_step, weir_ns now)
{
	return core_step(&subject->limit->first.plan, &subject->state, now, subject->cost);
}

static bool decides_more(const struct weir_verdict *a, const struct weir_verdict *b)
{
	if (a->allowed || b->allowed)
		return a->allowed && b->allowed ? a->remaining < b->remaining : b->allowed;
	return a->never ? !b->never : !b->never && a->retry_after > b->retry_after;
}

/* As the header promises: look at all, charge all or none, and count the attempt in limits with count all. */
static struct weir_decision model(struct subject *const *of_claims, size_t n, struct subject *subjects,
				  size_t n_subjects, weir_ns now)
{
	struct weir_decision decision = { .decided_by = 0 };
	struct weir_verdict verdicts[MOST];
	bool allowed = true;

	for (size_t i = 0; i < n; i++) {
		of_claims[i]->verdict = step(of_claims[i], weir_step_peek, now);
		allowed = allowed && of_claims[i]->verdict.allowed;
	}
	for (size_t i = 0; allowed && i < n_subjects; i++)
		if (subjects[i].is_claimed)
			subjects[i].verdict = step(&subjects[i], weir_step_take, now);
	for (size_t i = 0; !allowed && i < n_subjects; i++) {
		const bool was_allowed = subjects[i].verdict.allowed;

		if (!subjects[i].is_claimed || !weir_table_limit_limit(subjects[i].limit).count_all)
			continue;
		step(&subjects[i], weir_step_take, now);
		subjects[i].verdict = step(&subjects[i], weir_step_peek, now);
		subjects[i].verdict.allowed = was_allowed;
	}
	for (size_t i = 1; i < n; i++)
		if (decides_more(&of_claims[i]->verdict, &of_claims[decision.decided_by]->verdict))
			decision.decided_by = i;
	for (size_t i = 0; i < n; i++)
		verdicts[i] = of_claims[i]->verdict;
	decision.verdict = verdicts[decision.decided_by];
	decision.verdict.delay = weir_verdict_join(verdicts, n).delay;
	return decision;
}

static bool check_decision(struct weir_table *table, struct subject *subjects, size_t n_subjects, weir_ns now)
{
	const size_t n = 1 + below(below(4) ? 4 : MOST);
	struct subject *of_claims[MOST];
	struct weir_verdict verdicts[MOST];
	struct weir_claim claims[MOST];
	struct weir_decision found, expected;

	for (size_t i = 0; i < n_subjects; i++) {
		subjects[i].cost = 0;
		subjects[i].is_claimed = false;
	}
	for (size_t i = 0; i < n; i++) {
		struct subject *const subject = of_claims[i] = &subjects[below(n_subjects)];
		const uint64_t cost = below(200) ? below(3) : below(2) ? UINT64_MAX - below(2) : below(30);

		claims[i] = (struct weir_claim){ subject->limit, &subject->key, sizeof(subject->key), cost };
		subject->is_claimed = true;
		subject->cost = weir__add_saturating(subject->cost, cost);
	}
	CHECK_EQ(weir_table_decide(table, claims, n, now, verdicts, &found), WEIR_OK);
	expected = model(of_claims, n, subjects, n_subjects, now);
	CHECK_VERDICT("decided", &found.verdict, &expected.verdict);
	CHECK_EQ(found.decided_by, expected.decided_by);
	for (size_t i = 0; i < n; i++) {
		CHECK_VERDICT("of a claim", &verdicts[i], &of_claims[i]->verdict);
		if (of_claims[i]->limit->first.plan.kind == WEIR_KIND_WINDOW)
			of_claims[i]->state.hi = weir__min(of_claims[i]->state.hi, of_claims[i]->limit->first.is_by_ms ?
											   WEIR_TABLE_WINDOW_MAX :
											   WEIR_TABLE_COUNT_MAX);
	}
	return found.verdict.allowed;
}

static void decisions_are_those_of_the_model(void)
{
	struct weir_table *const table = table_for(10 * KEYS * KINDS, MADE_AT);
	static struct subject subjects[KEYS * KINDS];
	unsigned allowed = 0;
	weir_ns time = MADE_AT;

	for (uint32_t i = 0; i < KEYS * KINDS; i++)
		subjects[i] = (struct subject){ .limit = limit_in(table, of_each_kind[i % KINDS]), .key = i };
	for (int i = 0; i < DECISIONS && !check_failed; i++) {
		allowed += check_decision(table, subjects, KEYS * KINDS, time - below(MS(10)));
		time += below(500) ? below(MS(60)) : below(S(5));
	}
	CHECK(allowed > DECISIONS / 10 && allowed < DECISIONS - DECISIONS / 10);
	CHECK_EQ(stats_of(table, time).evicted, 0);
	CHECK_EQ(stats_of(table, time).lost_races, 0);
	weir_table_free(table);
}

TESTS(TEST(all_or_nothing), TEST(it_names_the_limit_that_decided), TEST(duplicates_are_one_claim),
      TEST(count_all_counts_the_attempt), TEST(a_limit_that_counts_all_and_allowed_is_not_named),
      TEST(one_to_sixteen_claims), TEST(nothing_costs_nothing), TEST(decisions_are_those_of_the_model))
