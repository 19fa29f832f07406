/* table_history_preempt_test.c: an operation on a key with a history is stopped before each of its accesses to slots
 * and arena. Other operations run there, several in a row, and the result must be as if the stopped one had run before,
 * after or between them. Or it is killed there, and no other operation may notice. No chunk may ever be in two
 * histories, or in one and free. */
#include <stdlib.h>

#include "stopper.h"
#include "tables.h"

/* A killed operation frees nothing, so leaks are expected. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

/* Only every stride-th combination runs. */
static size_t stride = 7;

enum { CHUNKS = 60, CHUNKS_FEW = 14, RUN_MAX = 4 };

static struct {
	struct weir_table *table;
	const struct weir_table_limit *limit, *deep, *bucket;
	bool has_few; /* few chunks: then keys are evicted, and the result depends on the order */
	uint64_t first, others;
} stage;

/* --- acts ----------------------------------------------------------------------------------------------------------- */

static uint64_t digest(struct weir_verdict v)
{
	return v.allowed + 2 * v.remaining + 100 * v.granted + 10000 * (v.reset_after / S(1)) +
	       UINT64_C(100000000) * (v.retry_after / S(1));
}

static struct weir_verdict take(weir_ns after, uint64_t cost)
{
	return weir_table_take(stage.table, stage.limit, "key", 3, MADE_AT + after, cost);
}

static uint64_t allow_two(void)
{
	return weir_table_allow(stage.table, stage.limit, "key", 3, MADE_AT + S(30), 2);
}

static uint64_t take_one(void)
{
	return digest(take(S(30), 1));
}

static uint64_t take_two_later(void)
{
	return digest(take(S(40), 2));
}

static uint64_t up_to_nine(void)
{
	return digest(weir_table_upto(stage.table, stage.limit, "key", 3, MADE_AT + S(40), 9));
}

static uint64_t refund_one(void)
{
	return digest(weir_table_refund(stage.table, stage.limit, "key", 3, MADE_AT + S(30), 1));
}

static uint64_t refund_all(void)
{
	return digest(weir_table_refund(stage.table, stage.limit, "key", 3, MADE_AT + S(40), 9));
}

static uint64_t undo_first(void)
{
	const struct weir__charge charge = { MADE_AT, 2 };

	return digest(weir__table_undo(stage.table, stage.limit, "key", 3, MADE_AT + S(30), &charge, 2));
}

/* The result is not compared: the slot of a history whose last units were just given back exists for a moment. */
static uint64_t reset(void)
{
	(void)weir_table_reset(stage.table, stage.limit, "key", 3);
	return 0;
}

static uint64_t look(void)
{
	return digest(weir_table_peek(stage.table, stage.limit, "key", 3, MADE_AT + S(40), 1));
}

/* Another key, whose root has an index below it; it takes two chunks or more. */
static uint64_t deep_one(void)
{
	return weir_table_allow(stage.table, stage.deep, "deep", 4, MADE_AT + S(30), 1);
}

static uint64_t deep_another(void)
{
	return weir_table_allow(stage.table, stage.deep, "deep", 4, MADE_AT + S(40), 1);
}

static uint64_t (*const acts[])(void) = { allow_two, take_one, take_two_later, up_to_nine,   refund_one, refund_all,
					  reset,     look,     deep_one,       deep_another, undo_first };
static const char *const names[] = { "allow 2", "take 1", "take 2 later", "up to 9",      "refund 1", "refund all",
				     "reset",   "peek",   "deep one",     "deep another", "undo 2" };

enum {
	ALLOW_TWO,
	TAKE_ONE,
	TAKE_LATER,
	UP_TO,
	REFUND_ONE,
	REFUND_ALL,
	RESET,
	LOOK,
	DEEP_ONE,
	DEEP_ANOTHER,
	UNDO_FIRST,
	ACTS
};

/* --- beginnings ------------------------------------------------------------------------------------------------------ */

static void nothing(void)
{
}

static void two_at_once(void)
{
	CHECK(take(0, 2).allowed);
}

static void three_events(void)
{
	CHECK(take(0, 1).allowed && take(S(10), 1).allowed && take(S(20), 1).allowed);
}

static void used_up(void)
{
	CHECK(take(0, 2).allowed && take(S(10), 3).allowed);
}

/* As many as fit the root's first leaf, so that the next one needs another leaf. */
static void one_just_now(void)
{
	CHECK(take(S(30), 1).allowed);
}

