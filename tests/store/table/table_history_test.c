/* table_history_test.c: sliding logs and sliding counters of any size in a table, on one thread: the table decides as
 * the core does, and forgotten keys give their chunks back. table_threads_test.c has threads. */
/* Covers: src/store/table/table_arena.c */
#include <time.h>

#include "core/segments.h"
#include "core/step.h"
#include "tables.h"

enum { ARENA = 4 << 20, KEYS = 5, STEPS = 3000 };

/* Each kind, with narrow and wide cells, without an index and with one. */
static const char *const limits[] = {
	"1/s sliding_log",
	"5/s sliding_log",
	"30/min sliding_log",
	"100/10s sliding_log",
	"1000/hour sliding_log",
	"7/110day sliding_log",
	"300000/min sliding_log",
	"5/s sliding_log count all",
	"60/min sliding_log count all",
	"20/s sliding_counter segments 4",
	"1000/min sliding_counter segments 60",
	"100000/min sliding_counter",
	"7/3s sliding_counter segments 3 count all",
	"20/s sliding_counter count all",
	"500000000000/s sliding_counter segments 10",
	"50/400s sliding_counter segments 400",
};

enum { LIMITS = sizeof(limits) / sizeof(limits[0]) };

static bool allow(struct weir_table *table, const struct weir_table_limit *limit, uint32_t key, weir_ns now,
		  uint64_t cost)
{
	return weir_table_allow(table, limit, &key, sizeof(key), now, cost);
}

static bool reset(struct weir_table *table, const struct weir_table_limit *limit, uint32_t key)
{
	return weir_table_reset(table, limit, &key, sizeof(key));
}

static size_t arena_used(struct weir_table *table)
{
	return stats_of(table, MADE_AT).arena_used;
}

/* --- what core answers -------------------------------------------------------------------------------------------- */

/* Time mostly advances, by a part of the period. It may also stand still, go back a little, by seconds or by minutes,
 * or jump ahead. */
static weir_ns some_time_later(weir_ns now, const struct weir_plan *plan, bool goes_back)
{
	const weir_ns period = plan->kind == WEIR_KIND_SEGMENTS ? plan->period * plan->room : plan->period;

	switch (below(goes_back ? 32 : 24)) {
	case 0 ... 5:
		return now;
	case 6:
		return now + period + below(period);
	case 7:
		return now + below(period);
	case 24 ... 27:
		return now - below(MS(100));
	case 28 ... 30:
		return now - below(S(60));
	case 31:
		return now - S(60) - below(S(600));
	default:
		return now + below(period / 10 + 1);
	}
}

static uint64_t some_cost(const struct weir_plan *plan)
{
	switch (below(16)) {
	case 0:
		return 0;
	case 1:
		return below(plan->most + 2);
	case 2:
		return plan->most + 1;
	case 3 ... 5:
		return 1 + below(plan->most / 4 + 1);
	default:
		return 1;
	}
}

struct compared {
	struct weir_table *table;
	const struct weir_table_limit *limit;
	const struct weir_plan *plan;
	void *states[KEYS];
};

/* Runs one operation in the table and in the core. False: they differ. */
static bool compare_one(const struct compared *both, uint32_t key, uint64_t operation, weir_ns now, uint64_t cost)
{
	static struct weir_verdict (*const of_table[])(
		struct weir_table *, const struct weir_table_limit *, const void *, size_t, weir_ns,
		uint64_t) = { weir_table_take, weir_table_upto, weir_table_peek, weir_table_refund };
	static struct weir_verdict (*const of_core[])(const struct weir_plan *, void *, weir_ns,
						      uint64_t) = { weir_step_take, weir_step_upto, weir_step_peek,
								    weir_step_refund };
	static const char *const names[] = { "take", "up to", "peek", "refund" };
	struct weir_verdict found, expected;

	if (operation == 5) {
		const struct weir__charge charge = { now - below(S(2)), 1 + below(5) };

		found = weir__table_undo(both->table, both->limit, &key, sizeof(key), now, &charge, cost);
		expected = weir__step_undo(both->plan, both->states[key], now, &charge, cost);
		CHECK_VERDICT("undo", &found, &expected);
		return is_same_verdict(&found, &expected);
	}
	if (operation >= 4)
		return CHECK_EQ(allow(both->table, both->limit, key, now, cost),
				weir_step_allow(both->plan, both->states[key], now, cost));
	found = of_table[operation](both->table, both->limit, &key, sizeof(key), now, cost);
	expected = of_core[operation](both->plan, both->states[key], now, cost);
	CHECK_VERDICT(names[operation], &found, &expected);
	return is_same_verdict(&found, &expected);
}

