/* table_history_search_test.c: how many accesses to shared memory each operation on a key with a history makes, and
 * what a reader finds while others write after every few of its accesses. The test counts accesses and measures no
 * time. */
/* Covers: src/store/table/history_step.c */
#include <stdlib.h>

#include "hooked_table.h"
#include "tables.h"

static struct {
	struct weir_table *table;
	const struct weir_table_limit *limit, *all, *other, *bucket;
	uint64_t events;
	weir_ns period, step, now;
} stage;

/* --- counting ------------------------------------------------------------------------------------------------------ */

static struct {
	uint64_t accesses;
	uint64_t each; /* another operation runs after this many accesses; 0: never */
	void (*act)(void);
	bool is_on;
} hook;

static void on_access(const void *at)
{
	(void)at;
	if (!hook.is_on || ++hook.accesses % (hook.each ? hook.each : UINT64_MAX) != 0)
		return;
	hook.is_on = false;
	hook.act();
	hook.is_on = true;
}

static uint64_t accesses_of(void (*operation)(void))
{
	hook.accesses = 0;
	hook.is_on = true;
	operation();
	hook.is_on = false;
	return hook.accesses;
}

/* --- operations ---------------------------------------------------------------------------------------------------- */

static const char key[] = "key";

static struct weir_verdict take(const struct weir_table_limit *limit, uint64_t cost)
{
	return weir_table_take(stage.table, limit, key, 3, stage.now, cost);
}

static void allow(void)
{
	stage.now += stage.step;
	CHECK(weir_table_allow(stage.table, stage.limit, key, 3, stage.now, 1));
}

static void take_one(void)
{
	stage.now += stage.step;
	CHECK(take(stage.limit, 1).allowed);
}

/* Almost all events have expired, and none was forgotten. */
static void take_after_a_while(void)
{
	stage.now += S(3590);
	CHECK(take(stage.limit, 1).allowed);
}

static void take_nothing(void)
{
	CHECK(take(stage.limit, 0).allowed);
}

static void take_too_much(void)
{
	CHECK(!take(stage.limit, stage.events / 2 + 2).allowed);
}

static void count_denied(void)
{
	stage.now++;
	CHECK(!take(stage.all, 3).allowed);
}

static void count_denied_at_once(void)
{
	CHECK(!take(stage.all, 3).allowed);
}

static void up_to(void)
{
	stage.now += stage.step;
	CHECK(weir_table_upto(stage.table, stage.limit, key, 3, stage.now, 5).allowed);
}

static void peek(void)
{
	CHECK(!weir_table_peek(stage.table, stage.limit, key, 3, stage.now, stage.events / 2 + 2).allowed);
}

static void peek_later(void)
{
	CHECK(weir_table_peek(stage.table, stage.limit, key, 3, stage.now + S(1800), 1).allowed);
}

static void peek_at_nobody(void)
{
	CHECK(weir_table_peek(stage.table, stage.limit, "nobody", 6, stage.now, 1).allowed);
}

static void inspect(void)
{
	CHECK(weir_table_inspect(stage.table, stage.limit, key, 3, stage.now).is_stored);
}

static void decide(void)
{
	const struct weir_claim claims[] = { { stage.limit, key, 3, 1 }, { stage.bucket, key, 3, 1 } };
	struct weir_decision decision;

	stage.now += stage.step;
	CHECK_EQ(weir_table_decide(stage.table, claims, 2, stage.now, NULL, &decision), WEIR_OK);
	CHECK(decision.verdict.allowed);
}

static void refund(void)
{
	CHECK(weir_table_refund(stage.table, stage.limit, key, 3, stage.now, 1).remaining > 0);
}

static void undo(void)
{
	const struct weir__charge charge = { stage.now, 1 };

	stage.now += stage.step / 2;
	CHECK_EQ(weir__table_undo(stage.table, stage.limit, key, 3, stage.now, &charge, 1).granted, 1);
}

/* --- the stage ----------------------------------------------------------------------------------------------------- */

