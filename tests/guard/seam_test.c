/* A guard whose limits another store decides: requests are run until all is known, and are answered as by a table. */
#include <weir/guard.h>

#include <pthread.h>
#include <time.h>

#include "../policy/envoys.h"
#include "guard/guard.h"
#include "guard/seam.h"
#include "guards.h"
#include "store/table.h"

static const weir_ns start = UINT64_C(1700000040000000000);

enum { NOTES_MAX = 128, ROUNDS = 12 };

/* A store that decides by the table of the guard, and answers in the next run. */
struct store {
	struct weir__seam seam; /* the first: so it leads here */
	struct weir_table *table;
	weir_ns now;
	struct note {
		enum weir__seam_operation operation;
		size_t n;
		struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
	} notes[NOTES_MAX];
	size_t n, at; /* notes; the one that is asked for next in this run */
	unsigned runs;
};

static bool ask(struct weir__seam *seam, enum weir__seam_operation operation, const struct weir_claim *claims, size_t n,
		struct weir_verdict *ret_verdicts)
{
	struct store *const store = (struct store *)seam;
	struct note *const note = &store->notes[store->at++];
	struct weir_decision decision;

	if (store->at <= store->n) {
		CHECK(note->operation == operation && note->n == n);
		memcpy(ret_verdicts, note->verdicts, n * sizeof(*ret_verdicts));
		return true;
	}
	store->n = store->at;
	note->operation = operation;
	note->n = n;
	if (operation == WEIR__SEAM_TAKE)
		CHECK(weir_table_decide(store->table, claims, n, store->now, note->verdicts, &decision) == WEIR_OK);
	else
		note->verdicts[0] = weir_table_peek(store->table, claims->limit, claims->key, claims->key_length,
						    store->now, claims->cost);
	return false;
}

static void begin(struct store *store, struct weir_table *table, weir_ns now)
{
	memset(store, 0, sizeof(*store));
	store->seam.ask = ask;
	store->table = table;
	store->now = now;
}

static bool is_to_run(struct store *store)
{
	const bool is_first = store->runs++ == 0, is_again = store->seam.is_not_yet;

	store->seam.is_not_yet = false;
	store->at = 0;
	return is_first || is_again;
}

static void check_same(const struct weir_verdict *a, const struct weir_verdict *b)
{
	CHECK(a->allowed == b->allowed && a->never == b->never);
	CHECK_EQ(a->limit, b->limit);
	CHECK_EQ(a->remaining, b->remaining);
	CHECK_EQ(a->granted, b->granted);
	CHECK_EQ(a->retry_after, b->retry_after);
	CHECK_EQ(a->reset_after, b->reset_after);
}

static void check_same_answer(const struct weir_guard_answer *a, const struct weir_guard_answer *b)
{
	check_same(&a->verdict, &b->verdict);
	CHECK_EQ(a->limits, b->limits);
	CHECK_EQ(a->shadow_denied, b->shadow_denied);
	CHECK(a->is_limited == b->is_limited);
	CHECK_TEXT(a->decided_by, b->decided_by);
}

static const char limits[] =
	"limits:\n"
	"  - {name: all, limit: 9/min}\n"
	"  - {name: each, key: user, limit: 4/min, overrides: [{when: {plan: gold}, limit: 6/min}]}\n"
	"  - {name: dark, key: user, limit: 2/min, mode: shadow}\n"
	"  - {name: darker, key: user, limit: 3/min fixed_window, mode: shadow}\n";

static void attributes_are_decided_as_by_the_table(void)
{
	struct weir_table *tables[2];
	struct weir_guard *const by_table = guard_over(policy_of(limits), start, &tables[0]);
	struct weir_guard *const by_store = guard_over(policy_of(limits), start, &tables[1]);
	static const char *const users[] = { "user=ann", "user=bob" };
	static struct store store;
	struct weir_message why;

	for (unsigned i = 0; i < ROUNDS; i++) {
		const weir_ns now = start + i * UINT64_C(1000000);
		struct weir_attribute attributes[WORDS_MAX];
		const size_t n = attributes_of(WORDS(users[i % 3 == 2], i % 2 ? "plan=gold" : "plan=tin"), attributes);
		struct weir_guard_answer expected, answer;

		CHECK(weir_guard_check(by_table, attributes, n, 1, now, &expected, &why) == WEIR_OK);
		begin(&store, tables[1], now);
		while (is_to_run(&store))
			CHECK(weir__guard_check(by_store, &store.seam, NULL, attributes, n, 1, now, &answer, &why) ==
			      WEIR_OK);
		weir__seam_unpin(&store.seam);
		check_same_answer(&answer, &expected);
		CHECK_EQ(store.runs,
			 4); /* what is enforced, those in shadow together, and all is known; none after that */
	}
	end_guard(by_table, tables[0]);
	end_guard(by_store, tables[1]);
}