static void compare(const char *text, bool goes_back, uint64_t operations)
{
	struct compared both = { .table = table_with_arena(100, ARENA) };
	weir_ns now = MADE_AT;
	struct weir_plan plan;

	both.limit = limit_in(both.table, text);
	both.plan = &plan;
	plan = both.limit->first.plan; /* a plain counter is one of one segment here */
	for (size_t i = 0; i < KEYS; i++)
		both.states[i] = fresh_state(&plan);
	for (int i = 0; i < STEPS && now < MADE_AT + S(86400) * 3000; i++) {
		const uint32_t key = (uint32_t)below(KEYS);
		const uint64_t cost = some_cost(&plan), operation = operations == 1 ? 4 : below(operations);

		now = some_time_later(now, &plan, goes_back);
		if (!compare_one(&both, key, operation, now, cost)) {
			printf("# %s, step %d, operation %" PRIu64 ", key %" PRIu32 ", cost %" PRIu64 ", at +%" PRId64
			       "\n",
			       text, i, operation, key, cost, (int64_t)(now - MADE_AT));
			break;
		}
	}
	CHECK_EQ(stats_of(both.table, now).evicted, 0);
	for (uint32_t i = 0; i < KEYS; i++) {
		reset(both.table, both.limit, i);
		free(both.states[i]);
	}
	CHECK_EQ(arena_used(both.table), 0);
	weir_table_free(both.table);
}

static void allow_answers_as_core_does(void)
{
	for (size_t i = 0; i < LIMITS; i++)
		compare(limits[i], false, 1);
}

static void allow_answers_as_core_does_where_time_goes_back(void)
{
	for (size_t i = 0; i < LIMITS; i++)
		compare(limits[i], true, 1);
}

static void every_operation_answers_as_core_does(void)
{
	for (size_t i = 0; i < LIMITS; i++)
		compare(limits[i], false, 8);
}

static void every_operation_answers_as_core_does_where_time_goes_back(void)
{
	for (size_t i = 0; i < LIMITS; i++)
		compare(limits[i], true, 8);
}

/* --- what the arena is used for ----------------------------------------------------------------------------------- */

static void requests_of_one_instant_share_an_entry(void)
{
	struct weir_table *const table = table_with_arena(100, ARENA);
	const struct weir_table_limit *const limit = limit_in(table, "1000/min sliding_log");
	size_t used;

	CHECK(allow(table, limit, 1, MADE_AT, 1));
	used = arena_used(table);
	CHECK(used > 0);
	for (int i = 1; i < 1000; i++)
		CHECK(allow(table, limit, 1, MADE_AT, 1));
	CHECK(!allow(table, limit, 1, MADE_AT, 1));
	CHECK_EQ(arena_used(table), used);
	weir_table_free(table);
}

/* Includes a clock that is a little behind: its requests count with the newest. */
static void requests_of_a_clock_that_is_behind_share_an_entry(void)
{
	struct weir_table *const table = table_with_arena(100, ARENA);
	const struct weir_table_limit *const limit = limit_in(table, "1000/min sliding_log");
	size_t used;

	CHECK(allow(table, limit, 1, MADE_AT + S(50), 1));
	used = arena_used(table);
	for (uint32_t i = 0; i < 500; i++)
		CHECK(allow(table, limit, 1, MADE_AT + MS(1) * i, 1));
	CHECK_EQ(arena_used(table), used);
	weir_table_free(table);
}

static void denials_take_nothing(void)
{
	struct weir_table *const table = table_with_arena(100, ARENA);
	const struct weir_table_limit *const limit = limit_in(table, "10/min sliding_log");
	size_t used;

	for (uint32_t i = 0; i < 10; i++)
		CHECK(allow(table, limit, 1, MADE_AT + i, 1));
	used = arena_used(table);
	for (uint32_t i = 0; i < 5000; i++)
		CHECK(!allow(table, limit, 1, MADE_AT + MS(1) + i, 1));
	CHECK(!allow(table, limit, 2, MADE_AT, 11)); /* an unknown key */
	CHECK_EQ(arena_used(table), used);
	weir_table_free(table);
}

/* However long a key is used, it has no more chunks than its ring. */
static void a_key_in_use_for_ever_does_not_grow(void)
{
	for (size_t i = 0; i < LIMITS; i++) {
		struct weir_table *const table = table_with_arena(100, 2 * ARENA);
		const struct weir_table_limit *const limit = limit_in(table, limits[i]);
		const struct weir_plan *const plan = &limit->first.plan;
		const weir_ns step = plan->period / (plan->kind == WEIR_KIND_LOG ? weir__min(plan->most, 1000) : 3);
		const struct weir_limit as_added = weir_table_limit_limit(limit);
		const size_t most = weir_table_arena_size(&as_added, 1, 0);
		weir_ns now = MADE_AT;

		for (int j = 0; j<10000; j++, now += plan->period> S(86400) ? S(3600) : step + 1)
			(void)allow(table, limit, 1, now, 1);
		CHECK(arena_used(table) <= most);
		reset(table, limit, 1);
		CHECK_EQ(arena_used(table), 0);
		weir_table_free(table);
	}
}

