/* table_kill_test.c: workers on a shared table are killed at random moments and replaced. No survivor may wait for the
 * dead, nothing may be half written, and at most the operation in progress is lost.
 *
 * A worker records, in its own memory, which keys it is about to use, and afterwards what it was allowed. So the test
 * knows which keys a dead worker may have charged without a record. */
#include <errno.h>
#include <time.h>

#include "check.h"
#include "store/table/table.h"
#include "table_crew.h"

enum { WORKERS = 4, KEYS = 300, FLEETING_KEYS = 4, ROUND_KILLS = 20, SPEED = 50, PATIENCE_S = 60 };

static unsigned kills = 200;

struct worker {
	_Atomic uint64_t intent; /* one or two keys, each + 1, in 16 bits each; 0: none */
	_Atomic uint64_t progress;
} __attribute__((aligned(128)));

struct yard {
	const struct balancer *balancer;
	bool forgets; /* workers reset what they were allowed, so that keys come and go */
	weir_ns start;
	uint64_t speed; /* times the clock's; 0: time stands still at start */
	uint32_t round, n_keys;
	_Atomic bool stop;
	struct worker workers[WORKERS];
	_Atomic uint64_t *admitted; /* of each key: what workers have recorded */

	/* Not used by workers. */
	pid_t pids[WORKERS];
	uint64_t random, forks;
	uint64_t *suspected; /* of each key: how many workers died while they used it */
};

struct key {
	uint32_t round, number;
};

static size_t limit_of(const struct balancer *balancer, uint32_t number)
{
	return number % balancer->n_texts;
}

static struct weir_claim claim_of(const struct yard *yard, const struct crew_table *t, const struct key *key)
{
	return (struct weir_claim){ t->limits[limit_of(yard->balancer, key->number)], key, sizeof(*key), 1 };
}

static weir_ns time_in(const struct yard *yard, const struct crew_table *t)
{
	return yard->start + (weir_table_now(t->table) - yard->start) * yard->speed;
}

/* --- what a worker does ----------------------------------------------------------------------------------------- */

static bool ask(const struct crew_table *t, const struct weir_claim *claims, size_t n, weir_ns now, bool in_full)
{
	struct weir_decision decision;

	if (n > 1)
		return weir_table_decide(t->table, claims, n, now, NULL, &decision) == WEIR_OK &&
		       decision.verdict.allowed;
	if (in_full)
		return weir_table_take(t->table, claims->limit, claims->key, claims->key_length, now, 1).allowed;
	return weir_table_allow(t->table, claims->limit, claims->key, claims->key_length, now, 1);
}

static void ask_until_told(struct yard *yard, const struct crew_table *t, struct worker *me, uint64_t random)
{
	while (!atomic_load(&yard->stop)) {
		const uint64_t dice = next_random(&random) >> 16;
		const uint32_t first = (uint32_t)(dice >> 8) % yard->n_keys;
		const uint32_t second = (first + 1 + (uint32_t)(dice >> 28) % (yard->n_keys - 1)) % yard->n_keys;
		const struct key keys[2] = { { yard->round, first }, { yard->round, second } };
		const struct weir_claim claims[2] = { claim_of(yard, t, &keys[0]), claim_of(yard, t, &keys[1]) };
		const size_t n = dice % 2 ? 2 : 1;
		const weir_ns now = time_in(yard, t);

		atomic_store(&me->intent, (first + 1) | (n > 1 ? (uint64_t)(second + 1) << 16 : 0));
		if (ask(t, claims, n, now, dice & 4)) {
			for (size_t i = 0; i < n; i++)
				atomic_fetch_add(&yard->admitted[keys[i].number], 1);
			if (yard->forgets)
				weir_table_reset(t->table, claims->limit, claims->key, claims->key_length);
		}
		atomic_store(&me->intent, 0);
		atomic_fetch_add(&me->progress, 1);
	}
}

/* Every other worker attaches by name, and so may die while it attaches. */
static _Noreturn void be_worker(struct yard *yard, unsigned index, uint64_t number)
{
	struct crew_table own = yard->balancer->table;

	if (number % 2)
		own = crew_open(yard->balancer);
	ask_until_told(yard, &own, &yard->workers[index], seed_of(number));
	_exit(0);
}

static void start_worker(struct yard *yard, unsigned index)
{
	const uint64_t number = yard->forks++;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		be_worker(yard, index, number);
	if (pid < 0)
		bail_out("fork", "the system has no process");
	yard->pids[index] = pid;
}

