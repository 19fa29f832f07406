/* table_races.h: many workers on one table while the clock stands still, so that everything allowed, charged and taken
 * back can be counted exactly. table_threads_test.c and table_processes_test.c both run it. */
#ifndef WEIR_TESTS_STORE_TABLE_RACES_H
#define WEIR_TESTS_STORE_TABLE_RACES_H

#include "table_crowd.h"

/* --- one key, all at one instant -------------------------------------------------------------------------------- */

enum { DENIALS = 20, BATCH = 8 };

static const char *const instant_limits[] = {
	"700/7ms burst 500",
	"700/7ms leaky queue 500",
	"700/7ms refill interval burst 500",
	"500/7ms fixed_window",
	"500/7ms fixed_window align first",
	"500/7ms sliding_counter",
	"500/7ms sliding_log",
	"500/7ms sliding_counter segments 7",
};

enum { INSTANT_LIMITS = sizeof(instant_limits) / sizeof(instant_limits[0]) };

struct instant {
	weir_ns now;
	size_t limit;
	_Atomic uint64_t admitted;
};

/* Takes by one of the possible operations. */
static inline uint64_t ask_somehow(const struct crew_table *t, const struct weir_claim *claim, weir_ns now,
				   uint64_t way)
{
	struct weir_decision decision = { .decided_by = 0 };
	struct weir_claim batch[BATCH];
	bool are_allowed[BATCH];
	uint64_t admitted = 0;

	switch (way % 5) {
	case 0:
		return weir_table_allow(t->table, claim->limit, claim->key, claim->key_length, now, 1);
	case 1:
		return weir_table_take(t->table, claim->limit, claim->key, claim->key_length, now, 1).allowed;
	case 2:
		return weir_table_upto(t->table, claim->limit, claim->key, claim->key_length, now, 3).granted;
	case 3:
		weir_table_decide(t->table, claim, 1, now, NULL, &decision);
		return decision.verdict.allowed;
	default:
		for (size_t i = 0; i < BATCH; i++)
			batch[i] = *claim;
		weir_table_allow_batch(t->table, batch, BATCH, now, are_allowed);
		for (size_t i = 0; i < BATCH; i++)
			admitted += are_allowed[i];
		return admitted;
	}
}

static inline void ask_until_denied(const struct balancer *balancer, const struct crew_table *t, unsigned index,
				    void *instant_)
{
	struct instant *const instant = instant_;
	const struct weir_claim claim = { t->limits[instant->limit], &instant->limit, sizeof(instant->limit), 1 };
	uint64_t admitted = 0;

	(void)balancer;
	for (uint64_t i = 0, denied = 0; denied < DENIALS; i++) {
		const uint64_t granted = ask_somehow(t, &claim, instant->now, i + index);

		admitted += granted;
		denied += granted == 0;
	}
	atomic_fetch_add(&instant->admitted, admitted);
}

static inline uint64_t admitted_serially(const struct weir_plan *plan, void *state, weir_ns now)
{
	uint64_t admitted = 0;

	while (weir_step_allow(plan, state, now, 1))
		admitted++;
	return admitted;
}

static void a_crowd_is_admitted_what_one_would_be(void)
{
	const weir_ns start = UINT64_C(1790000000000000000);
	const uint64_t rounds = 10 + operations / 200000;
	struct instant *const instant = shared_memory(sizeof(*instant));
	struct balancer balancer;

	crew_init_with_arena(&balancer, is_crowd_of_processes, 1000, instant_limits, INSTANT_LIMITS, start, 1 << 20);
	for (instant->limit = 0; instant->limit < INSTANT_LIMITS; instant->limit++) {
		const struct weir_limit limit = parsed(instant_limits[instant->limit]);
		struct weir_plan plan;
		void *state;

		CHECK_EQ(weir_plan_compile(&limit, &plan, NULL), WEIR_OK);
		state = memory_for(1, weir_plan_state_size(&plan));
		instant->now = start;
		for (uint64_t round = 0; round < rounds; round++, instant->now += 100003 * (1 + round % 30)) {
			atomic_store(&instant->admitted, 0);
			crew_run(&balancer, WORKERS, ask_until_denied, instant);
			if (!CHECK_EQ(atomic_load(&instant->admitted), admitted_serially(&plan, state, instant->now)))
				printf("# %s, round %" PRIu64 "\n", instant_limits[instant->limit], round);
		}
		free(state);
	}
	crew_fini(&balancer);
	munmap(instant, sizeof(*instant));
}

