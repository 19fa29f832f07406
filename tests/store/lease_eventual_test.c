/* lease_eventual_test.c: servers that decide by mirrors of one limit exceed it by at most (servers - 1) x ahead, even
 * if messages are delayed or lost, or servers stop.
 *
 *     lease_eventual_test [SEEDS [FIRST]]
 *
 * A seed that fails is printed. To repeat it: lease_eventual_test 1 SEED.
 *
 * The store behind them is a model of one key that decides as src/store/redis/leases.lua does: it charges pushes in
 * full, even beyond the limit. Time is simulated. Each server's clock is hours apart from the store's, and drifts. */
#include "store/lease_store.h"

#include "store/table/held.h"
#include "tables.h"

enum { SERVERS = 3, CLAIMS = 128, LATE_MAX = 96, MOST = 100, PERCENT = 10, AHEAD = 10, PER_SECOND = 50 };

struct server;

static uint64_t n_seeds = 400, first_seed = 1, random_state;

static uint64_t chance(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 16) % n;
}

struct late {
	struct weir__store_request *request;
	bool is_decided, is_whole;
	weir_ns decided_at;
	uint64_t granted, window; /* what the store allowed, and when */
	struct weir_verdict verdicts[CLAIMS], before[CLAIMS];
};

struct line {
	struct weir__store store; /* first, so that a pointer to it can be cast */
	struct server *server;
	struct late late[LATE_MAX];
	size_t n_late;
};

struct server {
	struct fixture *fixture;
	struct line line;
	struct weir_table *table;
	const struct weir_table_limit *limit;
	struct weir__store *store;
	struct weir__lease_shared shared;
	weir_ns began_at;
	int64_t drift; /* in millionths */
};

struct fixture {
	bool is_window;
	uint32_t percent;
	weir_ns now; /* since the start */
	/* State of the store. A bucket: when it is full. A window: its number and count. */
	weir_ns full_at, window, reset_at;
	uint64_t count, latest, decided_at;
	/* The allowed units, charged to an exact limit whose burst is the bound. */
	weir_ns fill_at;
	uint64_t filled, fill_window, most_filled, fill_turns;
	uint64_t allowed, allowed_here, denied_here, n_sent, crashes, version;
	struct server servers[SERVERS];
};

static const weir_ns store_began = UINT64_C(1790000000000000000);
static const weir_ns token = S(1) / PER_SECOND, period = S(1);

/* --- the bound --------------------------------------------------------------------------------------------------- */

static uint64_t bound(const struct fixture *fixture)
{
	return MOST + (SERVERS - 1 + fixture->crashes) * AHEAD;
}

/* Call it when units were allowed. The bound counts a killed server for ever: in a test this short, that makes no
 * difference. */
static void fill(struct fixture *fixture, uint64_t units)
{
	uint64_t level;

	fixture->allowed += units;
	if (fixture->is_window) {
		if (fixture->fill_window != fixture->now / period) {
			fixture->fill_window = fixture->now / period;
			fixture->filled = 0;
			fixture->fill_turns++;
		}
		level = fixture->filled += units;
	} else {
		if (fixture->fill_at < fixture->now)
			fixture->fill_at = fixture->now;
		fixture->fill_at += units * token;
		level = (fixture->fill_at - fixture->now + token - 1) / token;
	}
	if (level > fixture->most_filled)
		fixture->most_filled = level;
	CHECK(level <= bound(fixture));
}

/* The reply is lost, so these units were not allowed after all. */
static void unfill(struct fixture *fixture, uint64_t units, uint64_t window)
{
	fixture->allowed -= units;
	if (!fixture->is_window)
		fixture->fill_at -= weir__min(fixture->fill_at, units * token);
	else if (fixture->fill_window == window)
		fixture->filled -= weir__min(fixture->filled, units);
}

/* --- the model of the store -------------------------------------------------------------------------------------- */

static uint64_t used(struct fixture *fixture)
{
	if (fixture->is_window) {
		if (fixture->window != fixture->now / period) {
			fixture->window = fixture->now / period;
			fixture->count = 0;
		}
		return fixture->count;
	}
	return fixture->full_at > fixture->now ? (fixture->full_at - fixture->now + token - 1) / token : 0;
}

static void charge(struct fixture *fixture, uint64_t units)
{
	(void)used(fixture);
	fixture->count += units;
	if (fixture->full_at < fixture->now)
		fixture->full_at = fixture->now;
	fixture->full_at += units * token;
	if (fixture->full_at > fixture->now + 2 * MOST * token) /* usage is at most twice the limit */
		fixture->full_at = fixture->now + 2 * MOST * token;
}

static void refund(struct fixture *fixture, uint64_t units)
{
	fixture->count -= weir__min(fixture->count, units);
	fixture->full_at -= weir__min(fixture->full_at, units * token);
}

static struct weir_verdict said(struct fixture *fixture, uint64_t reserved)
{
	const uint64_t of = used(fixture) + reserved;
	struct weir_verdict verdict = { .limit = MOST, .remaining = MOST - weir__min(of, MOST) };

	if (fixture->is_window)
		verdict.reset_after = of > 0 ? period - fixture->now % period : 0;
	else
		verdict.reset_after = (fixture->full_at > fixture->now ? fixture->full_at - fixture->now : 0) +
				      reserved * token;
	return verdict;
}

static struct weir_verdict push(struct fixture *fixture, const struct weir_claim *claim,
				const struct weir__store_push *push)
{
	const weir_ns at = push->at - store_began;
	uint64_t units = claim->cost;
	struct weir_verdict verdict;

	(void)used(fixture);
	if (fixture->is_window && push->at != WEIR_NEVER && at / period < fixture->window)
		units = 0;
	charge(fixture, units);
	verdict = said(fixture, push->reserved);
	verdict.allowed = true;
	verdict.granted = units;
	return verdict;
}

