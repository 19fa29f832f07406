/* recording_replay_test.c: a replay notices each kind of decision that is not as it was. tests/server/record_test.py
 * records and replays real traffic. */
#include "replay/recording_replay.h"

#include <stdlib.h>

#include "check.h"
#include "store/store.h"
#include "store/table/key_state.h"

static const weir_ns start = UINT64_C(1700000000000000000);

static struct weir__recording_replay *replay_of(void)
{
	const struct weir__recording_size size = { .begins = start, .claims = 1000, .events = 1000, .limits = 10 };
	struct weir__recording_replay *replay;
	struct weir_message why;

	if (weir__recording_replay_new(&size, &replay, &why) != WEIR_OK) {
		printf("Bail out! %s\n", why.text);
		exit(1);
	}
	return replay;
}

static struct weir__recording_text text_of(const char *text)
{
	return (struct weir__recording_text){ text, strlen(text) };
}

static void define(struct weir__recording_replay *replay, uint32_t id, const char *name, const char *limit,
		   uint64_t number, weir_ns changed_at)
{
	const struct weir__recording_frame frame = { .type = WEIR__RECORDING_LIMIT,
						     .limit = { .id = id,
								.number = number,
								.changed_at = changed_at,
								.name = text_of(name),
								.text = text_of(limit) } };

	weir__recording_replay_frame(replay, &frame);
}

/* A server's table, and what it decided. */
struct table {
	struct weir_table *table;
	const struct weir_table_limit *limit;
};

static struct table table_of(const char *limit)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0) + (1 << 20),
						    .arena_bytes = 1 << 20,
						    .made_at = start };
	struct table table;

	if (weir_table_new(&options, &table.table, NULL) != WEIR_OK ||
	    weir_table_add_limit_text(table.table, "a", limit, &table.limit, NULL) != WEIR_OK)
		exit(1);
	return table;
}

static struct weir__recording_frame take(const struct table *table, const char *key, weir_ns now, uint64_t cost)
{
	struct weir__recording_frame frame = { .type = WEIR__RECORDING_DECISION, .decision = { .at = now, .n = 1 } };
	struct weir__recording_claim *const claim = &frame.decision.claims[0];

	claim->cost = cost;
	claim->key = text_of(key);
	claim->verdict = weir_table_take(table->table, table->limit, key, strlen(key), now, cost);
	return frame;
}

static void the_same_decisions_are_the_same(void)
{
	struct weir__recording_replay *const replay = replay_of();
	const struct table table = table_of("10/s burst 5");
	const struct weir__recording_counts *counts;

	define(replay, 0, "a", "10/s burst 5", 0, 0);
	for (weir_ns now = start; now < start + 3000000000; now += 70000000) {
		struct weir__recording_frame frame = take(&table, "k", now, 1);

		frame.decision.claims[0].state = now == start ? WEIR__RECORDING_ABSENT : WEIR__RECORDING_FOLLOWS;
		weir__recording_replay_frame(replay, &frame);
	}
	counts = weir__recording_replay_counts(replay);
	CHECK_EQ(counts->compared, 43);
	CHECK_EQ(counts->differences, 0);
	CHECK_EQ(counts->keys, 1);
	weir__recording_replay_free(replay);
	weir_table_free(table.table);
}

static void another_verdict_is_a_difference(void)
{
	for (int which = 0; which < 6; which++) {
		struct weir__recording_replay *const replay = replay_of();
		const struct table table = table_of("10/s burst 5");
		struct weir__recording_frame frame = take(&table, "k", start, 1);
		struct weir_verdict *const verdict = &frame.decision.claims[0].verdict;
		const struct weir__recording_counts *counts;

		define(replay, 0, "a", "10/s burst 5", 0, 0);
		verdict->allowed ^= which == 0;
		verdict->remaining += which == 1;
		verdict->reset_after += which == 2;
		verdict->granted += which == 3;
		frame.decision.is_changing = which == 4;
		verdict->limit += which == 4;
		frame.decision.at += which == 5;
		weir__recording_replay_frame(replay, &frame);
		counts = weir__recording_replay_counts(replay);
		CHECK_EQ(counts->compared, 1);
		CHECK_EQ(counts->differences, which < 4);
		CHECK_EQ(counts->raced, which == 4);
		CHECK_TEXT(counts->different_limit, which < 4 ? "a" : "");
		weir__recording_replay_free(replay);
		weir_table_free(table.table);
	}
}