/* --- several limits, and most who ask lose ------------------------------------------------------------------------ */

/* All workers compete for the same prizes, each of which can be won once. A request also takes from the hub that all
 * share and from some keys of its own, so a request that loses the prize must take back its other charges. The limit
 * with least left is charged first: an expensive prize, whose limit has more left than the others, is charged last, a
 * cheap one first. A worker that the hub denies for a while resets it, so do some winners, and a fifth worker now and
 * then. Requests carry the time at which the race began, so that charges stay; the journal has the real time. */
enum { PRIZES = 6000, FILLERS = 6, CLAIMS = FILLERS + 2, HUB_MOST = 16, PATIENCE = 50, RESET_AFTER = 24 };

/* clang-format off */
static const char *const race_limits[] = {
	"16/day fixed_window", "1/day burst 16", "16/day sliding_counter", /* hubs that are reset */
	"16/day sliding_log", "16/day sliding_counter segments 24",
	"1000000/day fixed_window", "10/day burst 20000",                  /* hubs that are not */
	"1000000/day sliding_log", "1000000/day sliding_counter segments 24",
	"1/day burst 1", "200000000/day fixed_window",                     /* prizes, cheap and expensive */
	"1000000/day fixed_window", "1000000/day sliding_log",             /* fillers, of hubs in slots and in the arena */
};
/* clang-format on */

enum {
	RESET_HUBS = 5,
	BUCKET_HUB = 6,
	RACE_HUBS = 9,
	CHEAP = 9,
	DEAR = 10,
	FILLER = 11,
	RACE_LIMITS = 13,
};

struct race {
	struct journal journals[WORKERS + 1];
	_Atomic uint64_t tickets;
	weir_ns now;
	size_t hub;                      /* index of its limit */
	uint64_t filled[WORKERS];        /* charged to each worker's fillers */
	_Atomic uint32_t prizes[PRIZES]; /* how often each was won */
};

enum { HUB_AT, PRIZE_AT, FILLERS_AT };

struct race_keys {
	uint16_t hub;
	uint32_t prize;
	uint16_t fillers[FILLERS];
	struct weir_claim claims[CLAIMS];
};

static inline size_t filler_limit(const struct race *race)
{
	return FILLER + (race->hub % 4 >= 3);
}

static inline size_t prize_limit(uint32_t prize)
{
	return prize % 4 ? DEAR : CHEAP;
}

static inline uint64_t prize_cost(uint32_t prize)
{
	return prize % 4 ? UINT64_C(200000000) : 1;
}

static inline void race_claims(struct race_keys *keys, const struct crew_table *t, const struct race *race,
			       unsigned worker, uint32_t prize)
{
	keys->hub = 0;
	keys->prize = prize;
	keys->claims[HUB_AT] = (struct weir_claim){ t->limits[race->hub], &keys->hub, sizeof(keys->hub), 1 };
	keys->claims[PRIZE_AT] = (struct weir_claim){ t->limits[prize_limit(prize)], &keys->prize, sizeof(keys->prize),
						      prize_cost(prize) };
	for (size_t i = 0; i < FILLERS; i++) {
		keys->fillers[i] = (uint16_t)(worker * FILLERS + i);
		keys->claims[FILLERS_AT + i] = (struct weir_claim){ t->limits[filler_limit(race)], &keys->fillers[i],
								    sizeof(keys->fillers[i]), 1 };
	}
}

/* Requests one prize until it is won by a worker, however often the hub denies. The hub is not reset at once: that
 * gives losers time to take back too much, which would show as one request too many. */