/* --- what the parent does ---------------------------------------------------------------------------------------- */

static weir_ns monotonic(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (weir_ns)at.tv_sec * 1000000000 + (weir_ns)at.tv_nsec;
}

static void while_away(weir_ns duration)
{
	const weir_ns end = monotonic() + duration;

	while (monotonic() < end)
		;
}

/* Up to 2^21 ns, short times as often as long ones, because a worker does something else in its first microseconds. */
static weir_ns random_span(uint64_t *random)
{
	const uint64_t dice = next_random(random) >> 16;

	return (dice >> 8) & ((UINT64_C(1) << dice % 22) - 1);
}

static void suspect(struct yard *yard, unsigned index)
{
	uint64_t intent = atomic_exchange(&yard->workers[index].intent, 0);

	for (; intent; intent >>= 16)
		yard->suspected[(intent & 0xffff) - 1]++;
}

static void kill_worker(struct yard *yard, unsigned index)
{
	int status = 0;

	kill(yard->pids[index], SIGKILL);
	CHECK_EQ(waitpid(yard->pids[index], &status, 0), yard->pids[index]);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		check_fail(__FILE__, __LINE__, "a worker ended before it was killed");
	suspect(yard, index);
}

/* Survivors make progress, whatever the dead worker held. */
static bool survivors_go_on(const struct yard *yard, unsigned dead)
{
	const weir_ns deadline = monotonic() + (weir_ns)PATIENCE_S * 1000000000;
	uint64_t before[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++)
		before[i] = atomic_load(&yard->workers[i].progress);
	for (unsigned i = 0; i < WORKERS; i++) {
		while (i != dead && atomic_load(&yard->workers[i].progress) == before[i]) {
			if (monotonic() > deadline)
				return false;
			sched_yield();
		}
	}
	return true;
}

static void end_round(struct yard *yard)
{
	const weir_ns deadline = monotonic() + (weir_ns)PATIENCE_S * 1000000000;

	atomic_store(&yard->stop, true);
	for (unsigned i = 0; i < WORKERS; i++) {
		int status = 0;
		pid_t ended;

		while ((ended = waitpid(yard->pids[i], &status, WNOHANG)) == 0 && monotonic() < deadline)
			sched_yield();
		if (ended == 0) {
			check_fail(__FILE__, __LINE__, "a worker does not come to an end");
			kill_worker(yard, i);
		}
		CHECK_EQ(status, 0);
	}
}

static void run_round(struct yard *yard, unsigned n_kills)
{
	atomic_store(&yard->stop, false);
	for (unsigned i = 0; i < WORKERS; i++)
		start_worker(yard, i);
	for (unsigned i = 0; i < n_kills && !check_failed; i++) {
		const unsigned victim = (unsigned)(next_random(&yard->random) >> 16) % WORKERS;

		while_away(random_span(&yard->random));
		kill_worker(yard, victim);
		CHECK(survivors_go_on(yard, victim));
		start_worker(yard, victim);
	}
	end_round(yard);
}

static struct yard *yard_new(const struct balancer *balancer, uint32_t n_keys)
{
	struct yard *const yard = shared_memory(sizeof(*yard));

	yard->balancer = balancer;
	yard->n_keys = n_keys;
	yard->admitted = shared_memory(n_keys * sizeof(*yard->admitted));
	yard->suspected = shared_memory(n_keys * sizeof(*yard->suspected));
	yard->random = seed_of(monotonic());
	return yard;
}

static void yard_free(struct yard *yard)
{
	munmap((void *)yard->admitted, yard->n_keys * sizeof(*yard->admitted));
	munmap(yard->suspected, yard->n_keys * sizeof(*yard->suspected));
	munmap(yard, sizeof(*yard));
}

/* --- what is found ------------------------------------------------------------------------------------------------ */

/* All zero, or a key's slot with a known tag and a plausible time. */
static bool is_sane(struct weir_state slot)
{
	const uint32_t tag = weir__slot_tag(slot);

	if (weir__slot_fingerprint(slot) == 0)
		return slot.lo == 0 && slot.hi == 0;
	return (tag == 0 || tag == WEIR__SLOT_COUNTED || tag == WEIR__SLOT_ARENA || tag == WEIR__SLOT_CLAIMED) &&
	       weir__slot_full_at(slot) > 0;
}

