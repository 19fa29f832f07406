/* table_change_test.c: limits change while keys have usage. A key is converted when it is next used. It must then act
 * like a limiter, or a core state, that was converted at once. */
/* Covers: src/store/table/plans.c, src/store/table/view.c */
#include <stdlib.h>
#include <unistd.h>

#include "core/segments.h"
#include "tables.h"

static void change_to(struct weir_table *table, const struct weir_table_limit *limit, const char *text, weir_ns now)
{
	struct weir_message why = { 0, "" };

	if (weir_table_change_limit_text(table, limit, text, now, &why) != WEIR_OK) {
		check_fail(__FILE__, __LINE__, text);
		printf("# %s\n", why.text);
	}
}

static uint64_t left(struct weir_table *table, const struct weir_table_limit *limit, const char *key, weir_ns now)
{
	return weir_table_peek(table, limit, key, strlen(key), now, 0).remaining;
}

static bool takes(struct weir_table *table, const struct weir_table_limit *limit, const char *key, weir_ns now,
		  uint64_t cost)
{
	return weir_table_allow(table, limit, key, strlen(key), now, cost);
}

/* A table with two attachments. */
static void share(struct weir_table *ret_tables[2])
{
	struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0), .made_at = MADE_AT };
	char name[40];

	(void)snprintf(name, sizeof(name), "weir-table-change-test-%d", (int)getpid());
	options.shared = name;
	ret_tables[0] = table_with(&options);
	ret_tables[1] = table_with(&options);
	CHECK_EQ(weir_table_unlink(name, NULL), WEIR_OK);
}

/* --- what changes ----------------------------------------------------------------------------------------------- */

static void a_bucket_keeps_what_was_used_cut_to_the_burst(void)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "1/s burst 10");

	CHECK(takes(table, limit, "many", MADE_AT, 8));
	CHECK(takes(table, limit, "one", MADE_AT, 1));
	change_to(table, limit, "1/s burst 5", MADE_AT);
	CHECK_EQ(left(table, limit, "many", MADE_AT), 0);
	CHECK_EQ(left(table, limit, "one", MADE_AT), 4);
	CHECK_EQ(left(table, limit, "new", MADE_AT), 5);
	change_to(table, limit, "2/s burst 20", MADE_AT + S(1));
	CHECK_EQ(left(table, limit, "many", MADE_AT + S(1)), 16);
	CHECK_EQ(left(table, limit, "many", MADE_AT + S(2)), 18);
	CHECK_EQ(left(table, limit, "one", MADE_AT + S(1)), 20);
	CHECK_EQ(left(table, limit, "new", MADE_AT + S(1)), 20);
	weir_table_free(table);
}