static void a_change_of_the_limit_is_made_at_its_instant(void)
{
	struct weir__recording_replay *const replay = replay_of();
	const struct table table = table_of("10/s burst 5");
	struct weir__recording_frame frame = take(&table, "k", start, 4);

	define(replay, 0, "a", "10/s burst 5", 0, 0);
	weir__recording_replay_frame(replay, &frame);
	CHECK_EQ(weir_table_change_limit_text(table.table, table.limit, "1/s burst 50", start + 200000000, NULL),
		 WEIR_OK);
	define(replay, 0, "a", "1/s burst 50", 1, start + 200000000);
	frame = take(&table, "k", start + 900000000, 1);
	frame.decision.claims[0].state = WEIR__RECORDING_FOLLOWS;
	weir__recording_replay_frame(replay, &frame);
	CHECK_EQ(weir__recording_replay_counts(replay)->compared, 2);
	CHECK_EQ(weir__recording_replay_counts(replay)->differences, 0);
	CHECK_EQ(weir__recording_replay_counts(replay)->changes, 1);
	weir__recording_replay_free(replay);
	weir_table_free(table.table);
}

static void an_evicted_key_is_marked(void)
{
	struct weir__recording_replay *const replay = replay_of();
	const struct table table = table_of("1/min burst 5");
	struct weir__recording_frame frame = take(&table, "k", start, 4);

	define(replay, 0, "a", "1/min burst 5", 0, 0);
	weir__recording_replay_frame(replay, &frame);
	(void)weir_table_reset(table.table, table.limit, "k", 1);
	frame = take(&table, "k", start + 1000, 4);
	weir__recording_replay_frame(replay, &frame);
	CHECK_EQ(weir__recording_replay_counts(replay)->evicted, 1);
	CHECK_EQ(weir__recording_replay_counts(replay)->differences, 0);
	weir__recording_replay_free(replay);
	weir_table_free(table.table);
}

static void what_cannot_be_compared_is_counted_by_its_reason(void)
{
	struct weir__recording_replay *const replay = replay_of();
	const struct table table = table_of("10/s burst 5");
	const struct weir__recording_frame frame = take(&table, "k", start, 1);
	const struct weir__recording_counts *counts;
	struct weir__recording_frame other = frame;

	weir__recording_replay_frame(replay, &other); /* its limit is not defined */
	define(replay, 0, "a", "10/fortnight", 0, 0);
	weir__recording_replay_frame(replay, &other);
	define(replay, 0, "a", "10/s burst 5", 0, 0);
	for (int source = WEIR__RECORDING_BY_STORE; source < WEIR__RECORDING_SOURCES; source++) {
		other.decision.source = (enum weir__recording_source)source;
		weir__recording_replay_frame(replay, &other);
	}
	other = frame;
	other.decision.is_partial = true;
	weir__recording_replay_frame(replay, &other);
	other = frame;
	other.decision.claims[0].state = WEIR__RECORDING_UNKNOWN;
	weir__recording_replay_frame(replay, &other);
	other.decision.claims[0].key = text_of("never seen");
	other.decision.claims[0].state = WEIR__RECORDING_FOLLOWS;
	weir__recording_replay_frame(replay, &other);
	counts = weir__recording_replay_counts(replay);
	CHECK_EQ(counts->decisions, 8);
	CHECK_EQ(counts->unusable, 2);
	CHECK_EQ(counts->by_store, 1);
	CHECK_EQ(counts->by_fallback, 1);
	CHECK_EQ(counts->by_none, 1);
	CHECK_EQ(counts->partial, 1);
	CHECK_EQ(counts->unknown, 2);
	CHECK_EQ(counts->compared, 0);
	weir__recording_replay_free(replay);
	weir_table_free(table.table);
}

