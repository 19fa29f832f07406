/* table_preempt_test.c: an operation is stopped before each of its accesses to the table. Then another operation runs,
 * completely or until it is stopped itself, and the result must be that of a serial order. Or the first operation never
 * continues, as in a killed process, and no other operation may notice. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "acts.h"
#include "stopper.h"

/* The second of two is stopped at every stride-th access at most. */
static unsigned stride = 16;

/* --- the stage -------------------------------------------------------------------------------------------------- */

static const struct weir_table_limit *other; /* another limit of the table */

static struct weir_verdict take(const char *key, uint64_t cost)
{
	return weir_table_take(stage.table, stage.limit, key, strlen(key), MADE_AT, cost);
}

static void nothing(void)
{
}

static void two_of_key(void)
{
	CHECK(take("key", 2).allowed);
}

static void all_but_one_of_key(void)
{
	CHECK(take("key", 4).allowed);
}

/* All slots belong to keys with more usage than `key` will have. */
static void no_room(void)
{
	for (uint32_t i = 0; i < 16; i++)
		CHECK(weir_table_allow(stage.table, other, &i, sizeof(i), MADE_AT, 100 + i));
}

static void no_room_but_its_own(void)
{
	two_of_key();
	for (uint32_t i = 0; i < 15; i++)
		CHECK(weir_table_allow(stage.table, other, &i, sizeof(i), MADE_AT, 100 + i));
}

/* All slots belong to keys with less usage than `key` will have; the first to be evicted come first, or last. */
static void fill_by_hand(bool is_upwards)
{
	for (uint32_t i = 0; i < 16; i++)
		stage.table->region.slots[i].state = weir__slot_make(
			1000 + i, 0, MADE_AT + S(1) + (is_upwards ? i : 16 - i) * S(1) - stage.table->epoch, 0);
}

static void full_of_less_upwards(void)
{
	fill_by_hand(true);
}

static void full_of_less_downwards(void)
{
	fill_by_hand(false);
}

static void a_claim_left_behind(void)
{
	const uint32_t fingerprint = weir__fingerprint(hash_of(stage.limit, "key", 3));

	stage.table->region.slots[9].state = weir__slot_make(fingerprint, 77, MADE_AT + S(9) - stage.table->epoch,
							     WEIR__SLOT_CLAIMED);
}

static const struct {
	const char *name;
	void (*prepare)(void);
} beginnings[] = {
	{ "nothing", nothing },
	{ "two of key", two_of_key },
	{ "all but one", all_but_one_of_key },
	{ "no room", no_room },
	{ "no room but its own", no_room_but_its_own },
	{ "a claim left behind", a_claim_left_behind },
	{ "full of less, upwards", full_of_less_upwards },
	{ "full of less, downwards", full_of_less_downwards },
};

#define BEGINNINGS (sizeof(beginnings) / sizeof(beginnings[0]))

static void begin(const char *limit, size_t beginning)
{
	stage.table = tiny_table();
	stage.limit = limit_in(stage.table, limit);
	other = limit_in(stage.table, "1/hour burst 200");
	beginnings[beginning].prepare();
	stage.first = stage.second = 99;
}

/* --- operations ------------------------------------------------------------------------------------------------- */

static uint64_t allow_stranger(void)
{
	return weir_table_allow(stage.table, other, "stranger", 8, MADE_AT, 150);
}

static const struct act acts[] = {
	{ "allow 2", allow_two },          { "take 3", take_three }, { "up to 9", up_to_nine },
	{ "refund 1", refund_one },        { "reset", reset },       { "peek", look },
	{ "another key", allow_stranger }, { "undo 2", undo_two },
};

#define ACTS (sizeof(acts) / sizeof(acts[0]))

static size_t first_act, second_act;

static void do_first(void)
{
	stage.first = acts[first_act].act();
}

static void do_second(void)
{
	stage.second = acts[second_act].act();
}

/* --- one operation in between ------------------------------------------------------------------------------------- */

struct outcome {
	uint64_t first, second, left, auth_failures, slots;
};

static struct outcome outcome_and_end(void)
{
	const struct outcome outcome = {
		stage.first,
		stage.second,
		weir_table_peek(stage.table, stage.limit, "key", 3, MADE_AT, 0).remaining,
		weir_table_peek(stage.table, other, "stranger", 8, MADE_AT, 0).remaining,
		slots_with(stage.table, stage.limit, "key", 3),
	};

	weir_table_free(stage.table);
	return outcome;
}

static struct outcome one_after_the_other(const char *limit, size_t beginning, bool second_first)
{
	begin(limit, beginning);
	(second_first ? do_second : do_first)();
	(second_first ? do_first : do_second)();
	return outcome_and_end();
}

struct pair {
	const char *limit;
	size_t beginning;
	struct outcome either[2];
};

static struct pair pair_of(const char *limit, size_t beginning)
{
	return (struct pair){ limit,
			      beginning,
			      { one_after_the_other(limit, beginning, false),
				one_after_the_other(limit, beginning, true) } };
}