/* A new key has the full limit, however often the limit was changed before. */
static void a_raised_limit_reaches_everybody(void)
{
	static const char *const texts[][2] = {
		{ "10/hour", "1000/hour" },
		{ "10/hour leaky queue 10", "1000/hour leaky queue 1000" },
		{ "10/hour refill interval", "1000/hour refill interval" },
		{ "10/hour fixed_window", "1000/hour fixed_window" },
		{ "10/hour sliding_counter", "1000/hour sliding_counter" },
		{ "10/hour sliding_log", "1000/hour sliding_log" },
		{ "10/hour sliding_counter segments 6", "1000/hour sliding_counter segments 6" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct weir_table *const table = table_with_arena(1000, 1 << 18);
		const struct weir_table_limit *const limit = limit_in(table, texts[i][0]);

		CHECK(takes(table, limit, "full", MADE_AT, 1));
		for (uint64_t changes = 1; changes <= 31; changes++) {
			change_to(table, limit, texts[i][changes % 2], MADE_AT + S(8000) * changes);
			CHECK_EQ(left(table, limit, "new", MADE_AT + S(8000) * changes), changes % 2 ? 1000 : 10);
			CHECK_EQ(left(table, limit, "full", MADE_AT + S(8000) * changes), changes % 2 ? 1000 : 10);
		}
		weir_table_free(table);
	}
}

/* From a count that fits its slot to one that has bits in the slot's end, and back. */
static void a_window_becomes_wide(void)
{
	static const char *const texts[] = { "200000000/hour fixed_window", "70368744177663/hour fixed_window",
					     "4294967295/hour fixed_window", "5/hour fixed_window" };
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, texts[0]);
	const weir_ns turned = (MADE_AT / S(3600) + 1) * S(3600);

	CHECK(takes(table, limit, "key", MADE_AT, 123456789));
	CHECK(takes(table, limit, "one", MADE_AT, 1));
	change_to(table, limit, texts[1], MADE_AT + 1);
	CHECK_EQ(left(table, limit, "key", MADE_AT + 1), 70368744177663 - 123456789);
	CHECK(takes(table, limit, "key", MADE_AT + 2, 70368744177663 - 123456789));
	CHECK(!takes(table, limit, "key", turned - 1, 1));
	CHECK_EQ(weir_table_peek(table, limit, "key", 3, MADE_AT + 2, 1).retry_after, turned - MADE_AT - 2);
	CHECK_EQ(weir_table_inspect(table, limit, "key", 3, MADE_AT + 2).full_at, turned);
	weir_table_refund(table, limit, "key", 3, MADE_AT + 3, 70368744177663 - 4294967290);
	CHECK_EQ(left(table, limit, "one", MADE_AT + 3), 70368744177662);
	change_to(table, limit, texts[2], MADE_AT + 4);
	CHECK_EQ(left(table, limit, "key", MADE_AT + 4), 5);
	CHECK_EQ(left(table, limit, "key", turned), 4294967295);
	CHECK_EQ(left(table, limit, "one", MADE_AT + 4), 4294967294);
	change_to(table, limit, texts[3], MADE_AT + 5);
	CHECK_EQ(left(table, limit, "key", MADE_AT + 5), 0);
	CHECK_EQ(left(table, limit, "one", MADE_AT + 5), 4);
	CHECK(takes(table, limit, "key", turned, 5));
	weir_table_free(table);
}

/* A count that the limit as it is now could not have made. */
static void a_lowered_window_keeps_what_it_counted(void)
{
	static const char *const lowered[] = { "5/hour fixed_window", "268435455/hour fixed_window",
					       "268435456/hour fixed_window" };
	const uint64_t most = WEIR_TABLE_WINDOW_MAX;
	const weir_ns turned = (MADE_AT / S(3600) + 1) * S(3600);

	for (size_t i = 0; i < sizeof(lowered) / sizeof(lowered[0]); i++) {
		struct weir_table *const table = table_for(1000, MADE_AT);
		const struct weir_table_limit *const limit = limit_in(table, "70368744177663/hour fixed_window");

		CHECK(takes(table, limit, "key", MADE_AT, most - 7));
		CHECK(takes(table, limit, "untouched", MADE_AT, most - 7));
		change_to(table, limit, lowered[i], MADE_AT + 1);
		CHECK(!takes(table, limit, "key", MADE_AT + 1, 1));
		CHECK_EQ(weir_table_peek(table, limit, "key", 3, MADE_AT + 1, 1).retry_after, turned - MADE_AT - 1);
		CHECK_EQ(weir_table_inspect(table, limit, "key", 3, MADE_AT + 1).full_at, turned);
		weir_table_refund(table, limit, "key", 3, MADE_AT + 2, 2);
		CHECK(!takes(table, limit, "key", turned - 1, 1));
		change_to(table, limit, "70368744177663/hour fixed_window", MADE_AT + 3);
		CHECK_EQ(left(table, limit, "key", MADE_AT + 3), 9);
		CHECK_EQ(left(table, limit, "untouched", MADE_AT + 3), 7);
		change_to(table, limit, lowered[i], MADE_AT + 4);
		CHECK(!takes(table, limit, "key", turned - 1, 1));
		CHECK(takes(table, limit, "key", turned, 5));
		weir_table_free(table);
	}
}

