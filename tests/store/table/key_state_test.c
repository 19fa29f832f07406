/* key_state_test.c: a key that is copied to another table, of another age and secret, decides there as in its own. */
#include "store/table/key_state.h"

#include "tables.h"

enum { ARENA_BYTES = 1 << 20, ROUNDS = 60, STEPS = 40 };

static const char *const limits[] = {
	"10/s burst 5",
	"7/min burst 3",
	"3/7ns burst 4",
	"10/s leaky queue 5",
	"10/s leaky burst 4",
	"5/s refill interval burst 12",
	"5/s fixed_window",
	"5/s fixed_window align first",
	"5/s fixed_window count all",
	"20/s sliding_counter",
	"20000/s sliding_counter",
	"20/s sliding_counter segments 4",
	"20/s sliding_counter segments 4 count all",
	"9/s sliding_log",
	"9/s sliding_log count all",
};

struct pair {
	struct weir_table *from, *to;
	const struct weir_table_limit *of_from, *of_to;
	weir_ns now;
};

static struct pair make(const char *text)
{
	const struct weir_table_options younger = { .size_bytes = weir_table_size(100, 0) + ARENA_BYTES,
						    .arena_bytes = ARENA_BYTES,
						    .made_at = MADE_AT + S(7) + 13 };
	struct pair pair = { .from = table_with_arena(100, ARENA_BYTES),
			     .to = table_with(&younger),
			     .now = MADE_AT + S(100) };

	pair.of_from = limit_in(pair.from, text);
	pair.of_to = limit_in(pair.to, text);
	return pair;
}

static void unmake(struct pair *pair)
{
	weir_table_free(pair->from);
	weir_table_free(pair->to);
}

static void read_from(const struct pair *pair, struct weir__key_state *ret_state)
{
	weir__key_state_read(pair->from, pair->of_from, weir__hash(&pair->of_from->secret, "k", 1), ret_state);
}

static void read_to(const struct pair *pair, struct weir__key_state *ret_state)
{
	weir__key_state_read(pair->to, pair->of_to, weir__hash(&pair->of_to->secret, "k", 1), ret_state);
}

static struct weir_verdict act(struct weir_table *table, const struct weir_table_limit *limit, weir_ns now,
			       uint64_t which, uint64_t cost)
{
	switch (which) {
	case 0:
		return weir_table_upto(table, limit, "k", 1, now, cost);
	case 1:
		return weir_table_refund(table, limit, "k", 1, now, cost);
	case 2:
		return weir_table_peek(table, limit, "k", 1, now, cost);
	default:
		return weir_table_take(table, limit, "k", 1, now, cost);
	}
}

static void a_copy_decides_as_its_original(void)
{
	static struct weir__key_state state, there;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct pair pair = make(limits[i]);
		const weir_ns step = strstr(limits[i], "ns") ? 3 : strstr(limits[i], "min") ? S(9) : S(1) / 9;

		for (int round = 0; round < ROUNDS; round++) {
			bool is_same = true;

			for (uint64_t n = below(STEPS); n > 0; n--) {
				pair.now += below(step);
				(void)act(pair.from, pair.of_from, pair.now, below(8), below(4));
			}
			read_from(&pair, &state);
			CHECK(weir__key_state_write(pair.to, pair.of_to, "k", 1, pair.now, &state));
			read_to(&pair, &there);
			is_same = weir__key_state_is_same(&state, &there) ||
				  (state.kind == WEIR__KEY_SLOT && there.kind == WEIR__KEY_ABSENT);
			for (uint64_t n = below(STEPS); n > 0 && is_same; n--) {
				const uint64_t which = below(8), cost = below(4);
				struct weir_verdict a, b;

				pair.now += below(step);
				a = act(pair.from, pair.of_from, pair.now, which, cost);
				b = act(pair.to, pair.of_to, pair.now, which, cost);
				is_same = is_same_verdict(&a, &b);
			}
			if (!is_same) {
				printf("# round %d, kind %d and %d\n", round, (int)state.kind, (int)there.kind);
				check_fail(__FILE__, __LINE__, limits[i]);
				break;
			}
		}
		unmake(&pair);
	}
}