/* The size from weir_table_arena_size is enough, and not much more than is used. */
static void the_size_that_is_reckoned_is_enough(void)
{
	static const struct {
		const char *text;
		uint64_t keys, events;
	} rows[] = {
		{ "100/min sliding_log", 200, 0 },
		{ "100/min sliding_log", 500, 10 },
		{ "1000/hour sliding_log", 50, 0 },
		{ "20/3000day sliding_log", 100, 0 },
		{ "100/min sliding_counter segments 60", 100, 0 },
		{ "100/min sliding_log", 1, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_limit limit;
		struct weir_table *table;
		const struct weir_table_limit *added;
		struct weir_table_stats stats;
		uint64_t events = rows[i].events;
		weir_ns now = MADE_AT;

		CHECK_EQ(weir_limit_parse(rows[i].text, strlen(rows[i].text), &limit, NULL), WEIR_OK);
		table = table_with_arena(rows[i].keys * 4, weir_table_arena_size(&limit, rows[i].keys, events));
		added = limit_in(table, rows[i].text);
		events = events ? events : limit.count;
		for (uint64_t j = 0; j < events; j++, now += limit.period / (events + 1))
			for (uint32_t key = 0; key < rows[i].keys; key++)
				CHECK(allow(table, added, key, now, 1));
		stats = stats_of(table, now);
		CHECK_EQ(stats.evicted, 0);
		CHECK_EQ(stats.arena_bytes, weir_table_arena_size(&limit, rows[i].keys, rows[i].events));
		CHECK(stats.arena_used <= stats.arena_bytes);
		weir_table_free(table);
	}
}

static void sizes_of_what_cannot_be(void)
{
	struct weir_limit limit;

	limit = weir_limit_of(WEIR_TOKEN_BUCKET, 100, S(1));
	CHECK_EQ(weir_table_arena_size(&limit, 1000, 0), 0); /* a bucket */
	limit.algorithm = WEIR_SLIDING_LOG;
	CHECK(weir_table_arena_size(&limit, 1000, 0) > 100000);
	CHECK_EQ(weir_table_arena_size(&limit, UINT64_MAX, 0), SIZE_MAX);
	limit.period = 0;
	CHECK_EQ(weir_table_arena_size(&limit, 1, 0), SIZE_MAX);
}

static void without_an_arena_logs_are_refused(void)
{
	struct weir_table *const table = table_for(100, MADE_AT);
	const struct weir_table_limit *limit;
	struct weir_message why;

	for (size_t i = 0; i < LIMITS; i++)
		CHECK_EQ(weir_table_add_limit_text(table, "log", limits[i], &limit, &why), WEIR_ERR_NO_ARENA);
	weir_table_free(table);
}

/* --- and comes back ------------------------------------------------------------------------------------------------ */

static void resets_return_all(void)
{
	struct weir_table *const table = table_with_arena(5000, ARENA);

	for (size_t i = 0; i < LIMITS; i++) {
		const struct weir_table_limit *const limit = limit_in(table, limits[i]);

		for (uint32_t j = 0; j < 5000; j++)
			(void)allow(table, limit, j % 100, MADE_AT + MS(1) * j, 1);
		CHECK(arena_used(table) > 0);
		for (uint32_t key = 0; key < 100; key++)
			CHECK(reset(table, limit, key));
		CHECK(!reset(table, limit, 1));
		CHECK_EQ(arena_used(table), 0);
	}
	weir_table_free(table);
}

static void refunds_of_all_return_all(void)
{
	struct weir_table *const table = table_with_arena(5000, ARENA);

	for (size_t i = 0; i < LIMITS; i++) {
		const struct weir_table_limit *const limit = limit_in(table, limits[i]);
		uint32_t key = 0;

		for (uint32_t j = 0; j < 500; j++)
			(void)allow(table, limit, key, MADE_AT + MS(1) * j, 1);
		(void)weir_table_refund(table, limit, &key, sizeof(key), MADE_AT + MS(500), UINT64_MAX);
		CHECK(!weir_table_inspect(table, limit, &key, sizeof(key), MADE_AT + MS(500)).is_stored);
		CHECK_EQ(arena_used(table), 0);
	}
	weir_table_free(table);
}

/* Keys that are full lose their slots to others, and their histories with them. */
static void slots_that_are_taken_over_return_all(void)
{
	struct weir_table *const table = table_with_arena(0, ARENA);
	const struct weir_table_limit *const log = limit_in(table, "20/s sliding_log");
	const struct weir_table_limit *const bucket = limit_in(table, "5/hour");

	table->region.lines = WEIR__LINES_LEAST;
	for (uint32_t key = 0; key < 16; key++)
		for (uint32_t i = 0; i < 10; i++)
			CHECK(allow(table, log, key, MADE_AT + i, 1));
	CHECK_EQ(stats_of(table, MADE_AT).live, 16);
	for (uint32_t key = 0; key < 16; key++)
		CHECK(allow(table, bucket, key, MADE_AT + S(10), 5));
	CHECK_EQ(stats_of(table, MADE_AT + S(10)).evicted, 0);
	CHECK_EQ(arena_used(table), 0);
	for (uint32_t key = 0; key < 16; key++) /* these have more usage */
		CHECK(!allow(table, bucket, key, MADE_AT + S(10), 1));
	weir_table_free(table);
}

static struct weir__place place_of_key(struct weir_table *table, const struct weir_table_limit *limit, uint32_t key)
{
	return place_of(table, limit, &key, sizeof(key));
}

/* --- full ------------------------------------------------------------------------------------------------------------ */

/* Far more keys than fit the arena: new keys are still allowed, others are folded, and that is counted. */
static void when_full_keys_are_folded(void)
{
	struct weir_table *const table = table_with_arena(20000, 65 * 200); /* there are enough slots */
	const struct weir_table_limit *const limit = limit_in(table, "10/min sliding_log");
	struct weir_table_stats stats;
	uint64_t denied = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		denied += !allow(table, limit, i / 2, MADE_AT + US(10) * i, 1);
		if (i % 64 == 0) {
			stats = stats_of(table, MADE_AT);
			CHECK(stats.arena_used <= stats.arena_bytes);
		}
	}
	stats = stats_of(table, MADE_AT + MS(200));
	CHECK_EQ(denied, 0);
	CHECK_EQ(stats.evicted, 0);
	CHECK(stats.folded > 9000);
	CHECK_EQ(stats.live, 10000);
	for (uint32_t key = 0; key < 10000; key++)
		CHECK_EQ(weir_table_peek(table, limit, &key, sizeof(key), MADE_AT + MS(200), 1).remaining, 8);
	CHECK(stats.arena_used <= stats.arena_bytes);
	CHECK(stats.arena_used > stats.arena_bytes / 2);
	weir_table_free(table);
}

