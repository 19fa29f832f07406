/* lease_eventual_threads_test.c: threads decide a few hot keys by the same mirrors. However their accesses to the two
 * slots of a key interleave, the limit holds and every unit is confirmed in the end.
 *
 *     lease_eventual_threads_test [ROUNDS]
 *
 * Each thread has a lease store of its own, as a worker has. All threads of a server share its table. The store behind
 * them is a model behind a mutex: pushes are charged in full, even beyond the limit. A thread delays its requests and
 * the replies while the others run. Time is simulated, and too short for a refill. In every other epoch units are given
 * back, and in every fourth epoch replies are lost. */
#include "store/lease_store.h"

#include <pthread.h>
#include <sched.h>

#include "store/table/held.h"
#include "tables.h"

enum {
	SERVERS_MOST = 2,
	THREADS = 4,
	HOT = 3,
	EPOCHS = 60,
	KEYS = HOT * EPOCHS,
	CLAIMS = 128,
	LATE_MAX = 64,
	STEPS = 8000,
	MOST = 100,
	FEWER = 90
};
enum { PERCENT = 10, AHEAD = 10, SETTLE_TURNS = 64 };

struct server;

struct late {
	struct weir__store_request *request;
	bool is_decided;
	weir_ns decided_at;
	struct weir_verdict verdicts[CLAIMS], before[CLAIMS];
};

/* A thread, and the messages between its lease store and the model. */
struct worker {
	struct weir__store line; /* first, so that a pointer to it can be cast */
	struct server *server;
	struct weir__store *store;
	pthread_t thread;
	uint64_t random, allowed_here;
	struct late late[LATE_MAX];
	size_t n_late;
	/* Allowed units that may be given back, by key. And the latest charge of a mirror. */
	uint64_t spent[KEYS];
	uint64_t charged_cost;
	weir_ns charged_at;
	unsigned charged_key, epoch;
};

struct server {
	struct weir_table *table;
	const struct weir_table_limit *limit;
	struct weir__lease_shared shared;
	_Atomic weir_ns latest; /* as in fallback_store.c */
	weir_ns began_at;
	struct worker workers[THREADS];
};

struct counts {
	uint64_t used;             /* in the store */
	_Atomic uint64_t allowed;  /* noted after the decision */
	_Atomic uint64_t returned; /* noted before the request */
};

static uint16_t keys[KEYS];
static const weir_ns store_began = UINT64_C(1790000000000000000), hour = UINT64_C(3600) * S(1);

static struct {
	bool is_window;
	unsigned n_servers;
	uint64_t most, bound;
	weir_ns decided_at;
	struct counts counts[KEYS];
	struct server servers[SERVERS_MOST];
} world;

static pthread_barrier_t start;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the store: most, decided_at and used */
static _Atomic weir_ns now;
static _Atomic uint32_t percent;
static _Atomic uint64_t version, exceeded;
static uint64_t rounds = 20, round_number;

static uint64_t chance(struct worker *worker, uint64_t n)
{
	worker->random ^= worker->random << 13;
	worker->random ^= worker->random >> 7;
	worker->random ^= worker->random << 17;
	return (worker->random >> 16) % n;
}

static unsigned key_of(const struct weir_claim *claim)
{
	return *(const uint16_t *)claim->key;
}

/* --- the model of the store -------------------------------------------------------------------------------------- */

static struct weir_verdict said(const struct counts *counts, uint64_t reserved)
{
	const uint64_t used = counts->used + reserved, left = world.most - weir__min(used, world.most);
	struct weir_verdict verdict = { .limit = world.most, .remaining = left };

	if (world.is_window)
		verdict.reset_after = used > 0 ? hour / 2 : 0;
	else
		verdict.reset_after = (used * hour + world.most - 1) / world.most;
	return verdict;
}

static struct weir_verdict push(const struct weir_claim *claim, uint64_t reserved)
{
	struct counts *const counts = &world.counts[key_of(claim)];
	struct weir_verdict verdict;

	counts->used += claim->cost;
	verdict = said(counts, reserved);
	verdict.allowed = true;
	verdict.granted = claim->cost;
	return verdict;
}