/* All of which have expired. */
static void long_ago(void)
{
	(void)weir_table_take(stage.table, stage.limit, "key", 3, MADE_AT - S(7300), 2);
	(void)weir_table_take(stage.table, stage.limit, "key", 3, MADE_AT - S(7290), 1);
}

static const struct {
	const char *name;
	void (*prepare)(void);
} beginnings[] = { { "nothing", nothing }, { "two at once", two_at_once },   { "three events", three_events },
		   { "used up", used_up }, { "one just now", one_just_now }, { "long ago", long_ago } };

#define BEGINNINGS (sizeof(beginnings) / sizeof(beginnings[0]))

static void begin_sweep_anew(void)
{
	atomic_store(&stage.table->sweep->is_at_work, false);
	stage.table->sweep->line = stage.table->sweep->chunk = 0;
	stage.table->sweep->since = 0;
	memset(stage.table->sweep->marks, 0, 2 * stage.table->sweep->marks_bytes);
}

/* Restores the table as it was at first, except for the content of free chunks. */
static void clear_table(void)
{
	struct weir__region *const region = &stage.table->region;

	memset((void *)region->slots, 0, slots_of(stage.table) * sizeof(region->slots[0]));
	memset((void *)region->arena.taken, 0, region->arena.n);
	atomic_store(&region->arena.next, 0);
	atomic_store(&region->arena.given, 0);
	atomic_store(&region->arena.short_looks, 0);
	atomic_store(&region->arena.takes, 0);
	begin_sweep_anew();
}

static void open_stage(const char *limit, uint32_t chunks)
{
	stage.table = table_with_arena(0, (size_t)65 * (chunks + 1));
	stage.table->region.lines = WEIR__LINES_LEAST;
	stage.limit = limit_in(stage.table, limit);
	stage.deep = limit_in(stage.table, "100/hour sliding_log");
	stage.bucket = limit_in(stage.table, "5/hour");
	stage.has_few = chunks == CHUNKS_FEW;
}

static void begin(size_t beginning)
{
	clear_table();
	beginnings[beginning].prepare();
	stage.first = stage.others = 0;
}

/* --- what is in the arena --------------------------------------------------------------------------------------------- */

static void count_visit(void *context, uint32_t number)
{
	((unsigned char *)context)[number]++;
}

struct census {
	uint32_t shared, free, lost; /* in two histories; in one, though free; taken, but in none */
};

static struct census take_census(void)
{
	struct weir__arena *const arena = &stage.table->region.arena;
	unsigned char visits[CHUNKS + 1] = { 0 };
	struct census census = { 0, 0, 0 };

	for (size_t i = 0; i < slots_of(stage.table); i++) {
		const struct weir_state slot = weir__atomic16_load(&stage.table->region.slots[i]);

		if (weir__slot_tag(slot) == WEIR__SLOT_ARENA)
			weir__history_visit(arena, weir__slot_root(slot), count_visit, visits);
	}
	for (uint32_t number = 1; number <= arena->n; number++) {
		const bool is_taken = atomic_load(&arena->taken[number - 1]) != 0;

		census.shared += visits[number] > 1;
		census.free += visits[number] > 0 && !is_taken;
		census.lost += visits[number] == 0 && is_taken;
	}
	return census;
}

/* --- others in between -------------------------------------------------------------------------------------------------- */

struct outcome {
	uint64_t first, others, left, deep_left;
};

/* What others do while the first is stopped; ends with -1. */
static const int *run_of_others;
static int first_act;

static void do_first(void)
{
	stage.first = acts[first_act]();
}

static void do_others(void)
{
	for (const int *act = run_of_others; *act >= 0; act++)
		stage.others = stage.others * 1000003 + acts[*act]();
}

static struct outcome outcome_now(void)
{
	return (struct outcome){
		stage.first,
		stage.others,
		digest(weir_table_peek(stage.table, stage.limit, "key", 3, MADE_AT + S(50), 3)),
		digest(weir_table_peek(stage.table, stage.deep, "deep", 4, MADE_AT + S(50), 0)),
	};
}

/* Runs the first operation after this many of the others. */
static struct outcome in_order(size_t beginning, size_t after)
{
	size_t i = 0;

	begin(beginning);
	for (const int *act = run_of_others;; act++, i++) {
		if (i == after)
			do_first();
		if (*act < 0)
			break;
		stage.others = stage.others * 1000003 + acts[*act]();
	}
	return outcome_now();
}