static void a_window_keeps_what_it_counted(void)
{
	static const char *const texts[][3] = {
		{ "10/min fixed_window", "5/min fixed_window", "20/min fixed_window" },
		{ "10/min fixed_window align first", "5/min fixed_window align first",
		  "20/min fixed_window align first" },
		{ "10/min sliding_counter", "5/min sliding_counter", "20/min sliding_counter" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct weir_table *const table = table_for(1000, MADE_AT);
		const struct weir_table_limit *const limit = limit_in(table, texts[i][0]);

		CHECK(takes(table, limit, "key", MADE_AT, 7));
		change_to(table, limit, texts[i][1], MADE_AT + S(1));
		CHECK_EQ(left(table, limit, "key", MADE_AT + S(1)), 0);
		CHECK(!takes(table, limit, "key", MADE_AT + S(1), 1));
		change_to(table, limit, texts[i][2], MADE_AT + S(2));
		CHECK_EQ(left(table, limit, "key", MADE_AT + S(2)), 13);
		CHECK_EQ(left(table, limit, "new", MADE_AT + S(2)), 20);
		weir_table_free(table);
	}
}

static void what_cannot_change_is_refused(void)
{
	static const struct {
		const char *from, *to;
		int error;
	} rows[] = {
		{ "10/s", "10/s fixed_window", WEIR_ERR_CHANGE },
		{ "10/s", "10/s refill interval", WEIR_ERR_CHANGE },
		{ "10/s leaky queue 5", "10/s leaky burst 5", WEIR_ERR_CHANGE },
		{ "10/s fixed_window", "10/min fixed_window", WEIR_ERR_CHANGE },
		{ "10/s fixed_window", "10/s fixed_window count all", WEIR_ERR_CHANGE },
		{ "10/s fixed_window", "10/s fixed_window align first", WEIR_ERR_CHANGE },
		{ "10/s sliding_counter", "20000/s sliding_counter", WEIR_ERR_NO_ARENA }, /* without an arena */
		{ "10/s fixed_window", "70368744177664/s fixed_window", WEIR_ERR_MAXIMUM },
		{ "10/s", "1/day burst 10000000", WEIR_ERR_MAXIMUM },
		{ "10/s", "0/s", WEIR_ERR_LIMIT },
		{ "10/s", "10/fortnight", WEIR_ERR_SYNTAX },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_table *const table = table_for(1000, MADE_AT);
		const struct weir_table_limit *const limit = limit_in(table, rows[i].from);
		struct weir_message why = { 0, "" };
		char text[WEIR_LIMIT_TEXT_MAX];
		struct weir_limit now;

		CHECK_EQ(weir_table_change_limit_text(table, limit, rows[i].to, MADE_AT, &why), rows[i].error);
		CHECK(why.text[0] != '\0');
		now = weir_table_limit_limit(limit);
		(void)weir_limit_print(&now, text);
		CHECK_TEXT(text, rows[i].from);
		weir_table_free(table);
	}
}

static void the_same_limit_changes_nothing(void)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "1/day burst 10");

	CHECK(takes(table, limit, "key", MADE_AT, 10));
	for (int i = 0; i < 100; i++) /* like a program that reads the same settings repeatedly */
		change_to(table, limit, "1/day burst 10", MADE_AT + S(1));
	CHECK_EQ(left(table, limit, "key", MADE_AT + S(1)), 0);
	weir_table_free(table);
}

/* --- many changes ----------------------------------------------------------------------------------------------- */

/* The i-th limit that a limit of this kind is changed to. */
static struct weir_limit varied(const struct weir_limit *limit, uint64_t i)
{
	struct weir_limit other = *limit;

	other.count += i * i % 5;
	other.burst += i * 7 % 9;
	if (limit->algorithm <= WEIR_LEAKY_BUCKET && i % 3 == 0)
		other.period += i;
	return other;
}

/* A core state that is converted at once. */
struct twin {
	struct weir_plan plan;
	struct weir_state state;
};

static void change_twin(struct twin *twin, const struct weir_limit *limit, weir_ns now)
{
	struct weir_plan plan;

	if (weir_plan_compile(limit, &plan, NULL) != WEIR_OK)
		abort();
	weir_step_convert(&twin->plan, &plan, &twin->state, now);
	twin->plan = plan;
}

static struct weir_limit begin_twin(struct twin *twin, const char *text)
{
	struct weir_limit limit;

	if (weir_limit_parse(text, strlen(text), &limit, NULL) != WEIR_OK ||
	    weir_plan_compile(&limit, &twin->plan, NULL) != WEIR_OK)
		abort();
	twin->state = (struct weir_state){ 0, 0 };
	return limit;
}