static struct weir_verdict decide_one(struct fixture *fixture, enum weir__store_operation operation, uint64_t cost,
				      uint64_t reserved)
{
	const uint64_t left = MOST - weir__min(MOST, used(fixture) + reserved);
	const bool is_allowed = operation == WEIR__STORE_UPTO ? left > 0 : cost <= left;
	const uint64_t granted = !weir__store_charges(operation) || !is_allowed ? 0 : weir__min(cost, left);
	struct weir_verdict verdict;

	if (operation == WEIR__STORE_RESET) {
		fixture->count = fixture->full_at = 0;
		fixture->filled = fixture->fill_at = 0;
	} else if (operation == WEIR__STORE_REFUND || weir__store_gives_back(operation)) {
		refund(fixture, cost);
	}
	charge(fixture, granted);
	if (granted > 0)
		fill(fixture, granted);
	verdict = said(fixture, reserved);
	verdict.allowed = is_allowed;
	verdict.granted = weir__store_gives_back(operation) ? cost : granted;
	verdict.retry_after = is_allowed ? 0 : MS(10);
	return verdict;
}

/* Reserved units count for all later requests of the same call, which here is one request. */
static void arrive(struct fixture *fixture, struct late *late)
{
	const struct weir__store_request *const request = late->request, *const before = request->before;
	uint64_t reserved = 0;

	late->is_decided = true;
	fixture->decided_at += 1000;
	if (fixture->decided_at < store_began + fixture->now)
		fixture->decided_at = store_began + fixture->now / 1000 * 1000;
	late->decided_at = fixture->decided_at; /* no two calls at the same instant */
	fixture->n_sent++;
	for (uint32_t i = 0; before && i < before->n; i++) {
		late->before[i] = push(fixture, &before->claims[i], &before->pushes[i]);
		reserved = before->pushes[i].reserved;
	}
	for (uint32_t i = 0; i < request->n; i++)
		late->verdicts[i] = request->operation == WEIR__STORE_PUSH ?
					    push(fixture, &request->claims[i], &request->pushes[i]) :
					    decide_one(fixture, request->operation, request->claims[i].cost, reserved);
	late->granted = weir__store_charges(request->operation) ? late->verdicts[0].granted : 0;
	late->window = fixture->now / period;
}

/* --- messages ---------------------------------------------------------------------------------------------------- */

static bool submit_late(struct weir__store *store, struct weir__store_request *request)
{
	struct line *const line = (struct line *)(void *)store;
	struct weir__store_request *const kept = request->caller->keep(request);

	CHECK(kept != NULL && line->n_late < LATE_MAX && kept->n <= CLAIMS);
	line->late[line->n_late++] = (struct late){ .request = kept };
	return false;
}

/* The mirror is lowered only by the latest reply: fallback_store.c. */
static void reply(struct line *line, size_t i, bool is_lost)
{
	struct fixture *const fixture = line->server->fixture;
	static struct late late;
	struct weir__store_request *request, *before;

	CHECK(i < line->n_late);
	late = line->late[i];
	request = late.request;
	before = request->before;
	if (is_lost && late.is_decided)
		unfill(fixture, late.granted, late.window);
	line->n_late--;
	memmove(&line->late[i], &line->late[i + 1], (line->n_late - i) * sizeof(late));
	if (before) {
		before->outcome = is_lost ? WEIR__STORE_UNANSWERED : WEIR__STORE_DECIDED;
		memcpy(before->verdicts, late.before, before->n * sizeof(late.before[0]));
		before->caller->complete(before);
	}
	request->outcome = is_lost ? WEIR__STORE_UNANSWERED : WEIR__STORE_DECIDED;
	request->decided_at = late.decided_at;
	request->fallback_nodes = 0;
	request->is_whole = late.decided_at >= fixture->latest;
	if (!is_lost && request->is_whole)
		fixture->latest = late.decided_at;
	memcpy(request->verdicts, late.verdicts, request->n * sizeof(late.verdicts[0]));
	weir__store_complete(&line->store, request);
}

static void settle(struct server *server)
{
	weir__store_flush(server->store);
	while (server->line.n_late > 0) {
		if (!server->line.late[0].is_decided)
			arrive(server->fixture, &server->line.late[0]);
		reply(&server->line, 0, false);
	}
}

static void status(struct weir__store *store, struct weir__store_status *ret_status)
{
	(void)store;
	*ret_status = (struct weir__store_status){ .nodes = SERVERS };
}

static void free_line(struct weir__store *store)
{
	(void)store;
}

/* --- servers ----------------------------------------------------------------------------------------------------- */

static weir_ns boot_clock(void *server_)
{
	const struct server *const server = server_;

	return S(50) + server->fixture->now + (weir_ns)((int64_t)(server->fixture->now / 1000000) * server->drift);
}

static weir_ns now_of(void *server_)
{
	struct server *const server = server_;

	return server->began_at + boot_clock(server);
}

static uint32_t stranded_of(void *server, const struct weir_table_limit *limit)
{
	(void)server;
	(void)limit;
	return 0;
}

static void eventual_of(void *server_, const struct weir_table_limit *limit, struct weir__eventual *eventual)
{
	const struct server *const server = server_;

	if (limit == server->limit)
		*eventual = (struct weir__eventual){ server->fixture->percent, MS(100), MS(50) };
}