/* An old clock, a new limit of the same kind, and a key whose limit has changed since it was packed. */
static void a_copy_is_as_of_the_newest_limit(void)
{
	static struct weir__key_state state;
	struct pair pair = make("10/s burst 5");

	CHECK(weir_table_allow(pair.from, pair.of_from, "k", 1, pair.now, 4));
	CHECK_EQ(weir_table_change_limit_text(pair.from, pair.of_from, "1/s burst 20", pair.now, NULL), WEIR_OK);
	CHECK_EQ(weir_table_change_limit_text(pair.to, pair.of_to, "1/s burst 20", pair.now, NULL), WEIR_OK);
	read_from(&pair, &state);
	CHECK_EQ(state.kind, WEIR__KEY_SLOT);
	CHECK(weir__key_state_write(pair.to, pair.of_to, "k", 1, pair.now, &state));
	CHECK_EQ(weir_table_peek(pair.to, pair.of_to, "k", 1, pair.now, 0).remaining, 16);
	CHECK_EQ(weir_table_peek(pair.from, pair.of_from, "k", 1, pair.now, 0).remaining, 16);
	unmake(&pair);
}

/* A log keeps its events when its count becomes lower. */
static void a_copy_has_more_events_than_its_limit_allows(void)
{
	static struct weir__key_state state, there;
	struct pair pair = make("900/min sliding_log");

	pair.now = MADE_AT + S(100);
	for (uint64_t i = 0; i < 800; i++)
		CHECK(weir_table_allow(pair.from, pair.of_from, "k", 1, pair.now + i, 1));
	CHECK_EQ(weir_table_change_limit_text(pair.from, pair.of_from, "3/min sliding_log", pair.now + 800, NULL),
		 WEIR_OK);
	CHECK_EQ(weir_table_change_limit_text(pair.to, pair.of_to, "3/min sliding_log", pair.now + 800, NULL), WEIR_OK);
	read_from(&pair, &state);
	CHECK_EQ(state.n, 800);
	CHECK(weir__key_state_write(pair.to, pair.of_to, "k", 1, pair.now + 801, &state));
	read_to(&pair, &there);
	CHECK(weir__key_state_is_same(&state, &there));
	for (uint64_t i = 0; i < 900; i++) { /* the last ones after the first events have expired */
		const weir_ns now = pair.now + S(60) * (i / 450) + i;
		const struct weir_verdict a = act(pair.from, pair.of_from, now, i % 4, 1),
					  b = act(pair.to, pair.of_to, now, i % 4, 1);

		CHECK(is_same_verdict(&a, &b));
	}
	unmake(&pair);
}

static void reading_changes_nothing(void)
{
	static struct weir__key_state first, second;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct pair pair = make(limits[i]);

		(void)weir_table_take(pair.from, pair.of_from, "k", 1, pair.now, 3);
		(void)weir_table_take(pair.from, pair.of_from, "k", 1, pair.now + 2, 3);
		read_from(&pair, &first);
		read_from(&pair, &second);
		CHECK(weir__key_state_is_same(&first, &second));
		CHECK(first.kind != WEIR__KEY_ABSENT);
		unmake(&pair);
	}
}

static void a_key_that_was_never_charged_is_absent(void)
{
	static struct weir__key_state state;
	struct pair pair = make("10/s burst 5");

	read_from(&pair, &state);
	CHECK_EQ(state.kind, WEIR__KEY_ABSENT);
	CHECK(weir_table_allow(pair.to, pair.of_to, "k", 1, pair.now, 4));
	CHECK(weir__key_state_write(pair.to, pair.of_to, "k", 1, pair.now, &state));
	CHECK_EQ(weir_table_peek(pair.to, pair.of_to, "k", 1, pair.now, 0).remaining, 5);
	unmake(&pair);
}