static struct weir_verdict decide_one(enum weir__store_operation operation, const struct weir_claim *claim,
				      uint64_t reserved, bool may_charge)
{
	struct counts *const counts = &world.counts[key_of(claim)];
	const uint64_t left = world.most - weir__min(world.most, counts->used + reserved);
	const bool is_allowed = operation == WEIR__STORE_UPTO ? left > 0 : claim->cost <= left;
	uint64_t granted = 0;
	struct weir_verdict verdict;

	if (operation == WEIR__STORE_REFUND || weir__store_gives_back(operation))
		counts->used -= weir__min(counts->used, claim->cost);
	else if (weir__store_charges(operation) && is_allowed && may_charge)
		granted = weir__min(claim->cost, left);
	counts->used += granted;
	verdict = said(counts, reserved);
	verdict.allowed = is_allowed;
	verdict.granted = weir__store_gives_back(operation) ? claim->cost : granted;
	verdict.retry_after = is_allowed ? 0 : MS(10);
	return verdict;
}

/* Units of the key that are reserved for the requests after its push, in the same call. */
static uint64_t reserved_for(const struct weir__store_request *before, const struct weir_claim *claim)
{
	for (uint32_t i = before ? before->n : 0; i > 0; i--)
		if (key_of(&before->claims[i - 1]) == key_of(claim))
			return before->pushes[i - 1].reserved;
	return 0;
}

static void arrive(struct late *late)
{
	const struct weir__store_request *const request = late->request, *const before = request->before;
	bool is_allowed = true;

	pthread_mutex_lock(&lock);
	world.decided_at += 1000;
	late->decided_at = world.decided_at;
	late->is_decided = true;
	for (uint32_t i = 0; before && i < before->n; i++)
		late->before[i] = push(&before->claims[i], before->pushes[i].reserved);
	for (uint32_t i = 0; !request->is_each && i < request->n; i++)
		is_allowed &= decide_one(WEIR__STORE_PEEK, &request->claims[i],
					 reserved_for(before, &request->claims[i]), false)
				      .allowed;
	for (uint32_t i = 0; i < request->n; i++)
		late->verdicts[i] = request->operation == WEIR__STORE_PUSH ?
					    push(&request->claims[i], request->pushes[i].reserved) :
					    decide_one(request->operation, &request->claims[i],
						       reserved_for(before, &request->claims[i]), is_allowed);
	pthread_mutex_unlock(&lock);
}

/* --- messages ---------------------------------------------------------------------------------------------------- */

static bool submit_late(struct weir__store *line, struct weir__store_request *request)
{
	struct worker *const worker = (struct worker *)(void *)line;
	struct weir__store_request *const kept = request->caller->keep(request);

	if (worker->n_late == LATE_MAX || kept->n > CLAIMS) {
		printf("Bail out! too many requests\n");
		exit(1);
	}
	worker->late[worker->n_late++] = (struct late){ .request = kept };
	return false;
}

static bool is_latest(struct server *server, weir_ns decided_at)
{
	weir_ns seen = atomic_load(&server->latest);

	while (seen < decided_at)
		if (atomic_compare_exchange_weak(&server->latest, &seen, decided_at))
			return true;
	return false;
}

/* The thread may be descheduled after it has checked that its reply is the latest. */
static void reply(struct worker *worker, size_t i, bool is_lost)
{
	struct late late = worker->late[i];
	struct weir__store_request *const request = late.request, *const before = request->before;

	worker->n_late--;
	memmove(&worker->late[i], &worker->late[i + 1], (worker->n_late - i) * sizeof(late));
	if (before) {
		before->outcome = is_lost ? WEIR__STORE_UNANSWERED : WEIR__STORE_DECIDED;
		memcpy(before->verdicts, late.before, before->n * sizeof(late.before[0]));
		before->caller->complete(before);
	}
	request->outcome = is_lost ? WEIR__STORE_UNANSWERED : WEIR__STORE_DECIDED;
	request->decided_at = late.decided_at;
	request->fallback_nodes = 0;
	request->is_whole = !is_lost && is_latest(worker->server, late.decided_at);
	memcpy(request->verdicts, late.verdicts, request->n * sizeof(late.verdicts[0]));
	if (chance(worker, 2) > 0)
		sched_yield();
	weir__store_complete(&worker->line, request);
}

static void free_line(struct weir__store *line)
{
	(void)line;
}

static void status(struct weir__store *line, struct weir__store_status *ret_status)
{
	(void)line;
	*ret_status = (struct weir__store_status){ .nodes = world.n_servers };
}

/* --- servers ----------------------------------------------------------------------------------------------------- */