static void tell(size_t beginning, unsigned accesses)
{
	printf("# %s, %s; %s stopped after %u accesses for:", stage.limit->name, beginnings[beginning].name,
	       names[first_act], accesses);
	for (const int *act = run_of_others; *act >= 0; act++)
		printf(" %s,", names[*act]);
	printf("\n");
}

/* The results of all orders, one for each number of operations before the first. */
struct orders {
	struct outcome of[RUN_MAX + 1];
	size_t n;
};

static struct orders orders_of(size_t beginning)
{
	struct orders orders = { .n = 0 };

	do
		orders.of[orders.n] = in_order(beginning, orders.n);
	while (run_of_others[orders.n++] >= 0);
	return orders;
}

static bool is_of_some_order(const struct outcome *found, const struct orders *orders)
{
	for (size_t i = 0; i < orders->n; i++)
		if (memcmp(found, &orders->of[i], sizeof(*found)) == 0)
			return true;
	return false;
}

static bool check_census(void)
{
	const struct census census = take_census();

	return CHECK_EQ(census.shared, 0) && CHECK_EQ(census.free, 0);
}

/* False: the first has fewer accesses. */
static bool check_stop(const struct orders *orders, size_t beginning, unsigned accesses)
{
	struct outcome found;
	bool has_stopped, is_sane;

	begin(beginning);
	has_stopped = stop_after(accesses, do_first, do_others);
	found = outcome_now();
	is_sane = check_census() && CHECK_EQ(take_census().lost, 0);
	is_sane &= CHECK_EQ(slots_with(stage.table, stage.limit, "key", 3) > 1, 0);
	if (has_stopped && !stage.has_few && !is_of_some_order(&found, orders)) {
		check_fail(__FILE__, __LINE__, "the outcome is of no order");
		is_sane = false;
	}
	if (!is_sane)
		tell(beginning, accesses);
	return has_stopped;
}

static const int runs[][RUN_MAX + 1] = {
	{ ALLOW_TWO, -1 },
	{ TAKE_ONE, -1 },
	{ TAKE_LATER, -1 },
	{ UP_TO, -1 },
	{ REFUND_ONE, -1 },
	{ REFUND_ALL, -1 },
	{ UNDO_FIRST, -1 },
	{ RESET, -1 },
	{ DEEP_ONE, DEEP_ANOTHER, -1 },
	/* roots return: replaced twice, or forgotten and made again, for the same key or another */
	{ REFUND_ONE, REFUND_ONE, -1 },
	{ REFUND_ONE, TAKE_ONE, REFUND_ONE, TAKE_ONE, -1 },
	{ TAKE_ONE, REFUND_ALL, TAKE_LATER, -1 },
	{ REFUND_ALL, TAKE_ONE, -1 },
	{ RESET, ALLOW_TWO, -1 },
	{ RESET, TAKE_ONE, TAKE_LATER, -1 },
	{ RESET, DEEP_ONE, DEEP_ANOTHER, -1 },
	{ RESET, DEEP_ONE, TAKE_ONE, DEEP_ANOTHER, -1 },
	{ REFUND_ONE, DEEP_ONE, REFUND_ONE, DEEP_ANOTHER, -1 },
};

#define RUNS (sizeof(runs) / sizeof(runs[0]))

static void check_runs(const char *limit, uint32_t chunks)
{
	open_stage(limit, chunks);
	for (size_t i = 0; i < BEGINNINGS * ACTS * RUNS && !check_failed; i += stride) {
		const size_t beginning = i / RUNS / ACTS;
		struct orders orders;

		first_act = (int)(i / RUNS % ACTS);
		run_of_others = runs[i % RUNS];
		orders = orders_of(beginning);
		for (unsigned accesses = 0; check_stop(&orders, beginning, accesses); accesses++)
			;
	}
	weir_table_free(stage.table);
}

static void a_log_is_asked_by_others_in_between(void)
{
	check_runs("5/hour sliding_log", CHUNKS);
}

static void a_log_that_counts_all_is_asked_by_others_in_between(void)
{
	check_runs("5/hour sliding_log count all", CHUNKS);
}

static void segments_are_asked_by_others_in_between(void)
{
	check_runs("5/hour sliding_counter segments 360", CHUNKS);
}

static void keys_give_way_in_between(void)
{
	check_runs("5/hour sliding_log", CHUNKS_FEW);
}

/* --- killed ----------------------------------------------------------------------------------------------------------------- */

