/* guard_swap_test.c: one policy replaces another. Every reply comes entirely from the old or from the new policy, and
 * the charges match the replies. The test stops a request before each of its accesses to the table and changes the
 * policy there. It also stops the change before each access and sends requests, or changes the same limit. Then threads
 * send requests while policies change.
 *
 *     guard_swap_test [CHANGES] */
/* Covers: src/guard/epoch.c */
#include <weir/guard.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../policy/envoys.h"
#include "../store/table/stopper.h"

static const weir_ns start = UINT64_C(1700000000000000000);

enum { ANSWER = 160 };

/* `all` and `user` are enforced, `canary` is in shadow. */
#define DESCRIPTORS(all, user, canary)                                                                                 \
	"domain: shop\ndescriptors:\n"                                                                                 \
	"  - {key: all, rate_limit: {unit: day, requests_per_unit: " #all "}}\n"                                       \
	"  - {key: user, rate_limit: {unit: day, requests_per_unit: " #user "}}\n"                                     \
	"  - {key: canary, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: " #canary "}}\n"

/* After two requests by the policy `before`, a request is decided by it (`old`) or by the policy `after` (`new`). A
 * request by the policy `after` then has the reply `next_of_old` or `next_of_new`. */
static const struct row {
	const char *what, *before, *after;
	const char *old, *new;
	const char *next_of_old, *next_of_new;
	uint32_t options; /* of weir_policy_read_envoy */
} rows[] = {
	{ "a window", "{name: a, key: user, limit: 10/day fixed_window}",
	  "{name: a, key: user, limit: 2/day fixed_window}", "allowed 10 7 1 a 0", "denied 2 0 1 a 0",
	  "denied 2 0 1 a 0", "denied 2 0 1 a 0", 0 },
	{ "a bucket", "{name: a, key: user, limit: 10/day}", "{name: a, key: user, limit: 10/day burst 8}",
	  "allowed 10 7 1 a 0", "allowed 8 5 1 a 0", "allowed 8 4 1 a 0", "allowed 8 4 1 a 0", 0 },
	{ "a log", "{name: a, key: user, limit: 10/day sliding_log}", "{name: a, key: user, limit: 2/day sliding_log}",
	  "allowed 10 7 1 a 0", "denied 2 0 1 a 0", "denied 2 0 1 a 0", "denied 2 0 1 a 0", 0 },
	{ "the limit of an override",
	  "{name: a, key: user, limit: 90/day, overrides: [{when: {plan: gold}, limit: 10/day fixed_window}]}",
	  "{name: a, key: user, limit: 80/day, overrides: [{when: {plan: gold}, limit: 20/day fixed_window}]}",
	  "allowed 10 7 1 a|plan=gold 0", "allowed 20 17 1 a|plan=gold 0", "allowed 20 16 1 a|plan=gold 0",
	  "allowed 20 16 1 a|plan=gold 0", 0 },
	{ "two limits", "{name: a, key: user, limit: 10/day fixed_window}\n  - {name: b, limit: 11/day fixed_window}",
	  "{name: a, key: user, limit: 21/day fixed_window}\n  - {name: b, limit: 20/day fixed_window}",
	  "allowed 10 7 2 a 0", "allowed 20 17 2 b 0", "allowed 20 16 2 b 0", "allowed 20 16 2 b 0", 0 },
	{ "two limits, of which one comes to deny",
	  "{name: a, key: user, limit: 10/day fixed_window}\n  - {name: b, limit: 11/day fixed_window}",
	  "{name: a, key: user, limit: 12/day fixed_window}\n  - {name: b, limit: 2/day fixed_window}",
	  "allowed 10 7 2 a 0", "denied 2 0 2 b 0", "denied 2 0 2 b 0", "denied 2 0 2 b 0", 0 },
	{ "a bucket and a log", "{name: a, key: user, limit: 10/day}\n  - {name: b, limit: 11/day sliding_log}",
	  "{name: a, key: user, limit: 21/day burst 10}\n  - {name: b, limit: 9/day sliding_log}", "allowed 10 7 2 a 0",
	  "allowed 9 6 2 b 0", "allowed 9 5 2 b 0", "allowed 9 5 2 b 0", 0 },
	{ "one limit more", "{name: a, key: user, limit: 10/day fixed_window}",
	  "{name: a, key: user, limit: 9/day fixed_window}\n  - {name: b, limit: 5/day fixed_window}",
	  "allowed 10 7 1 a 0", "allowed 5 4 2 b 0", "allowed 5 4 2 b 0", "allowed 5 3 2 b 0", 0 },
	{ "one limit less",
	  "{name: a, key: user, limit: 10/day fixed_window}\n  - {name: b, limit: 5/day fixed_window}",
	  "{name: a, key: user, limit: 9/day fixed_window}", "allowed 5 2 2 b 0", "allowed 9 6 1 a 0",
	  "allowed 9 5 1 a 0", "allowed 9 5 1 a 0", 0 },
	{ "a limit in shadow", "{name: a, limit: 10/day}\n  - {name: b, limit: 9/day fixed_window, mode: shadow}",
	  "{name: a, limit: 10/day burst 9}\n  - {name: b, limit: 2/day fixed_window, mode: shadow}",
	  "allowed 10 7 2 a 0", "allowed 9 6 2 a 1", "allowed 9 5 2 a 1", "allowed 9 5 2 a 1", 0 },
	{ .what = "descriptors, all or none",
	  .before = DESCRIPTORS(10, 11, 12),
	  .after = DESCRIPTORS(22, 21, 2),
	  .old = "allowed 10 7 3 shop|all 0: 10 7, 11 8, 12 9",
	  .new = "allowed 21 18 3 shop|user 1: 22 19, 21 18, 2 0",
	  .next_of_old = "allowed 21 17 3 shop|user 1: 22 18, 21 17, 2 0",
	  .next_of_new = "allowed 21 17 3 shop|user 1: 22 18, 21 17, 2 0" },
	{ .what = "descriptors, of which one comes to deny",
	  .before = DESCRIPTORS(10, 11, 12),
	  .after = DESCRIPTORS(22, 2, 12),
	  .old = "allowed 10 7 3 shop|all 0: 10 7, 11 8, 12 9",
	  .new = "denied 2 0 3 shop|user 0: 22 20, 2 0, 12 10",
	  .next_of_old = "denied 2 0 3 shop|user 0: 22 19, 2 0, 12 9",
	  .next_of_new = "denied 2 0 3 shop|user 0: 22 20, 2 0, 12 10" },
	{ .what = "descriptors, each counted",
	  .before = DESCRIPTORS(10, 11, 12),
	  .after = DESCRIPTORS(22, 21, 20),
	  .old = "allowed 10 7 3 shop|all 0: 10 7, 11 8, 12 9",
	  .new = "allowed 21 18 3 shop|user 0: 22 19, 21 18, 20 17",
	  .next_of_old = "allowed 21 17 3 shop|user 0: 22 18, 21 17, 20 16",
	  .next_of_new = "allowed 21 17 3 shop|user 0: 22 18, 21 17, 20 16",
	  .options = WEIR_ENVOY_COUNT_EACH },
	{ "one that counts all", "{name: a, limit: 10/day fixed_window count all}",
	  "{name: a, limit: 20/day fixed_window count all}", "allowed 10 7 1 a 0", "allowed 20 17 1 a 0",
	  "allowed 20 16 1 a 0", "allowed 20 16 1 a 0", 0 },
};