static weir_ns boot_clock(void *server)
{
	(void)server;
	return S(50) + atomic_load(&now);
}

/* Called between the accesses to the two slots, so it is a place to deschedule the thread. */
static weir_ns now_of(void *server)
{
	static _Thread_local unsigned turn;

	if (++turn % 4 == 0)
		sched_yield();
	return ((const struct server *)server)->began_at + boot_clock(server);
}

static uint32_t stranded_of(void *server, const struct weir_table_limit *limit)
{
	(void)server;
	(void)limit;
	return 0;
}

static void eventual_of(void *server, const struct weir_table_limit *limit, struct weir__eventual *eventual)
{
	(void)server;
	(void)limit;
	*eventual = (struct weir__eventual){ atomic_load(&percent), MS(100), MS(50) };
}

static bool has_any(void *server)
{
	(void)server;
	return true;
}

static uint64_t version_of(void *server)
{
	(void)server;
	return atomic_load(&version);
}

static void make_server(struct server *server)
{
	static const struct weir_table_options of_table = { .size_bytes = 1 << 20 };

	server->table = table_with(&of_table);
	server->limit = limit_in(server->table, world.is_window ? "100/hour fixed_window" : "100/hour burst 100");
	weir__lease_begin(server->table, false, boot_clock(server));
	server->began_at = atomic_load(&server->table->region.header->lease_anchor);
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *const worker = &server->workers[i];
		const struct weir__lease_options options = { .store = &worker->line,
							     .table = server->table,
							     .stranded = stranded_of,
							     .eventual = eventual_of,
							     .has_any = has_any,
							     .version = version_of,
							     .context = server,
							     .shared = &server->shared,
							     .boot_clock = boot_clock,
							     .now = now_of };

		worker->line = (struct weir__store){ .submit = submit_late, .status = status, .free = free_line };
		worker->server = server;
		worker->random = any() | 1;
		worker->store = weir__lease_store_new(&options);
		CHECK(worker->store != NULL);
	}
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

struct asked {
	struct weir__store_request request; /* first, so that a pointer to it can be cast */
	struct worker *worker;
	struct weir_claim claims[2];
	struct weir_verdict verdicts[2];
	bool is_heap;
};

static struct weir__store_request *keep(struct weir__store_request *request)
{
	struct asked *const asked = (struct asked *)(void *)request;
	struct asked *kept;

	if (asked->is_heap)
		return request;
	kept = calloc(1, sizeof(*kept));
	*kept = *asked;
	kept->is_heap = true;
	kept->request.claims = kept->claims;
	kept->request.verdicts = kept->verdicts;
	return &kept->request;
}

/* A refund is subtracted before the request is sent, so the noted sum never exceeds what was allowed. */
static void note(struct worker *worker, const struct weir__store_request *request)
{
	const bool is_allowed = request->is_each || request->n == 1 || request->decision.verdict.allowed;

	if (request->outcome != WEIR__STORE_DECIDED || !weir__store_charges(request->operation) || !is_allowed)
		return;
	for (uint32_t i = 0; i < request->n; i++) {
		const unsigned key = key_of(&request->claims[i]);
		const uint64_t granted = request->verdicts[i].allowed ? request->verdicts[i].granted : 0;
		const uint64_t allowed = atomic_fetch_add(&world.counts[key].allowed, granted) + granted;

		worker->spent[key] += granted;
		if (allowed > world.bound + atomic_load(&world.counts[key].returned))
			atomic_fetch_add(&exceeded, 1);
		if (request->fallback_nodes != WEIR__STORE_IN_MIRROR || request->n > 1 || granted == 0)
			continue;
		worker->allowed_here++;
		worker->charged_key = key;
		worker->charged_cost = granted;
		worker->charged_at = request->decided_at;
	}
}

static void complete(struct weir__store_request *request)
{
	note(((struct asked *)(void *)request)->worker, request);
	free(request);
}

static const struct weir__store_caller caller = { keep, complete };