/* Another process finds lost chunks when an hour has passed; the dead process's own sweep ended with it. */
static void check_regained(void)
{
	const weir_ns clock = weir_table_now(stage.table) + S(4000);

	begin_sweep_anew();
	for (uint64_t i = 0; i < 2; i++)
		weir__table_sweep(stage.table, clock + S(130) * i);
	CHECK_EQ(take_census().lost, 0);
}

static bool is_left_alike(const struct outcome *a, const struct outcome *b)
{
	return a->left == b->left && a->deep_left == b->deep_left;
}

static void check_kills_of(size_t beginning)
{
	static const int nobody[] = { -1 };
	bool has_stopped = true;
	struct outcome before, after;

	run_of_others = nobody;
	begin(beginning);
	before = outcome_now();
	after = in_order(beginning, 0);
	for (unsigned accesses = 0; has_stopped; accesses++) {
		struct outcome found;
		bool is_sane;

		begin(beginning);
		has_stopped = stop_after(accesses, do_first, NULL);
		found = outcome_now();
		is_sane = check_census();
		check_regained();
		if (is_sane && (is_left_alike(&found, &before) || is_left_alike(&found, &after)))
			continue;
		check_fail(__FILE__, __LINE__, "a killed operation is half done");
		tell(beginning, accesses);
	}
}

static void check_kills(const char *limit)
{
	open_stage(limit, CHUNKS);
	for (size_t i = 0; i < BEGINNINGS * ACTS && !check_failed; i++) {
		first_act = (int)(i % ACTS);
		check_kills_of(i / ACTS);
	}
	weir_table_free(stage.table);
}

static void a_killed_process_is_not_missed(void)
{
	check_kills("5/hour sliding_log");
	check_kills("5/hour sliding_log count all");
	check_kills("5/hour sliding_counter segments 360");
}

/* --- folded ------------------------------------------------------------------------------------------------------- */

static void fold(void)
{
	struct weir_state ignored;
	struct weir__place place;
	struct weir__key key;

	weir__key_init(&key, stage.table, stage.limit, weir__hash(&stage.limit->secret, "key", 3));
	weir__table_find(&key, &place, &ignored);
	if (place.slot && weir__slot_root(place.seen) != 0)
		weir__table_fold(stage.table, &place);
}

static uint64_t left_now(void)
{
	return weir_table_peek(stage.table, stage.limit, "key", 3, MADE_AT + S(50), 0).remaining;
}

/* Charges are never forgotten: no more is left than without a fold, whatever is stopped or killed. */
static void check_folds_of(size_t beginning)
{
	const bool is_charge = first_act <= UP_TO;
	uint64_t left;

	begin(beginning);
	do_first();
	left = left_now();
	for (int way = 0; way < 3 && is_charge;
	     way++) { /* the act is stopped for a fold; the fold for the act; the fold is killed */
		bool has_stopped = true;

		for (unsigned accesses = 0; has_stopped && !check_failed; accesses++) {
			begin(beginning);
			if (way == 0) {
				has_stopped = stop_after(accesses, do_first, fold);
			} else {
				has_stopped = stop_after(accesses, fold, way == 1 ? do_first : NULL);
				if (way == 2 || !has_stopped)
					do_first();
			}
			CHECK(left_now() <= left);
			CHECK(check_census());
			CHECK_EQ(slots_with(stage.table, stage.limit, "key", 3) > 1, 0);
			if (check_failed)
				tell(beginning, accesses);
		}
	}
}

static void a_fold_forgets_nothing(void)
{
	static const char *const limits[] = { "5/hour sliding_log", "5/hour sliding_log count all",
					      "5/hour sliding_counter segments 360" };
	static const int nobody[] = { -1 };

	run_of_others = nobody;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		open_stage(limits[i], CHUNKS);
		for (size_t j = 0; j < BEGINNINGS * ACTS && !check_failed; j++) {
			first_act = (int)(j % ACTS);
			check_folds_of(j / ACTS);
		}
		weir_table_free(stage.table);
	}
}

/* --- several limits ------------------------------------------------------------------------------------------------------------ */

/* The log has less left than the bucket: it is charged first, and taken back if the bucket is used up meanwhile. */
static void decide_on_both(void)
{
	const struct weir_claim claims[] = { { stage.limit, "key", 3, 1 }, { stage.bucket, "key", 3, 1 } };
	struct weir_decision decision;

	CHECK_EQ(weir_table_decide(stage.table, claims, 2, MADE_AT + S(30), NULL, &decision), WEIR_OK);
	stage.first = decision.verdict.allowed;
}