static void open_stage(bool is_log, uint64_t events, weir_ns period)
{
	struct weir_limit limit = weir_limit_of(is_log ? WEIR_SLIDING_LOG : WEIR_SLIDING_COUNTER, events + 1, period);
	char text[100];

	limit.segments = is_log ? limit.segments : (uint32_t)events;
	stage.table = table_with_arena(100, 5 * weir_table_arena_size(&limit, 1, 0) + (1 << 16));
	snprintf(text, sizeof(text),
		 is_log ? "%" PRIu64 "/%" PRIu64 "s sliding_log" :
			  "%" PRIu64 "/%" PRIu64 "s sliding_counter segments %" PRIu64,
		 events + !is_log, period / S(1), events);
	stage.limit = limit_in(stage.table, text);
	strcat(text, " count all");
	stage.all = limit_in(stage.table, text);
	stage.bucket = limit_in(stage.table, "1000000/s");
	stage.events = events;
	stage.period = period;
	stage.step = period / events;
	stage.now = MADE_AT / period * period;
	hook.each = 0;
}

/* A unit in each of n instants or sub-windows, up to now. */
static void fill(void)
{
	stage.now = (stage.now / stage.period + 3) * stage.period;
	for (uint64_t i = 0; i < stage.events && !check_failed; i++) {
		stage.now += stage.step;
		CHECK(take(stage.limit, 1).allowed);
		CHECK(take(stage.all, 1).allowed);
	}
}

/* --- how many accesses --------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*act)(void);
} searching[] = {
	{ "allow", allow },
	{ "take", take_one },
	{ "take of nothing", take_nothing },
	{ "take that is denied", take_too_much },
	{ "take that counts all", count_denied },
	{ "take that counts all, at once", count_denied_at_once },
	{ "up to", up_to },
	{ "peek", peek },
	{ "peek later", peek_later },
	{ "peek at an unknown key", peek_at_nobody },
	{ "inspect", inspect },
	{ "two limits", decide },
	{ "take after a while", take_after_a_while },
};

static uint64_t log2_of(uint64_t n)
{
	return 63 - (uint64_t)__builtin_clzll(n);
}

/* A search reads at most 2 log2(n) cells, each with up to 6 accesses, and an operation has at most 4 searches. */
static void check_growth(bool is_log)
{
	static const uint64_t sizes[] = { 10, 1000, 100000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		open_stage(is_log, sizes[i], S(3600));
		for (size_t j = 0; j < sizeof(searching) / sizeof(searching[0]); j++) {
			uint64_t accesses;

			if (j == 0 || searching[j].act == count_denied || searching[j].act == up_to)
				fill();
			accesses = accesses_of(searching[j].act);
			CHECK(accesses <= 120 + 48 * log2_of(sizes[i]));
			if (check_failed)
				printf("# %s, %" PRIu64 " events: %" PRIu64 " accesses\n", searching[j].name, sizes[i],
				       accesses);
		}
		weir_table_free(stage.table);
	}
}

static void operations_on_logs_search(void)
{
	check_growth(true);
}

static void operations_on_segments_search(void)
{
	check_growth(false);
}

/* A refund copies the history: each cell is read once and written once, whole leaves at a time. */
static void check_copies(bool is_log)
{
	static void (*const copying[])(void) = { refund, undo };
	const uint64_t events = 10000;

	open_stage(is_log, events, S(3600));
	fill();
	for (size_t i = 0; i < 2; i++) {
		uint64_t accesses;

		take_one();
		accesses = accesses_of(copying[i]);
		CHECK(accesses > events);
		CHECK(accesses < 4 * events);
		if (check_failed)
			printf("# %" PRIu64 " accesses\n", accesses);
	}
	weir_table_free(stage.table);
}

static void refunds_copy_once(void)
{
	check_copies(true);
	check_copies(false);
}

/* --- readers among writers ------------------------------------------------------------------------------------------- */

/* The core's verdict after each write, for the read in progress. */
enum { MOMENTS = 4096 };

static struct {
	void *state;
	struct weir_plan plan;
	weir_ns read_at;
	uint64_t cost;
	struct weir_verdict expected[MOMENTS];
	size_t n;
} readers;

static void note_moment(void)
{
	struct weir__log *const log = readers.state;
	const size_t size = weir_plan_state_size(&readers.plan);
	void *const copy = malloc(size);

	memcpy(copy, log, size);
	if (readers.n < MOMENTS)
		readers.expected[readers.n++] = weir_step_peek(&readers.plan, copy, readers.read_at, readers.cost);
	free(copy);
}