static void ask(struct worker *worker, enum weir__store_operation operation, unsigned key, uint64_t cost, uint32_t n)
{
	struct asked asked = { .worker = worker };

	for (uint32_t i = 0; i < n; i++)
		asked.claims[i] = (struct weir_claim){ worker->server->limit, &keys[key + i], sizeof(keys[0]), cost };
	asked.request = (struct weir__store_request){ .operation = operation,
						      .is_each = operation == WEIR__STORE_UPTO,
						      .n = n,
						      .claims = asked.claims,
						      .verdicts = asked.verdicts,
						      .now = now_of(worker->server),
						      .caller = &caller };
	if (weir__store_gives_back(operation)) {
		asked.request.charged_at = worker->charged_at;
		asked.request.charged_nodes = WEIR__STORE_IN_MIRROR;
		asked.request.charged_cost = cost;
	}
	if (weir__store_submit(worker->store, &asked.request))
		note(worker, &asked.request);
}

/* Every epoch has keys of its own. */
static unsigned any_key(struct worker *worker)
{
	return worker->epoch * HOT + (unsigned)chance(worker, HOT);
}

/* Undoes the latest charge of a mirror, or refunds: at times all, so that the mirrors allow again. */
static void give_back(struct worker *worker)
{
	const bool is_undo = worker->charged_cost > 0 && chance(worker, 2) > 0;
	const unsigned key = is_undo ? worker->charged_key : any_key(worker);
	const uint64_t units = is_undo                ? worker->charged_cost :
			       chance(worker, 4) == 0 ? worker->spent[key] :
							weir__min(worker->spent[key], 1 + chance(worker, 8));

	if (units == 0 || units > worker->spent[key])
		return;
	atomic_fetch_add(&world.counts[key].returned, units);
	worker->spent[key] -= units;
	ask(worker, is_undo ? WEIR__STORE_UNDO : WEIR__STORE_REFUND, key, units, 1);
	worker->charged_cost = 0;
}

static void any_step(struct worker *worker)
{
	const unsigned key = any_key(worker);
	const bool has_room = worker->n_late + 8 < LATE_MAX;

	switch (chance(worker, 16)) {
	case 0: /* at most 20 s in all */
		atomic_fetch_add(&now, MS(1) * chance(worker, 5));
		break;
	case 1:
		if (has_room)
			weir__store_due(worker->store, now_of(worker->server));
		break;
	case 2:
		if (has_room)
			weir__store_flush(worker->store);
		break;
	case 3:
	case 4:
		for (uint64_t n = chance(worker, 20); n > 0 && worker->n_late > 0; n--) {
			struct late *const late = &worker->late[chance(worker, worker->n_late)];

			if (!late->is_decided)
				arrive(late);
		}
		break;
	case 5:
	case 6:
		for (uint64_t n = chance(worker, 20); n > 0 && worker->n_late > 0; n--) {
			const size_t i = chance(worker, worker->n_late);
			const bool is_lost = worker->epoch % 4 == 3 && chance(worker, 60) == 0;

			if (is_lost || worker->late[i].is_decided)
				reply(worker, i, is_lost);
		}
		break;
	case 7:
		if (has_room && worker->epoch % 2 > 0)
			give_back(worker);
		break;
	case 8:
		if (has_room)
			ask(worker, WEIR__STORE_TAKE, key - key % HOT + (unsigned)chance(worker, HOT - 1),
			    1 + chance(worker, 2), 2);
		break;
	case 9:
		if (has_room)
			ask(worker, chance(worker, 2) > 0 ? WEIR__STORE_UPTO : WEIR__STORE_PEEK, key,
			    1 + chance(worker, 6), 1);
		break;
	default:
		if (has_room)
			ask(worker, WEIR__STORE_TAKE, key, chance(worker, 16) > 0 ? 1 : 1 + chance(worker, 12), 1);
	}
}

static bool changes(void)
{
	return round_number % 3 == 2;
}

/* In every third round, each server gets a smaller limit, and the store gets it with the first server. */
static void lower_limit(struct server *server)
{
	const char *const text = world.is_window ? "90/hour fixed_window" : "90/hour burst 90";
	struct weir_limit limit;

	CHECK(weir_limit_parse(text, strlen(text), &limit, NULL) == WEIR_OK);
	CHECK(weir_table_change_limit(server->table, server->limit, &limit, now_of(server), NULL) == WEIR_OK);
	pthread_mutex_lock(&lock);
	world.most = FEWER;
	pthread_mutex_unlock(&lock);
}

static void *work(void *worker_)
{
	struct worker *const worker = worker_;
	const bool lowers = changes() && worker == &worker->server->workers[0];

	(void)pthread_barrier_wait(&start);
	for (int i = 0; i < STEPS; i++) {
		worker->epoch = (unsigned)i * EPOCHS / STEPS;
		any_step(worker);
		if (chance(worker, 32) == 0)
			sched_yield();
		if (lowers && i == STEPS / 4)
			lower_limit(worker->server);
	}
	return NULL;
}