/* Changes the limit this many times, 10 ms apart; then the key must act like its twin. */
static void untouched_through(const char *text, uint64_t first, uint64_t changes)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, text);
	struct weir_verdict expected, found;
	struct weir_limit was, is;
	weir_ns now = MADE_AT;
	struct twin twin;

	was = begin_twin(&twin, text);
	for (uint64_t i = 1; i <= first + changes; i++) {
		if (i == first + 1)
			expected = weir_step_take(&twin.plan, &twin.state, now, 3),
			found = weir_table_take(table, limit, "key", 3, now, 3), CHECK_VERDICT(text, &found, &expected);
		now += MS(10);
		is = varied(&was, i);
		CHECK_EQ(weir__table_change_limit(table, limit, &is, now, true, NULL), WEIR_OK);
		change_twin(&twin, &is, now);
	}
	CHECK(weir_table_inspect(table, limit, "key", 3, now).is_stored);
	for (int i = 0; i < 5; i++, now += MS(30)) {
		expected = weir_step_take(&twin.plan, &twin.state, now, 1);
		found = weir_table_take(table, limit, "key", 3, now, 1);
		CHECK_VERDICT(text, &found, &expected);
	}
	CHECK_EQ(weir__region_count(&table->region, WEIR__PLANS_LOST), 0);
	weir_table_free(table);
}

static void keys_that_are_not_touched_through_many(void)
{
	for (size_t kind = 0; kind < KINDS; kind++) {
		for (uint64_t changes = 1; changes <= 30; changes++)
			untouched_through(of_each_kind[kind], 0, changes);
		for (uint64_t first = 0; first < 30; first++)
			for (uint64_t changes = 1; changes <= 64; changes *= 2)
				untouched_through(of_each_kind[kind], first, changes);
		untouched_through(of_each_kind[kind], 3, 600);
	}
}

/* A limit that changes all the time overwrites its own old plans, not those of another limit with keys in use. */
static void a_busy_limit_leaves_others_their_plans(void)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const busy = limit_in(table, "10/s burst 10"), *const slow = limit_in(
											      table, "10/day burst 10");
	struct weir_limit to = weir_table_limit_limit(busy);

	CHECK(takes(table, slow, "key", MADE_AT, 4));
	change_to(table, slow, "10/day burst 12", MADE_AT);
	for (uint64_t i = 1; i <= 20000; i++) {
		to.burst = 10 + i % 7;
		CHECK_EQ(weir_table_change_limit(table, busy, &to, MADE_AT + S(1) * i, NULL), WEIR_OK);
		if (i % 1000 == 0)
			CHECK(takes(table, busy, &"abcdefghijklmnopqrstuvwxyz"[i / 1000], MADE_AT + S(1) * i, 1));
	}
	CHECK_EQ(left(table, slow, "key", MADE_AT), 8);
	CHECK_EQ(weir__region_count(&table->region, WEIR__PLANS_LOST), 0);
	weir_table_free(table);
}

/* More changes within a day than the table remembers: the oldest keys start over, and that is counted. */
static void plans_that_are_lost_are_counted(void)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "10/day burst 10");
	struct weir_limit to = weir_table_limit_limit(limit);

	CHECK(takes(table, limit, "first", MADE_AT, 4));
	for (uint64_t i = 1; i <= 3000; i++) {
		to.burst = 10 + i % 7;
		CHECK_EQ(weir_table_change_limit(table, limit, &to, MADE_AT + S(1) * i, NULL), WEIR_OK);
		if (i == 2900)
			CHECK(takes(table, limit, "last", MADE_AT + S(1) * i, 4));
	}
	CHECK_EQ(left(table, limit, "first", MADE_AT + S(3000)), to.burst);
	CHECK_EQ(left(table, limit, "last", MADE_AT + S(3000)), to.burst - 4);
	CHECK(weir__region_count(&table->region, WEIR__PLANS_LOST) > 0);
	weir_table_free(table);
}