static const char config[] = "domain: shop\n"
			     "descriptors:\n"
			     "  - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}\n"
			     "  - {key: path, rate_limit: {unit: minute, requests_per_unit: 5}}\n"
			     "  - {key: canary, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
			     "  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}\n";

static void compare_descriptors(uint32_t options)
{
	struct weir_table *tables[2];
	struct weir_guard *const by_table = guard_over(envoy_of(config, options), start, &tables[0]);
	struct weir_guard *const by_store = guard_over(envoy_of(config, options), start, &tables[1]);
	struct weir_guard_status expected_statuses[WEIR_DESCRIPTORS_MAX], statuses[WEIR_DESCRIPTORS_MAX];
	struct weir_guard_answer expected, answer;
	static struct store store;
	struct weir_message why;
	struct request request;

	for (unsigned i = 0; i < ROUNDS; i++) {
		request_of(i % 2 ? WORDS("user=ann", "path=/a", "canary=x") : WORDS("path=/a", "quota=q", "user=bob"),
			   &request);
		CHECK(weir_guard_check_descriptors(by_table, "shop", 4, request.descriptors, request.n, 1, start,
						   &expected, expected_statuses, &why) == WEIR_OK);
		begin(&store, tables[1], start);
		while (is_to_run(&store))
			CHECK(weir__guard_check_descriptors(by_store, &store.seam, NULL, "shop", 4, request.descriptors,
							    request.n, 1, start, &answer, statuses, &why) == WEIR_OK);
		weir__seam_unpin(&store.seam);
		check_same_answer(&answer, &expected);
		for (size_t j = 0; j < request.n; j++)
			check_same(&statuses[j].verdict, &expected_statuses[j].verdict);
	}
	end_guard(by_table, tables[0]);
	end_guard(by_store, tables[1]);
}

static void descriptors_are_decided_as_by_the_table(void)
{
	compare_descriptors(0);
	compare_descriptors(WEIR_ENVOY_COUNT_EACH);
}

static void *change(void *guard)
{
	struct weir_message why;

	CHECK(weir_guard_change(guard, policy_of("limits: [{name: other, limit: 7/min}]"), start, &why) == WEIR_OK);
	return NULL;
}

static void all_runs_of_a_request_go_by_one_policy(void)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	struct weir_table *table;
	struct weir_guard *const guard = guard_over(policy_of("limits: [{name: one, limit: 5/min}]"), start, &table);
	struct weir_guard_answer answer;
	static struct store store;
	struct weir_message why;
	pthread_t thread;

	begin(&store, table, start);
	CHECK(is_to_run(&store));
	CHECK(weir__guard_check(guard, &store.seam, NULL, NULL, 0, 1, start, &answer, &why) == WEIR_OK);
	CHECK(pthread_create(&thread, NULL, change, guard) == 0);
	while (weir_guard_changes(guard) == 0) /* the next one is in its place, and waits for who reads this one */
		nanosleep(&moment, NULL);
	CHECK(is_to_run(&store));
	CHECK(weir__guard_check(guard, &store.seam, NULL, NULL, 0, 1, start, &answer, &why) == WEIR_OK);
	CHECK(!is_to_run(&store));
	CHECK_TEXT(answer.decided_by, "one");
	CHECK_EQ(answer.verdict.remaining, 4);
	weir__seam_unpin(&store.seam);
	CHECK(pthread_join(thread, NULL) == 0);
	begin(&store, table, start);
	while (is_to_run(&store))
		CHECK(weir__guard_check(guard, &store.seam, NULL, NULL, 0, 1, start, &answer, &why) == WEIR_OK);
	weir__seam_unpin(&store.seam);
	CHECK_TEXT(answer.decided_by, "other");
	end_guard(guard, table);
}

TESTS(TEST(attributes_are_decided_as_by_the_table), TEST(descriptors_are_decided_as_by_the_table),
      TEST(all_runs_of_a_request_go_by_one_policy))