/* In a table that is searched completely and has enough slots. Histories of keys that are full are taken first; then
 * the key that has used the smallest part of its limit is folded. */
static void when_full_the_least_used_is_folded(void)
{
	struct weir_table *const table = table_with_arena(80, 65 * 33);
	const struct weir_table_limit *const limit = limit_in(table, "27/min sliding_log");

	for (uint32_t key = 0; key < 32; key++) /* eight of them are full again when others come */
		CHECK(allow(table, limit, key, MADE_AT + (key < 8 ? 0 : S(50)), key < 8 ? 27 : key - 7));
	CHECK_EQ(stats_of(table, MADE_AT).arena_used, 65 * 32);
	for (uint32_t key = 32; key < 48; key++)
		CHECK(allow(table, limit, key, MADE_AT + S(80), 26));
	CHECK_EQ(stats_of(table, MADE_AT + S(80)).evicted, 0);
	CHECK_EQ(stats_of(table, MADE_AT + S(80)).folded, 8);
	for (uint32_t key = 8; key < 32; key++) {
		CHECK_EQ(weir__slot_is_folded(place_of_key(table, limit, key).seen), key < 16);
		CHECK_EQ(weir_table_inspect(table, limit, &key, sizeof(key), MADE_AT + S(80)).verdict.remaining,
			 34 - key);
	}
	weir_table_free(table);
}

/* A folded key counts all its units at its newest instant, or up to an eighth of a period later. It gets a history
 * again when it is charged and there is room. */
static void a_folded_key_errs_towards_denying(void)
{
	static const char *const texts[] = { "10/min sliding_log", "10/min sliding_log count all",
					     "10/min sliding_counter segments 6", "10/min sliding_counter count all",
					     "70368744177664/min sliding_counter" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct weir_table *const table = table_with_arena(1000, 65 * 200);
		const struct weir_table_limit *const limit = limit_in(table, texts[i]);
		const uint64_t most = weir_table_limit_limit(limit).count, unit = most / 10;
		const uint32_t key = 7;
		struct weir__place place;
		uint64_t left;

		for (uint32_t j = 0; j < 4; j++)
			CHECK(allow(table, limit, key, MADE_AT + S(5) * j, unit));
		left = weir_table_peek(table, limit, &key, sizeof(key), MADE_AT + S(16), 0).remaining;
		place = place_of_key(table, limit, key);
		weir__table_fold(table, &place);
		CHECK(weir__slot_is_folded(place_of_key(table, limit, key).seen));
		CHECK_EQ(arena_used(table), 0);
		CHECK(weir_table_peek(table, limit, &key, sizeof(key), MADE_AT + S(16), 0).remaining <= left);
		CHECK(weir_table_peek(table, limit, &key, sizeof(key), MADE_AT + S(16), 0).remaining + unit >= left);
		/* a period after the first events they still count, and two periods after the last none does */
		if (i < 2)
			CHECK(weir_table_peek(table, limit, &key, sizeof(key), MADE_AT + S(66), 0).remaining <= left);
		CHECK_EQ(weir_table_peek(table, limit, &key, sizeof(key), MADE_AT + S(200), 0).remaining, most);
		CHECK(allow(table, limit, key, MADE_AT + S(17), unit));
		CHECK(!weir__slot_is_folded(place_of_key(table, limit, key).seen));
		CHECK(weir_table_peek(table, limit, &key, sizeof(key), MADE_AT + S(17), 0).remaining <= left - unit);
		weir_table_free(table);
	}
}

