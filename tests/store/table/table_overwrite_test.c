/* table_overwrite_test.c: a table takes over another table's verdict on a key. The key never has more left than there;
 * for kinds whose verdict determines their state, it has exactly as much, at every later time. */
#include <pthread.h>

#include "tables.h"

enum { ARENA_BYTES = 1 << 20, STEPS = 3000, LOOKS = 6, THREADS = 4, KEYS = 4, ACTS = 4000 };

static const struct {
	const char *text;
	bool is_exact;
	weir_ns late; /* how much later the key may be full than in the other table */
} limits[] = {
	{ "10/s burst 5", true, 0 },
	{ "7/min burst 3", true, 0 },
	{ "3/7ns burst 4", false, 1 }, /* reset_after is rounded up, by a good part of a token */
	{ "10/s leaky queue 5", true, 0 },
	{ "10/s leaky burst 4", true, 0 },
	{ "5/s refill interval burst 12", true, 0 },
	{ "5/s fixed_window", true, 0 },
	{ "5000000000/s fixed_window", true, 0 },
	{ "5/s fixed_window align first", true, 0 },
	{ "20/s sliding_counter", false, S(2) },
	{ "20000/s sliding_counter", false, S(2) },
	{ "20/s sliding_counter segments 4", false, S(2) },
	{ "9/s sliding_log", false, S(2) },
};

struct pair {
	struct weir_table *there, *here;
	const struct weir_table_limit *of_there, *of_here;
	weir_ns now;
};

static struct pair make(const char *text)
{
	struct pair pair = { .there = table_with_arena(100, ARENA_BYTES),
			     .here = table_with_arena(100, ARENA_BYTES),
			     .now = MADE_AT + S(100) };

	pair.of_there = limit_in(pair.there, text);
	pair.of_here = limit_in(pair.here, text);
	return pair;
}

static void unmake(struct pair *pair)
{
	weir_table_free(pair->there);
	weir_table_free(pair->here);
}

static struct weir_verdict look_there(const struct pair *pair, weir_ns now)
{
	return weir_table_peek(pair->there, pair->of_there, "k", 1, now, 0);
}

static struct weir_verdict look_here(const struct pair *pair, weir_ns now)
{
	return weir_table_peek(pair->here, pair->of_here, "k", 1, now, 0);
}

static void tell(const struct pair *pair, const struct weir_verdict *said, bool only_raises)
{
	weir__table_overwrite(pair->here, pair->of_here, "k", 1, pair->now, said, only_raises);
}

/* A step that may charge, give back or reset. */
static void change_there(const struct pair *pair)
{
	const uint64_t most = look_there(pair, pair->now).limit;

	switch (below(12)) {
	case 0:
		(void)weir_table_refund(pair->there, pair->of_there, "k", 1, pair->now, 1 + below(3));
		break;
	case 1:
		if (below(4) == 0)
			(void)weir_table_reset(pair->there, pair->of_there, "k", 1);
		break;
	case 2:
		(void)weir_table_upto(pair->there, pair->of_there, "k", 1, pair->now, most);
		break;
	default:
		(void)weir_table_take(pair->there, pair->of_there, "k", 1, pair->now, 1 + below(most / 4 + 1));
	}
}

/* Usage that was charged here before is overwritten, too. */
static void what_is_said_is_what_is_known(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct pair pair = make(limits[i].text);
		const weir_ns period = weir_table_limit_limit(pair.of_there).period;

		for (int step = 0; step < STEPS; step++) {
			struct weir_verdict said;
			weir_ns later;

			pair.now += below(period / 3 + 2);
			change_there(&pair);
			if (below(3) == 0)
				(void)weir_table_take(pair.here, pair.of_here, "k", 1, pair.now, 1 + below(4));
			said = look_there(&pair, pair.now);
			tell(&pair, &said, false);
			later = pair.now;
			for (int look = 0; look < LOOKS; look++) {
				const struct weir_verdict there = look_there(&pair, later),
							  here = look_here(&pair, later);

				if (limits[i].is_exact) {
					CHECK_EQ(here.remaining, there.remaining);
					CHECK_EQ(here.reset_after, there.reset_after);
				} else {
					CHECK(here.remaining <= there.remaining);
					CHECK(here.reset_after <= there.reset_after + limits[i].late);
				}
				later += below(period / 2 + 2);
			}
			if (!limits[i].is_exact)
				CHECK(look_here(&pair, pair.now + said.reset_after + 2 * period).remaining ==
				      said.limit);
		}
		unmake(&pair);
	}
}