static struct {
	const struct row *row;
	struct weir_table *table;
	struct weir_guard *guard;
	struct weir_policy *next;
	pthread_t changer;
	bool is_changing;
	char answers[2][ANSWER];
} stage;

static bool is_envoys(const struct row *row)
{
	return strncmp(row->before, "domain:", 7) == 0;
}

static struct weir_policy *policy_of_limits(const char *limits)
{
	char text[512];
	struct weir_policy *policy;

	(void)snprintf(text, sizeof(text), "limits:\n  - %s\n", limits);
	policy = policy_of(text);
	CHECK_TEXT(reported, "");
	return policy;
}

static struct weir_policy *policy_of_row(const struct row *row, const char *text)
{
	struct weir_policy *policy;

	if (!is_envoys(row))
		return policy_of_limits(text);
	policy = envoy_of(text, row->options);
	CHECK_TEXT(reported, "");
	return policy;
}

static void ask_descriptors(char answer[ANSWER], struct weir_guard_answer *ret_answer)
{
	struct weir_guard_status statuses[WEIR_DESCRIPTORS_MAX];
	struct weir_message why;
	struct request request;

	request_of(WORDS("all=1", "user=ann", "canary=1"), &request);
	CHECK(weir_guard_check_descriptors(stage.guard, "shop", 4, request.descriptors, request.n, 1, start, ret_answer,
					   statuses, &why) == WEIR_OK);
	(void)snprintf(answer, ANSWER, ": %" PRIu64 " %" PRIu64 ", %" PRIu64 " %" PRIu64 ", %" PRIu64 " %" PRIu64,
		       statuses[0].verdict.limit, statuses[0].verdict.remaining, statuses[1].verdict.limit,
		       statuses[1].verdict.remaining, statuses[2].verdict.limit, statuses[2].verdict.remaining);
}