static unsigned settled_in_pair(const struct weir_table *table, size_t line, uint32_t fingerprint)
{
	const union weir__atomic16 *const pair = table->region.slots + (line & ~(size_t)1) * WEIR__LINE_SLOTS;
	unsigned n = 0;

	for (size_t i = 0; i < (size_t)2 * WEIR__LINE_SLOTS; i++)
		n += weir__slot_fingerprint(pair[i].state) == fingerprint &&
		     weir__slot_tag(pair[i].state) != WEIR__SLOT_CLAIMED;
	return n;
}

/* Settled slots of a key, in the two pairs of lines where it may have one. */
static unsigned settled_slots(const struct weir_table *table, const struct weir_claim *claim)
{
	const uint64_t hash = weir__hash(&claim->limit->secret, claim->key, claim->key_length);
	const size_t home = (size_t)(weir__table_home(table, hash) - table->region.slots) / WEIR__LINE_SLOTS;
	size_t other = (size_t)(weir__table_alternate(table, hash) - table->region.slots) / WEIR__LINE_SLOTS;

	if ((home ^ other) < 2)
		other ^= 2;
	return settled_in_pair(table, home, weir__fingerprint(hash)) +
	       settled_in_pair(table, other, weir__fingerprint(hash));
}

/* Only while no worker runs. */
static void check_slots(const struct yard *yard)
{
	const struct crew_table *const t = &yard->balancer->table;
	uint64_t torn = 0, doubled = 0;

	for (uint64_t i = 0; i < t->table->region.lines * WEIR__LINE_SLOTS; i++)
		torn += !is_sane(t->table->region.slots[i].state);
	for (uint32_t i = 0; i < yard->n_keys; i++) {
		const struct key key = { yard->round, i };
		const struct weir_claim claim = claim_of(yard, t, &key);

		doubled += settled_slots(t->table, &claim) > 1;
	}
	CHECK_EQ(torn, 0);
	CHECK_EQ(doubled, 0);
}

/* The charges are what workers have recorded, plus at most one for each that died with the key. A bucket that was
 * charged and refunded may lack what leaked meanwhile, which shows as one unit. */
static void check_charges(const struct yard *yard)
{
	const struct crew_table *const t = &yard->balancer->table;

	for (uint32_t i = 0; i < yard->n_keys && !check_failed; i++) {
		const struct key key = { yard->round, i };
		const struct weir_claim claim = claim_of(yard, t, &key);
		const struct weir_table_key found = weir_table_inspect(t->table, claim.limit, claim.key,
								       claim.key_length, time_in(yard, t));
		const uint64_t used = found.verdict.limit - found.verdict.remaining;
		const uint64_t told = atomic_load(&yard->admitted[i]);
		const bool is_bucket = strstr(yard->balancer->texts[limit_of(yard->balancer, i)], "day burst") != NULL;

		CHECK_EQ(found.verdict.limit, weir_table_limit_limit(claim.limit).algorithm == WEIR_TOKEN_BUCKET ?
						      weir_table_limit_limit(claim.limit).burst :
						      weir_table_limit_limit(claim.limit).count);
		CHECK(used <= found.verdict.limit);
		CHECK(used == 0 || (found.is_stored && found.full_at > yard->start));
		if (used < told || used > told + yard->suspected[i] + is_bucket) {
			printf("# key %" PRIu32 ", %s: told %" PRIu64 ", charged %" PRIu64 ", suspected %" PRIu64 "\n",
			       i, yard->balancer->texts[limit_of(yard->balancer, i)], told, used, yard->suspected[i]);
			check_fail(__FILE__, __LINE__, "what is charged is not what was told");
		}
	}
}

static void a_kill_loses_at_most_its_own_operation(void)
{
	static const char *const limits[] = {
		"100000000/day fixed_window", "1/day burst 6000", "20/day fixed_window",
		"16000/day sliding_counter",  "1/day burst 10",   "1000000/day refill interval burst 100000000",
	};
	const unsigned total = kills * 5 / 10, rounds = (total + ROUND_KILLS - 1) / ROUND_KILLS;
	uint64_t admitted = 0, suspected = 0;
	struct yard *yard;
	struct balancer balancer;

	crew_init(&balancer, true, (uint64_t)KEYS * rounds * 2, limits, sizeof(limits) / sizeof(limits[0]), 0);
	yard = yard_new(&balancer, KEYS);
	for (; yard->round < rounds && !check_failed; yard->round++) {
		yard->start = weir_table_now(balancer.table.table);
		run_round(yard, ROUND_KILLS);
		check_slots(yard);
		check_charges(yard);
		for (uint32_t i = 0; i < KEYS; i++) {
			admitted += atomic_exchange(&yard->admitted[i], 0);
			suspected += yard->suspected[i];
			yard->suspected[i] = 0;
		}
	}
	printf("# %u kills, %" PRIu64 " charges told, %" PRIu64 " that the dead may have made\n", rounds * ROUND_KILLS,
	       admitted, suspected);
	yard_free(yard);
	crew_fini(&balancer);
}