/* Charges here continue from the verdict. */
static void charges_follow_what_was_said(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct pair pair = make(limits[i].text);
		const uint64_t most = look_there(&pair, pair.now).limit;
		struct weir_verdict said;

		(void)weir_table_take(pair.there, pair.of_there, "k", 1, pair.now, most - 2);
		said = look_there(&pair, pair.now);
		CHECK_EQ(said.remaining, 2);
		tell(&pair, &said, false);
		CHECK(weir_table_take(pair.here, pair.of_here, "k", 1, pair.now, 1).allowed);
		CHECK(!weir_table_take(pair.here, pair.of_here, "k", 1, pair.now, 2).allowed);
		CHECK(weir_table_take(pair.here, pair.of_here, "k", 1, pair.now, 1).allowed);
		CHECK(!weir_table_take(pair.here, pair.of_here, "k", 1, pair.now, 1).allowed);
		unmake(&pair);
	}
}

static void usage_is_only_raised_if_asked(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct pair pair = make(limits[i].text);
		const uint64_t most = look_there(&pair, pair.now).limit;
		struct weir_verdict less, more;

		(void)weir_table_take(pair.there, pair.of_there, "k", 1, pair.now, 1);
		less = look_there(&pair, pair.now);
		(void)weir_table_take(pair.there, pair.of_there, "k", 1, pair.now, 2);
		more = look_there(&pair, pair.now);
		(void)weir_table_take(pair.here, pair.of_here, "k", 1, pair.now, 2);
		tell(&pair, &less, true);
		CHECK_EQ(look_here(&pair, pair.now).remaining, most - 2);
		tell(&pair, &more, true);
		CHECK_EQ(look_here(&pair, pair.now).remaining, most - 3);
		tell(&pair, &less, false);
		CHECK_EQ(look_here(&pair, pair.now).remaining, most - 1);
		unmake(&pair);
	}
}

static uint64_t nothing_more(void *context, bool *ret_only_raises)
{
	(void)context;
	(void)ret_only_raises;
	return 0;
}

/* A limit may have been changed, so that its keys have histories. */
static void all_limits_can_be_overwritten_with_more(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		for (int only_raises = 0; only_raises < 2; only_raises++) {
			struct pair pair = make(limits[i].text);
			const uint64_t most = look_there(&pair, pair.now).limit;
			struct weir_verdict said;

			(void)weir_table_take(pair.there, pair.of_there, "k", 1, pair.now, 2);
			(void)weir_table_take(pair.here, pair.of_here, "k", 1, pair.now, 1);
			said = look_there(&pair, pair.now);
			weir__table_overwrite_with(pair.here, pair.of_here, weir__hash(&pair.of_here->secret, "k", 1),
						   pair.now, &said, only_raises, nothing_more, NULL);
			CHECK_EQ(look_here(&pair, pair.now).remaining, most - 2);
			unmake(&pair);
		}
}

/* The slot of a window of which nothing is used says so to a thread whose clock is behind, too. */
static void an_unused_window_is_unused_a_little_earlier(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct pair pair = make(limits[i].text);
		const struct weir_verdict said = look_there(&pair, pair.now);

		pair.now += 1 + MS(1) / 2 - pair.now % MS(1);
		weir__table_overwrite_with(pair.here, pair.of_here, weir__hash(&pair.of_here->secret, "k", 1), pair.now,
					   &said, false, nothing_more, NULL);
		CHECK_EQ(look_here(&pair, pair.now).remaining, said.limit);
		if (pair.of_here->first.plan.kind == WEIR_KIND_WINDOW)
			CHECK_EQ(look_here(&pair, pair.now - MS(2)).remaining, said.limit);
		unmake(&pair);
	}
}