static void a_history_in_an_arena_that_is_full_is_folded(void)
{
	static struct weir__key_state state, there;
	const struct weir_table_options options = { .size_bytes = weir_table_size(5000, 0) + 65536,
						    .arena_bytes = 65536,
						    .made_at = MADE_AT };
	struct weir_table *const table = table_with(&options);
	const struct weir_table_limit *const limit = limit_in(table, "9/s sliding_log");
	struct pair pair = make("9/s sliding_log");
	bool has_folded = false;

	for (uint32_t i = 0; i < 4000 && !has_folded; i++) {
		(void)weir_table_take(table, limit, &i, sizeof(i), pair.now + i, 3);
		for (uint32_t j = 0; j <= i && i % 500 == 499 && !has_folded; j++) {
			weir__key_state_read(table, limit, weir__hash(&limit->secret, &j, sizeof(j)), &state);
			has_folded = state.kind == WEIR__KEY_FOLDED;
		}
	}
	CHECK(has_folded);
	CHECK_EQ(state.units, 3);
	CHECK(weir__key_state_write(pair.to, pair.of_to, "k", 1, pair.now, &state));
	read_to(&pair, &there);
	CHECK(weir__key_state_is_same(&state, &there));
	CHECK_EQ(weir_table_peek(pair.to, pair.of_to, "k", 1, pair.now, 0).remaining, 6);
	weir_table_free(table);
	unmake(&pair);
}

/* States come from files. */
static void states_that_a_limit_cannot_have_are_not_written(void)
{
	static struct weir__key_state state;
	struct pair bucket = make("10/s burst 5"), log = make("9/s sliding_log");

	state = (struct weir__key_state){ .kind = WEIR__KEY_UNKNOWN };
	CHECK(!weir__key_state_write(bucket.to, bucket.of_to, "k", 1, bucket.now, &state));
	state = (struct weir__key_state){ .kind = WEIR__KEY_EVENTS, .n = 1, .events = { { bucket.now, 1 } } };
	CHECK(!weir__key_state_write(bucket.to, bucket.of_to, "k", 1, bucket.now, &state));
	CHECK(weir__key_state_write(log.to, log.of_to, "k", 1, log.now, &state));
	state.events[0].at = 0;
	CHECK(!weir__key_state_write(log.to, log.of_to, "k", 1, log.now, &state));
	state.events[0] = (struct weir__event){ log.now, UINT64_MAX };
	CHECK(!weir__key_state_write(log.to, log.of_to, "k", 1, log.now, &state));
	state.n = 2;
	state.events[0] = (struct weir__event){ log.now, 1 };
	state.events[1] = (struct weir__event){ log.now - 1, 2 };
	CHECK(!weir__key_state_write(log.to, log.of_to, "k", 1, log.now, &state));
	state = (struct weir__key_state){ .kind = WEIR__KEY_SLOT, .slot = { 5, 5 } };
	CHECK(!weir__key_state_write(log.to, log.of_to, "k", 1, log.now, &state));
	CHECK_EQ(weir_table_peek(log.to, log.of_to, "k", 1, log.now, 0).remaining, 9);
	unmake(&bucket);
	unmake(&log);
}

/* A recording may have any numbers in it. */
static void states_beyond_a_slot_are_not_written(void)
{
	static const char *const texts[] = { "10/s burst 5", "10/s refill interval", "10/s fixed_window",
					     "10/s sliding_counter" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct pair pair = make(texts[i]);
		struct weir__key_state state = { .kind = WEIR__KEY_SLOT };

		for (int at = 0; at < 64; at++) {
			state.slot = (struct weir_state){ UINT64_MAX >> at, UINT64_MAX };
			(void)weir__key_state_write(pair.to, pair.of_to, "k", 1, pair.now, &state);
			state.slot = (struct weir_state){ UINT64_MAX, UINT64_MAX >> at };
			(void)weir__key_state_write(pair.to, pair.of_to, "k", 1, pair.now, &state);
		}
		state.slot = (struct weir_state){ UINT64_C(1) << 63, UINT64_C(1) << 63 };
		CHECK(i == 3 || !weir__key_state_write(pair.to, pair.of_to, "k", 1, pair.now, &state));
		unmake(&pair);
	}
}

TESTS(TEST(a_copy_decides_as_its_original), TEST(a_copy_is_as_of_the_newest_limit),
      TEST(a_copy_has_more_events_than_its_limit_allows), TEST(reading_changes_nothing),
      TEST(a_key_that_was_never_charged_is_absent), TEST(a_history_in_an_arena_that_is_full_is_folded),
      TEST(states_that_a_limit_cannot_have_are_not_written), TEST(states_beyond_a_slot_are_not_written))