/* A decision with the state before it. */
static struct weir__recording_frame take_with_state(const struct table *table, const char *key, weir_ns now,
						    uint64_t cost)
{
	static struct weir__key_state state;
	struct weir__recording_frame frame;

	weir__key_state_read(table->table, table->limit, weir__hash(&table->limit->secret, key, strlen(key)), &state);
	frame = take(table, key, now, cost);
	frame.decision.claims[0].state = (enum weir__recording_state)state.kind;
	frame.decision.claims[0].slot = state.slot;
	return frame;
}

/* The limit changes between the look at its number and the decision, so the replay decides by the limit before. It does not
 * compare what follows from that before it knows the state again. */
static void a_decision_during_a_change_is_not_followed(void)
{
	struct weir__recording_replay *const replay = replay_of();
	const struct table table = table_of("10/min fixed_window");
	struct weir__recording_frame frame = take_with_state(&table, "k", start, 3);
	const struct weir__recording_counts *counts;

	define(replay, 0, "a", "10/min fixed_window", 0, 0);
	weir__recording_replay_frame(replay, &frame);
	CHECK_EQ(weir_table_change_limit_text(table.table, table.limit, "3/min fixed_window", start + 1, NULL),
		 WEIR_OK);
	frame = take_with_state(&table, "k", start + 2, 1);
	CHECK(!frame.decision.claims[0].verdict.allowed);
	frame.decision.is_changing = true;
	weir__recording_replay_frame(replay, &frame);
	CHECK_EQ(weir_table_change_limit_text(table.table, table.limit, "9/min fixed_window", start + 3, NULL),
		 WEIR_OK);
	define(replay, 0, "a", "3/min fixed_window", 1, start + 1);
	define(replay, 0, "a", "9/min fixed_window", 2, start + 3);
	frame = take(&table, "k", start + 4, 1);
	frame.decision.claims[0].state = WEIR__RECORDING_FOLLOWS;
	weir__recording_replay_frame(replay, &frame);
	counts = weir__recording_replay_counts(replay);
	CHECK_EQ(counts->compared, 2);
	CHECK_EQ(counts->raced, 1);
	CHECK_EQ(counts->unknown, 1);
	for (uint64_t i = 0; i < 2; i++) {
		frame = take_with_state(&table, "k", start + 5, 1);
		frame.decision.claims[0].state = i == 0 ? frame.decision.claims[0].state : WEIR__RECORDING_FOLLOWS;
		weir__recording_replay_frame(replay, &frame);
	}
	counts = weir__recording_replay_counts(replay);
	CHECK_EQ(counts->compared, 4);
	CHECK_EQ(counts->differences, 0);
	CHECK_EQ(counts->elsewhere, 0);
	CHECK_EQ(counts->unknown, 1);
	weir__recording_replay_free(replay);
	weir_table_free(table.table);
}

/* A limit that changes all the time needs no more room than another, or each change would look through all before
 * it. */
static void a_limit_is_measured_once(void)
{
	static const char *const names[] = { "a", "a", "b", "a", "b", "" };
	static struct weir__recording_size size;

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct weir__recording_frame frame = { .type = WEIR__RECORDING_LIMIT,
							     .limit = { .id = names[i][0] == 'b',
									.number = i,
									.is_inline = names[i][0] == '\0',
									.name = text_of(names[i]) } };

		weir__recording_measure(&size, &frame);
	}
	CHECK_EQ(size.limits, 2);
}

TESTS(TEST(a_limit_is_measured_once), TEST(a_decision_during_a_change_is_not_followed),
      TEST(the_same_decisions_are_the_same), TEST(another_verdict_is_a_difference),
      TEST(a_change_of_the_limit_is_made_at_its_instant), TEST(an_evicted_key_is_marked),
      TEST(what_cannot_be_compared_is_counted_by_its_reason))
