/* table_crowd.h: four workers use 1,000 keys of one table in real time, and a fifth resets some. table_history.h
 * describes how the results are checked. table_threads_test.c and table_processes_test.c both run it. */
#ifndef WEIR_TESTS_STORE_TABLE_CROWD_H
#define WEIR_TESTS_STORE_TABLE_CROWD_H

#include <weir/weir.h>

#include <time.h>

#include "check.h"
#include "table_crew.h"
#include "table_history.h"

enum { WORKERS = 4, RESETTER = WORKERS, RESETS_MAX = 1 << 20 };

/* How much clocks of a table may differ, in ns: between threads because a read of the clock is not fenced, and between
 * processes because each extrapolates its own clock, at a rate known to about 100 ppm at first. */
enum { MARGIN_OF_THREADS = 1000, MARGIN_OF_PROCESSES = 100000 };

static bool is_crowd_of_processes;
static uint64_t operations = 400000;

static inline struct weir_limit parsed(const char *text)
{
	struct weir_message why;
	struct weir_limit limit;

	if (weir_limit_parse(text, strlen(text), &limit, &why) != WEIR_OK)
		bail_out(text, why.text);
	return limit;
}

static inline void journals_init(struct journal *journals, size_t log_bytes)
{
	for (unsigned i = 0; i <= WORKERS; i++) {
		journals[i].admissions = shared_memory(log_bytes);
		journals[i].resets = shared_memory(RESETS_MAX * sizeof(struct forgiven));
	}
}

static inline void journals_fini(struct journal *journals, size_t log_bytes)
{
	for (unsigned i = 0; i <= WORKERS; i++) {
		munmap(journals[i].admissions, log_bytes);
		munmap(journals[i].resets, RESETS_MAX * sizeof(struct forgiven));
	}
}

static inline weir_ns table_clock(const struct crew_table *t)
{
	return weir_table_now(t->table);
}

/* One clock for all workers, read after everything before it in program order: it shows what came first. */
static inline weir_ns ordering_clock(const struct crew_table *t)
{
	struct timespec at;

	(void)t;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return (weir_ns)at.tv_sec * 1000000000 + (weir_ns)at.tv_nsec;
}

/* Resets a key and records it; does nothing when the journal is full. */
static inline void reset_key(const struct crew_table *t, struct journal *journal, size_t limit, uint16_t key,
			     weir_ns (*clock)(const struct crew_table *))
{
	const weir_ns before = clock(t);

	if (journal->n_resets < RESETS_MAX && weir_table_reset(t->table, t->limits[limit], &key, sizeof(key)))
		journal->resets[journal->n_resets++] = (struct forgiven){ before, clock(t), key };
}

/* --- 1,000 keys in real time ------------------------------------------------------------------------------------ */

/* Keys have three tiers. A request takes from one key; or from a key of the lowest tier and its hub; or from these and
 * a summit. Every eighth key of the lowest tier and of the hubs is reset now and then. */
enum { KEYS = 1000, SUMMITS = 2, HUBS = 40, BASE = SUMMITS + HUBS, RESET_EACH = 8, LOST_UNITS = 16 };

/* By key % KINDS; the last is for the summits. Each key gets thousands of requests a second, unless something slows
 * them. */
static const char *const slot_limits[] = {
	"400/s burst 20",           "397/s leaky burst 31", "10/25ms fixed_window",
	"12/120ms sliding_counter", "1000/s burst 24",      "20000/s burst 600",
};

/* The same with histories, and buckets among them. */
static const char *const history_limits[] = {
	"10/25ms sliding_log", "31/100ms sliding_log",         "12/120ms sliding_counter segments 6",
	"400/s burst 20",      "9/30ms sliding_log count all", "2000/100ms sliding_log",
};

enum { CROWD_LIMITS = sizeof(slot_limits) / sizeof(slot_limits[0]), KINDS = CROWD_LIMITS - 1, DENIALS_KEPT = 8 };

_Static_assert(sizeof(history_limits) == sizeof(slot_limits), "as many");

static const char *const *crowd_limits = slot_limits;