/* Of a key that has used more than its limit, the table records when that has refilled, also if it only raises usage. */
static void usage_beyond_the_limit_is_raised(void)
{
	static const char *const texts[] = { "10/s burst 5", "10/s leaky burst 4", "5/s refill interval burst 12",
					     "20/s sliding_counter" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct pair pair = make(texts[i]);
		const uint64_t most = look_there(&pair, pair.now).limit;
		struct weir_verdict said;
		weir_ns before;

		pair.now += S(1) - pair.now % S(1); /* at the start of a sub-window */
		CHECK(weir_table_take(pair.here, pair.of_here, "k", 1, pair.now, most).allowed);
		before = look_here(&pair, pair.now).reset_after;
		said = (struct weir_verdict){ .limit = most, .reset_after = before + S(2) };
		for (int times = 0; times < 2; times++) {
			weir__table_overwrite_with(pair.here, pair.of_here, weir__hash(&pair.of_here->secret, "k", 1),
						   pair.now, &said, true, nothing_more, NULL);
			CHECK_EQ(look_here(&pair, pair.now + MS(1100)).remaining, 0);
			CHECK(look_here(&pair, pair.now).reset_after > before);
			said.reset_after = before + S(1); /* less does not lower it */
		}
		CHECK_EQ(look_here(&pair, pair.now + before + S(2)).remaining, most);
		unmake(&pair);
	}
}

/* Both know of usage that the other lacks. The key then has no more left than by either of them, at any later time. Only a
 * window that the other store says is the next one takes the place of an earlier one. */
static void usage_of_both_is_joined(void)
{
	static const char *const texts[] = {
		"10/s burst 12",     "10/s leaky burst 12",           "5/s refill interval burst 12",
		"12/s fixed_window", "12/s fixed_window align first", "12/s sliding_counter"
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct pair pair = make(texts[i]), alone = make(texts[i]);
		const bool is_window = weir_table_limit_limit(pair.of_here).algorithm == WEIR_FIXED_WINDOW;
		unsigned long raised = 0;

		for (unsigned step = 0; step < STEPS; step++) {
			const uint64_t hash = weir__hash(&pair.of_here->secret, &step, sizeof(step));
			struct weir_verdict said;

			for (int charge = 0; charge < 4; charge++) {
				const uint64_t cost = 1 + below(4);

				pair.now += below(S(1));
				if (below(2) == 0) {
					(void)weir_table_take(pair.there, pair.of_there, &step, sizeof(step), pair.now,
							      cost);
					continue;
				}
				(void)weir_table_take(pair.here, pair.of_here, &step, sizeof(step), pair.now, cost);
				(void)weir_table_take(alone.here, alone.of_here, &step, sizeof(step), pair.now, cost);
			}
			said = weir_table_peek(pair.there, pair.of_there, &step, sizeof(step), pair.now, 0);
			weir__table_overwrite_with(pair.here, pair.of_here, hash, pair.now, &said, true, nothing_more,
						   NULL);
			for (weir_ns later = pair.now; later < pair.now + S(3); later += 1 + below(MS(100))) {
				const uint64_t here = weir_table_peek(pair.here, pair.of_here, &step, sizeof(step),
								      later, 0)
							      .remaining;
				const uint64_t there = weir_table_peek(pair.there, pair.of_there, &step, sizeof(step),
								       later, 0)
							       .remaining;
				const uint64_t own = weir_table_peek(alone.here, alone.of_here, &step, sizeof(step),
								     later, 0)
							     .remaining;

				CHECK(here <= there);
				CHECK(here <= own || is_window);
				raised += there < own;
			}
			pair.now += S(3);
		}
		CHECK(raised > STEPS);
		unmake(&pair);
		unmake(&alone);
	}
}

/* A full key takes no slot, and gives its slot back. */
static void a_full_key_takes_no_slot(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct pair pair = make(limits[i].text);
		const struct weir_verdict full = look_there(&pair, pair.now);

		tell(&pair, &full, false);
		CHECK(place_of(pair.here, pair.of_here, "k", 1).slot == NULL);
		(void)weir_table_take(pair.here, pair.of_here, "k", 1, pair.now, 2);
		CHECK(place_of(pair.here, pair.of_here, "k", 1).slot != NULL);
		tell(&pair, &full, false);
		CHECK(place_of(pair.here, pair.of_here, "k", 1).slot == NULL);
		unmake(&pair);
	}
}