static bool has_any(void *server)
{
	(void)server;
	return true;
}

static uint64_t version_of(void *server)
{
	return ((const struct server *)server)->fixture->version;
}

static void start(struct server *server, bool goes_on)
{
	const struct weir__lease_options options = { .store = &server->line.store,
						     .table = server->table,
						     .stranded = stranded_of,
						     .eventual = eventual_of,
						     .has_any = has_any,
						     .version = version_of,
						     .context = server,
						     .shared = &server->shared,
						     .boot_clock = boot_clock,
						     .now = now_of };

	weir__lease_begin(server->table, goes_on, boot_clock(server));
	server->began_at = atomic_load(&server->table->region.header->lease_anchor);
	server->store = weir__lease_store_new(&options);
	CHECK(server->store != NULL);
}

static void stop(struct server *server)
{
	for (size_t i = 0; i < server->line.n_late; i++)
		if (!server->line.late[i].is_decided && chance(2) > 0)
			arrive(server->fixture, &server->line.late[i]);
	while (server->line.n_late > 0) /* frees the requests */
		reply(&server->line, server->line.n_late - 1, true);
	server->store->free(server->store);
	weir__lease_shared_fini(&server->shared);
	memset(&server->shared, 0, sizeof(server->shared));
}

static void make(struct fixture *fixture, bool is_window)
{
	static const struct weir_table_options options = { .size_bytes = 1 << 20 };

	memset(fixture, 0, sizeof(*fixture));
	fixture->is_window = is_window;
	fixture->percent = PERCENT;
	for (int i = 0; i < SERVERS; i++) {
		struct server *const server = &fixture->servers[i];

		server->fixture = fixture;
		server->drift = 400 * (i - 1);
		server->line.server = server;
		server->line.store = (struct weir__store){ .submit = submit_late, .status = status, .free = free_line };
		server->table = table_with(&options);
		server->limit = limit_in(server->table, is_window ? "100/s fixed_window" : "50/s burst 100");
		start(server, false);
	}
}

static void unmake(struct fixture *fixture)
{
	for (int i = 0; i < SERVERS; i++) {
		stop(&fixture->servers[i]);
		weir_table_free(fixture->servers[i].table);
	}
}

/* --- asking ------------------------------------------------------------------------------------------------------ */

struct asked {
	struct weir__store_request request; /* first, so that a pointer to it can be cast */
	struct server *server;
	struct weir_claim claims[2];
	struct weir_verdict verdicts[2];
	char key[1];
	bool is_heap;
};

static struct weir_verdict last; /* of the request that completed last */

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
	kept->claims[0].key = kept->claims[1].key = kept->key;
	asked->key[0] = 'z';
	return &kept->request;
}

static void complete(struct weir__store_request *request)
{
	last = ((struct asked *)(void *)request)->verdicts[0];
	free(request);
}

static const struct weir__store_caller caller = { keep, complete };

/* Returns whether the request completed at once. `last` is then its verdict. */
static bool ask_as(struct server *server, enum weir__store_operation operation, uint64_t cost,
		   const struct weir__store_request *charge_of)
{
	struct asked asked = { .server = server, .key = "k" };

	asked.claims[0] = (struct weir_claim){ server->limit, asked.key, 1, cost };
	asked.request = (struct weir__store_request){ .operation = operation,
						      .is_each = operation == WEIR__STORE_UPTO,
						      .n = 1,
						      .claims = asked.claims,
						      .verdicts = asked.verdicts,
						      .now = now_of(server),
						      .caller = &caller };
	if (charge_of) {
		asked.request.charged_at = charge_of->decided_at;
		asked.request.charged_nodes = charge_of->fallback_nodes;
		asked.request.charged_cost = cost;
	}
	if (!weir__store_submit(server->store, &asked.request))
		return false;
	last = asked.verdicts[0];
	if (weir__store_charges(operation) && last.allowed) {
		CHECK_EQ(asked.request.fallback_nodes, WEIR__STORE_IN_MIRROR);
		server->fixture->allowed_here++;
		fill(server->fixture, last.granted);
	}
	server->fixture->denied_here += weir__store_charges(operation) && !last.allowed;
	return true;
}

static bool ask(struct server *server, enum weir__store_operation operation, uint64_t cost)
{
	return ask_as(server, operation, cost, NULL);
}

static uint64_t counted(struct server *server, enum weir__lease_count what)
{
	weir__store_due(server->store, now_of(server));
	return atomic_load(&server->shared.counts[what]);
}

static uint64_t waiting(struct server *server)
{
	struct weir__store_status of;

	weir__store_due(server->store, now_of(server));
	server->store->status(server->store, &of);
	return weir__store_waiting(&of);
}

/* Lets time pass, in which the server pushes what is due. */
static void pass(struct server *server, weir_ns duration)
{
	const weir_ns until = server->fixture->now + duration;

	while (server->fixture->now < until) {
		server->fixture->now += weir__min(MS(5), until - server->fixture->now);
		weir__store_due(server->store, now_of(server));
		settle(server);
	}
}

/* --- one server -------------------------------------------------------------------------------------------------- */

static void a_cold_key_is_exact_and_then_local(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture, true);
	CHECK(!ask(server, WEIR__STORE_TAKE, 1));
	settle(server);
	CHECK_EQ(fixture.n_sent, 1); /* without a push before it */
	for (int i = 0; i < 4; i++)
		CHECK(ask(server, WEIR__STORE_TAKE, 1) && last.allowed && last.remaining == 98 - (uint64_t)i);
	CHECK_EQ(waiting(server), 4);
	CHECK_EQ(used(&fixture), 1);
	pass(server, MS(110));
	CHECK_EQ(waiting(server), 0);
	CHECK_EQ(used(&fixture), 5);
	pass(server, MS(400)); /* without requests, the server forgets the key */
	CHECK_EQ(counted(server, WEIR__AHEAD_PUSHES), 1);
	CHECK(!ask(server, WEIR__STORE_TAKE, 1));
	settle(server);
	unmake(&fixture);
}