static void ask(char answer[ANSWER])
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(WORDS("user=ann", "plan=gold"), attributes);
	char statuses[ANSWER] = "";
	struct weir_guard_answer of;
	struct weir_message why;

	if (is_envoys(stage.row))
		ask_descriptors(statuses, &of);
	else
		CHECK(weir_guard_check(stage.guard, attributes, n, 1, start, &of, &why) == WEIR_OK);
	(void)snprintf(answer, ANSWER, "%s %" PRIu64 " %" PRIu64 " %zu %s %zu%.60s",
		       of.verdict.allowed ? "allowed" : "denied", of.verdict.limit, of.verdict.remaining, of.limits,
		       of.decided_by, of.shadow_denied, statuses);
}

static void begin(const struct row *row)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 16) + (1 << 18),
						    .limits_max = 16,
						    .arena_bytes = 1 << 18,
						    .made_at = start };
	struct weir_message why = { 0 };

	stage.row = row;
	stage.is_changing = false;
	if (weir_table_new(&options, &stage.table, &why) != WEIR_OK ||
	    weir_guard_new(stage.table, policy_of_row(row, row->before), &stage.guard, &why) != WEIR_OK) {
		check_fail(__FILE__, __LINE__, why.text);
		exit(1);
	}
	stage.next = policy_of_row(row, row->after);
	for (int i = 0; i < 2; i++)
		ask(stage.answers[0]);
	stage.answers[0][0] = stage.answers[1][0] = '\0';
}

static void end(void)
{
	if (stage.is_changing)
		(void)pthread_join(stage.changer, NULL);
	weir_guard_free(stage.guard);
	weir_table_free(stage.table);
}

static void fail_row(unsigned accesses, const char *found)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "%s, stopped after %u: %s; it is %s, or %s", stage.row->what, accesses,
		       found, stage.row->old, stage.row->new);
	check_fail(__FILE__, __LINE__, text);
}

static void change(void)
{
	struct weir_message why;

	CHECK(weir_guard_change(stage.guard, stage.next, start, &why) == WEIR_OK);
}

static void *change_beside(void *nothing)
{
	change();
	return nothing;
}

/* Returns when the policy is replaced and all its limits are changed. The change then waits for the stopped request. */
static void let_change(void)
{
	stage.is_changing = true;
	(void)pthread_create(&stage.changer, NULL, change_beside, NULL);
	while (weir_guard_changes(stage.guard) == 0)
		(void)sched_yield();
}

static void ask_once(void)
{
	ask(stage.answers[0]);
}

/* Checks the next reply after `answer`. */
static void check_next(unsigned accesses, const char *answer)
{
	char next[ANSWER];

	ask(next);
	if (strcmp(answer, stage.row->old) == 0)
		CHECK_TEXT(next, stage.row->next_of_old);
	else if (strcmp(answer, stage.row->new) == 0)
		CHECK_TEXT(next, stage.row->next_of_new);
	else
		fail_row(accesses, answer);
}

static void requests_are_stopped(void)
{
	table_hook = on_access;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool has_stopped = true;

		for (unsigned accesses = 0; has_stopped; accesses++) {
			begin(&rows[i]);
			has_stopped = stop_after(accesses, ask_once, let_change);
			if (!has_stopped)
				let_change();
			check_next(accesses, stage.answers[0]);
			end();
		}
	}
	table_hook = NULL;
}

static int refusal;

static void ask_refused(void)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(WORDS("user=ann", "plan=gold"), attributes);
	struct weir_guard_answer answer;
	struct weir_message why;

	refusal = weir_guard_check(stage.guard, attributes, n, 1, start, &answer, &why);
}

