/* table_undo_test.c: a decision on two limits charges the first, loses the race for the second, and takes the charge
 * back.
 *
 * The hook runs the other operations at exactly that moment, just before the decision looks at a key's slots. So every
 * race here is lost, in the order written. */
#include <stdlib.h>

#include "hooked_table.h"
#include "tables.h"

/* --- the trap --------------------------------------------------------------------------------------------------- */

static struct {
	const unsigned char *from; /* NULL: not set */
	size_t size;
	void (*then)(void);
} trap;

/* Runs `then` before the next access to this memory. */
static void set_trap_at(const void *from, size_t size, void (*then)(void))
{
	trap.from = from;
	trap.size = size;
	trap.then = then;
}

static void set_trap(const union weir__atomic16 *line, void (*then)(void))
{
	set_trap_at(line, WEIR__LINE_BYTES, then);
}

static void on_access(const void *at)
{
	const unsigned char *const byte = at;

	if (trap.from == NULL || byte < trap.from || byte >= trap.from + trap.size)
		return;
	trap.from = NULL;
	trap.then();
}

/* --- the stage -------------------------------------------------------------------------------------------------- */

/* Two keys without common slots: `charged` is charged first, `contested` is taken by others. */
static struct {
	struct weir_table *table;
	const struct weir_table_limit *charged, *contested;
	uint32_t charged_key, contested_key;
	const union weir__atomic16 *charged_line, *contested_line;
	weir_ns now;
	uint64_t cost;
	void (*others)(void);
	unsigned acts;
} stage;

static const union weir__atomic16 *line_of(const struct weir_table_limit *limit, uint32_t key)
{
	return weir__table_home(stage.table, hash_of(limit, &key, sizeof(key)));
}

static void note_touch(void)
{
	stage.acts++;
}

static bool touches(const struct weir_table_limit *limit, uint32_t key, const union weir__atomic16 *line)
{
	const unsigned before = stage.acts;

	set_trap(line, note_touch);
	weir_table_peek(stage.table, limit, &key, sizeof(key), stage.now, 1);
	set_trap(NULL, NULL);
	return stage.acts != before;
}

static void choose_keys(void)
{
	stage.contested_key = stage.charged_key = 0;
	stage.contested_line = line_of(stage.contested, stage.contested_key);
	do
		stage.charged_line = line_of(stage.charged, ++stage.charged_key);
	while (touches(stage.charged, stage.charged_key, stage.contested_line) ||
	       touches(stage.contested, stage.contested_key, stage.charged_line));
}

/* The contested limit has more left than any other here, so it is charged last. */
static void begin(const char *charged, weir_ns now)
{
	stage.table = table_for(200, now);
	stage.charged = limit_in(stage.table, charged);
	stage.contested = limit_in(stage.table, "1000/hour");
	stage.now = now;
	stage.cost = 2;
	stage.acts = 0;
	choose_keys();
	stage.acts = 0;
}

static void end(void)
{
	weir_table_free(stage.table);
}

static void when_the_contested_one_is_to_be_charged(void)
{
	stage.acts++;
	CHECK(weir_table_allow(stage.table, stage.contested, &stage.contested_key, 4, stage.now, 1000));
	if (stage.others)
		stage.others();
}

static void when_all_have_been_looked_at(void)
{
	stage.acts++;
	set_trap(stage.contested_line, when_the_contested_one_is_to_be_charged);
}

static void (*after_the_looks)(void) = when_all_have_been_looked_at;

/* Decides, and loses. Of the claims the charged one is looked at last. */
static struct weir_decision decide_and_lose(void (*others)(void))
{
	const struct weir_claim claims[] = { { stage.contested, &stage.contested_key, 4, 1 },
					     { stage.charged, &stage.charged_key, 4, stage.cost } };
	struct weir_verdict verdicts[2];
	struct weir_decision decision;

	stage.others = others;
	set_trap(stage.charged_line, after_the_looks);
	CHECK_EQ(weir_table_decide(stage.table, claims, 2, stage.now, verdicts, &decision), WEIR_OK);
	CHECK_EQ(stage.acts, 2);
	CHECK(!decision.verdict.allowed && decision.verdict.granted == 0);
	CHECK(!verdicts[0].allowed && verdicts[1].allowed);
	CHECK_EQ(decision.decided_by, 0); /* the charged one had allowed it, whatever became of its key */
	CHECK_EQ(stats_of(stage.table, stage.now).lost_races, 1);
	return decision;
}