/* One server never exceeds the limit. */
static void half_of_what_may_be_ahead_is_pushed_at_once(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture, true);
	(void)ask(server, WEIR__STORE_TAKE, 1);
	settle(server);
	for (int i = 0; i < 5; i++)
		CHECK(ask(server, WEIR__STORE_TAKE, 1));
	pass(server, MS(10));
	CHECK_EQ(used(&fixture), 6);
	for (int i = 0; i < 10; i++)
		CHECK(ask(server, WEIR__STORE_TAKE, 1));
	CHECK(!ask(server, WEIR__STORE_TAKE, 1)); /* Redis decides one more, and charges all that wait */
	settle(server);
	CHECK(last.allowed);
	CHECK_EQ(used(&fixture), 17);
	CHECK_EQ(waiting(server), 0);
	for (int i = 0; i < 200; i++) {
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
	}
	CHECK_EQ(fixture.allowed, MOST);
	CHECK(fixture.denied_here > 80);
	unmake(&fixture);
}

/* Three servers reach the bound: two do not know the charges of the first. */
static void the_bound_is_reached(void)
{
	for (int is_window = 0; is_window < 2; is_window++) {
		static struct fixture fixture;

		make(&fixture, is_window);
		for (int i = 0; i < SERVERS; i++) {
			(void)ask(&fixture.servers[i], WEIR__STORE_TAKE, 1);
			settle(&fixture.servers[i]);
		}
		for (int i = 0; i < SERVERS; i++)
			for (int n = 0; n < MOST; n++) {
				(void)ask(&fixture.servers[i], WEIR__STORE_TAKE, 1);
				if (i == 0)
					settle(&fixture.servers[i]);
			}
		for (int i = 1; i < SERVERS; i++)
			settle(&fixture.servers[i]);
		CHECK_EQ(fixture.most_filled, bound(&fixture));
		for (int i = 0; i < SERVERS; i++) { /* each has got a reply by now */
			CHECK(ask(&fixture.servers[i], WEIR__STORE_TAKE, 1) && !last.allowed);
			CHECK(i == 0 || waiting(&fixture.servers[i]) == 0);
		}
		unmake(&fixture);
	}
}

/* A bucket whose usage exceeds the burst allows nothing until the excess has refilled. */
static void debt_is_in_the_mirror(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture, false);
	(void)ask(server, WEIR__STORE_TAKE, 1);
	settle(server);
	charge(&fixture, MOST + 19); /* by other servers */
	CHECK(ask(server, WEIR__STORE_TAKE, 1) && last.allowed);
	pass(server, MS(120));
	for (weir_ns at = 0; at < MS(200); at += MS(10)) { /* 20 units beyond the burst and one to take: 420 ms */
		CHECK(ask(server, WEIR__STORE_TAKE, 1) && !last.allowed);
		pass(server, MS(10));
	}
	pass(server, MS(140));
	CHECK(ask(server, WEIR__STORE_TAKE, 1) && last.allowed);
	unmake(&fixture);
}

static void a_silent_store_decides_again(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture, true);
	(void)ask(server, WEIR__STORE_TAKE, 1);
	settle(server);
	CHECK(ask(server, WEIR__STORE_TAKE, 1));
	fixture.now += MS(145); /* sync and budget are 150 ms */
	CHECK(ask(server, WEIR__STORE_TAKE, 1));
	fixture.now += MS(10);
	CHECK(!ask(server, WEIR__STORE_TAKE, 1));
	reply(&server->line, 0, true); /* the units still wait */
	CHECK_EQ(waiting(server), 2);
	CHECK(!ask(server, WEIR__STORE_TAKE, 1)); /* charged already, perhaps: pushed again only after a reply */
	settle(server);
	CHECK_EQ(waiting(server), 2);
	CHECK_EQ(used(&fixture), 2);
	pass(server, MS(110));
	CHECK_EQ(waiting(server), 0);
	CHECK_EQ(used(&fixture), 4);
	unmake(&fixture);
}

/* The store replies too late again and again, and has charged every push. Units that wait are charged at most twice. */
static void a_store_that_hangs_charges_at_most_twice(void)
{
	for (int is_busy = 0; is_busy < 2; is_busy++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];
		uint64_t asked = 1;

		make(&fixture, true);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		for (int i = 0; i < 9; i++)
			CHECK(ask(server, WEIR__STORE_TAKE, 1));
		for (int at = 0; at < 700; at += 10) { /* after 150 ms the mirror has expired */
			fixture.now += MS(10);
			weir__store_due(server->store, now_of(server));
			weir__store_flush(server->store);
			if (is_busy && at % 40 == 0)
				asked += !ask(server, WEIR__STORE_TAKE, 1);
			while (server->line.n_late > 0) {
				arrive(&fixture, &server->line.late[0]);
				reply(&server->line, 0, true);
			}
		}
		asked += ask(server, WEIR__STORE_TAKE, 1) ? 0 : 1;
		settle(server);
		pass(server, MS(250));
		CHECK_EQ(waiting(server), 0);
		CHECK(used(&fixture) >= fixture.allowed_here + 1);
		CHECK(used(&fixture) <= asked + 2 * AHEAD);
		unmake(&fixture);
	}
}