/* A key that needs more room than there is merges events: merged units count until the latest of them expires. Never is
 * more than the limit allowed in a period. */
static void a_key_that_needs_more_than_the_arena(void)
{
	static const char *const texts[] = { "1000/s sliding_log", "1000/s sliding_log count all",
					     "1000/s sliding_counter segments 500" };

	for (size_t i = 0; i < 3; i++) {
		struct weir_table *const table = table_with_arena(100, 65 * 12);
		const struct weir_table_limit *const limit = limit_in(table, texts[i]);
		weir_ns admitted_at[4000];
		uint32_t n = 0, key = 7;

		for (uint32_t j = 0; j < 8000 && n < 4000; j++) {
			const weir_ns now = MADE_AT + US(500) * j;

			if (allow(table, limit, key, now, 1))
				admitted_at[n++] = now;
			CHECK(arena_used(table) <= 65 * 12);
		}
		CHECK(n >= 1000);
		for (uint32_t j = 1000; j < n && i < 2; j++)
			if (admitted_at[j] - admitted_at[j - 1000] < S(1)) {
				CHECK_EQ(admitted_at[j] - admitted_at[j - 1000], S(1));
				break;
			}
		weir_table_free(table);
	}
}

/* Without a chunk even for the root, the key stays in its slot and is limited nevertheless. */
static void without_a_chunk_for_the_first_event(void)
{
	struct weir_table *const table = table_with_arena(100, 65 * 3);
	const struct weir_table_limit *const limit = limit_in(table, "5/s sliding_log");
	struct weir_verdict verdict;

	while (weir__arena_take(&table->region.arena, MADE_AT) != 0)
		;
	for (uint32_t i = 0; i < 5; i++)
		CHECK(weir_table_take(table, limit, "key", 3, MADE_AT + MS(100) * i, 1).allowed);
	verdict = weir_table_take(table, limit, "key", 3, MADE_AT + MS(500), 1);
	CHECK(!verdict.allowed && !verdict.never);
	CHECK(verdict.retry_after > MS(500) && verdict.retry_after <= S(1)); /* as of its newest event */
	CHECK(!weir_table_allow(table, limit, "key", 3, MADE_AT + S(1), 1));
	CHECK(weir_table_inspect(table, limit, "key", 3, MADE_AT + S(1)).is_stored);
	CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT + S(2), 5));
	weir_table_free(table);
}

/* Keys of limits without histories are not evicted. */
static void buckets_do_not_give_way_to_logs(void)
{
	struct weir_table *const table = table_with_arena(1000, 65 * 20);
	const struct weir_table_limit *const bucket = limit_in(table, "5/hour");
	const struct weir_table_limit *const log = limit_in(table, "5/min sliding_log");

	for (uint32_t key = 0; key < 500; key++)
		CHECK(allow(table, bucket, key, MADE_AT, 5));
	for (uint32_t key = 0; key < 500; key++)
		CHECK(allow(table, log, key, MADE_AT, 5));
	for (uint32_t key = 0; key < 500; key++)
		CHECK(!allow(table, bucket, key, MADE_AT, 1));
	weir_table_free(table);
}

/* --- lost and found ------------------------------------------------------------------------------------------------- */

static uint64_t regained(struct weir_table *table)
{
	return stats_of(table, MADE_AT).regained;
}

/* Sweeps the whole table n times, at this time or later. */
static weir_ns sweep(struct weir_table *table, weir_ns clock, int n)
{
	const uint64_t parts = table->region.lines / 256 + table->region.arena.n / 2048 + 2;

	for (int i = 0; i < n; i++, clock += S(130))
		for (uint64_t part = 0; part < parts; part++)
			weir__table_sweep(table, clock);
	return clock;
}