struct crowd {
	struct journal journals[WORKERS + 1];
	struct denials denials[WORKERS][KEYS];
	weir_ns pause_max[KEYS];
	struct denial kept[WORKERS][KEYS][DENIALS_KEPT]; /* the latest */
	uint32_t n_kept[WORKERS][KEYS];
	uint64_t wrong_answers[WORKERS]; /* verdicts that contradict themselves */
};

static inline size_t kind_of(size_t key)
{
	return key < SUMMITS ? KINDS : key % KINDS;
}

static inline uint64_t cost_of(size_t key)
{
	return 1 + key / KINDS % 3;
}

static inline bool is_reset_now_and_then(size_t key)
{
	return key >= SUMMITS && key % RESET_EACH == 0;
}

static inline void take_down(struct crowd *crowd, unsigned worker, size_t key, bool is_allowed, weir_ns now,
			     weir_ns after)
{
	if (is_allowed)
		journal_admit(&crowd->journals[worker], key, cost_of(key), now, after);
	else if (crowd_limits == slot_limits)
		note_denial(&crowd->denials[worker][key], now, after, crowd->pause_max[key]);
	else
		crowd->kept[worker][key][crowd->n_kept[worker][key]++ % DENIALS_KEPT] = (struct denial){ now, after };
}

static inline void ask_one(const struct crew_table *t, struct crowd *crowd, unsigned worker, uint16_t key, bool in_full)
{
	const struct weir_table_limit *const limit = t->limits[kind_of(key)];
	const weir_ns now = weir_table_now(t->table);
	bool is_allowed;

	if (in_full) {
		const struct weir_verdict v = weir_table_take(t->table, limit, &key, sizeof(key), now, cost_of(key));

		is_allowed = v.allowed;
		crowd->wrong_answers[worker] += v.granted != (v.allowed ? cost_of(key) : 0) ||
						v.remaining + v.granted > v.limit || v.never;
	} else {
		is_allowed = weir_table_allow(t->table, limit, &key, sizeof(key), now, cost_of(key));
	}
	take_down(crowd, worker, key, is_allowed, now, weir_table_now(t->table));
}

static inline void ask_several(const struct crew_table *t, struct crowd *crowd, unsigned worker, const uint16_t *keys,
			       size_t n)
{
	struct weir_decision decision = { .decided_by = 0 };
	struct weir_verdict verdicts[3];
	struct weir_claim claims[3];
	bool all_allow = true;
	weir_ns now, after;

	for (size_t i = 0; i < n; i++)
		claims[i] = (struct weir_claim){ t->limits[kind_of(keys[i])], &keys[i], sizeof(keys[i]),
						 cost_of(keys[i]) };
	now = weir_table_now(t->table);
	if (weir_table_decide(t->table, claims, n, now, verdicts, &decision) != WEIR_OK)
		crowd->wrong_answers[worker]++;
	after = weir_table_now(t->table);
	for (size_t i = 0; i < n; i++) {
		if (decision.verdict.allowed || !verdicts[i].allowed)
			take_down(crowd, worker, keys[i], verdicts[i].allowed, now, after);
		all_allow = all_allow && verdicts[i].allowed;
	}
	crowd->wrong_answers[worker] += all_allow != decision.verdict.allowed;
}

static inline void ask_at_random(const struct crew_table *t, struct crowd *crowd, unsigned worker)
{
	uint64_t random = seed_of(worker);

	for (uint64_t i = 0; i < operations / WORKERS; i++) {
		const uint64_t dice = next_random(&random) >> 16;
		const uint16_t low = (uint16_t)(BASE + (dice >> 8) % (KEYS - BASE));
		const uint16_t hub = (uint16_t)(SUMMITS + low % HUBS), summit = (uint16_t)(low % SUMMITS);

		switch (dice % 8) {
		case 0:
			ask_several(t, crowd, worker, (const uint16_t[]){ summit, hub, low }, 3);
			break;
		case 1:
			ask_several(t, crowd, worker, (const uint16_t[]){ hub, low }, 2);
			break;
		case 2:
			ask_several(t, crowd, worker, (const uint16_t[]){ low, hub }, 2);
			break;
		default:
			ask_one(t, crowd, worker, low, dice % 2);
		}
	}
	for (size_t key = 0; key < KEYS; key++)
		denials_close(&crowd->denials[worker][key]);
}