static void a_push_without_a_reply_is_sent_again(void)
{
	for (int is_charged = 0; is_charged < 2; is_charged++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];

		make(&fixture, true);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		for (int i = 0; i < 3; i++)
			CHECK(ask(server, WEIR__STORE_TAKE, 1));
		fixture.now += MS(103); /* sync, and at most two ticks of the list of keys */
		weir__store_due(server->store, now_of(server));
		fixture.now += MS(5);
		weir__store_due(server->store, now_of(server));
		CHECK_EQ(server->line.n_late, 1);
		if (is_charged)
			arrive(&fixture, &server->line.late[0]);
		reply(&server->line, 0, true);
		CHECK_EQ(waiting(server), 3);
		pass(server, MS(250));
		CHECK_EQ(waiting(server), 0);
		CHECK_EQ(used(&fixture), is_charged ? 7 : 4);
		unmake(&fixture);
	}
}

static void units_of_a_window_that_has_turned_are_dropped(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture, true);
	fixture.now = MS(940);
	(void)ask(server, WEIR__STORE_TAKE, 1);
	settle(server);
	for (int i = 0; i < 3; i++)
		CHECK(ask(server, WEIR__STORE_TAKE, 1));
	pass(server, MS(120));
	CHECK_EQ(waiting(server), 0);
	CHECK_EQ(used(&fixture), 0);
	CHECK(ask(server, WEIR__STORE_TAKE, 1) && last.allowed && last.remaining == MOST - 1);
	unmake(&fixture);
}

/* The server hears nothing meanwhile. */
static void pass_in_silence(struct server *server, weir_ns duration)
{
	const weir_ns until = server->fixture->now + duration;

	while (server->fixture->now < until) {
		server->fixture->now += MS(50);
		weir__store_due(server->store, now_of(server));
		while (server->line.n_late > 0)
			reply(&server->line, 0, true);
	}
}

/* A minute of the store turns at 40 s here. */
static void units_of_a_window_that_turns_in_a_long_outage_are_dropped(void)
{
	static const weir_ns allowed_at[] = { S(1), S(20) };

	for (int i = 0; i < 2; i++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];

		make(&fixture, true);
		server->limit = limit_in(server->table, "100/min fixed_window");
		fixture.version++;
		fixture.now = allowed_at[i];
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		for (int n = 0; n < 3; n++)
			CHECK(ask(server, WEIR__STORE_TAKE, 1));
		pass_in_silence(server, S(39) - fixture.now);
		CHECK_EQ(waiting(server), 3);
		pass_in_silence(server, S(32));
		CHECK_EQ(waiting(server), 0);
		unmake(&fixture);
	}
}

static void looks_see_what_waits(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture, true);
	CHECK(!ask(server, WEIR__STORE_PEEK, 1));
	settle(server);
	for (int i = 0; i < 4; i++)
		CHECK(ask(server, WEIR__STORE_TAKE, 1));
	CHECK(ask(server, WEIR__STORE_PEEK, 96) && last.allowed && last.remaining == 96 && last.granted == 0);
	CHECK(ask(server, WEIR__STORE_PEEK, 97) && !last.allowed);
	CHECK_EQ(waiting(server), 4);
	CHECK(!ask(server, WEIR__STORE_INSPECT, 0));
	settle(server);
	CHECK_EQ(last.remaining, 96);
	CHECK_EQ(waiting(server), 0); /* pushed in the same call */
	unmake(&fixture);
}

static void refunds_and_resets_are_made_in_the_store(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture, true);
	(void)ask(server, WEIR__STORE_TAKE, 1);
	settle(server);
	for (int i = 0; i < 4; i++)
		CHECK(ask(server, WEIR__STORE_TAKE, 1));
	CHECK(!ask(server, WEIR__STORE_REFUND, 3));
	settle(server);
	CHECK_EQ(used(&fixture), 2);
	CHECK(ask(server, WEIR__STORE_TAKE, 1) && last.remaining == 97);
	CHECK(!ask(server, WEIR__STORE_RESET, 0));
	CHECK_EQ(waiting(server), 0);
	settle(server);
	CHECK_EQ(used(&fixture), 0);
	CHECK(ask(server, WEIR__STORE_TAKE, 1) && last.remaining == 99);
	unmake(&fixture);
}

static void an_undo_is_made_where_the_charge_waits(void)
{
	for (int is_pushed = 0; is_pushed < 2; is_pushed++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];
		struct weir__store_request charge = { .fallback_nodes = WEIR__STORE_IN_MIRROR };

		make(&fixture, true);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		charge.decided_at = now_of(server);
		CHECK(ask(server, WEIR__STORE_TAKE, 3) && last.allowed);
		if (is_pushed)
			pass(server, MS(110));
		CHECK_EQ(ask_as(server, WEIR__STORE_UNDO, 3, &charge), !is_pushed);
		settle(server);
		CHECK_EQ(last.granted, 3);
		CHECK_EQ(waiting(server), 0);
		CHECK_EQ(used(&fixture), 1);
		CHECK(ask(server, WEIR__STORE_TAKE, 1) && last.remaining == 98);
		unmake(&fixture);
	}
}

