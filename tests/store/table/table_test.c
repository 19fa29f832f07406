/* table_test.c: single keys and decisions: a table decides as the core does with a state for each key.
 * table_full_test.c tests full tables. Time is an argument. */
/* Covers: src/store/table/table_find.c */
#include <stdlib.h>

#include "tables.h"

enum { KEYS = 300, OPERATIONS = 100000, WILD = 20000 };

/* Every operation on a key of every kind. */
static void each_question(void)
{
	static const char *const limits[] = { "10/s burst 5",       "10/s leaky queue 5",
					      "10/s leaky burst 5", "5/s refill interval",
					      "5/s fixed_window",   "5/s fixed_window align first",
					      "5/s sliding_counter" };
	struct weir_table *const table = table_for(100, MADE_AT);

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct weir_table_limit *const limit = limit_in(table, limits[i]);
		struct weir_table_key key = weir_table_inspect(table, limit, "key", 3, MADE_AT);

		CHECK(!key.is_stored && key.full_at == 0 && key.verdict.remaining == 5);
		CHECK(!weir_table_reset(table, limit, "key", 3));
		CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT, 1));
		CHECK(!weir_table_allow(table, limit, "key", 3, MADE_AT, 5));
		CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT, 0));
		CHECK_EQ(weir_table_take(table, limit, "key", 3, MADE_AT, 1).remaining, 3);
		CHECK(!weir_table_peek(table, limit, "key", 3, MADE_AT, 4).allowed);
		CHECK(weir_table_peek(table, limit, "key", 3, MADE_AT, 3).allowed);
		CHECK_EQ(weir_table_upto(table, limit, "key", 3, MADE_AT, 9).granted, 3);
		CHECK_EQ(weir_table_refund(table, limit, "key", 3, MADE_AT, 2).remaining, 2);
		key = weir_table_inspect(table, limit, "key", 3, MADE_AT);
		CHECK(key.is_stored && key.full_at > MADE_AT && key.verdict.remaining == 2 && key.verdict.allowed);
		CHECK(key.tokens.units == 2 && key.tokens.parts == 0 && key.tokens.of == 1);
		key = weir_table_inspect(table, limit, "key", 3, MADE_AT + MS(50));
		CHECK(key.tokens.units == 2 && key.tokens.parts == (i < 3) && key.tokens.of == (i < 3 ? 2 : 1));
		CHECK(weir_table_take(table, limit, "key", 3, MADE_AT, 6).never);
		CHECK(weir_table_reset(table, limit, "key", 3));
		CHECK(!weir_table_inspect(table, limit, "key", 3, MADE_AT).is_stored);
		CHECK_EQ(weir_table_peek(table, limit, "key", 3, MADE_AT, 0).remaining, 5);
	}
	weir_table_free(table);
}

/* A key whose charges were all given back has no slot, nor has one that was never charged. */
static void a_key_that_owes_nothing_has_no_slot(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);

	for (size_t i = 0; i < KINDS; i++) {
		const struct weir_table_limit *const limit = limit_in(table, of_each_kind[i]);

		weir_table_peek(table, limit, "key", 3, MADE_AT, 1);
		weir_table_refund(table, limit, "key", 3, MADE_AT, 1);
		weir_table_upto(table, limit, "key", 3, MADE_AT, 0);
		weir_table_take(table, limit, "key", 3, MADE_AT, 0);
		if (!weir_table_limit_limit(limit).count_all) /* counts a cost that never fits */
			CHECK(!weir_table_allow(table, limit, "key", 3, MADE_AT, UINT64_MAX));
		CHECK_EQ(slots_with(table, limit, "key", 3), 0);
		weir_table_take(table, limit, "key", 3, MADE_AT, 2);
		CHECK_EQ(slots_with(table, limit, "key", 3), 1);
		weir_table_refund(table, limit, "key", 3, MADE_AT, 2);
		CHECK_EQ(slots_with(table, limit, "key", 3), 0);
		weir_table_take(table, limit, "key", 3, MADE_AT, 1);
		weir_table_refund(table, limit, "key", 3, MADE_AT, UINT64_MAX);
		CHECK_EQ(slots_with(table, limit, "key", 3), 0);
	}
	CHECK_EQ(stats_of(table, MADE_AT).live, 0);
	weir_table_free(table);
}