static inline void reset_at_random(const struct balancer *balancer, const struct crew_table *t, struct journal *journal)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	uint64_t random = seed_of(RESETTER);

	while (atomic_load(&balancer->line->working) > 1) {
		const uint16_t key = (uint16_t)((next_random(&random) >> 16) % (KEYS / RESET_EACH) * RESET_EACH);

		nanosleep(&pause, NULL);
		if (is_reset_now_and_then(key))
			reset_key(t, journal, kind_of(key), key, table_clock);
	}
}

static inline void crowd_work(const struct balancer *balancer, const struct crew_table *t, unsigned index, void *crowd_)
{
	struct crowd *const crowd = crowd_;

	if (index == RESETTER)
		reset_at_random(balancer, t, &crowd->journals[index]);
	else
		ask_at_random(t, crowd, index);
}

static inline void judge_crowd(const struct crowd *crowd, const struct histories *all)
{
	const weir_ns margin = is_crowd_of_processes ? MARGIN_OF_PROCESSES : MARGIN_OF_THREADS;
	struct judgement sum = { 0, 0, 0 };
	uint64_t admissions = 0;

	for (size_t key = 0; key < KEYS; key++) {
		const struct weir_limit limit = parsed(crowd_limits[kind_of(key)]);
		const struct judgement found = judge(&limit, &all->of[key], margin);

		if (found.over > 0 && sum.over == 0)
			printf("# key %zu, %s: %" PRIu64 " of %zu admissions are above the limit\n", key,
			       crowd_limits[kind_of(key)], found.over, all->of[key].n_admissions);
		sum.admitted += found.admitted;
		sum.left_out += found.left_out;
		sum.over += found.over;
		admissions += all->of[key].n_admissions;
	}
	printf("# %" PRIu64 " operations, %" PRIu64 " admissions, %" PRIu64
	       " resets; not judged, as under way at a cut: %" PRIu64 "\n",
	       operations, admissions, crowd->journals[RESETTER].n_resets, sum.left_out);
	CHECK_EQ(sum.over, 0);
	CHECK(sum.admitted > 0);
	CHECK(sum.left_out * 2 < admissions);
	for (unsigned worker = 0; worker < WORKERS; worker++)
		CHECK_EQ(crowd->wrong_answers[worker], 0);
}

/* While demand exceeds the limits, keys are together allowed at least 99.9 % of the maximum. A request that loses a
 * race takes back from a bucket only what has not leaked yet, so a few units are lost, which shows in a small run. */
static inline void judge_yield(const struct crowd *crowd, const struct histories *all)
{
	struct yield sum = { 0, 0 };
	unsigned keys = 0;

	for (size_t key = 0; key < KEYS; key++) {
		const struct weir_limit limit = parsed(crowd_limits[kind_of(key)]);
		struct yield yield;

		if (is_reset_now_and_then(key))
			continue;
		yield = yield_of(&limit, &all->of[key], &crowd->denials[0][key], WORKERS, KEYS);
		sum.admitted += yield.admitted;
		sum.possible += yield.possible;
		keys += yield.possible > 0;
	}
	printf("# of %" PRIu64 " units that %u keys in demand could have had they got %" PRIu64 " (%.4f %%)\n",
	       sum.possible, keys, sum.admitted,
	       100.0 * (double)sum.admitted / (double)(sum.possible ? sum.possible : 1));
	CHECK((sum.admitted + LOST_UNITS) * 1000 >= sum.possible * 999);
}

/* Checks denials of logs that do not count denials. A request that loses a race has charged for a moment, so a few
 * denials are wrong. */