/* Chunks that were taken and never used, as by killed processes. */
static void a_sweep_regains_what_was_lost(void)
{
	struct weir_table *const table = table_with_arena(1000, 65 * 2000);
	const struct weir_table_limit *const limit = limit_in(table, "20/hour sliding_log");
	const struct weir_table_limit *const deep = limit_in(table, "200/hour sliding_log");
	const weir_ns clock = weir_table_now(table);
	size_t used;

	for (uint32_t key = 0; key < 30; key++)
		for (uint32_t i = 0; i < 15; i++) {
			CHECK(allow(table, limit, key, MADE_AT + i, 1));
			CHECK(allow(table, deep, key, MADE_AT + i, 1));
		}
	used = arena_used(table);
	for (int i = 0; i < 300; i++)
		CHECK(weir__arena_take(&table->region.arena, clock) != 0);
	CHECK_EQ(arena_used(table), used + 65 * 300);
	sweep(table, clock + S(300), 5);
	CHECK_EQ(regained(table), 0); /* their owners may be about to use them */
	sweep(table, clock + S(4000), 1);
	CHECK_EQ(regained(table), 0); /* suspected */
	sweep(table, clock + S(4200), 1);
	CHECK_EQ(regained(table), 300);
	CHECK_EQ(arena_used(table), used);
	for (uint32_t key = 0; key < 30; key++) { /* keys in use keep their chunks */
		CHECK_EQ(weir_table_peek(table, limit, &key, sizeof(key), MADE_AT + S(300), 0).remaining, 5);
		CHECK_EQ(weir_table_peek(table, deep, &key, sizeof(key), MADE_AT + S(300), 0).remaining, 185);
	}
	weir_table_free(table);
}

/* Taking chunks makes a table sweep; here an hour passes in 56 ms. An arena that is full of lost chunks works again. */
static void an_arena_that_was_lost_is_regained(void)
{
	struct weir_table *const table = table_with_arena(100, 65 * 500);
	const struct weir_table_limit *const limit = limit_in(table, "20/hour sliding_log");
	const struct timespec pause = { .tv_nsec = 100000 };
	struct weir__arena *const arena = &table->region.arena;

	arena->stamp_ns = MS(1);
	while (weir__arena_take(arena, weir_table_now(table)) != 0)
		;
	CHECK(allow(table, limit, 1, MADE_AT, 1));
	CHECK(weir__slot_is_folded(place_of_key(table, limit, 1).seen));
	for (int i = 0; i < 100000 && regained(table) < arena->n; i++) {
		(void)allow(table, limit, 1, MADE_AT, 1);
		(void)reset(table, limit, 1);
		nanosleep(&pause, NULL);
	}
	CHECK(regained(table) >= arena->n);
	CHECK(allow(table, limit, 1, MADE_AT, 1));
	CHECK(!weir__slot_is_folded(place_of_key(table, limit, 1).seen));
	weir_table_free(table);
}

/* --- moved roots, and other damage ----------------------------------------------------------------------------------- */

/* As left by a process that was killed between the move of a root and the change of the slot. */
static void a_root_that_was_moved_is_followed(void)
{
	struct weir_table *const table = table_with_arena(100, ARENA);
	const struct weir_table_limit *const limit = limit_in(table, "20/hour sliding_log");
	struct weir__place before, after;
	const uint32_t key = 1;
	size_t used;

	for (uint32_t i = 0; i < 15; i++)
		CHECK(allow(table, limit, key, MADE_AT + i, 1));
	used = arena_used(table);
	before = place_of_key(table, limit, key);
	(void)weir_table_refund(table, limit, &key, sizeof(key), MADE_AT + S(1), 3);
	after = place_of_key(table, limit, key);
	CHECK(weir__slot_root(before.seen) != weir__slot_root(after.seen));
	CHECK_EQ(weir_table_peek(table, limit, &key, sizeof(key), MADE_AT + S(1), 0).remaining, 8);
	CHECK(arena_used(table) <= used);
	reset(table, limit, key);
	CHECK_EQ(arena_used(table), 0);
	weir_table_free(table);
}

/* A slot that refers to no root, or to another key's root, counts as unused. */
static void a_slot_that_refers_to_nothing_of_its_own(void)
{
	struct weir_table *const table = table_with_arena(100, ARENA);
	const struct weir_table_limit *const limit = limit_in(table, "5/hour sliding_log");
	uint32_t numbers[] = { 0, WEIR__SLOT_ROOT_MASK, 5000, 0 };

	CHECK(allow(table, limit, 2, MADE_AT, 3));
	numbers[3] = weir__slot_root(place_of_key(table, limit, 2).seen);
	for (size_t i = 0; i < 4; i++) {
		struct weir__place place;

		CHECK(allow(table, limit, 1, MADE_AT, 5));
		place = place_of_key(table, limit, 1);
		weir__history_discard(&table->region.arena, weir__slot_root(place.seen));
		CHECK(weir__atomic16_swap(place.slot, place.seen,
					  weir__slot_make(weir__slot_fingerprint(place.seen), numbers[i],
							  weir__slot_full_at(place.seen), WEIR__SLOT_ARENA)));
		CHECK(allow(table, limit, 1, MADE_AT, 5));
		CHECK(!allow(table, limit, 1, MADE_AT, 1));
		CHECK(reset(table, limit, 1));
		CHECK_EQ(weir_table_take(table, limit, &(uint32_t){ 2 }, 4, MADE_AT, 0).remaining, 2);
	}
	weir_table_free(table);
}

