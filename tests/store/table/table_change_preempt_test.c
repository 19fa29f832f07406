/* table_change_preempt_test.c: an operation is stopped before each of its accesses to the table; then the limit is
 * changed and another request uses the key. The result must be that of a serial order, with the stopped operation first
 * or last. Or the change is stopped or killed there: no operation may wait for it or see half of it. */
#include <stdlib.h>

#include "acts.h"
#include "stopper.h"

/* --- the stage -------------------------------------------------------------------------------------------------- */

static struct {
	const char *const *texts; /* the limits between which it changes */
	uint64_t n;
} changes;

static void change_limit(void)
{
	CHECK_EQ(weir_table_change_limit_text(stage.table, stage.limit, changes.texts[++changes.n % 2], MADE_AT, NULL),
		 WEIR_OK);
}

/* Changes to the last text, if there is a third one. */
static void change_at_last(void)
{
	if (changes.texts[2] == NULL)
		change_limit();
	else
		CHECK_EQ(weir_table_change_limit_text(stage.table, stage.limit, changes.texts[2], MADE_AT, NULL),
			 WEIR_OK);
}

static void change_often(uint64_t n)
{
	while (n-- > 0)
		change_limit();
}

/* The usage of the key, and how many changes followed. */
enum beginning { NOTHING, TWO, TWO_BEFORE_ONE_CHANGE, TWO_BEFORE_SIX_CHANGES, ALL_BUT_ONE, BEGINNINGS };

/* Changes made before. From 6 or 13 on, the next one begins an era. */
static const uint64_t changes_before[] = { 6, 7, 13 };

#define BEFORE (sizeof(changes_before) / sizeof(changes_before[0]))

static const char *const limits[][3] = {
	{ "5/hour", "7/hour burst 9" },
	{ "5/hour fixed_window align first", "8/hour fixed_window align first" },
	{ "5/hour refill interval", "4/hour refill interval burst 8" },
	{ "5/hour sliding_counter", "6/hour sliding_counter", "20000/hour sliding_counter" },
};

#define LIMITS (sizeof(limits) / sizeof(limits[0]))

static struct weir_table *tiny_table_with_arena(void)
{
	struct weir_table *const table = table_with_arena(0, 1 << 14);

	table->region.lines = WEIR__LINES_LEAST;
	return table;
}

static void begin(size_t limit, enum beginning beginning, uint64_t before)
{
	const uint64_t since = beginning == TWO_BEFORE_ONE_CHANGE ? 1 : beginning == TWO_BEFORE_SIX_CHANGES ? 6 : 0;

	stage.table = limits[limit][2] ? tiny_table_with_arena() : tiny_table();
	changes.texts = limits[limit];
	stage.limit = limit_in(stage.table, changes.texts[0]);
	changes.n = 0;
	change_often(before > since ? before - since : 0);
	if (beginning != NOTHING)
		CHECK(weir_table_take(stage.table, stage.limit, "key", 3, MADE_AT, beginning == ALL_BUT_ONE ? 4 : 2)
			      .allowed);
	change_often(before > since ? since : before);
	stage.first = stage.second = 99;
}

static const struct act acts[] = {
	{ "allow 2", allow_two }, { "take 3", take_three }, { "up to 9", up_to_nine }, { "refund 1", refund_one },
	{ "reset", reset },       { "peek", look },         { "undo 2", undo_two },
};

#define ACTS (sizeof(acts) / sizeof(acts[0]))

/* By default, operations are stopped before every fourth access. The first stop differs between the combinations, so
 * that together they stop everywhere. */
static unsigned stride = 4, first_stop;

static size_t first_act, second_act;

static void do_first(void)
{
	stage.first = acts[first_act].act();
}

static bool changes_in_between;

static void do_second(void)
{
	if (changes_in_between)
		change_at_last();
	stage.second = acts[second_act].act();
}

struct outcome {
	uint64_t first, second, left, slots;
};

static uint64_t slots_in_use(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < slots_of(stage.table); i++)
		n += weir__slot_fingerprint(weir__atomic16_load(&stage.table->region.slots[i])) != 0;
	return n;
}

static struct outcome outcome_and_end(void)
{
	const struct outcome outcome = { stage.first, stage.second,
					 weir_table_peek(stage.table, stage.limit, "key", 3, MADE_AT, 0).remaining,
					 slots_in_use() };