static inline void judge_denials(const struct crowd *crowd, const struct histories *all)
{
	const weir_ns margin = is_crowd_of_processes ? MARGIN_OF_PROCESSES : MARGIN_OF_THREADS;
	uint64_t denials = 0, in_vain = 0;

	for (size_t key = 0; key < KEYS; key++) {
		const struct weir_limit limit = parsed(crowd_limits[kind_of(key)]);

		if (limit.algorithm != WEIR_SLIDING_LOG || limit.count_all || is_reset_now_and_then(key))
			continue;
		for (unsigned worker = 0; worker < WORKERS; worker++)
			for (uint32_t i = 0; i < crowd->n_kept[worker][key] && i < DENIALS_KEPT; i++, denials++)
				in_vain += !is_denial_justified(&limit, &all->of[key], &crowd->kept[worker][key][i],
								cost_of(key), margin);
	}
	printf("# of %" PRIu64 " denials by logs %" PRIu64 " were in vain\n", denials, in_vain);
	CHECK(denials > 0);
	CHECK(in_vain * 1000 <= denials + 1000);
}

/* Only while no worker runs. */
static inline void check_arena(const struct balancer *balancer)
{
	struct weir_table *const table = balancer->table.table;
	struct weir_table_stats stats;

	weir_table_stats(table, weir_table_now(table), &stats);
	printf("# of %zu bytes of arena %zu are used, %" PRIu64 " keys evicted\n", stats.arena_bytes, stats.arena_used,
	       stats.evicted);
	CHECK(stats.arena_used <= stats.arena_bytes);
}

static inline void reset_all(const struct balancer *balancer)
{
	struct weir_table *const table = balancer->table.table;
	struct weir_table_stats stats;

	for (uint32_t i = 0; i < KEYS; i++) {
		const uint16_t key = (uint16_t)i;

		weir_table_reset(table, balancer->table.limits[kind_of(key)], &key, sizeof(key));
	}
	weir_table_stats(table, weir_table_now(table), &stats);
	CHECK_EQ(stats.arena_used, 0); /* no worker has left chunks behind */
}

static inline void run_crowd(size_t arena_bytes, bool is_exact)
{
	const size_t log_bytes = (size_t)operations / WORKERS * 3 * sizeof(struct admission);
	struct crowd *const crowd = shared_memory(sizeof(*crowd));
	struct histories all;
	struct balancer balancer;

	crew_init_with_arena(&balancer, is_crowd_of_processes, KEYS * 16, crowd_limits, CROWD_LIMITS, 0, arena_bytes);
	journals_init(crowd->journals, log_bytes);
	for (size_t key = 0; key < KEYS; key++) {
		const struct weir_limit limit = parsed(crowd_limits[kind_of(key)]);

		crowd->pause_max[key] = longest_pause(&limit, cost_of(key));
	}
	crew_run(&balancer, WORKERS + 1, crowd_work, crowd);
	all = gather(crowd->journals, WORKERS + 1, KEYS);
	if (is_exact)
		judge_crowd(crowd, &all);
	if (is_exact && crowd_limits == slot_limits)
		judge_yield(crowd, &all);
	if (is_exact && crowd_limits == history_limits)
		judge_denials(crowd, &all);
	if (arena_bytes > 0) {
		check_arena(&balancer);
		reset_all(&balancer);
	}
	histories_free(&all);
	journals_fini(crowd->journals, log_bytes);
	crew_fini(&balancer);
	munmap(crowd, sizeof(*crowd));
}

static inline void a_crowd_is_admitted_what_the_limits_say(void)
{
	run_crowd(0, true);
}

static inline void a_crowd_with_histories_is_admitted_what_the_limits_say(void)
{
	crowd_limits = history_limits;
	run_crowd((size_t)16 << 20, true);
	crowd_limits = slot_limits;
}

/* The arena is so small that keys are evicted all the time. What is allowed is then not checked, but nothing breaks. */
static inline void a_crowd_in_a_small_arena(void)
{
	const uint64_t all = operations;

	operations /= 4;
	crowd_limits = history_limits;
	run_crowd((size_t)65 * 600, false);
	crowd_limits = slot_limits;
	operations = all;
}

#endif