/* After all kills, every key works again. */
static void check_keys_work(const struct yard *yard, weir_ns now)
{
	const struct crew_table *const t = &yard->balancer->table;
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < yard->n_keys; i++) {
		const struct key key = { yard->round, i };
		const struct weir_claim claim = claim_of(yard, t, &key);
		const uint64_t most = weir_table_peek(t->table, claim.limit, &key, sizeof(key), now, 1).limit;

		for (uint64_t n = 0; n <= most; n++)
			wrong += weir_table_allow(t->table, claim.limit, &key, sizeof(key), now, 1) != (n < most);
	}
	CHECK_EQ(wrong, 0);
}

/* The smallest table, and keys that are soon full because time runs fast: some are always new, reclaim a slot or evict
 * another key. */
static void a_crowded_table_outlives_kills(void)
{
	static const char *const limits[] = { "5/ms burst 5", "5/20ms fixed_window", "3/s burst 3",
					      "5/10ms sliding_counter" };
	const unsigned total = kills * 2 / 10, rounds = (total + ROUND_KILLS - 1) / ROUND_KILLS;
	struct weir_table_stats stats;
	struct yard *yard;
	struct balancer balancer;
	weir_ns end;

	crew_init(&balancer, true, 0, limits, sizeof(limits) / sizeof(limits[0]), 0);
	weir_table_stats(balancer.table.table, 0, &stats);
	yard = yard_new(&balancer, (uint32_t)stats.capacity * 4);
	yard->start = weir_table_now(balancer.table.table);
	yard->speed = SPEED;
	for (unsigned i = 0; i < rounds && !check_failed; i++) {
		run_round(yard, ROUND_KILLS);
		check_slots(yard);
	}
	end = time_in(yard, &balancer.table);
	weir_table_stats(balancer.table.table, end, &stats);
	printf("# %u kills, %" PRIu64 " slots, %" PRIu64 " insertions, %" PRIu64 " evicted\n", rounds * ROUND_KILLS,
	       stats.capacity, stats.inserted, stats.evicted);
	CHECK(stats.live <= stats.capacity);
	CHECK(stats.evicted > 0);
	if (!check_failed)
		check_keys_work(yard, end + UINT64_C(60000000000));
	check_slots(yard);
	yard_free(yard);
	crew_fini(&balancer);
}

/* A few keys are inserted repeatedly. A worker that dies meanwhile leaves a claim to a slot, and all others want that
 * key. */
static void claims_of_the_dead_hold_up_nobody(void)
{
	static const char *const limits[] = { "100/day fixed_window", "1/day burst 100" };
	const unsigned total = kills * 2 / 10, rounds = (total + ROUND_KILLS - 1) / ROUND_KILLS;
	struct weir_table_stats stats;
	struct yard *yard;
	struct balancer balancer;

	crew_init(&balancer, true, 1000, limits, sizeof(limits) / sizeof(limits[0]), 0);
	yard = yard_new(&balancer, FLEETING_KEYS);
	yard->forgets = true;
	yard->start = weir_table_now(balancer.table.table);
	for (unsigned i = 0; i < rounds && !check_failed; i++) {
		run_round(yard, ROUND_KILLS);
		check_slots(yard);
	}
	weir_table_stats(balancer.table.table, yard->start, &stats);
	printf("# %u kills, %" PRIu64 " insertions\n", rounds * ROUND_KILLS, stats.inserted);
	CHECK(stats.inserted > rounds * ROUND_KILLS);
	if (!check_failed)
		check_keys_work(yard, yard->start + UINT64_C(1000000000) * 86400 * 200);
	yard_free(yard);
	crew_fini(&balancer);
}

/* --- histories ----------------------------------------------------------------------------------------------------- */

struct census {
	uint64_t shared, free, lost; /* chunks in two histories; in one, though free; taken, but in none */
};

static void count_visit(void *visits, uint32_t number)
{
	((unsigned char *)visits)[number]++;
}

/* While no process is at work. */
static struct census take_census(const struct weir_table *table)
{
	const struct weir__arena *const arena = &table->region.arena;
	unsigned char *const visits = calloc((size_t)arena->n + 1, 1);
	struct census census = { 0, 0, 0 };