static void keys_are_any_bytes(void)
{
	static const char long_key[100000] = "long";
	static const struct {
		const void *key;
		size_t length;
	} keys[] = {
		{ NULL, 0 },   { "\0", 1 },         { "\0\0", 2 },        { "a", 1 },        { "a\0", 2 },
		{ "a\0b", 3 }, { "a\0c", 3 },       { "ab", 2 },          { "aaaaaaaa", 8 }, { "aaaaaaaab", 9 },
		{ "\xff", 1 }, { long_key, 99999 }, { long_key, 100000 }, { long_key, 4 },
	};
	const size_t n = sizeof(keys) / sizeof(keys[0]);
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *const one = limit_in(table, "1/s"), *const two = limit_in(table, "2/s");

	for (size_t i = 0; i < n; i++)
		CHECK(weir_table_allow(table, one, keys[i].key, keys[i].length, MADE_AT, 1));
	for (size_t i = 0; i < n; i++)
		CHECK(!weir_table_allow(table, one, keys[i].key, keys[i].length, MADE_AT, 1));
	CHECK_EQ(stats_of(table, MADE_AT).live, n);
	for (size_t i = 0; i < n; i++) /* under another limit it is another key */
		CHECK(weir_table_allow(table, two, keys[i].key, keys[i].length, MADE_AT, 2));
	CHECK_EQ(stats_of(table, MADE_AT).live, 2 * n);
	CHECK(weir_table_reset(table, one, "", 0)); /* an empty key is one key, whatever its pointer */
	weir_table_free(table);
}

/* --- compared with the core -------------------------------------------------------------------------------------- */

/* A key in the table and its expected state. */
struct subject {
	struct weir_table *table;
	const struct weir_table_limit *limit;
	uint32_t key;
	struct weir_state state;
};

static const struct weir_plan *plan_in(const struct subject *subject)
{
	return &subject->limit->first.plan;
}

/* With count all, a window in a table stops counting earlier than the core does. */
static void cut_count(struct subject *subject)
{
	if (plan_in(subject)->flags & WEIR_PLAN_COUNT_ALL)
		subject->state.hi = weir__min(subject->state.hi, subject->limit->first.is_by_ms ?
									 WEIR_TABLE_WINDOW_MAX :
									 WEIR_TABLE_COUNT_MAX);
}

typedef struct weir_verdict operation(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				      size_t key_length, weir_ns now, uint64_t cost);

static const struct {
	const char *name;
	operation *of_table;
	weir__step *of_core;
} operations[] = {
	{ "take", weir_table_take, weir_step_take },
	{ "upto", weir_table_upto, weir_step_upto },
	{ "peek", weir_table_peek, weir_step_peek },
	{ "refund", weir_table_refund, weir_step_refund },
};

static void check_inspection(struct subject *subject, weir_ns now, weir_ns core_now)
{
	const struct weir_table_key key = weir_table_inspect(subject->table, subject->limit, &subject->key,
							     sizeof(subject->key), now);
	struct weir_state copy = subject->state;
	const struct weir_verdict expected = weir_step_peek(plan_in(subject), &copy, core_now, 0);

	CHECK_VERDICT("inspect", &key.verdict, &expected);
	CHECK(key.is_stored || expected.reset_after == 0);
	CHECK_EQ(key.full_at != 0, key.is_stored);
	if (expected.reset_after > 0 && weir__slot_equal(copy, subject->state)) {
		CHECK(key.full_at >= core_now + expected.reset_after);
		CHECK(key.full_at == core_now + expected.reset_after || plan_in(subject)->kind == WEIR_KIND_COUNTER);
	}
}

/* Any operation, in the table and in the core. The table gets `now`, the core `core_now`, its expected
 * interpretation. */