/* The other store may have other numbers for the limit. The used units count, up to the limit. */
static void another_limit_keeps_its_units(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct pair pair = make(limits[i].text);
		const uint64_t most = look_there(&pair, pair.now).limit;
		struct weir_verdict said = { .limit = most + 100, .remaining = most + 98, .reset_after = 1 };

		tell(&pair, &said, false);
		CHECK(look_here(&pair, pair.now).remaining <= most - 2);
		CHECK(look_here(&pair, pair.now).remaining + 3 >= most || !limits[i].is_exact);
		said.remaining = 0;
		said.reset_after = S(86400);
		tell(&pair, &said, false);
		CHECK_EQ(look_here(&pair, pair.now).remaining, 0);
		CHECK(look_here(&pair, pair.now).reset_after <= S(120));
		unmake(&pair);
	}
}

/* A change of the limit converts the verdict as if it had been charged here. */
static void a_changed_limit_keeps_what_was_said(void)
{
	struct pair pair = make("10/hour fixed_window");
	const struct weir_verdict said = { .limit = 10, .remaining = 4, .reset_after = S(1000) };
	struct weir_limit to;

	tell(&pair, &said, false);
	CHECK_EQ(weir_limit_parse("15/hour fixed_window", 20, &to, NULL), WEIR_OK);
	CHECK_EQ(weir_table_change_limit(pair.here, pair.of_here, &to, pair.now, NULL), WEIR_OK);
	CHECK_EQ(look_here(&pair, pair.now).remaining, 9);
	unmake(&pair);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

struct actor {
	const struct pair *pair;
	uint64_t seed;
};

static void *act(void *actor_)
{
	struct actor *const actor = actor_;
	const struct pair *const pair = actor->pair;
	const uint64_t most = weir_table_peek(pair->here, pair->of_here, "", 0, pair->now, 0).limit;

	for (int i = 0; i < ACTS; i++) {
		const uint64_t dice = actor->seed = actor->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		const unsigned char key = (unsigned char)((dice >> 33) % KEYS);
		const weir_ns now = pair->now + (dice >> 40) % MS(100);
		const struct weir_verdict said = { .limit = most,
						   .remaining = (dice >> 35) % most,
						   .reset_after = MS(1) + (dice >> 42) % MS(400) };

		if (dice >> 60 < 8)
			weir__table_overwrite(pair->here, pair->of_here, &key, 1, now, &said, dice >> 59 & 1);
		else if (dice >> 60 < 14)
			(void)weir_table_take(pair->here, pair->of_here, &key, 1, now, 1);
		else if (dice >> 60 < 15)
			(void)weir_table_refund(pair->here, pair->of_here, &key, 1, now, 1);
		else
			(void)weir_table_reset(pair->here, pair->of_here, &key, 1);
	}
	return NULL;
}

/* With concurrent operations, a key has one slot, and its history is given back. */
static void threads_overwrite_what_others_charge(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct pair pair = make(limits[i].text);
		struct actor actors[THREADS];
		struct weir_table_stats stats;
		pthread_t threads[THREADS];

		for (size_t j = 0; j < THREADS; j++) {
			actors[j] = (struct actor){ &pair, j + 1 };
			CHECK_EQ(pthread_create(&threads[j], NULL, act, &actors[j]), 0);
		}
		for (size_t j = 0; j < THREADS; j++)
			CHECK_EQ(pthread_join(threads[j], NULL), 0);
		for (unsigned j = 0; j < KEYS; j++) {
			const unsigned char key = (unsigned char)j;

			while (weir_table_reset(pair.here, pair.of_here, &key, 1))
				;
			CHECK_EQ(weir_table_peek(pair.here, pair.of_here, &key, 1, pair.now, 0).reset_after, 0);
		}
		weir_table_stats(pair.here, pair.now, &stats);
		CHECK_EQ(stats.live, 0);
		CHECK_EQ(stats.arena_used, 0);
		unmake(&pair);
	}
}

TESTS(TEST(what_is_said_is_what_is_known), TEST(charges_follow_what_was_said), TEST(usage_is_only_raised_if_asked),
      TEST(all_limits_can_be_overwritten_with_more), TEST(an_unused_window_is_unused_a_little_earlier),
      TEST(usage_beyond_the_limit_is_raised), TEST(usage_of_both_is_joined), TEST(a_full_key_takes_no_slot),
      TEST(another_limit_keeps_its_units), TEST(a_changed_limit_keeps_what_was_said),
      TEST(threads_overwrite_what_others_charge))