/* Keys that are used now and then, by any operation, are converted however often the limit changes. */
static void keys_that_are_touched_keep_up(void)
{
	enum { KEYS = 8 };
	static const struct {
		struct weir_verdict (*of_table)(struct weir_table *table, const struct weir_table_limit *limit,
						const void *key, size_t key_length, weir_ns now, uint64_t cost);
		struct weir_verdict (*of_core)(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost);
	} operations[] = { { weir_table_take, weir_step_take },
			   { weir_table_upto, weir_step_upto },
			   { weir_table_peek, weir_step_peek },
			   { weir_table_refund, weir_step_refund } };

	for (size_t kind = 0; kind < KINDS; kind++) {
		struct weir_table *const table = table_for(1000, MADE_AT);
		const struct weir_table_limit *const limit = limit_in(table, of_each_kind[kind]);
		struct twin twins[KEYS];
		struct weir_limit was, is;
		weir_ns now = MADE_AT;

		for (size_t i = 0; i < KEYS; i++)
			was = begin_twin(&twins[i], of_each_kind[kind]);
		for (uint64_t changes = 1; changes <= 1000; changes++) {
			now += below(MS(40));
			is = varied(&was, any() % 1000);
			CHECK_EQ(weir__table_change_limit(table, limit, &is, now, true, NULL), WEIR_OK);
			for (uint32_t i = 0; i < KEYS; i++)
				change_twin(&twins[i], &is, now);
			for (uint32_t i = 0; i < KEYS; i++) {
				const size_t operation = below(4);
				const uint64_t cost = below(4);
				struct weir_verdict found, expected;

				if (changes % 7 != i % 7 && below(3) != 0)
					continue;
				now += below(MS(10));
				found = operations[operation].of_table(table, limit, &i, sizeof(i), now, cost);
				expected = operations[operation].of_core(&twins[i].plan, &twins[i].state, now, cost);
				CHECK_VERDICT(of_each_kind[kind], &found, &expected);
			}
			if (check_failed)
				break;
		}
		weir_table_free(table);
	}
}

/* A throttled key is denied repeatedly, which must convert it as well. */
static void denied_keys_keep_up(void)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "10/day burst 10");

	CHECK(takes(table, limit, "key", MADE_AT, 10));
	for (uint64_t i = 1; i <= 100; i++) {
		change_to(table, limit, i % 2 ? "20/day burst 10" : "10/day burst 10", MADE_AT + MS(1) * i);
		CHECK(!takes(table, limit, "key", MADE_AT + MS(1) * i, 1));
	}
	weir_table_free(table);
}

/* A higher burst does not restore what a lower one has cut, and nothing is gained. */
static void to_and_fro_cuts_once(void)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "10/day burst 20");

	CHECK(takes(table, limit, "key", MADE_AT, 17));
	for (uint64_t i = 1; i <= 100; i++) {
		change_to(table, limit, i % 2 ? "10/day burst 5" : "10/day burst 20", MADE_AT);
		if (i % 4 < 2)
			CHECK_EQ(left(table, limit, "key", MADE_AT), i % 2 ? 0 : 15);
	}
	weir_table_free(table);
}

/* --- slots ------------------------------------------------------------------------------------------------------ */

/* By the old rate the key would be full and its slot free; by the new rate it is not. */
static void a_slower_rate_keeps_slots(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const limit = limit_in(table, "10/s burst 10");
	struct weir_table_stats stats;

	CHECK(takes(table, limit, "key", MADE_AT, 10));
	change_to(table, limit, "10/min burst 10", MADE_AT);
	for (uint32_t i = 0; i < 15; i++) /* all remaining slots, and some of them again */
		CHECK(weir_table_allow(table, limit, &i, sizeof(i), MADE_AT + S(2), 1));
	CHECK_EQ(left(table, limit, "key", MADE_AT + S(5)), 0);
	CHECK_EQ(left(table, limit, "key", MADE_AT + S(6)), 1);
	stats = stats_of(table, MADE_AT + S(2));
	CHECK_EQ(stats.evicted, 0);
	weir_table_free(table);
}