/* The new policy rejects the request: its cost is not a number. */
static void the_new_policy_refuses(void)
{
	static const struct row row = { .what = "a cost",
					.before = "{name: a, key: user, limit: 10/day}",
					.after = "{name: a, key: user, cost: {attribute: plan}, limit: 20/day}" };
	bool has_stopped = true, was_refused = false;

	table_hook = on_access;
	for (unsigned accesses = 0; has_stopped; accesses++) {
		begin(&row);
		has_stopped = stop_after(accesses, ask_refused, let_change);
		CHECK(refusal == WEIR_OK || (has_stopped && refusal == WEIR_ERR_LIMIT));
		was_refused |= refusal == WEIR_ERR_LIMIT;
		end();
		if (!has_stopped)
			weir_policy_free(stage.next);
	}
	CHECK(was_refused);
	table_hook = NULL;
}

/* Once the new policy has decided a request, the old one decides no more. */
static void ask_until_new(void)
{
	ask(stage.answers[0]);
	if (strcmp(stage.answers[0], stage.row->new) == 0) {
		ask(stage.answers[1]);
		CHECK_TEXT(stage.answers[1], stage.row->next_of_new);
	}
}

static void changes_are_stopped(void)
{
	table_hook = on_access;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool has_stopped = true;

		for (unsigned accesses = 0; has_stopped; accesses++) {
			begin(&rows[i]);
			has_stopped = stop_after(accesses, change, ask_until_new);
			if (!has_stopped)
				ask_until_new();
			if (stage.answers[1][0] == '\0')
				check_next(accesses, stage.answers[0]);
			end();
		}
	}
	table_hook = NULL;
}

static void change_by_call(void)
{
	const struct weir_limit fifteen = weir_limit_of(WEIR_FIXED_WINDOW, 15, UINT64_C(86400000000000));
	const struct weir_table_limit *limit;
	struct weir_message why;

	CHECK(weir_table_find_limit(stage.table, "a", &fifteen, &limit, &why) == WEIR_OK);
	CHECK(weir_table_change_limit(stage.table, limit, &fifteen, start, &why) == WEIR_OK);
}

/* Neither change blocks the other, and the last one wins. */
static void limits_are_changed_by_others(void)
{
	static const struct {
		const char *what, *others;
	} both[] = { { "a window", "allowed 15 12 1 a 0" }, { "two limits", "allowed 15 12 2 a 0" } };

	table_hook = on_access;
	for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
		const struct row *row = rows;
		bool has_stopped = true;

		while (strcmp(row->what, both[i].what) != 0)
			row++;
		for (unsigned accesses = 0; has_stopped; accesses++) {
			begin(row);
			has_stopped = stop_after(accesses, change, change_by_call);
			CHECK_EQ(weir_guard_changes(stage.guard), 1);
			ask(stage.answers[0]);
			if (strcmp(stage.answers[0], both[i].others) != 0 || !has_stopped)
				CHECK_TEXT(stage.answers[0], row->new);
			end();
		}
	}
	table_hook = NULL;
}

/* --- threads ---------------------------------------------------------------------------------------------------- */

enum { DECIDERS = 3, VERSIONS = 4, LIMITS = 3, ASKED_A_CHANGE = 5000 /* at most: no limit is ever used up */ };
static uint32_t changes = 60;

/* Every version has `a`, with other numbers each time. `b` and `c` come, go and change. The numbers of a reply tell its
 * version. */
static const struct version {
	const char *limits;
	uint64_t limit;
	size_t n;
	const char *decided_by;
	bool has[LIMITS];
} versions[VERSIONS] = {
	{ "{name: a, key: user, limit: 100000001/day fixed_window}", 100000001, 1, "a", { true } },
	{ "{name: a, key: user, limit: 200000000/day fixed_window}\n  - {name: b, limit: 100000002/day fixed_window}",
	  100000002,
	  2,
	  "b",
	  { true, true } },
	{ "{name: a, key: user, limit: 100000003/day fixed_window}\n  - {name: b, limit: 200000001/day fixed_window}\n"
	  "  - {name: c, key: plan, limit: 200000002/day fixed_window}",
	  100000003,
	  3,
	  "a",
	  { true, true, true } },
	{ "{name: c, key: plan, limit: 100000004/day fixed_window}\n"
	  "  - {name: a, key: user, limit: 200000003/day fixed_window}",
	  100000004,
	  2,
	  "c",
	  { true, false, true } },
};