	weir_table_free(stage.table);
	return outcome;
}

static bool is_one_of(const struct outcome *found, const struct outcome *either)
{
	return memcmp(found, &either[0], sizeof(*found)) == 0 || memcmp(found, &either[1], sizeof(*found)) == 0;
}

static void tell(size_t limit, enum beginning beginning, uint64_t before, unsigned accesses,
		 const struct outcome *found, const struct outcome *either)
{
	check_fail(__FILE__, __LINE__, "the outcome is of neither order");
	printf("# %s, beginning %d, %" PRIu64 " changes before; %s stopped after %u, then %s%s\n", limits[limit][0],
	       (int)beginning, before, acts[first_act].name, accesses, changes_in_between ? "a change and " : "",
	       acts[second_act].name);
	for (size_t i = 0; i < 3; i++) {
		const struct outcome *const o = i == 2 ? found : &either[i];

		printf("# %s: answers %" PRIu64 " %" PRIu64 ", left %" PRIu64 ", slots %" PRIu64 "\n",
		       i == 2 ? "found" : "either", o->first, o->second, o->left, o->slots);
	}
}

static void begin_check(size_t limit, enum beginning beginning, uint64_t before)
{
	begin(limit, beginning, before);
	if (!changes_in_between && changes.texts[2])
		change_at_last();
}

static void check_stops(size_t limit, enum beginning beginning, uint64_t before)
{
	struct outcome either[2], found;
	bool has_stopped = true;

	for (int i = 0; i < 2; i++) {
		begin_check(limit, beginning, before);
		(i ? do_second : do_first)();
		(i ? do_first : do_second)();
		either[i] = outcome_and_end();
	}
	for (unsigned accesses = first_stop++ % stride; has_stopped && !check_failed; accesses += stride) {
		begin_check(limit, beginning, before);
		has_stopped = stop_after(accesses, do_first, do_second);
		found = outcome_and_end();
		if (has_stopped && !is_one_of(&found, either))
			tell(limit, beginning, before, accesses, &found, either);
	}
}

static void check_all(void)
{
	for (size_t limit = 0; limit < LIMITS; limit++)
		for (int beginning = NOTHING; beginning < BEGINNINGS; beginning++)
			for (size_t before = 0; before < BEFORE; before++)
				for (first_act = 0; first_act < ACTS; first_act++)
					for (second_act = 0; second_act < ACTS && !check_failed; second_act++)
						check_stops(limit, (enum beginning)beginning, changes_before[before]);
}

static void a_limit_changes_in_between(void)
{
	changes_in_between = true;
	check_all();
}

/* Another request converts the key in between. */
static void a_limit_has_changed_before(void)
{
	changes_in_between = false;
	check_all();
}

/* --- the change itself is stopped ------------------------------------------------------------------------------- */

static uint64_t used(void)
{
	const struct weir_verdict verdict = weir_table_peek(stage.table, stage.limit, "key", 3, MADE_AT, 0);

	return verdict.limit - verdict.remaining;
}

static void change_and_ask(void)
{
	const uint64_t before = used();

	change_limit();
	CHECK_EQ(used(), before);
	CHECK(allow_two());
	CHECK_EQ(used(), before + 2);
	change_limit();
	CHECK_EQ(used(), before + 2);
}

/* Two units are used and stay used under any limit; 4 after another two. */
static void a_change_is_stopped_or_killed(void)
{
	for (int is_killed = 0; is_killed < 2; is_killed++)
		for (size_t before = 0; before < BEFORE; before++) {
			bool has_stopped = true;

			for (unsigned accesses = 0; has_stopped && !check_failed; accesses++) {
				begin(0, TWO, changes_before[before]);
				has_stopped = stop_after(accesses, change_limit, is_killed ? NULL : change_and_ask);
				if (is_killed || !has_stopped)
					change_and_ask();
				CHECK_EQ(used(), 4);
				CHECK_EQ(slots_in_use(), 1);
				weir_table_free(stage.table);
			}
		}
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = { TEST(a_limit_changes_in_between), TEST(a_limit_has_changed_before),
						   TEST(a_change_is_stopped_or_killed) };

	if (argc > 1)
		stride = (unsigned)atoi(argv[1]);
	table_hook = on_access;
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