/* Each event takes the place of the oldest, which has just expired. */
static void write_one(void)
{
	const struct weir_verdict found = (stage.now += stage.step, take(stage.limit, 1));
	const struct weir_verdict expected = weir_step_take(&readers.plan, readers.state, stage.now, 1);

	CHECK_VERDICT("write", &found, &expected);
	note_moment();
}

/* Writes the whole ring at once, and some more, so that the newest event is where the oldest was. */
static unsigned rounds_left;

static void write_a_round(void)
{
	for (uint64_t i = 0; i < stage.events + 5 && rounds_left > 0; i++)
		write_one();
	rounds_left -= rounds_left > 0;
}

static struct weir_verdict read_verdict;

static void read_one(void)
{
	read_verdict = weir_table_peek(stage.table, stage.limit, key, 3, readers.read_at, readers.cost);
}

/* A reader ends after a bounded number of accesses, however often others write, and its verdict is that of a moment
 * between its start and end. */
static void check_reader(uint64_t each, uint64_t cost, void (*act)(void))
{
	uint64_t accesses;
	bool is_found = false;

	readers.read_at = stage.now;
	readers.cost = cost;
	readers.n = 0;
	note_moment();
	hook.each = each;
	hook.act = act;
	accesses = accesses_of(read_one);
	for (size_t i = 0; i < readers.n; i++)
		is_found |= is_same_verdict(&read_verdict, &readers.expected[i]);
	CHECK(is_found);
	CHECK(accesses < 3000);
	if (check_failed)
		printf("# cost %" PRIu64 ", a write after each %" PRIu64 " accesses: %" PRIu64
		       " accesses, %zu moments\n",
		       cost, each, accesses, readers.n);
}

static void check_readers(bool is_log, uint64_t events)
{
	open_stage(is_log, events, S(1));
	readers.plan = stage.limit->first.plan;
	readers.state = fresh_state(&readers.plan);
	readers.n = MOMENTS;
	for (uint64_t i = 0; i < events + events / 3 && !check_failed; i++)
		write_one();
	for (uint64_t each = 12; each < 200 && !check_failed; each += 7)
		for (uint64_t cost = 1; cost <= events && !check_failed; cost += 1 + events / 9)
			check_reader(each, cost, write_one);
	for (uint64_t each = 1; each < 60 && events <= 20 && !check_failed; each++)
		for (uint64_t cost = 1; cost <= events && !check_failed; cost++) {
			rounds_left = 3;
			check_reader(each, cost, write_a_round);
		}
	free(readers.state);
	weir_table_free(stage.table);
}

static void readers_of_logs_are_not_held_up(void)
{
	check_readers(true, 10);
	check_readers(true, 100);
	check_readers(true, 1000);
}

static void readers_of_segments_are_not_held_up(void)
{
	check_readers(false, 10);
	check_readers(false, 100);
	check_readers(false, 1000);
}

/* Even with a write after every access or two, a read ends and allows nothing extra. */
static void a_reader_without_a_chance_ends(void)
{
	for (uint64_t each = 1; each < 12; each++) {
		open_stage(true, 100, S(1));
		readers.plan = stage.limit->first.plan;
		readers.state = fresh_state(&readers.plan);
		readers.n = MOMENTS;
		for (uint64_t i = 0; i < 150; i++)
			write_one();
		for (uint64_t cost = 1; cost <= 100; cost += 9) {
			uint64_t most = 0;

			readers.read_at = stage.now;
			readers.cost = cost;
			readers.n = 0;
			note_moment();
			hook.each = each;
			hook.act = write_one;
			CHECK(accesses_of(read_one) < 50000);
			for (size_t i = 0; i < readers.n; i++)
				most = readers.expected[i].remaining > most ? readers.expected[i].remaining : most;
			CHECK(read_verdict.remaining <= most);
		}
		free(readers.state);
		weir_table_free(stage.table);
	}
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(operations_on_logs_search),
		TEST(operations_on_segments_search),
		TEST(refunds_copy_once),
		TEST(readers_of_logs_are_not_held_up),
		TEST(readers_of_segments_are_not_held_up),
		TEST(a_reader_without_a_chance_ends),
	};

	table_hook = on_access;
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