static uint64_t left_at(weir_ns now)
{
	return weir_table_peek(stage.table, stage.charged, &stage.charged_key, 4, now, 0).remaining;
}

static struct weir__place charged_place(void)
{
	struct weir__place place;
	struct weir__key key;
	struct weir_state state;

	weir__key_init(&key, stage.table, stage.charged, hash_of(stage.charged, &stage.charged_key, 4));
	weir__table_find(&key, &place, &state);
	return place;
}

static struct weir_state charged_slot(void)
{
	return charged_place().seen;
}

static bool take_at(weir_ns now, uint64_t cost)
{
	return weir_table_allow(stage.table, stage.charged, &stage.charged_key, 4, now, cost);
}

/* --- what is taken back ----------------------------------------------------------------------------------------- */

/* A tenth of a day refills one unit of a bucket: far more than leaks while a test runs. */
static const char *const of_ten[] = {
	"10/day",
	"10/day leaky",
	"10/day leaky queue 10",
	"10/day refill interval",
	"10/day fixed_window",
	"10/day fixed_window align first",
	"10/day sliding_counter",
};

#define TENS (sizeof(of_ten) / sizeof(of_ten[0]))
#define HALF_OF_ONE S(4320)

static bool is_smooth(void)
{
	return stage.charged->first.plan.kind == WEIR_KIND_BUCKET;
}

static bool shapes(void)
{
	return stage.charged->first.plan.flags & WEIR_PLAN_SHAPE;
}

static void an_untouched_key_is_as_it_was(void)
{
	for (size_t i = 0; i < 4 * TENS; i++) {
		const bool is_new = i % 2, is_ahead = i / 2 % 2; /* of the clock, which does not matter here */
		struct weir_state before;

		begin(of_ten[i / 4], weir_clock_now() + (is_ahead ? S(3600) : 0));
		CHECK(is_new || take_at(stage.now - S(1), 3));
		before = charged_slot();
		decide_and_lose(NULL);
		CHECK(weir__slot_equal(charged_slot(), before));
		CHECK_EQ(stats_of(stage.table, stage.now).live, is_new ? 1 : 2); /* the contested key has usage */
		end();
	}
}

static void another_charges_it(void)
{
	CHECK(take_at(stage.now, 3));
}

/* One unit before, two by the decision, three by another. A bucket with a queue has given others their departures, so
 * the two stay. */
static void what_others_charged_stays(void)
{
	for (size_t i = 0; i < TENS; i++) {
		begin(of_ten[i], weir_clock_now());
		CHECK(take_at(stage.now, 1));
		decide_and_lose(another_charges_it);
		if (is_smooth()) { /* of a token less than half has leaked meanwhile */
			CHECK_EQ(left_at(stage.now), shapes() ? 4 : 5);
			CHECK_EQ(left_at(stage.now + HALF_OF_ONE), shapes() ? 4 : 6);
		} else {
			CHECK_EQ(left_at(stage.now), 6);
			CHECK(take_at(stage.now, 6) && !take_at(stage.now, 1));
		}
		end();
	}
}

/* What has leaked since a time in the future is unknown. */
static void what_others_charged_in_the_future_hides_it(void)
{
	for (size_t i = 0; i < TENS; i++) {
		begin(of_ten[i], weir_clock_now() + S(3600));
		decide_and_lose(another_charges_it);
		CHECK_EQ(left_at(stage.now), 5);
		end();
	}
}

/* Charged an hour ago by the clock: in a bucket all of it has leaked, and the usage belongs to others. */
static void what_has_leaked_is_not_given_back(void)
{
	begin("10/min", weir_clock_now() - S(3600));
	decide_and_lose(another_charges_it);
	CHECK_EQ(left_at(stage.now), 5);
	end();
	begin("10/day", weir_clock_now() - S(8640)); /* a tenth of a day: one of the two, and a little of the other */
	decide_and_lose(another_charges_it);
	CHECK_EQ(left_at(stage.now), 5);
	CHECK_EQ(left_at(stage.now + HALF_OF_ONE), 6);
	end();
}

static weir_ns taken_late_at;

static void another_takes_what_has_come_meanwhile(void)
{
	do
		taken_late_at = weir_clock_now();
	while (taken_late_at < stage.now + MS(20));
	CHECK(take_at(taken_late_at, 1));
}

static void it_is_held_up(void)
{
	set_trap(stage.charged_line, another_takes_what_has_come_meanwhile);
}