/* Random bits in slots and arena: verdicts may be wrong, but every operation ends and stays within the table. */
static void a_scribbled_table_still_answers(void)
{
	struct weir_table *const table = table_with_arena(0, 65 * 100);
	const struct weir_table_limit *added[LIMITS];
	weir_ns now = MADE_AT;

	for (size_t i = 0; i < LIMITS; i++)
		added[i] = limit_in(table, limits[i]);
	for (int i = 0; i < 30000; i++, now += below(MS(50))) {
		const struct weir_table_limit *const limit = added[below(LIMITS)];
		const uint32_t key = (uint32_t)below(3);

		switch (below(8)) {
		case 0:
			table->region.arena.chunks[below(100) % table->region.arena.n].words[below(8)] = any();
			break;
		case 1:
			table->region.arena.chunks[below(100) % table->region.arena.n].refs[below(16)] =
				(uint32_t)below(120);
			break;
		case 2:
			atomic_store(&table->region.arena.taken[below(table->region.arena.n)], (uint8_t)below(2));
			break;
		case 3:
			(void)weir_table_upto(table, limit, &key, sizeof(key), now, below(10));
			break;
		case 4:
			(void)weir_table_refund(table, limit, &key, sizeof(key), now, below(10));
			break;
		case 5:
			(void)reset(table, limit, key);
			break;
		default:
			(void)weir_table_take(table, limit, &key, sizeof(key), now, below(4));
		}
	}
	weir_table_free(table);
}

/* --- the rest of what can be asked ------------------------------------------------------------------------------------ */

static void inspect_tells_what_is_known(void)
{
	struct weir_table *const table = table_with_arena(100, ARENA);
	const struct weir_table_limit *const limit = limit_in(table, "5/min sliding_log");
	struct weir_table_key key = weir_table_inspect(table, limit, "key", 3, MADE_AT);

	CHECK(!key.is_stored);
	CHECK_EQ(key.full_at, 0);
	CHECK_EQ(key.verdict.remaining, 5);
	CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT, 2));
	CHECK(weir_table_allow(table, limit, "key", 3, MADE_AT + S(10), 1));
	key = weir_table_inspect(table, limit, "key", 3, MADE_AT + S(20));
	CHECK(key.is_stored);
	CHECK_EQ(key.full_at, MADE_AT + S(70));
	CHECK_EQ(key.verdict.remaining, 2);
	key = weir_table_inspect(table, limit, "key", 3, MADE_AT + S(60));
	CHECK_EQ(key.verdict.remaining, 4);
	key = weir_table_inspect(table, limit, "key", 3, MADE_AT + S(70));
	CHECK_EQ(key.verdict.remaining, 5);
	weir_table_free(table);
}

/* Two tables, one with batches and one with single requests, of all kinds. */
static void batches_answer_as_single_requests_do(void)
{
	enum { MOST = 70 };
	struct weir_table *const tables[] = { table_with_arena(1000, ARENA), table_with_arena(1000, ARENA) };
	const struct weir_table_limit *added[2][LIMITS + 1];
	weir_ns now = MADE_AT;

	for (size_t t = 0; t < 2; t++)
		for (size_t i = 0; i <= LIMITS; i++)
			added[t][i] = limit_in(tables[t], i < LIMITS ? limits[i] : "5/s");
	for (int round = 0; round < 300 && !check_failed; round++, now += below(MS(300))) {
		struct weir_claim claims[MOST];
		struct weir_verdict verdicts[MOST];
		bool allowed[MOST];
		uint32_t keys[MOST];
		size_t which[MOST];
		const size_t n = below(MOST + 1);

		for (size_t i = 0; i < n; i++) {
			keys[i] = (uint32_t)below(6);
			which[i] = below(LIMITS + 1);
			claims[i] = (struct weir_claim){ added[0][which[i]], &keys[i], sizeof(keys[i]), below(3) };
		}
		if (round % 2)
			weir_table_allow_batch(tables[0], claims, n, now, allowed);
		else
			weir_table_take_batch(tables[0], claims, n, now, verdicts);
		for (size_t i = 0; i < n; i++) {
			const struct weir_verdict expected = weir_table_take(tables[1], added[1][which[i]], &keys[i],
									     sizeof(keys[i]), now, claims[i].cost);

			if (round % 2)
				CHECK_EQ(allowed[i], expected.allowed);
			else
				CHECK_VERDICT("batch", &verdicts[i], &expected);
		}
	}
	CHECK_EQ(arena_used(tables[0]), arena_used(tables[1]));
	weir_table_free(tables[0]);
	weir_table_free(tables[1]);
}