static void operate(struct subject *subject, weir_ns now, weir_ns core_now, uint64_t cost)
{
	const uint64_t which = below(16);
	const void *const key = &subject->key;

	if (subject->limit->first.is_wide && below(2))
		cost *= below(700000000);
	if (which == 0) {
		struct weir_state copy = subject->state;
		const bool uses = weir_step_peek(plan_in(subject), &copy, core_now, 0).reset_after > 0;

		CHECK(weir_table_reset(subject->table, subject->limit, key, sizeof(subject->key)) || !uses);
		subject->state = (struct weir_state){ 0, 0 };
	} else if (which == 1) {
		check_inspection(subject, now, core_now);
	} else if (which < 8) {
		const bool allowed = weir_table_allow(subject->table, subject->limit, key, sizeof(subject->key), now,
						      cost);

		CHECK_EQ(allowed, weir_step_allow(plan_in(subject), &subject->state, core_now, cost));
	} else {
		const size_t i = which < 13 ? 0 : which - 12;
		const struct weir_verdict found = operations[i].of_table(subject->table, subject->limit, key,
									 sizeof(subject->key), now, cost);
		const struct weir_verdict expected = operations[i].of_core(plan_in(subject), &subject->state, core_now,
									   cost);

		CHECK_VERDICT(operations[i].name, &found, &expected);
	}
	cut_count(subject);
}

/* Clocks differ by less than 100 ms, as those of threads may: forgetting full keys meanwhile changes no verdict. */
static void many_keys_answer_as_core_does(void)
{
	struct weir_table *const table = table_for(10 * KEYS, MADE_AT);
	static struct subject subjects[KEYS];
	weir_ns time = MADE_AT;

	for (uint32_t i = 0; i < KEYS; i++)
		subjects[i] = (struct subject){ table, limit_in(table, of_each_kind[i % KINDS]), i, { 0, 0 } };
	for (int i = 0; i < OPERATIONS && !check_failed; i++) {
		struct subject *const subject = &subjects[below(KEYS)];
		const weir_ns now = time - below(MS(100));

		operate(subject, now, now, below(8) ? below(4) : below(30));
		time += below(1000) ? below(MS(3)) : below(S(5));
	}
	for (uint32_t i = 0; i < KEYS; i++)
		CHECK(slots_with(table, subjects[i].limit, &i, sizeof(i)) <= 1);
	CHECK_EQ(stats_of(table, time).evicted, 0);
	CHECK(stats_of(table, time).inserted > KEYS);
	weir_table_free(table);
}

/* The time that a table uses for `now`. */
static weir_ns clamped(weir_ns epoch, weir_ns now)
{
	const weir_ns last = epoch + (UINT64_C(1) << 59);

	return now < epoch ? epoch : now > last ? last : now;
}

static weir_ns any_time(weir_ns epoch, weir_ns last)
{
	const weir_ns end = epoch + (UINT64_C(1) << 59);

	switch (below(10)) {
	case 0:
		return below(2) ? 0 : UINT64_MAX - below(3);
	case 1:
		return epoch + below(3) - 1;
	case 2:
		return end + below(3) - 1;
	case 3:
		return any();
	case 4:
		return last - below(S(120));
	default:
		return last + below(S(1));
	}
}

static uint64_t any_cost(void)
{
	switch (below(8)) {
	case 0:
		return UINT64_MAX - below(2);
	case 1:
		return any() >> below(64);
	default:
		return below(8);
	}
}

/* A key alone in its table is never forgotten, so it matches the core at any time. Before and after the times that
 * slots can hold, time stands still. */
static void one_key_answers_as_core_does_at_any_time(void)
{
	static const weir_ns made[] = { MADE_AT, UINT64_C(1) << 58, UINT64_MAX / 2 };

	for (size_t i = 0; i < 3 * KINDS; i++) {
		struct weir_table *const table = table_for(10, made[i % 3]);
		struct subject subject = { table, limit_in(table, of_each_kind[i / 3]), 1, { 0, 0 } };
		weir_ns time = made[i % 3];

		CHECK_EQ(table->epoch, made[i % 3] - (UINT64_C(1) << 58));
		for (int n = 0; n < WILD && !check_failed; n++) {
			time = any_time(table->epoch, time);
			operate(&subject, time, clamped(table->epoch, time), any_cost());
		}
		CHECK(slots_with(table, subject.limit, &subject.key, sizeof(subject.key)) <= 1);
		if (check_failed)
			printf("# %s\n", of_each_kind[i / 3]);
		weir_table_free(table);
	}
}