static inline bool run_for(const struct crew_table *t, struct race *race, unsigned worker, const struct race_keys *keys)
{
	struct journal *const journal = &race->journals[worker];
	struct weir_verdict verdicts[CLAIMS];
	struct weir_decision decision;

	for (unsigned i = 1;; i++) {
		const weir_ns before = ordering_clock(t);

		weir_table_decide(t->table, keys->claims, CLAIMS, race->now, verdicts, &decision);
		if (decision.verdict.allowed) {
			journal_admit(journal, 0, 1, before, ordering_clock(t));
			return true;
		}
		if (!verdicts[PRIZE_AT].allowed)
			return false;
		if (i % PATIENCE == 0 && race->hub < RESET_HUBS)
			reset_key(t, journal, race->hub, keys->hub, ordering_clock);
	}
}

static inline void reset_hub_at_times(const struct balancer *balancer, const struct crew_table *t, struct race *race)
{
	const struct timespec pause = { .tv_nsec = 100000 };

	while (race->hub < RESET_HUBS && atomic_load(&balancer->line->working) > 1) {
		nanosleep(&pause, NULL);
		reset_key(t, &race->journals[RESETTER], race->hub, 0, ordering_clock);
	}
}

static inline void race_work(const struct balancer *balancer, const struct crew_table *t, unsigned index, void *race_)
{
	struct race *const race = race_;
	struct race_keys keys;
	uint64_t ticket;

	if (index == RESETTER) {
		reset_hub_at_times(balancer, t, race);
		return;
	}
	while ((ticket = atomic_fetch_add(&race->tickets, 1)) < PRIZES * WORKERS) {
		race_claims(&keys, t, race, index, (uint32_t)(ticket / WORKERS));
		if (run_for(t, race, index, &keys)) {
			atomic_fetch_add(&race->prizes[keys.prize], 1);
			race->filled[index]++;
			if (race->hub < RESET_HUBS && keys.prize % RESET_AFTER == 0)
				reset_key(t, &race->journals[index], race->hub, keys.hub, ordering_clock);
		}
	}
}

static inline uint64_t used(const struct crew_table *t, size_t limit, const void *key, size_t length, weir_ns now)
{
	const struct weir_verdict v = weir_table_inspect(t->table, t->limits[limit], key, length, now).verdict;

	return v.limit - v.remaining;
}

/* Each prize was won once and is charged once. But two keys in a thousand million may share a slot, and so a prize. */
static inline void judge_prizes(const struct balancer *balancer, const struct race *race)
{
	uint64_t had = 0, twice = 0, lost = 0;

	for (uint32_t prize = 0; prize < PRIZES; prize++) {
		const uint64_t times = atomic_load(&race->prizes[prize]);

		had += times;
		twice += times > 1;
		lost += times * prize_cost(prize) >
			used(&balancer->table, prize_limit(prize), &prize, sizeof(prize), race->now);
	}
	CHECK_EQ(twice, 0);
	CHECK_EQ(lost, 0);
	CHECK(had + 2 >= PRIZES);
}

/* A charge may stay if something was reset meanwhile. No other charge may stay, and none may disappear that was not
 * made. */
static inline void judge_fillers(const struct balancer *balancer, const struct race *race)
{
	uint64_t lost = 0, left = 0;

	for (unsigned worker = 0; worker < WORKERS; worker++) {
		for (size_t i = 0; i < FILLERS; i++) {
			const uint16_t filler = (uint16_t)(worker * FILLERS + i);
			const uint64_t charged = used(&balancer->table, filler_limit(race), &filler, sizeof(filler),
						      race->now);

			lost += charged < race->filled[worker];
			left += charged > race->filled[worker];
		}
	}
	CHECK_EQ(lost, 0);
	if (race->hub >= RESET_HUBS)
		CHECK_EQ(left, 0);
}