/* stops: how far the two had come, in accesses. */
static bool check_outcome(const struct pair *pair, const struct outcome *found, const unsigned stops[2])
{
	if (memcmp(found, &pair->either[0], sizeof(*found)) == 0 ||
	    memcmp(found, &pair->either[1], sizeof(*found)) == 0)
		return true;
	check_fail(__FILE__, __LINE__, "the outcome is of neither order");
	printf("# %s, %s; %s until %u, %s until %u\n", pair->limit, beginnings[pair->beginning].name,
	       acts[first_act].name, stops[0], acts[second_act].name, stops[1]);
	for (size_t i = 0; i < 3; i++) {
		const struct outcome *const o = i == 2 ? found : &pair->either[i];

		printf("# %s: answers %" PRIu64 " %" PRIu64 ", left %" PRIu64 " %" PRIu64 ", slots %" PRIu64 "\n",
		       i == 2 ? "found" : "either", o->first, o->second, o->left, o->auth_failures, o->slots);
	}
	return false;
}

static void check_pair(const char *limit, size_t beginning)
{
	const struct pair pair = pair_of(limit, beginning);

	for (unsigned accesses = 0;; accesses++) {
		struct outcome found;
		bool has_stopped;

		begin(limit, beginning);
		has_stopped = stop_after(accesses, do_first, do_second);
		found = outcome_and_end();
		if (!has_stopped || !check_outcome(&pair, &found, (unsigned[]){ accesses, UINT32_MAX }))
			return;
	}
}

static void check_pairs(const char *limit)
{
	for (size_t beginning = 0; beginning < BEGINNINGS; beginning++)
		for (first_act = 0; first_act < ACTS; first_act++)
			for (second_act = 0; second_act < ACTS; second_act++)
				check_pair(limit, beginning);
}

static void a_bucket_is_asked_by_another_in_between(void)
{
	check_pairs("5/hour");
}

static void a_window_is_asked_by_another_in_between(void)
{
	check_pairs("5/hour fixed_window align first");
}

/* --- both stopped ----------------------------------------------------------------------------------------------- */

/* Two threads that take turns: one runs until it is stopped or done. */
static struct runner {
	sem_t go;
	unsigned accesses, stop_at;
	bool is_done;
	void (*operation)(void);
} runners[2];

static sem_t has_paused;
static __thread struct runner *self;

static void pause_at_access(const void *at)
{
	(void)at;
	if (self == NULL || self->accesses++ != self->stop_at)
		return;
	sem_post(&has_paused);
	sem_wait(&self->go);
}

static void *run(void *runner)
{
	self = runner;
	for (;;) {
		sem_wait(&self->go);
		if (self->operation == NULL)
			return NULL;
		self->operation();
		self->is_done = true;
		sem_post(&has_paused);
	}
}

static void let_run(struct runner *runner)
{
	if (runner->is_done)
		return;
	sem_post(&runner->go);
	sem_wait(&has_paused);
}

/* Runs the first until its n-th access, the second until its m-th, then the first to its end, then the second. False:
 * one of them has fewer accesses. */
static bool run_both(unsigned n, unsigned m, bool *ret_first_stopped)
{
	bool second_stopped;

	for (size_t i = 0; i < 2; i++) {
		runners[i].accesses = 0;
		runners[i].stop_at = i == 0 ? n : m;
		runners[i].is_done = false;
	}
	let_run(&runners[0]);
	*ret_first_stopped = !runners[0].is_done;
	let_run(&runners[1]);
	second_stopped = !runners[1].is_done;
	let_run(&runners[0]);
	let_run(&runners[1]);
	return *ret_first_stopped && second_stopped;
}

static void stop_both(const char *limit, size_t beginning)
{
	const struct pair pair = pair_of(limit, beginning);
	bool first_stopped = true;

	for (unsigned n = 0; first_stopped; n++) {
		bool both_stopped = true;

		for (unsigned m = (unsigned)below(stride); both_stopped; m += 1 + (unsigned)below(stride)) {
			struct outcome found;

			begin(limit, beginning);
			both_stopped = run_both(n, m, &first_stopped);
			found = outcome_and_end();
			if (!check_outcome(&pair, &found, (unsigned[]){ n, m }))
				return;
		}
	}
}

/* Two operations insert the key; or one inserts while the other updates, resets or evicts it. */
static void two_are_stopped_within_each_other(void)
{
	static const struct {
		size_t beginning, first, second;
	} rows[] = {
		{ 0, 0, 0 }, { 0, 0, 1 }, { 0, 1, 2 }, { 0, 0, 4 }, { 0, 0, 6 }, { 1, 1, 0 },
		{ 1, 1, 4 }, { 1, 3, 0 }, { 3, 0, 1 }, { 3, 0, 6 }, { 4, 0, 6 }, { 4, 4, 0 },
		{ 5, 0, 1 }, { 5, 0, 4 }, { 6, 0, 1 }, { 6, 0, 6 }, { 7, 0, 1 }, { 7, 1, 4 },
	};
	pthread_t threads[2];

	sem_init(&has_paused, 0, 0);
	runners[0].operation = do_first;
	runners[1].operation = do_second;
	for (size_t i = 0; i < 2; i++) {
		sem_init(&runners[i].go, 0, 0);
		pthread_create(&threads[i], NULL, run, &runners[i]);
	}
	table_hook = pause_at_access;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !check_failed; i++) {
		first_act = rows[i].first;
		second_act = rows[i].second;
		stop_both("5/hour", rows[i].beginning);
	}
	table_hook = on_access;
	for (size_t i = 0; i < 2; i++) {
		runners[i].operation = NULL;
		sem_post(&runners[i].go);
		pthread_join(threads[i], NULL);
	}
}