/* What leaks between the lost race and the next look at the slot is not given back either. */
static void what_leaks_while_it_is_held_up(void)
{
	begin("1/20ms", weir_clock_now());
	stage.cost = 1;
	decide_and_lose(it_is_held_up);
	CHECK(taken_late_at >= stage.now + MS(20));
	CHECK(!take_at(taken_late_at + MS(19), 1));
	end();
}

/* As waiting requests do: it has more usage than requests can cause, by up to half a minute. */
static void others_wait_for_it(void)
{
	const struct weir__place place = charged_place();
	const struct weir__slot_format *const format = &stage.charged->first;
	struct weir_state state = weir__slot_unpack(format, place.seen);

	weir__state_set_wide(&state, weir__state_wide(&state) + weir__mul(6, format->plan.period));
	CHECK(weir__atomic16_swap(place.slot, place.seen,
				  weir__slot_pack(format, weir__slot_fingerprint(place.seen), &state)));
}

static void what_others_wait_for_stays(void)
{
	begin("10/min", weir_clock_now());
	stage.cost = 8;
	decide_and_lose(others_wait_for_it);
	CHECK_EQ(weir_table_peek(stage.table, stage.charged, &stage.charged_key, 4, stage.now, 10).retry_after,
		 14 * S(6));
	end();
}

static void another_charges_it_later(void)
{
	const weir_ns period = weir_table_limit_limit(stage.charged).period;

	CHECK(take_at(stage.now + period, 3));
}

/* The window that was charged is over. */
static void another_window_gives_nothing_back(void)
{
	static const char *const windows[] = { "10/30s fixed_window", "10/30s fixed_window align first",
					       "10/30s refill interval", "10/30s sliding_counter" };

	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		begin(windows[i], weir_clock_now() / S(30) * S(30));
		decide_and_lose(another_charges_it_later);
		/* A sliding counter weighs the window before, in which the two still are. */
		CHECK_EQ(left_at(stage.now + S(30)),
			 weir_table_limit_limit(stage.charged).algorithm == WEIR_SLIDING_COUNTER ? 5 : 7);
		end();
	}
}

static void another_resets_it(void)
{
	CHECK(weir_table_reset(stage.table, stage.charged, &stage.charged_key, 4));
	CHECK(take_at(stage.now, 3));
}

/* To the same bits that the decision has left there. */
static void another_resets_it_and_charges_the_same(void)
{
	CHECK(weir_table_reset(stage.table, stage.charged, &stage.charged_key, 4));
	CHECK(take_at(stage.now, stage.cost));
}

static void another_refunds_it(void)
{
	CHECK(take_at(stage.now, 3));
	weir_table_refund(stage.table, stage.charged, &stage.charged_key, 4, stage.now, 2);
}

static void when_forgiven_is_read(void)
{
	weir_table_reset(stage.table, stage.charged, &stage.charged_key, 4);
	CHECK(take_at(stage.now, stage.cost));
	set_trap(stage.contested_line, when_the_contested_one_is_to_be_charged);
}

static void when_all_have_been_looked_at_once_more(void)
{
	const uint32_t fingerprint = weir__fingerprint(hash_of(stage.charged, &stage.charged_key, 4));

	stage.acts++;
	set_trap_at(weir__table_forgiven(stage.table, fingerprint), sizeof(uint64_t), when_forgiven_is_read);
}

/* `forgiven` is read before the charge: a change after the charge may have removed the charge. */
static void what_is_forgiven_is_watched_from_before_the_charge(void)
{
	for (size_t i = 0; i < TENS; i++) {
		begin(of_ten[i], weir_clock_now());
		after_the_looks = when_all_have_been_looked_at_once_more;
		decide_and_lose(NULL);
		after_the_looks = when_all_have_been_looked_at;
		CHECK_EQ(left_at(stage.now), 8);
		end();
	}
}

/* It is unknown whose charge was forgiven, so nothing is given back a second time. */
static void what_was_forgiven_is_not_given_back(void)
{
	for (size_t i = 0; i < TENS; i++) {
		begin(of_ten[i], weir_clock_now());
		decide_and_lose(another_resets_it);
		CHECK_EQ(left_at(stage.now), 7);
		end();
		begin(of_ten[i], weir_clock_now());
		decide_and_lose(another_resets_it_and_charges_the_same);
		CHECK_EQ(left_at(stage.now), 8);
		end();
		begin(of_ten[i], weir_clock_now());
		decide_and_lose(another_refunds_it);
		CHECK_EQ(left_at(stage.now), 7);
		end();
	}
}

static void another_only_resets_it(void)
{
	CHECK(weir_table_reset(stage.table, stage.charged, &stage.charged_key, 4));
}