/* A slot that is only held is evicted before a key with usage. */
static void held_slots_give_way_first(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const day = limit_in(table, "10/day fixed_window"), *const second = limit_in(
												   table,
												   "10/s burst 10");

	for (uint32_t i = 0; i < 8; i++)
		CHECK(weir_table_allow(table, day, &i, sizeof(i), MADE_AT, 1));
	for (uint32_t i = 0; i < 8; i++)
		CHECK(weir_table_allow(table, second, &i, sizeof(i), MADE_AT, 1));
	change_to(table, second, "10/hour burst 10", MADE_AT);
	for (uint32_t i = 8; i < 16; i++)
		CHECK(weir_table_allow(table, day, &i, sizeof(i), MADE_AT + S(1), 1));
	for (uint32_t i = 0; i < 16; i++)
		CHECK_EQ(weir_table_peek(table, day, &i, sizeof(i), MADE_AT + S(1), 1).remaining, 9);
	CHECK_EQ(stats_of(table, MADE_AT + S(1)).evicted, 0);
	weir_table_free(table);
}

/* A core state with room for the counts of a sliding counter that outgrows its slots. */
struct wide_twin {
	struct weir_plan plan;
	uint64_t state[3];
};

static void change_wide_twin(struct wide_twin *twin, const struct weir_limit *limit, weir_ns now)
{
	struct weir_plan plan;

	if (weir_plan_compile(limit, &plan, NULL) != WEIR_OK)
		abort();
	if (twin->plan.kind == WEIR_KIND_SEGMENTS && plan.kind == WEIR_KIND_COUNTER)
		weir__segments_widen(&plan);
	weir_step_convert(&twin->plan, &plan, twin->state, now);
	twin->plan = plan;
}

/* A sliding counter whose count no longer fits the slot: its keys get histories with their counts. */
static void a_counter_outgrows_its_slots(void)
{
	enum { KEYS = 8 };
	static const uint64_t counts[] = { 30, 20000, 50, 16384, 16383, 1000000, 7, 16383, 40000 };

	for (size_t before = 0; before <= 20; before++) {
		struct weir_table *const table = table_with_arena(1000, 1 << 20);
		const struct weir_table_limit *const limit = limit_in(table, "10/s sliding_counter");
		struct weir_limit to = weir_table_limit_limit(limit);
		struct wide_twin twins[KEYS] = { 0 };
		weir_ns now = MADE_AT;

		for (size_t i = 0; i < KEYS; i++)
			CHECK_EQ(weir_plan_compile(&to, &twins[i].plan, NULL), WEIR_OK);
		for (size_t i = 0; i < before + sizeof(counts) / sizeof(counts[0]); i++) {
			to.count = i < before ? 10 + i % 3 : counts[i - before];
			now += below(MS(300));
			CHECK_EQ(weir__table_change_limit(table, limit, &to, now, true, NULL), WEIR_OK);
			for (uint32_t key = 0; key < KEYS; key++) {
				struct weir_verdict found, expected;

				change_wide_twin(&twins[key], &to, now);
				for (uint64_t steps = below(4); steps > 0; steps--) {
					const uint64_t cost = below(5);
					const bool is_peek = below(3) == 0;

					now += below(MS(50));
					found = (is_peek ? weir_table_peek : weir_table_take)(table, limit, &key,
											      sizeof(key), now, cost);
					expected = (is_peek ? weir_step_peek : weir_step_take)(
						&twins[key].plan, twins[key].state, now, cost);
					CHECK_VERDICT("sliding_counter", &found, &expected);
				}
			}
			CHECK(stats_of(table, now).live <= KEYS);
		}
		weir_table_free(table);
	}
}

/* After any number of changes, a key has one slot. */
static void a_key_has_one_slot(void)
{
	struct weir_table *const table = tiny_table();
	const struct weir_table_limit *const limit = limit_in(table, "10/day burst 10");

	CHECK(takes(table, limit, "key", MADE_AT, 1));
	for (uint64_t i = 1; i <= 50; i++) {
		change_to(table, limit, i % 2 ? "10/day burst 11" : "10/day burst 10", MADE_AT);
		CHECK(weir_table_inspect(table, limit, "key", 3, MADE_AT).is_stored);
		(void)takes(table, limit, "key", MADE_AT, 1);
		CHECK_EQ(stats_of(table, MADE_AT).live, 1);
	}
	CHECK(weir_table_reset(table, limit, "key", 3));
	CHECK(!weir_table_reset(table, limit, "key", 3));
	CHECK_EQ(stats_of(table, MADE_AT).live, 0);
	weir_table_free(table);
}