/* Whenever the table is made: no key has usage beyond the end of time. */
static void a_table_made_at_the_end_of_time(void)
{
	static const weir_ns times[] = { 0, MADE_AT, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX };

	for (size_t i = 0; i < KINDS * 5; i++) {
		struct weir_table *const table = table_for(10, UINT64_MAX);
		const struct weir_table_limit *const limit = limit_in(table, of_each_kind[i / 5]);
		const uint64_t most = weir_table_peek(table, limit, "key", 3, times[i % 5], 0).limit;
		const uint64_t cost = most < 1000 ? 1 : most / 10;
		uint64_t admitted = 0;

		for (uint64_t n = 0; n < 3 * most / cost; n++)
			admitted += weir_table_allow(table, limit, "key", 3, times[i % 5], cost);
		CHECK_EQ(admitted, most / cost);
		weir_table_free(table);
	}
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

static void statistics_add_up(void)
{
	struct weir_table *const table = table_for(2000, MADE_AT);
	const struct weir_table_limit *const a = limit_in(table, "2/hour"), *const b = limit_in(table, "3/hour");
	struct weir_table_limit_stats of_a, of_b;
	struct weir_table_stats stats = stats_of(table, MADE_AT);

	CHECK_EQ(stats.size_bytes, weir_table_size(2000, 0));
	CHECK(stats.capacity * 16 <= stats.size_bytes && stats.capacity >= 2000);
	CHECK_EQ(stats.limits, 2);
	CHECK_EQ(stats.limits_max, 64);
	CHECK_EQ(stats.live + stats.inserted + stats.absent, 0);
	for (uint32_t i = 0; i < 3000; i++) {
		weir_table_allow(table, a, &(uint32_t){ i % 1000 }, 4, MADE_AT, 1);
		weir_table_take(table, b, &(uint32_t){ i % 500 }, 4, MADE_AT, 1);
		weir_table_upto(table, b, &(uint32_t){ i % 500 }, 4, MADE_AT, 9);
	}
	for (uint32_t i = 0; i < 3000; i++) { /* no decisions */
		weir_table_peek(table, a, &i, 4, MADE_AT, 1);
		weir_table_inspect(table, a, &i, 4, MADE_AT);
		weir_table_refund(table, a, &(uint32_t){ 5000 + i }, 4, MADE_AT, 1);
		weir_table_reset(table, a, &(uint32_t){ 5000 + i }, 4);
	}
	weir_table_limit_stats(table, a, &of_a);
	weir_table_limit_stats(table, b, &of_b);
	CHECK_EQ(of_a.allowed, 2000);
	CHECK_EQ(of_a.denied, 1000);
	CHECK_EQ(of_b.allowed, 1000); /* one, and up to 9 of the other two */
	CHECK_EQ(of_b.denied, 5000);
	stats = stats_of(table, MADE_AT);
	CHECK_EQ(stats.live, 1500);
	CHECK_EQ(stats.inserted, 1500);
	CHECK_EQ(stats.evicted + stats.lost_races, 0);
	CHECK_EQ(stats.absent, 1500);
	CHECK(stats.probes[0] > stats.probes[1] && stats.probes[1] > 0);
	CHECK_EQ(stats.absent + stats.probes[0] + stats.probes[1] + stats.probes[2] + stats.probes[3], 9000);
	CHECK_EQ(stats_of(table, MADE_AT + S(7200)).live, 0);
	CHECK_EQ(stats_of(table, UINT64_MAX).live, 0);
	CHECK_EQ(stats_of(table, 0).live, 1500);
	weir_table_free(table);
}

static void the_clock_of_a_table(void)
{
	struct weir_table *const table = table_for(10, 0);
	const weir_ns before = weir_clock_now(), now = weir_table_now(table), after = weir_clock_now();

	CHECK(before <= now && now <= after);
	CHECK(before - table->epoch >= UINT64_C(1) << 58); /* made around now */
	weir_table_free(table);
	weir_table_free(NULL);
}

TESTS(TEST(each_question), TEST(a_key_that_owes_nothing_has_no_slot), TEST(keys_are_any_bytes),
      TEST(many_keys_answer_as_core_does), TEST(one_key_answers_as_core_does_at_any_time),
      TEST(a_table_made_at_the_end_of_time), TEST(statistics_add_up), TEST(the_clock_of_a_table))
