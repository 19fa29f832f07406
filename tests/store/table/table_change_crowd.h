/* table_change_crowd.h: four workers send requests while a fifth changes the limits, thousands of times. In any
 * interval a key is allowed no more than by the larger of its limits; table_history.h checks that. */
#ifndef WEIR_TESTS_STORE_TABLE_CHANGE_CROWD_H
#define WEIR_TESTS_STORE_TABLE_CHANGE_CROWD_H

#include "table_crowd.h"

enum {
	CHANGER = WORKERS,
	EACH_MOST = 20 /* changes without a wait for all keys: the table keeps plans for many more */
};

static uint64_t changes = 1000;

#define CROWD_INSTANT UINT64_C(4000000000000000000)

/* The two limits between which each is changed. Buckets keep their burst: a lower burst cuts the usage, so a key would
 * get more than the larger burst when it is raised again. */
static const char *const varied_limits[][2] = {
	{ "400/s burst 20", "150/s burst 20" },
	{ "397/s leaky burst 31", "800/s leaky burst 31" },
	{ "10/25ms fixed_window", "17/25ms fixed_window" },
	{ "12/120ms sliding_counter", "30/120ms sliding_counter" },
	{ "20/40ms refill interval burst 30", "9/40ms refill interval burst 30" },
};

enum { VARIED = sizeof(varied_limits) / sizeof(varied_limits[0]) };

static inline struct weir_limit larger(size_t which)
{
	const struct weir_limit a = parsed(varied_limits[which][0]), b = parsed(varied_limits[which][1]);
	struct weir_limit both = a;

	both.count = a.count > b.count ? a.count : b.count;
	both.burst = a.burst > b.burst ? a.burst : b.burst;
	both.period = a.period < b.period ? a.period : b.period;
	return both;
}

static inline void change_to(const struct crew_table *t, size_t limit, const char *text, weir_ns now)
{
	struct weir_message why;

	if (weir_table_change_limit_text(t->table, t->limits[limit], text, now, &why) != WEIR_OK)
		bail_out(text, why.text);
}

/* --- in real time ----------------------------------------------------------------------------------------------- */

enum { CHANGED_KEYS = 200, PASS_JOURNAL = 1 << 22 };

struct change_crowd {
	struct journal journals[WORKERS + 1];
	_Atomic uint64_t passes[WORKERS]; /* over all keys */
	_Atomic uint64_t changed;
	_Atomic bool is_over;
};

static inline void ask_all_keys(const struct crew_table *t, struct change_crowd *crowd, unsigned worker)
{
	struct journal *const journal = &crowd->journals[worker];
	uint64_t random = seed_of(worker);

	while (!atomic_load(&crowd->is_over)) {
		for (uint16_t key = 0; key < CHANGED_KEYS; key++) {
			const struct weir_table_limit *const limit = t->limits[key % VARIED];
			const uint64_t dice = next_random(&random) >> 16, cost = 1 + key / VARIED % 3;
			const weir_ns now = weir_table_now(t->table);
			const bool is_allowed =
				dice % 2 ? weir_table_allow(t->table, limit, &key, sizeof(key), now, cost) :
					   weir_table_take(t->table, limit, &key, sizeof(key), now, cost).allowed;

			if (is_allowed && journal->n_admissions < PASS_JOURNAL)
				journal_admit(journal, key, cost, now, weir_table_now(t->table));
		}
		atomic_fetch_add(&crowd->passes[worker], 1);
	}
}

/* Waits until a worker has touched all keys. */
static inline void await_pass(struct change_crowd *crowd)
{
	uint64_t before[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++)
		before[i] = atomic_load(&crowd->passes[i]);
	for (;;) {
		for (unsigned i = 0; i < WORKERS; i++)
			if (atomic_load(&crowd->passes[i]) >= before[i] + 2)
				return;
		sched_yield();
	}
}

static inline void change_at_random(const struct crew_table *t, struct change_crowd *crowd)
{
	uint64_t random = seed_of(CHANGER), n = 0;

	for (uint64_t round = 1; n < changes; round++) {
		for (size_t i = 0; i < VARIED; i++, n++)
			change_to(t, i, varied_limits[i][round % 2], weir_table_now(t->table));
		if (round % EACH_MOST == 0)
			await_pass(crowd);
		else if (next_random(&random) >> 16 & 1)
			sched_yield();
	}
	atomic_store(&crowd->changed, n);
	atomic_store(&crowd->is_over, true);
}

static inline void change_crowd_work(const struct balancer *balancer, const struct crew_table *t, unsigned index,
				     void *crowd)
{
	(void)balancer;
	if (index == CHANGER)
		change_at_random(t, crowd);
	else
		ask_all_keys(t, crowd, index);
}

/* An interval bucket is judged as a smooth bucket with a burst larger by count, which it never exceeds. */
static inline struct weir_limit judged_as(size_t which)
{
	struct weir_limit limit = larger(which);

	if (limit.refill_interval)
		limit.burst += limit.count;
	return limit;
}