/* A request for two keys, or twice for one, is allowed by both or by none. */
static void together_is_all_or_nothing(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct asked asked = { .server = server, .key = "k" };

	make(&fixture, true);
	(void)ask(server, WEIR__STORE_TAKE, 1);
	settle(server);
	for (int cost = 4; cost <= 96; cost += 92) {
		for (int i = 0; i < 2; i++)
			asked.claims[i] = (struct weir_claim){ server->limit, asked.key, 1, (uint64_t)cost };
		asked.request = (struct weir__store_request){ .operation = WEIR__STORE_TAKE,
							      .n = 2,
							      .claims = asked.claims,
							      .verdicts = asked.verdicts,
							      .now = now_of(server),
							      .caller = &caller };
		CHECK(weir__store_submit(server->store, &asked.request));
		CHECK_EQ(asked.request.decision.verdict.allowed, cost == 4);
		CHECK_EQ(waiting(server), 8);
	}
	CHECK(ask(server, WEIR__STORE_PEEK, 1) && last.remaining == 91);
	unmake(&fixture);
}

/* The table has evicted the key's slot, so the server does not know its usage. */
static void an_evicted_mirror_decides_nothing(void)
{
	for (int is_window = 0; is_window < 2; is_window++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];
		struct weir__store_request charge = { .fallback_nodes = WEIR__STORE_IN_MIRROR };
		struct weir__place mirror;

		make(&fixture, is_window);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		charge.decided_at = now_of(server);
		for (int i = 0; i < 4; i++)
			CHECK(ask(server, WEIR__STORE_TAKE, 1));
		for (int what = 0; what < 3; what++) {
			mirror = place_of(server->table, server->limit, "k", 1);
			CHECK(mirror.slot &&
			      weir__atomic16_swap(mirror.slot, mirror.seen, (struct weir_state){ 0, 0 }));
			if (what == 0)
				CHECK(!ask(server, WEIR__STORE_PEEK, 1));
			else if (what == 1)
				CHECK(!ask_as(server, WEIR__STORE_UNDO, 1, &charge));
			else
				CHECK(!ask(server, WEIR__STORE_TAKE, 94)); /* it reserves only units under way */
			settle(server);
			CHECK(last.allowed);
			CHECK_EQ(waiting(server), 0); /* pushed in the same call */
		}
		CHECK_EQ(used(&fixture), 98);
		CHECK(ask(server, WEIR__STORE_TAKE, 2) && last.allowed);
		CHECK(ask(server, WEIR__STORE_TAKE, 1) && !last.allowed);
		unmake(&fixture);
	}
}

/* A process was killed while it made a slot for units that wait. */
static void a_claim_that_was_left_is_removed(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	uint64_t hash;
	struct weir__place place;

	make(&fixture, true);
	hash = weir__held_hash(weir__hash(&server->limit->secret, "k", 1),
			       atomic_load(&server->table->region.header->lease_anchor) * UINT64_C(0xd6e8feb86659fd93) ^
				       UINT64_C(0x5851f42d4c957f2d));
	for (int i = 0; i < 2; i++) {
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		weir__held_find(server->table, server->limit, hash, &place);
		CHECK(place.slot != NULL && !weir__place_is_claim(&place));
		CHECK(place.slot != NULL &&
		      weir__atomic16_swap(place.slot, place.seen,
					  weir__slot_make(weir__slot_fingerprint(place.seen), 1,
							  weir__slot_full_at(place.seen), WEIR__SLOT_CLAIMED)));
	}
	unmake(&fixture);
}

/* A killed server loses the units that wait. After an upgrade, the next process pushes them. */
static void a_hand_over_keeps_what_waits(void)
{
	for (int goes_on = 0; goes_on < 2; goes_on++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];

		make(&fixture, true);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		for (int i = 0; i < 4; i++)
			CHECK(ask(server, WEIR__STORE_TAKE, 1));
		fixture.now += MS(200);
		stop(server);
		start(server, goes_on);
		CHECK(!ask(server, WEIR__STORE_TAKE, 1));
		settle(server);
		CHECK_EQ(used(&fixture), goes_on ? 6 : 2);
		unmake(&fixture);
	}
}

static void a_server_that_stops_pushes_all(void)
{
	for (int goes_on = 0; goes_on < 2; goes_on++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];

		make(&fixture, true);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		for (int i = 0; i < 4; i++)
			CHECK(ask(server, WEIR__STORE_TAKE, 1));
		CHECK(!weir__store_leave(server->store, goes_on));
		settle(server);
		(void)weir__store_leave(server->store, goes_on);
		CHECK(weir__store_leave(server->store, goes_on));
		CHECK_EQ(used(&fixture), 5);
		unmake(&fixture);
	}
}

/* A process that ends, or is killed, while a push is under way. The next one does not wait for its reply, and soon
 * decides by the mirror again, although the key is always in use. */
static void a_busy_key_outlives_a_process_that_pushes_it(void)
{
	for (int is_killed = 0; is_killed < 2; is_killed++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];
		uint64_t here = 0;

		make(&fixture, true);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		for (int i = 0; i < 5; i++)
			CHECK(ask(server, WEIR__STORE_TAKE, 1));
		fixture.now += MS(5);
		weir__store_due(server->store, now_of(server));
		CHECK_EQ(server->line.n_late, 1);
		CHECK(ask(server, WEIR__STORE_TAKE, 1));
		if (!is_killed)
			CHECK(!weir__store_leave(server->store, true));
		server->line.n_late = 0;
		server->store->free(server->store);
		weir__lease_shared_fini(&server->shared);
		memset(&server->shared, 0, sizeof(server->shared));
		start(server, true);
		for (int i = 0; i < 64; i++) {
			here = i == 34 ? fixture.allowed_here : here; /* after 170 ms: sync and budget are 150 */
			pass(server, MS(5));
			(void)ask(server, WEIR__STORE_TAKE, 1);
			settle(server);
		}
		CHECK(fixture.allowed_here >= here + 25);
		pass(server, MS(250));
		CHECK_EQ(waiting(server), 0);
		CHECK_EQ(used(&fixture), 1 + 6 + 64);
		unmake(&fixture);
	}
}