static void inspect_tells_of_the_new_limit(void)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const limit = limit_in(table, "10/s burst 10");

	CHECK(takes(table, limit, "key", MADE_AT, 10));
	change_to(table, limit, "1/s burst 10", MADE_AT);
	CHECK_EQ(weir_table_inspect(table, limit, "key", 3, MADE_AT).full_at, MADE_AT + S(10));
	weir_table_free(table);
}

/* --- several processes ------------------------------------------------------------------------------------------ */

static void all_decide_by_the_new_limit(void)
{
	const struct weir_table_limit *limits[2], *again = NULL;
	struct weir_message why = { 0, "" };
	struct weir_table *tables[2];

	share(tables);
	limits[0] = limit_in(tables[0], "10/day burst 10");
	limits[1] = limit_in(tables[1], "10/day burst 10");
	CHECK(takes(tables[0], limits[0], "key", MADE_AT, 4));
	for (uint64_t i = 1; i <= 40; i++) {
		const int by = i % 3 == 0;

		change_to(tables[by], limits[by], i % 2 ? "20/day burst 20" : "10/day burst 10", MADE_AT);
		CHECK_EQ(left(tables[!by], limits[!by], "key", MADE_AT), i % 2 ? 16 : 6);
		CHECK_EQ(weir_table_limit_limit(limits[!by]).burst, i % 2 ? 20 : 10);
	}
	change_to(tables[0], limits[0], "5/day burst 7", MADE_AT);
	CHECK_EQ(weir_table_add_limit_text(tables[1], "10/day burst 10", "10/day burst 10", &again, &why),
		 WEIR_ERR_CHANGE);
	CHECK_TEXT(
		why.text,
		"the table has a limit \"10/day burst 10\" of 5/day burst 7; use weir_table_change_limit to change it");
	CHECK_EQ(weir_table_add_limit_text(tables[1], "10/day burst 10", "5/day burst 7", &again, &why), WEIR_OK);
	CHECK(again == limits[1]);
	weir_table_free(tables[0]);
	weir_table_free(tables[1]);
}

/* A process that attaches after many changes. */
static void who_comes_late_knows_all(void)
{
	const struct weir_table_limit *limit, *late = NULL;
	struct weir_table *tables[2];

	for (uint64_t changes = 0; changes <= 30; changes++) {
		char text[40];

		share(tables);
		limit = limit_in(tables[0], "10/day burst 10");
		for (uint64_t i = 1; i <= changes; i++) {
			if (i + 5 == changes)
				CHECK(takes(tables[0], limit, "key", MADE_AT, 4));
			(void)snprintf(text, sizeof(text), "10/day burst %d", (int)(10 + i));
			change_to(tables[0], limit, text, MADE_AT);
		}
		(void)snprintf(text, sizeof(text), "10/day burst %d", (int)(10 + changes));
		CHECK_EQ(weir_table_add_limit_text(tables[1], "10/day burst 10", text, &late, NULL), WEIR_OK);
		CHECK_EQ(left(tables[1], late, "key", MADE_AT), left(tables[0], limit, "key", MADE_AT));
		CHECK_EQ(left(tables[1], late, "new", MADE_AT), left(tables[0], limit, "new", MADE_AT));
		weir_table_free(tables[0]);
		weir_table_free(tables[1]);
	}
}

/* A process that is killed during a change leaves its claim and a part of the plan. That blocks no other process. */
static void the_dead_block_nobody(void)
{
	for (int written = 0; written <= WEIR__PLAN_WORDS; written++) {
		struct weir_table *const table = table_for(1000, MADE_AT);
		const struct weir_table_limit *const limit = limit_in(table, "10/day burst 10");

		CHECK(takes(table, limit, "key", MADE_AT, 4));
		CHECK(weir__atomic16_swap(&limit->entry->change, (struct weir_state){ 0, 0 },
					  (struct weir_state){ 0, 12345 }));
		for (int i = 0; i < written; i++)
			limit->entry->plans[1].words[i].state = (struct weir_state){ any(),
										     UINT64_C(77) << 32 | 0x180 };
		CHECK_EQ(left(table, limit, "key", MADE_AT), 6);
		change_to(table, limit, "10/day burst 8", MADE_AT);
		CHECK_EQ(left(table, limit, "key", MADE_AT), 4);
		CHECK_EQ(left(table, limit, "new", MADE_AT), 8);
		weir_table_free(table);
	}
}