static void a_crowd_is_admitted_no_more_than_the_larger(void)
{
	const size_t log_bytes = (size_t)PASS_JOURNAL * sizeof(struct admission);
	struct change_crowd *const crowd = shared_memory(sizeof(*crowd));
	const weir_ns margin = is_crowd_of_processes ? MARGIN_OF_PROCESSES : MARGIN_OF_THREADS;
	const char *texts[VARIED];
	uint64_t admitted = 0, left_out = 0, over = 0;
	struct histories all;
	struct balancer balancer;

	for (size_t i = 0; i < VARIED; i++)
		texts[i] = varied_limits[i][0];
	crew_init(&balancer, is_crowd_of_processes, CHANGED_KEYS * 16, texts, VARIED, 0);
	journals_init(crowd->journals, log_bytes);
	crew_run(&balancer, WORKERS + 1, change_crowd_work, crowd);
	all = gather(crowd->journals, WORKERS + 1, CHANGED_KEYS);
	for (size_t key = 0; key < CHANGED_KEYS; key++) {
		const struct weir_limit limit = judged_as(key % VARIED);
		const struct judgement found = judge(&limit, &all.of[key], margin);

		if (found.over > 0 && over == 0)
			printf("# key %zu, %s: %" PRIu64 " of %zu admissions are above the limit\n", key,
			       texts[key % VARIED], found.over, all.of[key].n_admissions);
		admitted += found.admitted;
		left_out += found.left_out;
		over += found.over;
	}
	printf("# %" PRIu64 " changes, %" PRIu64 " passes, %" PRIu64 " units admitted; not judged: %" PRIu64 "\n",
	       atomic_load(&crowd->changed), atomic_load(&crowd->passes[0]), admitted, left_out);
	CHECK_EQ(over, 0);
	CHECK(atomic_load(&crowd->changed) >= changes);
	CHECK(admitted > 0);
	histories_free(&all);
	journals_fini(crowd->journals, log_bytes);
	crew_fini(&balancer);
	munmap(crowd, sizeof(*crowd));
}

/* --- at one instant --------------------------------------------------------------------------------------------- */

/* All workers meet before each round. In a round all take from one new key, more than enough, while its limit changes.
 * The key allows exactly the burst, however often the limit changes. */
enum { ASKS = 60, BURST = 37, CHANGES_A_ROUND = 6 };

struct instant_crowd {
	_Atomic uint64_t arrived;
	_Atomic uint64_t admitted[2]; /* of rounds with even and odd numbers */
	uint64_t wrong, rounds;
};

static inline void meet(struct instant_crowd *crowd, uint64_t all)
{
	atomic_fetch_add(&crowd->arrived, 1);
	while (atomic_load(&crowd->arrived) < all)
		sched_yield();
}

static inline void ask_in_round(const struct crew_table *t, struct instant_crowd *crowd, unsigned worker,
				uint64_t round)
{
	const uint32_t key = (uint32_t)round;
	uint64_t random = seed_of(worker + 7 * round), admitted = 0;

	for (int i = 0; i < ASKS; i++) {
		const uint64_t dice = next_random(&random) >> 16;

		if (dice % 2)
			admitted += weir_table_allow(t->table, t->limits[0], &key, sizeof(key), CROWD_INSTANT, 1);
		else
			admitted +=
				weir_table_upto(t->table, t->limits[0], &key, sizeof(key), CROWD_INSTANT, 2).granted;
	}
	atomic_fetch_add(&crowd->admitted[round % 2], admitted);
}

static inline void change_in_round(const struct crew_table *t, uint64_t round)
{
	for (int i = 0; i < CHANGES_A_ROUND; i++) {
		change_to(t, 0, (round * CHANGES_A_ROUND + (uint64_t)i) % 2 ? "9/day burst 37" : "1/day burst 37",
			  CROWD_INSTANT);
		if (round % 3 == 0)
			sched_yield();
	}
}

/* Checks the round that is over. */
static inline void note_round(struct instant_crowd *crowd, uint64_t round)
{
	const uint64_t admitted = atomic_exchange(&crowd->admitted[round % 2], 0);

	crowd->wrong += admitted != BURST;
	crowd->rounds++;
}

static inline void instant_crowd_work(const struct balancer *balancer, const struct crew_table *t, unsigned index,
				      void *crowd_)
{
	struct instant_crowd *const crowd = crowd_;
	const uint64_t rounds = changes / CHANGES_A_ROUND + 1;

	(void)balancer;
	for (uint64_t round = 0; round < rounds; round++) {
		meet(crowd, (2 * round + 1) * (WORKERS + 1));
		if (index == CHANGER)
			change_in_round(t, round);
		else
			ask_in_round(t, crowd, index, round);
		meet(crowd, (2 * round + 2) * (WORKERS + 1));
		if (index == CHANGER)
			note_round(crowd, round);
	}
}

static void at_one_instant_a_key_gets_its_burst_once(void)
{
	static const char *const texts[] = { "9/day burst 37" };
	struct instant_crowd *const crowd = shared_memory(sizeof(*crowd));
	struct balancer balancer;

	crew_init(&balancer, is_crowd_of_processes, 2 * (changes / CHANGES_A_ROUND + 1), texts, 1, CROWD_INSTANT);
	crew_run(&balancer, WORKERS + 1, instant_crowd_work, crowd);
	printf("# %" PRIu64 " rounds of %d changes\n", crowd->rounds, CHANGES_A_ROUND);
	CHECK_EQ(crowd->wrong, 0);
	crew_fini(&balancer);
	munmap(crowd, sizeof(*crowd));
}

#endif