	for (uint64_t i = 0; i < table->region.lines * WEIR__LINE_SLOTS; i++) {
		const struct weir_state slot = table->region.slots[i].state;

		if (weir__slot_tag(slot) == WEIR__SLOT_ARENA)
			weir__history_visit(arena, weir__slot_root(slot), count_visit, visits);
	}
	for (uint32_t number = 1; number <= arena->n; number++) {
		const bool is_taken = atomic_load(&arena->taken[number - 1]) != 0;

		census.shared += visits[number] > 1;
		census.free += visits[number] > 0 && !is_taken;
		census.lost += visits[number] == 0 && is_taken;
	}
	free(visits);
	CHECK_EQ(census.shared, 0);
	CHECK_EQ(census.free, 0);
	return census;
}

/* Events that cannot be read, or are out of order. */
static uint64_t torn_events(struct weir_table *table, uint64_t hash, uint32_t root)
{
	enum weir__history_found found = WEIR__HISTORY_MOVED;
	struct weir__history history;
	struct weir__point point;
	uint64_t events = 1;
	uint32_t cells;

	for (int i = 0; i < 2 && found == WEIR__HISTORY_MOVED; i++)
		found = weir__history_look(&table->region.arena, root, hash, &history, &root);
	if (found != WEIR__HISTORY_THERE)
		return found == WEIR__HISTORY_MOVED;
	cells = weir__shape_cells(&history.shape);
	point = weir__history_first(&history);
	for (weir_ns before = point.at; weir__history_next(&history, &point); before = point.at, events++)
		if (point.at < before)
			return 1;
	return (history.newest.position + cells - history.oldest.position) % cells + 1 - events;
}

static void check_histories(const struct yard *yard)
{
	const struct crew_table *const t = &yard->balancer->table;
	uint64_t torn = 0;

	for (uint32_t i = 0; i < yard->n_keys; i++) {
		const struct key key = { yard->round, i };
		const struct weir_claim claim = claim_of(yard, t, &key);
		const uint64_t hash = weir__hash(&claim.limit->secret, claim.key, claim.key_length);
		const union weir__atomic16 *const slots = t->table->region.slots;

		for (uint64_t j = 0; j < t->table->region.lines * WEIR__LINE_SLOTS; j++)
			if (weir__slot_fingerprint(slots[j].state) == weir__fingerprint(hash) &&
			    weir__slot_tag(slots[j].state) == WEIR__SLOT_ARENA)
				torn += torn_events(t->table, hash, weir__slot_root(slots[j].state));
	}
	CHECK_EQ(torn, 0);
}

static void reset_keys(const struct yard *yard)
{
	const struct crew_table *const t = &yard->balancer->table;

	for (uint32_t i = 0; i < yard->n_keys; i++) {
		const struct key key = { yard->round, i };
		const struct weir_claim claim = claim_of(yard, t, &key);

		weir_table_reset(t->table, claim.limit, claim.key, claim.key_length);
	}
}

/* As if more than an hour had passed: chunks of dead workers are found, at the second look. */
static void sweep_all(struct weir_table *table)
{
	const weir_ns clock = weir_table_now(table) + UINT64_C(4000000000000);
	const uint64_t parts = table->region.lines / 256 + table->region.arena.n / 2048 + 2;

	for (weir_ns look = 0; look < 2; look++)
		for (uint64_t part = 0; part < parts; part++)
			weir__table_sweep(table, clock + look * UINT64_C(130000000000));
	CHECK_EQ(take_census(table).lost, 0);
}