/* With random data in the plans, every operation ends and stays within the table. */
static void scribbled_plans_lead_nobody_astray(void)
{
	for (int round = 0; round < 2000; round++) {
		struct weir_table *const table = tiny_table();
		const struct weir_table_limit *const limit = limit_in(table, of_each_kind[below(KINDS)]);
		const size_t plans_words = sizeof(limit->entry->plans) / 8;
		const size_t old_words = table->region.n_old_plans * sizeof(struct weir__region_old_plan) / 8;
		struct weir_limit to = weir_table_limit_limit(limit);
		struct weir_message why;
		char key[] = "a";

		for (int i = 0; i < 20; i++) {
			to.count = 1 + below(20);
			(void)weir_table_change_limit(table, limit, &to, MADE_AT, &why);
			for (key[0] = 'a'; key[0] < 'e'; key[0]++)
				(void)weir_table_take(table, limit, key, 1, MADE_AT, 1);
			((uint64_t *)(void *)limit->entry->plans)[below(plans_words)] = below(2) ? any() : any() % 4;
			for (int words = 0; words < 1000; words++)
				((uint64_t *)(void *)table->region.old_plans)[below(old_words)] ^= UINT64_C(1)
												   << below(64);
		}
		weir_table_free(table);
	}
}

/* --- interference ----------------------------------------------------------------------------------------------- */

static void waits_go_on(void)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0) };
	struct weir_table *const table = table_with(&options);
	const struct weir_table_limit *const limit = limit_in(table, "1/s burst 1");
	const weir_ns now = weir_table_now(table);

	CHECK(takes(table, limit, "key", now, 1));
	change_to(table, limit, "1000/s burst 1", now);
	CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, now + S(60), NULL), WEIR_OK);
	CHECK(weir_table_now(table) < now + MS(900));
	weir_table_free(table);
}

static void joint_decisions_go_by_the_new_limit(void)
{
	struct weir_table *const table = table_for(1000, MADE_AT);
	const struct weir_table_limit *const a = limit_in(table, "10/day burst 10"), *const b = limit_in(table,
													 "5/day");
	const struct weir_claim claims[] = { { a, "key", 3, 4 }, { b, "key", 3, 1 } };
	struct weir_decision decision;

	for (uint64_t i = 0; i < 20; i++) {
		change_to(table, a, i % 2 ? "10/day burst 4" : "20/day burst 4", MADE_AT);
		CHECK_EQ(weir_table_decide(table, claims, 2, MADE_AT, NULL, &decision), WEIR_OK);
		CHECK_EQ(decision.verdict.allowed, i == 0);
	}
	CHECK_EQ(left(table, b, "key", MADE_AT), 4);
	weir_table_free(table);
}

TESTS(TEST(a_bucket_keeps_what_was_used_cut_to_the_burst), TEST(a_raised_limit_reaches_everybody),
      TEST(a_window_becomes_wide), TEST(a_lowered_window_keeps_what_it_counted), TEST(a_window_keeps_what_it_counted),
      TEST(what_cannot_change_is_refused), TEST(the_same_limit_changes_nothing),
      TEST(keys_that_are_not_touched_through_many), TEST(keys_that_are_touched_keep_up), TEST(denied_keys_keep_up),
      TEST(to_and_fro_cuts_once), TEST(a_busy_limit_leaves_others_their_plans), TEST(plans_that_are_lost_are_counted),
      TEST(a_counter_outgrows_its_slots), TEST(a_slower_rate_keeps_slots), TEST(held_slots_give_way_first),
      TEST(a_key_has_one_slot), TEST(inspect_tells_of_the_new_limit), TEST(all_decide_by_the_new_limit),
      TEST(who_comes_late_knows_all), TEST(the_dead_block_nobody), TEST(scribbled_plans_lead_nobody_astray),
      TEST(waits_go_on), TEST(joint_decisions_go_by_the_new_limit))