/* Logs, segments and a bucket together: all are charged, or none. */
static void several_limits_are_charged_together(void)
{
	struct weir_table *const table = table_with_arena(100, ARENA);
	const struct weir_claim claims[] = {
		{ limit_in(table, "5/min sliding_log"), "key", 3, 1 },
		{ limit_in(table, "6/min sliding_counter segments 6"), "key", 3, 1 },
		{ limit_in(table, "7/hour"), "key", 3, 1 },
		{ limit_in(table, "1000/min sliding_log count all"), "key", 3, 1 },
	};
	static const uint64_t left_of[] = { 0, 1, 2, 992 };
	struct weir_verdict verdicts[4];
	struct weir_decision decision;

	for (uint64_t i = 0; i < 8; i++) {
		CHECK_EQ(weir_table_decide(table, claims, 4, MADE_AT + i, verdicts, &decision), WEIR_OK);
		CHECK_EQ(decision.verdict.allowed, i < 5);
		CHECK_EQ(decision.decided_by, 0);
	}
	for (size_t i = 0; i < 4; i++)
		CHECK_EQ(weir_table_peek(table, claims[i].limit, "key", 3, MADE_AT + 8, 0).remaining, left_of[i]);
	weir_table_free(table);
}

static void a_wait_for_a_log_ends_when_there_is_room(void)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(10, 0) + 65536,
						    .arena_bytes = 65536 };
	struct weir_table *const table = table_with(&options);
	const struct weir_table_limit *const limit = limit_in(table, "2/50ms sliding_log");
	const weir_ns start = weir_table_now(table);

	CHECK(weir_table_allow(table, limit, "key", 3, start, 2));
	CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, start + MS(10), NULL), WEIR_ERR_DEADLINE);
	CHECK_EQ(weir_table_wait(table, limit, "key", 3, 3, start + S(10), NULL), WEIR_ERR_NEVER);
	CHECK_EQ(weir_table_wait(table, limit, "key", 3, 1, start + S(10), NULL), WEIR_OK);
	CHECK(weir_table_now(table) >= start + MS(50));
	CHECK_EQ(weir_table_wait(table, limit, "key", 3, 2, start + S(10), NULL), WEIR_OK);
	CHECK(weir_table_now(table) >= start + MS(100));
	weir_table_free(table);
}

/* At the ends of a table's time. */
static void time_stands_still_at_its_ends(void)
{
	static const weir_ns times[] = { 0, 1, UINT64_MAX, UINT64_MAX - 1, MADE_AT };

	for (size_t i = 0; i < LIMITS; i++)
		for (size_t j = 0; j < 5; j++) {
			struct weir_table *const table = table_with_arena(10, ARENA);
			const struct weir_table_limit *const limit = limit_in(table, limits[i]);
			const uint64_t most = limit->first.plan.most;

			CHECK(allow(table, limit, 1, times[j], most - 1));
			CHECK(allow(table, limit, 1, times[j], 1));
			CHECK(!allow(table, limit, 1, times[j], 1));
			CHECK_EQ(stats_of(table, times[j]).live, 1);
			weir_table_free(table);
		}
}

TESTS(TEST(allow_answers_as_core_does), TEST(allow_answers_as_core_does_where_time_goes_back),
      TEST(every_operation_answers_as_core_does), TEST(every_operation_answers_as_core_does_where_time_goes_back),
      TEST(requests_of_one_instant_share_an_entry), TEST(requests_of_a_clock_that_is_behind_share_an_entry),
      TEST(denials_take_nothing), TEST(a_key_in_use_for_ever_does_not_grow), TEST(the_size_that_is_reckoned_is_enough),
      TEST(sizes_of_what_cannot_be), TEST(without_an_arena_logs_are_refused), TEST(resets_return_all),
      TEST(refunds_of_all_return_all), TEST(slots_that_are_taken_over_return_all), TEST(when_full_keys_are_folded),
      TEST(when_full_the_least_used_is_folded), TEST(a_folded_key_errs_towards_denying),
      TEST(a_key_that_needs_more_than_the_arena), TEST(without_a_chunk_for_the_first_event),
      TEST(buckets_do_not_give_way_to_logs), TEST(a_sweep_regains_what_was_lost),
      TEST(an_arena_that_was_lost_is_regained), TEST(a_root_that_was_moved_is_followed),
      TEST(a_slot_that_refers_to_nothing_of_its_own), TEST(a_scribbled_table_still_answers),
      TEST(inspect_tells_what_is_known), TEST(batches_answer_as_single_requests_do),
      TEST(several_limits_are_charged_together), TEST(a_wait_for_a_log_ends_when_there_is_room),
      TEST(time_stands_still_at_its_ends))