/* The recorded time of the last reply wraps around after 18 minutes, and slots may last longer. */
static void a_key_that_was_not_used_for_long_is_exact(void)
{
	for (weir_ns early = 0; early <= MS(140); early += MS(10)) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[1]; /* its clock does not drift */

		make(&fixture, false);
		(void)ask(server, WEIR__STORE_TAKE, 50);
		settle(server);
		CHECK(ask(server, WEIR__STORE_TAKE, 1));
		pass(server, MS(400));
		CHECK_EQ(waiting(server), 0);
		fixture.now += ((weir_ns)WEIR__HEARD_MASK << WEIR__HEARD_BITS) - MS(400) + early;
		CHECK(!ask(server, WEIR__STORE_PEEK, 1));
		CHECK(!ask(server, WEIR__STORE_TAKE, 1));
		settle(server);
		unmake(&fixture);
	}
}

/* Even if a single request reaches half of `ahead`. */
static void denials_push_nothing(void)
{
	for (uint32_t percent = 1; percent <= PERCENT; percent += PERCENT - 1) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];
		uint64_t sent;

		make(&fixture, true);
		fixture.percent = percent;
		fixture.version++;
		(void)ask(server, WEIR__STORE_TAKE, MOST);
		settle(server);
		sent = fixture.n_sent;
		for (int at = 0; at < 900; at++) {
			pass(server, MS(1));
			CHECK(ask(server, WEIR__STORE_TAKE, percent) && !last.allowed);
		}
		CHECK_EQ(waiting(server), 0);
		CHECK(fixture.n_sent <= sent + 10); /* the key is read every sync */
		unmake(&fixture);
	}
}

static void change_to(struct server *server, const char *text)
{
	struct weir_limit limit;

	CHECK(weir_limit_parse(text, strlen(text), &limit, NULL) == WEIR_OK);
	CHECK(weir_table_change_limit(server->table, server->limit, &limit, now_of(server), NULL) == WEIR_OK);
}

/* If the limit becomes exact, the units that wait are pushed at the next look. The table finds keys by a different
 * fingerprint after every seventh change. */
static void a_change_pushes_what_waits(void)
{
	static const int changes[] = { 0, 1, 8 };

	for (size_t what = 0; what < sizeof(changes) / sizeof(changes[0]); what++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];

		make(&fixture, true);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		for (int i = 0; i < 4; i++)
			CHECK(ask(server, WEIR__STORE_TAKE, 1));
		if (changes[what] == 0) {
			fixture.percent = 0;
			fixture.version++;
		}
		for (int i = 0; i < changes[what]; i++)
			change_to(server, i % 2 == 0 ? "90/s fixed_window" : "80/s fixed_window");
		CHECK(!ask(server, WEIR__STORE_TAKE, 1));
		settle(server);
		pass(server, MS(210));
		CHECK_EQ(waiting(server), 0);
		CHECK_EQ(used(&fixture), 6);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		CHECK_EQ(ask(server, WEIR__STORE_TAKE, 1), changes[what] > 0);
		settle(server);
		unmake(&fixture);
	}
}

static void a_change_may_make_a_mirror_possible(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture, true);
	change_to(server, "9/s fixed_window"); /* a tenth of it is less than one unit */
	for (int i = 0; i < 2; i++) {
		CHECK(!ask(server, WEIR__STORE_TAKE, 1));
		settle(server);
	}
	change_to(server, "100/s fixed_window");
	(void)ask(server, WEIR__STORE_TAKE, 1);
	settle(server);
	CHECK(ask(server, WEIR__STORE_TAKE, 1));
	settle(server);
	unmake(&fixture);
}

/* A verdict does not say how much more than a window was used. */
static void a_change_ends_what_was_heard(void)
{
	static struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture, true);
	(void)ask(server, WEIR__STORE_TAKE, MOST);
	weir__store_flush(server->store);
	change_to(server, "110/s fixed_window");
	settle(server); /* decided by the plan before */
	CHECK(!ask(server, WEIR__STORE_TAKE, 1));
	settle(server);
	CHECK(!last.allowed);
	CHECK(ask(server, WEIR__STORE_TAKE, 1) && !last.allowed);
	change_to(server, "120/s fixed_window");
	CHECK(!ask(server, WEIR__STORE_TAKE, 1));
	settle(server);
	CHECK(!last.allowed);
	unmake(&fixture);
}

/* What is due tells times apart that are less than a minute from now. */
static void a_process_that_was_stopped_pushes_what_waits(void)
{
	static const weir_ns stops[] = { S(20), S(40), S(60), S(80) };

	for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		static struct fixture fixture;
		struct server *const server = &fixture.servers[0];

		make(&fixture, false);
		(void)ask(server, WEIR__STORE_TAKE, 1);
		settle(server);
		for (int n = 0; n < 4; n++)
			CHECK(ask(server, WEIR__STORE_TAKE, 1));
		fixture.now += stops[i];
		CHECK_EQ(waiting(server), 4);
		pass(server, MS(210));
		CHECK_EQ(waiting(server), 0);
		unmake(&fixture);
	}
}

/* --- several servers --------------------------------------------------------------------------------------------- */