static void what_was_reset_stays_fresh(void)
{
	for (size_t i = 0; i < TENS; i++) {
		begin(of_ten[i], weir_clock_now());
		decide_and_lose(another_only_resets_it);
		CHECK_EQ(left_at(stage.now), 10);
		CHECK_EQ(charged_slot().lo, 0);
		end();
	}
}

static struct weir_state auth_failures;

static void another_key_takes_its_slot(void)
{
	const struct weir__place place = charged_place();

	auth_failures = place.seen;
	auth_failures.lo ^= 1; /* another fingerprint */
	CHECK(place.slot && weir__atomic16_swap(place.slot, place.seen, auth_failures));
}

static void an_evicted_key_is_left_alone(void)
{
	for (size_t i = 0; i < TENS; i++) {
		bool is_there = false;

		begin(of_ten[i], weir_clock_now());
		decide_and_lose(another_key_takes_its_slot);
		CHECK_EQ(left_at(stage.now), 10);
		for (size_t k = 0; k < slots_of(stage.table); k++)
			is_there |= weir__slot_equal(stage.table->region.slots[k].state, auth_failures);
		CHECK(is_there);
		end();
	}
}

static void count_all_keeps_the_attempt(void)
{
	begin("10/min fixed_window count all", weir_clock_now());
	decide_and_lose(NULL);
	CHECK_EQ(left_at(stage.now), 8); /* counted, and once */
	end();
	begin("2/min fixed_window count all", weir_clock_now());
	decide_and_lose(NULL);
	CHECK_EQ(left_at(stage.now), 0);
	end();
}

/* The limit that was charged replies with its current state. Only the limit that denied counts a denial. */
static void the_answers_of_a_lost_race(void)
{
	struct weir_table_limit_stats stats;
	struct weir_decision decision;

	begin("10/min", weir_clock_now());
	decision = decide_and_lose(NULL);
	CHECK_EQ(decision.verdict.retry_after, S(3600) / 1000);
	CHECK_EQ(decision.verdict.remaining, 0);
	weir_table_limit_stats(stage.table, stage.charged, &stats);
	CHECK(stats.allowed == 0 && stats.denied == 0);
	weir_table_limit_stats(stage.table, stage.contested, &stats);
	CHECK(stats.allowed == 1 && stats.denied == 1); /* what the others took */
	end();
}

static void the_charged_one_is_forgotten(void)
{
	stage.acts++;
	CHECK(weir_table_reset(stage.table, stage.charged, &stage.charged_key, 4));
}

/* Records a new clock for a key that was used up, although the decision charges nothing. Meanwhile the key is
 * forgotten. So the new look must decide, or nothing is charged for a request that is allowed. */
static void a_key_is_forgotten_while_a_new_clock_is_recorded(void)
{
	for (size_t i = 0; i < TENS; i++) {
		const weir_ns now = weir_clock_now();
		struct weir_verdict verdicts[2];
		struct weir_decision decision;

		begin(of_ten[i], now);
		for (uint64_t k = 0; k < 10; k++)
			CHECK(take_at(now + S(864000), 1));

		const struct weir_claim claims[] = { { stage.charged, &stage.charged_key, 4, 2 },
						     { stage.contested, &stage.contested_key, 4, 1 } };

		set_trap(stage.contested_line, the_charged_one_is_forgotten);
		CHECK_EQ(weir_table_decide(stage.table, claims, 2, now, verdicts, &decision), WEIR_OK);
		CHECK_EQ(stage.acts, 1);
		CHECK_EQ(left_at(now), decision.verdict.allowed ? 8 : 10);
		CHECK_EQ(decision.verdict.allowed, verdicts[0].allowed && verdicts[1].allowed);
		end();
	}
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(an_untouched_key_is_as_it_was),
		TEST(what_others_charged_stays),
		TEST(what_others_charged_in_the_future_hides_it),
		TEST(what_has_leaked_is_not_given_back),
		TEST(what_leaks_while_it_is_held_up),
		TEST(what_others_wait_for_stays),
		TEST(another_window_gives_nothing_back),
		TEST(what_is_forgiven_is_watched_from_before_the_charge),
		TEST(what_was_forgiven_is_not_given_back),
		TEST(what_was_reset_stays_fresh),
		TEST(an_evicted_key_is_left_alone),
		TEST(count_all_keeps_the_attempt),
		TEST(the_answers_of_a_lost_race),
		TEST(a_key_is_forgotten_while_a_new_clock_is_recorded),
	};

	table_hook = on_access;
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