/* --- killed ----------------------------------------------------------------------------------------------------- */

/* What the key has left, taken one by one by others. */
static uint64_t take_all(void)
{
	uint64_t taken = 0;

	while (take("key", 1).allowed)
		taken++;
	CHECK_EQ(slots_with(stage.table, stage.limit, "key", 3), 1);
	return taken;
}

static uint64_t left_after(const char *limit, size_t beginning, void (*operation)(void))
{
	uint64_t left;

	begin(limit, beginning);
	if (operation)
		operation();
	left = take_all();
	weir_table_free(stage.table);
	return left;
}

/* The operation is done or not done, as a whole, and others continue. */
static void a_killed_process_is_not_missed(void)
{
	static const char *const limit = "5/hour";

	for (size_t i = 0; i < BEGINNINGS * ACTS; i++) {
		const size_t beginning = i / ACTS;
		bool has_stopped = true;

		first_act = i % ACTS;
		for (unsigned accesses = 0; has_stopped; accesses++) {
			uint64_t left;

			begin(limit, beginning);
			has_stopped = stop_after(accesses, do_first, NULL);
			left = take_all();
			weir_table_free(stage.table);
			if (left == left_after(limit, beginning, NULL) ||
			    left == left_after(limit, beginning, do_first))
				continue;
			CHECK_EQ(left, left_after(limit, beginning, do_first));
			printf("# %s; %s, killed after %u accesses\n", beginnings[beginning].name, acts[first_act].name,
			       accesses);
		}
	}
}

static void decide_on_both(void)
{
	const struct weir_claim claims[] = { { stage.limit, "key", 3, 2 }, { other, "key", 3, 50 } };
	struct weir_decision decision;

	CHECK_EQ(weir_table_decide(stage.table, claims, 2, MADE_AT, NULL, &decision), WEIR_OK);
	stage.first = decision.verdict.allowed;
}

static uint64_t other_left(void)
{
	return weir_table_peek(stage.table, other, "key", 3, MADE_AT, 0).remaining;
}

/* Of several limits decided together, some may stay charged; each is, or is not. */
static void a_killed_decision_is_half_done_at_most(void)
{
	bool has_stopped = true;
	unsigned half_done = 0;

	for (unsigned accesses = 0; has_stopped; accesses++) {
		uint64_t left, of_other;

		begin("5/hour", 0);
		has_stopped = stop_after(accesses, decide_on_both, NULL);
		of_other = other_left();
		left = take_all();
		CHECK(left == 5 || left == 3);
		CHECK(of_other == 200 || of_other == 150);
		CHECK(left == 3 || of_other == 200); /* the one with least left is charged first */
		half_done += left == 3 && of_other == 200;
		weir_table_free(stage.table);
	}
	CHECK(half_done > 0);
}

static void snatch_the_other(void)
{
	stage.second = weir_table_allow(stage.table, other, "key", 3, MADE_AT, 151);
}

/* A decision may be denied because of another in progress. Never is more allowed than there is, and the charges in the
 * end are what was allowed. An operation that takes the other limit makes the decision take back its charge here. */
static void a_decision_with_another_in_between(void)
{
	static const struct {
		void (*then)(void);
		uint64_t costs, of_other;
	} rows[] = { { do_second, 2, 0 }, { snatch_the_other, 0, 151 } };
	uint64_t lost_races = 0;

	second_act = 0; /* allow 2 */
	for (size_t i = 0; i < 2 * 3; i++) {
		bool has_stopped = true;

		for (unsigned accesses = 0; has_stopped; accesses++) {
			uint64_t before;

			begin("5/hour", i / 2);
			before = look();
			has_stopped = stop_after(accesses, decide_on_both, rows[i % 2].then);
			if (!has_stopped)
				rows[i % 2].then();
			CHECK_EQ(look(), before - 2 * stage.first - rows[i % 2].costs * stage.second);
			CHECK_EQ(other_left(), 200 - 50 * stage.first - rows[i % 2].of_other * stage.second);
			lost_races += stats_of(stage.table, MADE_AT).lost_races;
			weir_table_free(stage.table);
		}
	}
	CHECK(lost_races > 0);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(a_bucket_is_asked_by_another_in_between), TEST(a_window_is_asked_by_another_in_between),
		TEST(two_are_stopped_within_each_other),       TEST(a_killed_process_is_not_missed),
		TEST(a_killed_decision_is_half_done_at_most),  TEST(a_decision_with_another_in_between),
	};

	if (argc > 1) /* full size */
		stride = (unsigned)atoi(argv[1]);
	table_hook = on_access;
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