/* --- rounds ------------------------------------------------------------------------------------------------------ */

static uint64_t waiting(const struct server *server)
{
	struct weir__store_status of;

	server->workers[0].store->status(server->workers[0].store, &of);
	return weir__store_waiting(&of);
}

/* Call it when all threads have ended. Delivers the messages under way, and pushes the units that wait. */
static void settle(struct server *server)
{
	for (int turn = 0; turn < SETTLE_TURNS; turn++) {
		atomic_fetch_add(&now, MS(20));
		for (unsigned i = 0; i < THREADS; i++) {
			struct worker *const worker = &server->workers[i];

			weir__store_due(worker->store, now_of(server));
			weir__store_flush(worker->store);
			while (worker->n_late > 0) {
				if (!worker->late[0].is_decided)
					arrive(&worker->late[0]);
				reply(worker, 0, false);
			}
		}
	}
	for (unsigned i = 0; i < THREADS; i++)
		weir__store_due(server->workers[i].store, now_of(server));
}

static void end_server(struct server *server)
{
	for (unsigned i = 0; i < THREADS; i++)
		server->workers[i].store->free(server->workers[i].store);
	weir__lease_shared_fini(&server->shared);
	weir_table_free(server->table);
}

/* Returns how many requests the mirrors allowed. */
static uint64_t one_round(unsigned n_servers, bool is_window)
{
	uint64_t allowed_here = 0;

	memset(&world, 0, sizeof(world));
	world.n_servers = n_servers;
	world.is_window = is_window;
	world.most = MOST;
	world.bound = MOST + (n_servers - 1) * AHEAD;
	if (changes() && n_servers > 1) /* while only one knows the smaller limit */
		world.bound += MOST - FEWER;
	world.decided_at = store_began;
	atomic_store(&now, 0);
	atomic_store(&percent, PERCENT);
	for (unsigned i = 0; i < n_servers; i++)
		make_server(&world.servers[i]);
	CHECK(pthread_barrier_init(&start, NULL, n_servers * THREADS) == 0);
	for (unsigned i = 0; i < n_servers * THREADS; i++) {
		struct worker *const worker = &world.servers[i / THREADS].workers[i % THREADS];

		CHECK(pthread_create(&worker->thread, NULL, work, worker) == 0);
	}
	for (unsigned i = 0; i < n_servers * THREADS; i++)
		CHECK(pthread_join(world.servers[i / THREADS].workers[i % THREADS].thread, NULL) == 0);
	(void)pthread_barrier_destroy(&start);
	for (unsigned i = 0; i < n_servers; i++) {
		settle(&world.servers[i]);
		CHECK_EQ(waiting(&world.servers[i]), 0);
		for (unsigned k = 0; k < THREADS; k++)
			allowed_here += world.servers[i].workers[k].allowed_here;
	}
	for (unsigned k = 0; k < KEYS; k++) {
		const struct counts *const counts = &world.counts[k];

		CHECK(counts->used + counts->returned >= counts->allowed); /* more after lost replies */
		CHECK(counts->allowed >= FEWER / 2);
	}
	for (unsigned i = 0; i < n_servers; i++)
		end_server(&world.servers[i]);
	return allowed_here;
}

static void run_rounds(unsigned n_servers)
{
	uint64_t allowed_here = 0;

	for (round_number = 0; round_number < rounds; round_number++)
		allowed_here += one_round(n_servers, round_number % 2);
	printf("# %u servers: allowed here %" PRIu64 ", above the bound %" PRIu64 "\n", n_servers, allowed_here,
	       atomic_load(&exceeded));
	CHECK(allowed_here > rounds * 20);
	CHECK_EQ(atomic_load(&exceeded), 0);
}

static void threads_of_one_server_never_exceed_the_limit(void)
{
	run_rounds(1);
}

static void two_servers_stay_within_the_bound(void)
{
	run_rounds(2);
}

static const struct check_test tests[] = { TEST(threads_of_one_server_never_exceed_the_limit),
					   TEST(two_servers_stay_within_the_bound) };

int main(int argc, char **argv)
{
	for (uint16_t i = 0; i < KEYS; i++)
		keys[i] = i;
	rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : rounds;
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