static void a_kill_tears_no_history(void)
{
	static const char *const limits[] = {
		"3000/day sliding_log", "20/day sliding_log",     "4000/day sliding_counter segments 24",
		"1/day burst 6000",     "100000/day sliding_log", "90000/day sliding_counter",
	};
	const unsigned total = kills < 1000 ? kills / 2 : kills, rounds = (total + ROUND_KILLS - 1) / ROUND_KILLS;
	struct weir_table_stats stats;
	uint64_t admitted = 0, lost = 0;
	struct yard *yard;
	struct balancer balancer;

	crew_init_with_arena(&balancer, true, (uint64_t)KEYS * 8, limits, sizeof(limits) / sizeof(limits[0]), 0,
			     (size_t)16 << 20);
	yard = yard_new(&balancer, KEYS / 5);
	yard->speed = 1;
	for (; yard->round < rounds && !check_failed; yard->round++) {
		yard->start = weir_table_now(balancer.table.table);
		run_round(yard, ROUND_KILLS);
		check_slots(yard);
		check_charges(yard);
		check_histories(yard);
		for (uint32_t i = 0; i < yard->n_keys; i++) {
			admitted += atomic_exchange(&yard->admitted[i], 0);
			yard->suspected[i] = 0;
		}
		reset_keys(yard);
		lost += take_census(balancer.table.table).lost;
		sweep_all(balancer.table.table);
	}
	weir_table_stats(balancer.table.table, yard->start, &stats);
	printf("# %u kills, %" PRIu64 " charges told; chunks lost by the dead: %" PRIu64 ", regained: %" PRIu64 "\n",
	       rounds * ROUND_KILLS, admitted, lost, stats.regained);
	CHECK_EQ(stats.arena_used, 0);
	CHECK_EQ(stats.regained, lost);
	CHECK_EQ(stats.evicted, 0);
	yard_free(yard);
	crew_fini(&balancer);
}

/* Keys are evicted all the time, and a dying worker may be about to give back their chunks. */
static void a_small_arena_outlives_kills(void)
{
	static const char *const limits[] = { "5/20ms sliding_log", "50/s sliding_log", "5/ms burst 5",
					      "5/10ms sliding_counter segments 5" };
	const unsigned total = kills / 4, rounds = (total + ROUND_KILLS - 1) / ROUND_KILLS;
	struct weir_table_stats stats;
	uint64_t lost = 0;
	struct yard *yard;
	struct balancer balancer;

	crew_init_with_arena(&balancer, true, KEYS, limits, sizeof(limits) / sizeof(limits[0]), 0, (size_t)65 * 150);
	yard = yard_new(&balancer, KEYS * 4);
	yard->start = weir_table_now(balancer.table.table);
	yard->speed = SPEED;
	for (unsigned i = 0; i < rounds && !check_failed; i++) {
		run_round(yard, ROUND_KILLS);
		check_slots(yard);
		check_histories(yard);
		weir_table_stats(balancer.table.table, time_in(yard, &balancer.table), &stats);
		CHECK(stats.arena_used <= stats.arena_bytes);
		lost += take_census(balancer.table.table).lost;
		sweep_all(balancer.table.table);
	}
	printf("# %u kills, %" PRIu64 " keys evicted; chunks lost by the dead: %" PRIu64 "\n", rounds * ROUND_KILLS,
	       stats.evicted, lost);
	CHECK(stats.evicted > 0);
	if (!check_failed)
		check_keys_work(yard, time_in(yard, &balancer.table) + UINT64_C(60000000000));
	yard_free(yard);
	crew_fini(&balancer);
}

/* A process may also die while it makes a table: the next one makes it, or finds it made. */
static void a_table_is_made_though_its_makers_die(void)
{
	static const char *const limits[] = { "3/day burst 3" };
	const unsigned total = kills / 10;
	uint64_t random = seed_of(monotonic());
	struct balancer balancer;

	crew_init(&balancer, true, 1000, limits, 1, 0);
	crew_fini(&balancer);
	balancer.line = shared_memory(sizeof(*balancer.line));
	for (unsigned i = 0; i < total && !check_failed; i++) {
		pid_t pids[2];

		fflush(stdout);
		for (size_t k = 0; k < 2; k++) {
			pids[k] = fork();
			if (pids[k] == 0) {
				crew_open(&balancer);
				_exit(0);
			}
		}
		while_away(random_span(&random));
		for (size_t k = 0; k < 2; k++) {
			kill(pids[k], SIGKILL);
			waitpid(pids[k], NULL, 0);
		}
		balancer.table = crew_open(&balancer);
		for (unsigned n = 0; n < 4; n++)
			CHECK_EQ(weir_table_allow(balancer.table.table, balancer.table.limits[0], "key", 3,
						  weir_table_now(balancer.table.table), 1),
				 n < 3);
		weir_table_free(balancer.table.table);
		CHECK_EQ(weir_table_unlink(balancer.name, NULL), WEIR_OK);
	}
	munmap(balancer.line, sizeof(*balancer.line));
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(a_kill_loses_at_most_its_own_operation), TEST(a_crowded_table_outlives_kills),
		TEST(claims_of_the_dead_hold_up_nobody),      TEST(a_kill_tears_no_history),
		TEST(a_small_arena_outlives_kills),           TEST(a_table_is_made_though_its_makers_die),
	};

	if (argc > 1) /* full size */
		kills = (unsigned)atoi(argv[1]);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