static void any_request(struct server *server)
{
	static const enum weir__store_operation operations[] = {
		WEIR__STORE_TAKE, WEIR__STORE_TAKE, WEIR__STORE_TAKE,
		WEIR__STORE_UPTO, WEIR__STORE_PEEK, WEIR__STORE_DEPART
	};
	const enum weir__store_operation operation = operations[chance(sizeof(operations) / sizeof(operations[0]))];

	if (server->line.n_late + 8 < LATE_MAX)
		(void)ask(server, operation, chance(8) > 0 ? 1 : chance(8) > 0 ? 1 + chance(9) : 1 + chance(40));
}

/* Another worker of the server has handled a reply for other keys. It is later than all replies under way. */
static void later_reply(struct server *server)
{
	struct fixture *const fixture = server->fixture;

	fixture->decided_at += 1000;
	if (fixture->decided_at < store_began + fixture->now)
		fixture->decided_at = store_began + fixture->now / 1000 * 1000;
	fixture->latest = fixture->decided_at;
	atomic_store(&server->shared.latest, fixture->decided_at);
}

static void any_step(struct fixture *fixture, unsigned busy)
{
	/* The store decides by the first of them. */
	static const char *const texts[2][2] = { { "50/s burst 100", "50/s burst 90" },
						 { "100/s fixed_window", "90/s fixed_window" } };
	struct server *const server = &fixture->servers[chance(SERVERS)];
	struct line *const line = &server->line;

	switch (chance(busy)) {
	case 0:
		fixture->now += chance(64) == 0 ? MS(1) * chance(400) : MS(1) * chance(16);
		break;
	case 1:
		if (line->n_late + 8 < LATE_MAX)
			weir__store_due(server->store, now_of(server));
		break;
	case 2:
		if (line->n_late + 8 < LATE_MAX)
			weir__store_flush(server->store);
		break;
	case 3:
	case 4: /* connections of different workers may overtake each other */
		for (uint64_t n = chance(6); n > 0 && line->n_late > 0; n--) {
			struct late *const late = &line->late[chance(line->n_late)];

			if (!late->is_decided)
				arrive(fixture, late);
		}
		break;
	case 5:
	case 6:
		for (uint64_t n = chance(6); n > 0 && line->n_late > 0; n--) {
			const size_t i = chance(line->n_late);
			const bool is_lost = chance(60) == 0;

			if (is_lost || line->late[i].is_decided)
				reply(line, i, is_lost);
		}
		break;
	case 7:
		if (chance(400) == 0) {
			const bool goes_on = chance(2);

			fixture->crashes += !goes_on;
			stop(server);
			start(server, goes_on);
		} else if (chance(60) == 0) {
			change_to(server, texts[fixture->is_window][chance(2)]);
		} else if (chance(2) == 0) {
			later_reply(server);
		}
		break;
	default:
		any_request(server);
	}
}

static void servers_stay_within_the_bound(void)
{
	uint64_t allowed_here = 0, most = 0, turns = 0;

	for (uint64_t seed = first_seed; seed < first_seed + n_seeds; seed++) {
		static struct fixture fixture;
		const bool has_failed = check_failed;
		unsigned busy;

		check_failed = false;
		random_state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
		busy = 9 + (unsigned)chance(24);
		make(&fixture, seed % 2);
		for (int i = 0; i < 4000; i++)
			any_step(&fixture, busy);
		allowed_here += fixture.allowed_here;
		turns += fixture.fill_turns;
		if (fixture.crashes == 0 && fixture.most_filled > most)
			most = fixture.most_filled;
		for (int i = 0; i < SERVERS; i++) {
			settle(&fixture.servers[i]);
			CHECK(waiting(&fixture.servers[i]) <= AHEAD);
		}
		unmake(&fixture);
		if (check_failed)
			printf("# seed %" PRIu64 "\n", seed);
		check_failed |= has_failed;
	}
	printf("# allowed here %" PRIu64 ", most %" PRIu64 " of %d, windows %" PRIu64 "\n", allowed_here, most,
	       MOST + (SERVERS - 1) * AHEAD, turns);
	CHECK(n_seeds < 100 || allowed_here > n_seeds * 20);
	CHECK(n_seeds < 100 || most > MOST + AHEAD); /* by more than one server */
}

static const struct check_test tests[] = { TEST(a_cold_key_is_exact_and_then_local),
					   TEST(half_of_what_may_be_ahead_is_pushed_at_once),
					   TEST(the_bound_is_reached),
					   TEST(debt_is_in_the_mirror),
					   TEST(a_silent_store_decides_again),
					   TEST(a_store_that_hangs_charges_at_most_twice),
					   TEST(a_push_without_a_reply_is_sent_again),
					   TEST(units_of_a_window_that_has_turned_are_dropped),
					   TEST(units_of_a_window_that_turns_in_a_long_outage_are_dropped),
					   TEST(looks_see_what_waits),
					   TEST(refunds_and_resets_are_made_in_the_store),
					   TEST(an_undo_is_made_where_the_charge_waits),
					   TEST(together_is_all_or_nothing),
					   TEST(an_evicted_mirror_decides_nothing),
					   TEST(a_claim_that_was_left_is_removed),
					   TEST(a_hand_over_keeps_what_waits),
					   TEST(a_server_that_stops_pushes_all),
					   TEST(a_busy_key_outlives_a_process_that_pushes_it),
					   TEST(a_key_that_was_not_used_for_long_is_exact),
					   TEST(denials_push_nothing),
					   TEST(a_change_pushes_what_waits),
					   TEST(a_change_may_make_a_mirror_possible),
					   TEST(a_change_ends_what_was_heard),
					   TEST(a_process_that_was_stopped_pushes_what_waits),
					   TEST(servers_stay_within_the_bound) };

int main(int argc, char **argv)
{
	n_seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : n_seeds;
	first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