struct crowd {
	struct weir_guard *guard;
	_Atomic bool is_over;
	_Atomic uint64_t answers[VERSIONS], wrong;
	_Atomic int64_t left; /* requests until the next change */
};

static struct weir_guard_answer ask_crowd(struct weir_guard *guard, uint64_t cost)
{
	struct weir_attribute attributes[WORDS_MAX];
	const size_t n = attributes_of(WORDS("user=ann", "plan=gold"), attributes);
	struct weir_guard_answer answer = { .limits = 99 };
	struct weir_message why;

	CHECK(weir_guard_check(guard, attributes, n, cost, start, &answer, &why) == WEIR_OK);
	return answer;
}

static int version_of(const struct weir_guard_answer *answer)
{
	for (int i = 0; i < VERSIONS; i++)
		if (answer->verdict.allowed && answer->verdict.limit == versions[i].limit &&
		    answer->limits == versions[i].n && strcmp(answer->decided_by, versions[i].decided_by) == 0)
			return i;
	return -1;
}

static void *decide(void *crowd_)
{
	struct crowd *const crowd = crowd_;

	while (!atomic_load(&crowd->is_over)) {
		struct weir_guard_answer answer;
		int version;

		if (atomic_fetch_sub(&crowd->left, 1) <= 0) {
			(void)sched_yield();
			continue;
		}
		answer = ask_crowd(crowd->guard, 1);
		version = version_of(&answer);
		atomic_fetch_add(version < 0 ? &crowd->wrong : &crowd->answers[version], 1);
	}
	return NULL;
}

/* Each limit was charged once for each reply of a version that has it. */
static void check_charges(const struct crowd *crowd, struct weir_table *table)
{
	static const char *const names[LIMITS] = { "a", "b", "c" }, *const keys[LIMITS] = { "ann", "", "gold" };

	for (int i = 0; i < LIMITS; i++) {
		const struct weir_limit any = weir_limit_of(WEIR_FIXED_WINDOW, 1, UINT64_C(86400000000000));
		const struct weir_table_limit *limit;
		struct weir_verdict verdict;
		struct weir_message why;
		uint64_t expected = 0;

		for (int k = 0; k < VERSIONS; k++)
			expected += versions[k].has[i] ? atomic_load(&crowd->answers[k]) : 0;
		CHECK(weir_table_find_limit(table, names[i], &any, &limit, &why) == WEIR_OK);
		verdict = weir_table_peek(table, limit, keys[i], strlen(keys[i]), start, 1);
		CHECK_EQ(verdict.limit - verdict.remaining, expected);
	}
}

static void threads_ask(void)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 16),
						    .limits_max = 16,
						    .made_at = start };
	struct crowd crowd = { .left = ASKED_A_CHANGE };
	pthread_t threads[DECIDERS];
	struct weir_message why;
	struct weir_table *table;

	CHECK(weir_table_new(&options, &table, &why) == WEIR_OK);
	CHECK(weir_guard_new(table, policy_of_limits(versions[0].limits), &crowd.guard, &why) == WEIR_OK);
	for (int i = 0; i < DECIDERS; i++)
		(void)pthread_create(&threads[i], NULL, decide, &crowd);
	for (uint32_t i = 1; i <= changes; i++) {
		struct weir_policy *const next = policy_of_limits(versions[i % VERSIONS].limits);
		const uint64_t before = atomic_load(&crowd.answers[i % VERSIONS]);

		if (weir_guard_change(crowd.guard, next, start, &why) != WEIR_OK) {
			check_fail(__FILE__, __LINE__, why.text);
			break;
		}
		atomic_store(&crowd.left, ASKED_A_CHANGE);
		while (atomic_load(&crowd.answers[i % VERSIONS]) == before && atomic_load(&crowd.wrong) == 0)
			(void)sched_yield();
	}
	atomic_store(&crowd.is_over, true);
	for (int i = 0; i < DECIDERS; i++)
		(void)pthread_join(threads[i], NULL);
	CHECK_EQ(atomic_load(&crowd.wrong), 0);
	check_charges(&crowd, table);
	weir_guard_free(crowd.guard);
	weir_table_free(table);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = { TEST(requests_are_stopped), TEST(the_new_policy_refuses),
						   TEST(changes_are_stopped), TEST(limits_are_changed_by_others),
						   TEST(threads_ask) };

	if (argc > 1)
		changes = (uint32_t)strtoul(argv[1], NULL, 10);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