static uint64_t units_left(void)
{
	return weir_table_peek(stage.table, stage.limit, "key", 3, MADE_AT + S(50), 0).remaining;
}

static void snatch_the_bucket(void)
{
	(void)weir_table_reset(stage.table, stage.bucket, "key", 3);
	CHECK(weir_table_allow(stage.table, stage.bucket, "key", 3, MADE_AT + S(30), 5));
}

static void snatch_and_take(void)
{
	snatch_the_bucket();
	stage.others = weir_table_allow(stage.table, stage.limit, "key", 3, MADE_AT + S(30), 1);
}

static void snatch_and_take_later(void)
{
	snatch_the_bucket();
	stage.others = weir_table_allow(stage.table, stage.limit, "key", 3, MADE_AT + S(31), 1);
}

static void one_of_key(void)
{
	CHECK(take(0, 1).allowed);
}

static void what_a_loser_takes_back_is_its_own(void)
{
	static void (*const thens[])(void) = { snatch_the_bucket, snatch_and_take, snatch_and_take_later };

	open_stage("2/hour sliding_log", CHUNKS);
	for (size_t i = 0; i < 6; i++) {
		bool has_stopped = true;

		for (unsigned accesses = 0; has_stopped; accesses++) {
			begin(0);
			if (i % 2)
				one_of_key();
			has_stopped = stop_after(accesses, decide_on_both, thens[i / 2]);
			CHECK(check_census());
			if (has_stopped && !CHECK_EQ(units_left(), 2 - i % 2 - stage.first - stage.others))
				printf("# stopped after %u accesses\n", accesses);
		}
	}
	weir_table_free(stage.table);
}

/* Stops twice: once for an operation that makes it lose, and again, while it takes back, for another. */
static unsigned second_stop;
static void (*second_then)(void);

static void snatch_and_stop_again(void)
{
	snatch_the_bucket();
	stopper.accesses = 0;
	stopper.stop_at = second_stop;
	stopper.then = second_then;
	stopper.is_on = true;
}

static void take_in_between(void)
{
	stage.others = weir_table_allow(stage.table, stage.limit, "key", 3, MADE_AT + S(30), 1);
}

static void reset_and_take_two(void)
{
	(void)weir_table_reset(stage.table, stage.limit, "key", 3);
	CHECK(weir_table_allow(stage.table, stage.limit, "key", 3, MADE_AT + S(30), 2));
	stage.others = 2;
}

/* False: it was not stopped twice. */
static bool lose_and_stop_again(unsigned accesses)
{
	uint64_t left;
	bool has_stopped;

	begin(0);
	has_stopped = stop_after(accesses, decide_on_both, snatch_and_stop_again);
	left = units_left();
	CHECK(check_census());
	if (left > 2 - stage.others) {
		CHECK_EQ(left, 2 - stage.others);
		printf("# stopped after %u accesses, then %u\n", accesses, second_stop);
	}
	return has_stopped && stage.others > 0;
}

/* If another operation charges the key while this one takes back, that charge stays. If the key was forgiven first,
 * later charges stay. */
static void nothing_of_anothers_is_taken_back(void)
{
	static void (*const thens[])(void) = { take_in_between, reset_and_take_two };

	open_stage("2/hour sliding_log", CHUNKS);
	for (size_t i = 0; i < 2; i++) {
		bool is_stopped_once = true;

		second_then = thens[i];
		for (unsigned accesses = 0; is_stopped_once && !check_failed; accesses++) {
			second_stop = 0;
			while (lose_and_stop_again(accesses))
				second_stop++;
			is_stopped_once = second_stop > 0;
		}
	}
	CHECK(stats_of(stage.table, MADE_AT).lost_races > 0);
	weir_table_free(stage.table);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(a_log_is_asked_by_others_in_between),
		TEST(a_log_that_counts_all_is_asked_by_others_in_between),
		TEST(segments_are_asked_by_others_in_between),
		TEST(keys_give_way_in_between),
		TEST(a_killed_process_is_not_missed),
		TEST(a_fold_forgets_nothing),
		TEST(what_a_loser_takes_back_is_its_own),
		TEST(nothing_of_anothers_is_taken_back),
	};

	if (argc > 1) /* full size */
		stride = (size_t)atoi(argv[1]);
	table_hook = on_access;
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