/* Units that a bucket of 10 a day may still have charged: what had leaked of each charge when it was taken back. */
static inline uint64_t left_by_leaks(const struct balancer *balancer, const struct race *race)
{
	const weir_ns lasted = weir_table_now(balancer->table.table) - race->now, each = UINT64_C(8640000000000);
	struct weir_table_stats stats;

	weir_table_stats(balancer->table.table, race->now, &stats);
	return 1 + stats.lost_races * lasted / each;
}

/* Without resets the hub shows what was allowed. */
static inline struct judgement judge_hub(const struct balancer *balancer, const struct race *race)
{
	const struct weir_limit sum = { .burst = race->hub < RESET_HUBS ? HUB_MOST : UINT64_MAX };
	struct histories all = gather(race->journals, WORKERS + 1, 1);
	const struct judgement found = judge(&sum, &all.of[0], 0);
	const uint64_t may_stay = race->hub == BUCKET_HUB ? left_by_leaks(balancer, race) : 0;
	const uint16_t hub = 0;
	const uint64_t charged = used(&balancer->table, race->hub, &hub, sizeof(hub), race->now);

	CHECK_EQ(found.over, 0);
	if (race->hub >= RESET_HUBS && (charged < found.admitted || charged > found.admitted + may_stay) &&
	    !CHECK_EQ(charged, found.admitted))
		printf("# hub of %s\n", race_limits[race->hub]);
	histories_free(&all);
	return found;
}

struct race_sums {
	uint64_t lost_races, resets, left_out;
};

static inline void run_race(struct race *race, size_t hub, struct race_sums *sums)
{
	struct weir_table_stats stats;
	struct balancer balancer;

	crew_init_with_arena(&balancer, is_crowd_of_processes, PRIZES * 4, race_limits, RACE_LIMITS, 0, 1 << 20);
	race->now = weir_table_now(balancer.table.table);
	race->hub = hub;
	atomic_store(&race->tickets, 0);
	for (size_t i = 0; i < PRIZES; i++)
		atomic_store(&race->prizes[i], 0);
	memset(race->filled, 0, sizeof(race->filled));
	for (unsigned i = 0; i <= WORKERS; i++)
		race->journals[i].n_admissions = race->journals[i].n_resets = 0;
	crew_run(&balancer, WORKERS + 1, race_work, race);
	judge_prizes(&balancer, race);
	judge_fillers(&balancer, race);
	sums->left_out += judge_hub(&balancer, race).left_out;
	for (unsigned i = 0; i <= WORKERS; i++)
		sums->resets += race->journals[i].n_resets;
	weir_table_stats(balancer.table.table, race->now, &stats);
	sums->lost_races += stats.lost_races;
	crew_fini(&balancer);
}

static void losers_take_back_exactly_what_they_were_charged(void)
{
	const uint64_t rounds = RACE_HUBS * (1 + operations / (PRIZES * WORKERS * 20));
	const size_t log_bytes = PRIZES * sizeof(struct admission) * WORKERS;
	struct race *const race = shared_memory(sizeof(*race));
	struct race_sums sums = { 0, 0, 0 };

	journals_init(race->journals, log_bytes);
	for (uint64_t round = 0; round < rounds; round++)
		run_race(race, round % RACE_HUBS, &sums);
	printf("# %" PRIu64 " races, %" PRIu64 " lost after a charge, %" PRIu64
	       " resets; not judged, as under way at one: %" PRIu64 "\n",
	       rounds * PRIZES, sums.lost_races, sums.resets, sums.left_out);
	journals_fini(race->journals, log_bytes);
	munmap(race, sizeof(*race));
}

/* The first argument, if any, is the number of operations. */
static inline int check_crowd(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(a_crowd_is_admitted_what_the_limits_say),
		TEST(a_crowd_with_histories_is_admitted_what_the_limits_say),
		TEST(a_crowd_in_a_small_arena),
		TEST(a_crowd_is_admitted_what_one_would_be),
		TEST(losers_take_back_exactly_what_they_were_charged),
	};

	if (argc > 1)
		operations = strtoull(argv[1], NULL, 10);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}

#endif
