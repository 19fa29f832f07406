/* lease_store_test.c: servers that lease one limit never allow more than it, whatever is delayed, lost or stopped.
 *
 * The store behind them is a model: it knows how many units each key has left, and what it lent until when. Its limits
 * do not refill within a test. Time is simulated.
 *
 * Covers: src/store/lease_rules.c */
#include "store/lease_internal.h"
#include "tables.h"

enum { SERVERS = 3, CLAIMS = 128, LATE_MAX = 64, KEYS = 3, ENDS = 8, MOST = 100, USES = 4 };

/* A key of the model. */
struct lent {
	uint64_t left, outstanding[ENDS], end_us[ENDS];
};

struct server;

/* A request on its way. */
struct late {
	struct weir__store_request *request;
	bool is_decided;
	weir_ns decided_at;
	struct weir_verdict verdicts[CLAIMS];
	uint64_t ends[CLAIMS];
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
	const struct weir_table_limit *limit, *leased;
	struct weir__store *store;
	struct weir__lease_shared shared;
	weir_ns began_at; /* by the table's clock */
	int64_t drift;    /* of this server's clock, in millionths */
};

struct fixture {
	weir_ns now; /* since the start */
	struct lent keys[KEYS];
	struct server servers[SERVERS];
	uint64_t version, allowed[KEYS], allowed_here, refunded_here, n_sent;
	uint32_t stranded;
	uint64_t lend_until_us; /* at most; 0: no limit */
	bool is_late, is_lost;  /* replies come later, or some never */
};

static const uint64_t store_began_us = UINT64_C(1790000000000000);

/* --- the model of the store -------------------------------------------------------------------------------------- */

static uint64_t store_us(const struct fixture *fixture)
{
	return store_began_us + fixture->now / 1000;
}

static uint64_t outstanding_of(struct lent *key, uint64_t now_us)
{
	uint64_t sum = 0;

	for (int i = 0; i < ENDS; i++) {
		if (key->end_us[i] <= now_us)
			key->outstanding[i] = 0;
		sum += key->outstanding[i];
	}
	return sum;
}

static void grant(struct fixture *fixture, struct lent *key, const struct weir__store_request *request, uint64_t want,
		  struct weir_verdict *verdict, uint64_t *ret_end)
{
	const uint64_t now_us = store_us(fixture), grid_us = request->lease_duration / 4000;
	const uint64_t outstanding = outstanding_of(key, now_us);
	const uint64_t usual_us = (now_us + request->lease_duration / 1000 + request->lease_duration / 1000000 +
				   grid_us) /
				  grid_us * grid_us;
	const uint64_t end_us = fixture->lend_until_us ?
					weir__min(usual_us, fixture->lend_until_us / grid_us * grid_us) :
					usual_us;
	const uint64_t may_lend = request->lease_most - weir__min(request->lease_most, outstanding);
	uint64_t units = weir__min(weir__min(want, key->left), may_lend);
	int at = -1;

	CHECK(outstanding <= MOST / 2); /* of the largest terms */
	for (int i = 0; i < ENDS; i++)
		if (key->end_us[i] == end_us || (at < 0 && key->outstanding[i] == 0))
			at = i;
	units = at < 0 ? 0 : units;
	if (units > 0) {
		key->end_us[at] = end_us;
		key->outstanding[at] += units;
		key->left -= units;
	}
	*verdict =
		(struct weir_verdict){ .allowed = units > 0, .limit = MOST, .remaining = key->left, .granted = units };
	*ret_end = units > 0 ? end_us : 0;
}

static void give_back(struct fixture *fixture, struct lent *key, uint64_t units, uint64_t end_us,
		      struct weir_verdict *verdict)
{
	(void)outstanding_of(key, store_us(fixture));
	*verdict = (struct weir_verdict){ .limit = MOST };
	for (int i = 0; i < ENDS; i++)
		if (key->end_us[i] == end_us && key->outstanding[i] > 0) {
			verdict->granted = weir__min(units, key->outstanding[i]);
			key->outstanding[i] -= verdict->granted;
			key->left += verdict->granted;
			break;
		}
	CHECK(verdict->granted == units || end_us <= store_us(fixture)); /* servers give back only what was lent */
	verdict->remaining = key->left;
}

static struct weir_verdict take(struct lent *key, enum weir__store_operation operation, uint64_t cost)
{
	struct weir_verdict verdict = { .allowed = cost <= key->left, .limit = MOST, .granted = 0 };

	if (operation == WEIR__STORE_UPTO) {
		verdict.granted = weir__min(cost, key->left);
		verdict.allowed = verdict.granted > 0;
	} else if (weir__store_charges(operation) && verdict.allowed) {
		verdict.granted = cost;
	}
	key->left -= verdict.granted;
	verdict.remaining = key->left;
	verdict.reset_after = key->left < MOST ? S(1000) : 0;
	verdict.never = operation != WEIR__STORE_UPTO && cost > MOST;
	verdict.retry_after = verdict.allowed ? 0 : verdict.never ? WEIR_NEVER : S(1000);
	return verdict;
}

/* Gives back what was charged, and none of what is lent. */
static struct weir_verdict refund(struct fixture *fixture, struct lent *key, uint64_t cost)
{
	const uint64_t back = weir__min(cost, MOST - key->left - outstanding_of(key, store_us(fixture)));

	key->left += back;
	fixture->allowed[key - fixture->keys] -= back;
	return (struct weir_verdict){ .allowed = true, .limit = MOST, .remaining = key->left };
}

static struct lent *key_of(struct fixture *fixture, const struct weir_claim *claim)
{
	const char key = *(const char *)claim->key;

	CHECK(claim->key_length == 1 && key >= 'a' && key < 'a' + KEYS);
	return &fixture->keys[key - 'a'];
}

static void decide(struct fixture *fixture, struct weir__store_request *request, struct weir_verdict *verdicts,
		   uint64_t *ends)
{
	bool fits = true;

	fixture->n_sent++;
	for (uint32_t i = 0; i < request->n && !request->is_each; i++) /* all or nothing: keys differ here */
		fits = fits && request->claims[i].cost <= key_of(fixture, &request->claims[i])->left;
	for (uint32_t i = 0; i < request->n; i++) {
		struct lent *const key = key_of(fixture, &request->claims[i]);
		const uint64_t cost = request->claims[i].cost;

		if (request->operation == WEIR__STORE_GRANT)
			grant(fixture, key, request, cost, &verdicts[i], &ends[i]);
		else if (request->operation == WEIR__STORE_RETURN)
			give_back(fixture, key, cost, request->lease_ends[i], &verdicts[i]);
		else if (weir__store_gives_back(request->operation))
			verdicts[i] = (struct weir_verdict){ .limit = MOST };
		else if (request->operation == WEIR__STORE_REFUND)
			verdicts[i] = refund(fixture, key, cost);
		else if (request->operation == WEIR__STORE_RESET)
			*key = (struct lent){ .left = MOST };
		else
			verdicts[i] = take(key, fits ? request->operation : WEIR__STORE_PEEK, cost);
	}
}

/* --- the way there and back -------------------------------------------------------------------------------------- */

static bool submit_late(struct weir__store *store, struct weir__store_request *request)
{
	struct line *const line = (struct line *)(void *)store;
	struct weir__store_request *const kept = request->caller->keep(request);

	CHECK(kept != NULL && line->n_late < LATE_MAX && kept->n <= CLAIMS);
	line->late[line->n_late++] = (struct late){ .request = kept };
	return false;
}

static void arrive(struct fixture *fixture, struct late *late)
{
	late->is_decided = true;
	late->decided_at = store_us(fixture) * 1000;
	decide(fixture, late->request, late->verdicts, late->ends);
}

static void reply(struct line *line, size_t i, bool is_lost)
{
	const struct late late = line->late[i];
	struct weir__store_request *const request = late.request;

	line->n_late--;
	memmove(&line->late[i], &line->late[i + 1], (line->n_late - i) * sizeof(late));
	request->outcome = is_lost ? WEIR__STORE_UNANSWERED : WEIR__STORE_DECIDED;
	request->decided_at = late.decided_at;
	request->fallback_nodes = 0;
	memcpy(request->verdicts, late.verdicts, request->n * sizeof(late.verdicts[0]));
	if (request->operation == WEIR__STORE_GRANT)
		memcpy(request->lease_ends, late.ends, request->n * sizeof(late.ends[0]));
	if (request->n > 1 && !request->is_each) {
		request->decision.verdict.allowed = true;
		for (uint32_t j = 0; j < request->n; j++)
			request->decision.verdict.allowed &= late.verdicts[j].allowed;
	}
	weir__store_complete(&line->store, request);
}

/* Everything that is on its way arrives, in order, and is replied to. */
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

	return server->fixture->now + (weir_ns)((int64_t)(server->fixture->now / 1000000) * server->drift);
}

static weir_ns now_of(struct server *server)
{
	return server->began_at + boot_clock(server);
}

static uint32_t stranded_of(void *server_, const struct weir_table_limit *limit)
{
	const struct server *const server = server_;

	return limit == server->leased ? server->fixture->stranded : 0;
}

static bool has_any(void *server)
{
	return ((const struct server *)server)->fixture->stranded > 0;
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
						     .has_any = has_any,
						     .version = version_of,
						     .context = server,
						     .shared = &server->shared,
						     .boot_clock = boot_clock };

	weir__lease_begin(server->table, goes_on, boot_clock(server));
	server->began_at = atomic_load(&server->table->region.header->lease_anchor);
	server->store = weir__lease_store_new(&options);
	CHECK(server->store != NULL);
}

/* The process is killed: what is on its way arrives or does not, and nothing is given back. */
static void kill(struct server *server)
{
	for (size_t i = 0; i < server->line.n_late; i++)
		if (!server->line.late[i].is_decided && below(2) > 0)
			arrive(server->fixture, &server->line.late[i]);
	while (server->line.n_late > 0) /* frees the requests; nothing is sent in return */
		reply(&server->line, server->line.n_late - 1, true);
	server->store->free(server->store);
	weir__lease_shared_fini(&server->shared);
	memset(&server->shared, 0, sizeof(server->shared));
}

static void make(struct fixture *fixture)
{
	static const struct weir_table_options options = { .size_bytes = 1 << 20 };

	memset(fixture, 0, sizeof(*fixture));
	fixture->stranded = 50;
	for (int i = 0; i < KEYS; i++)
		fixture->keys[i].left = MOST;
	for (int i = 0; i < SERVERS; i++) {
		struct server *const server = &fixture->servers[i];

		server->fixture = fixture;
		server->drift = 400 * (i - 1); /* 0.04 % */
		server->line.server = server;
		server->line.store = (struct weir__store){ .submit = submit_late, .status = status, .free = free_line };
		server->table = table_with(&options);
		server->limit = server->leased = limit_in(server->table, "100/1000day");
		start(server, false);
	}
}

static void unmake(struct fixture *fixture)
{
	for (int i = 0; i < SERVERS; i++) {
		kill(&fixture->servers[i]);
		weir_table_free(fixture->servers[i].table);
	}
}

/* --- asking ------------------------------------------------------------------------------------------------------ */

struct asked {
	struct weir__store_request request; /* first, so that a pointer to it can be cast */
	struct server *server;
	struct weir_claim claims[2];
	struct weir_verdict verdicts[2], *told; /* told: what was decided later; NULL: nothing is noted */
	char keys[2];
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
	for (int i = 0; i < 2; i++)
		kept->claims[i].key = &kept->keys[i];
	memset(asked->keys, 'z', sizeof(asked->keys));
	return &kept->request;
}

/* How many units are lent to somebody, by the store's clock. */
static uint64_t lent(struct fixture *fixture, char key)
{
	return outstanding_of(&fixture->keys[key - 'a'], store_us(fixture));
}

static void count(struct asked *asked)
{
	struct fixture *const fixture = asked->server->fixture;
	const struct weir__store_request *const request = &asked->request;
	bool is_allowed = request->outcome == WEIR__STORE_DECIDED;

	for (uint32_t i = 0; i < request->n && request->operation != WEIR__STORE_UPTO; i++)
		is_allowed = is_allowed && asked->verdicts[i].allowed;
	for (uint32_t i = 0; i < request->n && is_allowed && weir__store_charges(request->operation); i++) {
		fixture->allowed[asked->keys[i] - 'a'] += asked->verdicts[i].granted;
		if (request->operation != WEIR__STORE_UPTO)
			CHECK_EQ(asked->verdicts[i].granted, asked->claims[i].cost);
	}
	if (is_allowed && request->fallback_nodes == WEIR__STORE_IN_LEASE && weir__store_charges(request->operation)) {
		fixture->allowed_here++;
		for (uint32_t i = 0; i < request->n; i++) /* the store still counts at least what was spent */
			CHECK(lent(fixture, asked->keys[i]) >= asked->verdicts[i].granted);
	}
}

static void complete(struct weir__store_request *request)
{
	struct asked *const asked = (struct asked *)(void *)request;

	count(asked);
	if (asked->told)
		memcpy(asked->told, asked->verdicts, sizeof(asked->verdicts));
	free(asked);
}

static const struct weir__store_caller caller = { keep, complete };

/* Returns true if the request completed at once; then *ret_verdict is its first verdict. told gets both verdicts when
 * they come. */
static bool ask_and_tell(struct server *server, enum weir__store_operation operation, char key, uint64_t cost,
			 char other_key, struct weir_verdict *told, struct weir_verdict *ret_verdict)
{
	struct asked asked = { .server = server, .told = told, .keys = { key, other_key } };
	bool is_complete;

	for (int i = 0; i < 2; i++)
		asked.claims[i] = (struct weir_claim){ server->limit, &asked.keys[i], 1, cost };
	asked.request = (struct weir__store_request){ .operation = operation,
						      .is_each = operation == WEIR__STORE_UPTO,
						      .n = other_key ? 2 : 1,
						      .claims = asked.claims,
						      .verdicts = asked.verdicts,
						      .now = now_of(server),
						      .caller = &caller };
	is_complete = weir__store_submit(server->store, &asked.request);
	if (operation == WEIR__STORE_REFUND) {
		const uint64_t rest = is_complete ? 0 :
						    server->line.late[server->line.n_late - 1].request->claims[0].cost;

		CHECK(rest <= cost);
		server->fixture->allowed[key - 'a'] -= cost - rest;
		server->fixture->refunded_here += cost - rest;
	}
	if (!is_complete)
		return false;
	count(&asked);
	*ret_verdict = asked.verdicts[0];
	return true;
}

static bool ask(struct server *server, enum weir__store_operation operation, char key, uint64_t cost, char other_key,
		struct weir_verdict *ret_verdict)
{
	return ask_and_tell(server, operation, key, cost, other_key, NULL, ret_verdict);
}

/* Lets everything arrive. */
static void ask_and_settle(struct server *server, enum weir__store_operation operation, char key, uint64_t cost,
			   char other_key, struct weir_verdict ret_verdicts[2])
{
	struct weir_verdict verdict;

	CHECK(!ask_and_tell(server, operation, key, cost, other_key, ret_verdicts, &verdict));
	settle(server);
}

/* Takes one unit, and lets everything arrive. Returns whether it was spent from held units. */
static bool take_one(struct server *server, char key)
{
	struct weir_verdict verdict = { .allowed = false };
	const bool is_here = ask(server, WEIR__STORE_TAKE, key, 1, 0, &verdict);

	settle(server);
	weir__store_due(server->store, now_of(server));
	settle(server);
	return is_here;
}

/* Sends enough requests for key a to be leased. */
static void lease_key(struct server *server)
{
	for (int i = 0; i < USES; i++)
		CHECK(!take_one(server, 'a'));
}

static uint64_t counted(struct server *server, enum weir__lease_count what)
{
	weir__store_due(server->store, now_of(server));
	return atomic_load(&server->shared.counts[what]);
}

static uint64_t held(struct server *server)
{
	return counted(server, WEIR__LEASE_GRANTED) - counted(server, WEIR__LEASE_SPENT) -
	       counted(server, WEIR__LEASE_GIVEN) - counted(server, WEIR__LEASE_EXPIRED);
}

/* --- one server -------------------------------------------------------------------------------------------------- */

static void a_key_in_use_is_leased(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture);
	for (int i = 0; i < USES; i++) {
		CHECK_EQ(held(server), 0);
		CHECK(!take_one(server, 'a')); /* the store decides */
	}
	CHECK_EQ(held(server), 16); /* a third of the units that all servers may hold */
	for (int i = 0; i < 10; i++)
		CHECK(take_one(server, 'a'));
	CHECK_EQ(fixture.allowed[0], USES + 10);
	CHECK_EQ(fixture.allowed_here, 10);
	CHECK(fixture.keys[0].left + fixture.allowed[0] + held(server) == MOST);
	unmake(&fixture);
}

static void a_limit_that_is_exact_goes_to_the_store(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture);
	server->limit = limit_in(server->table, "100/1001day");
	for (int i = 0; i < 5; i++)
		CHECK(!take_one(server, 'a'));
	CHECK_EQ(counted(server, WEIR__LEASE_DRAWS), 0);
	unmake(&fixture);
}

/* Pairs of requests that are close together by chance draw nothing. */
static void a_key_that_is_seldom_used_is_not_leased(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture);
	for (int i = 0; i < 20; i++) {
		CHECK(!take_one(server, 'a'));
		fixture.now += MS(1);
		CHECK(!take_one(server, 'a'));
		fixture.now += S(12);
	}
	CHECK_EQ(counted(server, WEIR__LEASE_DRAWS), 0);
	unmake(&fixture);
}

static void what_is_not_used_is_given_back(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture);
	lease_key(server);
	CHECK_EQ(fixture.keys[0].left, MOST - USES - 16);
	fixture.now += S(5);
	weir__store_due(server->store, now_of(server)); /* nothing was spent */
	CHECK_EQ(atomic_load(&server->shared.counts[WEIR__LEASE_GIVEN]), 16);
	fixture.now += MS(10);
	weir__store_due(server->store, now_of(server)); /* it was gathered */
	settle(server);
	CHECK_EQ(fixture.keys[0].left, MOST - USES);
	CHECK_EQ(held(server), 0);
	CHECK_EQ(counted(server, WEIR__LEASE_RETURNED), 16);
	unmake(&fixture);
}

static void a_server_that_stops_gives_all_back(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture);
	for (char key = 'a'; key < 'a' + KEYS; key++)
		for (int i = 0; i < 5; i++)
			(void)take_one(server, key);
	CHECK(held(server) > 0);
	CHECK(!weir__store_leave(server->store, false));
	settle(server);
	CHECK(weir__store_leave(server->store, false));
	for (int i = 0; i < KEYS; i++)
		CHECK_EQ(fixture.keys[i].left, MOST - 5);
	CHECK_EQ(held(server), 0);
	unmake(&fixture);
}

static void the_end_of_a_lease_ends_it(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false };

	make(&fixture);
	lease_key(server);
	fixture.now += S(10) - MS(5);
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict)); /* the last moment */
	fixture.now += MS(10);
	CHECK(!ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict));
	settle(server);
	unmake(&fixture);
}

/* Another server knows already that the limit is a window. */
static void a_lease_by_a_newer_plan_ends_with_its_window(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false };

	make(&fixture);
	fixture.lend_until_us = store_us(&fixture) + 6000000;
	lease_key(server);
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict));
	fixture.now += S(6);
	CHECK(!ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict));
	settle(server);
	unmake(&fixture);
}

/* A hand-over finds what is held in the table. A restart does not. */
static void a_restart_forgets_what_is_held(void)
{
	for (int goes_on = 0; goes_on < 2; goes_on++) {
		struct fixture fixture;
		struct server *const server = &fixture.servers[0];
		struct weir_verdict verdict = { .allowed = false };

		make(&fixture);
		lease_key(server);
		kill(server);
		start(server, goes_on);
		CHECK_EQ(ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict), goes_on);
		settle(server);
		unmake(&fixture);
	}
}

static void a_change_forgets_what_is_held(void)
{
	for (int what = 0; what < 2; what++) {
		struct fixture fixture;
		struct server *const server = &fixture.servers[0];
		struct weir_verdict verdict = { .allowed = false };

		make(&fixture);
		lease_key(server);
		if (what == 0) { /* of the rule */
			fixture.stranded = 40;
			fixture.version++;
		} else {
			struct weir_limit limit;

			CHECK(weir_limit_parse("50/1000day", 10, &limit, NULL) == WEIR_OK);
			CHECK(weir_table_change_limit(server->table, server->limit, &limit, now_of(server), NULL) ==
			      WEIR_OK);
		}
		CHECK(!ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict));
		settle(server);
		fixture.now += S(5); /* the server looks at what it drew */
		CHECK_EQ(held(server), 0);
		unmake(&fixture);
	}
}

static void a_denial_is_repeated_here_for_a_while(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false };
	uint64_t sent;

	make(&fixture);
	fixture.keys[0].left = 0;
	CHECK(!take_one(server, 'a'));
	sent = fixture.n_sent;
	for (int i = 0; i < 100; i++) {
		CHECK(ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict));
		CHECK(!verdict.allowed && verdict.retry_after > 0);
	}
	CHECK_EQ(fixture.n_sent, sent);
	fixture.keys[0].left = 10; /* refunded */
	fixture.now += S(11);
	CHECK(!take_one(server, 'a'));
	CHECK_EQ(fixture.allowed[0], 1);
	unmake(&fixture);
}

static void what_is_left_can_be_taken_after_a_denial(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false }, verdicts[2];

	make(&fixture);
	fixture.keys[0].left = 5;
	ask_and_settle(server, WEIR__STORE_TAKE, 'a', 10, 0, verdicts);
	CHECK(!verdicts[0].allowed);
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 10, 0, &verdict) && !verdict.allowed);
	ask_and_settle(server, WEIR__STORE_UPTO, 'a', 10, 0, verdicts);
	CHECK(verdicts[0].allowed && verdicts[0].granted == 5);
	ask_and_settle(server, WEIR__STORE_UPTO, 'a', 10, 0, verdicts);
	CHECK(!verdicts[0].allowed);
	CHECK(ask(server, WEIR__STORE_UPTO, 'a', 1000, 0, &verdict) && !verdict.allowed && !verdict.never);
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict) && !verdict.allowed);
	unmake(&fixture);
}

/* A request that costs more than is held takes all of it, and the rest from the store. */
static void the_rest_of_a_cost_is_taken_from_the_store(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false };

	make(&fixture);
	lease_key(server);
	fixture.keys[0].left = 4;
	CHECK(!ask(server, WEIR__STORE_TAKE, 'a', 21, 0, &verdict)); /* 16 are held */
	settle(server);
	CHECK_EQ(fixture.allowed[0], USES);
	CHECK_EQ(held(server), 16);
	CHECK(!ask(server, WEIR__STORE_TAKE, 'a', 20, 0, &verdict));
	settle(server);
	CHECK_EQ(fixture.allowed[0], USES + 20);
	CHECK_EQ(fixture.keys[0].left, 0);
	CHECK_EQ(held(server), 0);
	unmake(&fixture);
}

static void together_is_all_or_nothing(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false };

	make(&fixture);
	lease_key(server);
	fixture.keys[1].left = 0;
	CHECK(!ask(server, WEIR__STORE_TAKE, 'a', 1, 'b', &verdict));
	CHECK_EQ(counted(server, WEIR__LEASE_SPENT), 1); /* taken out meanwhile */
	settle(server);
	CHECK_EQ(fixture.allowed[0], USES);
	CHECK_EQ(held(server), 16);
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict));
	unmake(&fixture);
}

static void peeks_add_what_is_held(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false };

	make(&fixture);
	lease_key(server);
	CHECK(ask(server, WEIR__STORE_PEEK, 'a', 16, 0, &verdict));
	CHECK(verdict.allowed && verdict.granted == 0);
	CHECK(!ask(server, WEIR__STORE_PEEK, 'a', 17, 0, &verdict));
	settle(server);
	CHECK_EQ(held(server), 16);
	unmake(&fixture);
}

static void an_undo_goes_back_into_its_lot(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct asked asked = { .server = server, .keys = "a" };
	struct weir_verdict verdict = { .allowed = false };
	weir_ns charged_at;

	make(&fixture);
	lease_key(server);
	fixture.now += S(1);
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 3, 0, &verdict));
	charged_at = now_of(server);
	CHECK_EQ(held(server), 13);
	asked.claims[0] = (struct weir_claim){ server->limit, asked.keys, 1, 2 };
	for (int is_old = 0; is_old < 2; is_old++) {
		asked.request = (struct weir__store_request){ .operation = WEIR__STORE_UNDO,
							      .is_each = true,
							      .n = 1,
							      .claims = asked.claims,
							      .verdicts = asked.verdicts,
							      .now = now_of(server),
							      .charged_at = charged_at - (is_old ? S(2) : 0),
							      .charged_cost = 3,
							      .charged_nodes = WEIR__STORE_IN_LEASE,
							      .caller = &caller };
		CHECK_EQ(weir__store_submit(server->store, &asked.request),
			 !is_old); /* from an earlier lot: to the store */
		settle(server);
		CHECK_EQ(held(server), 15);
	}
	unmake(&fixture);
}

static void a_refund_goes_back_into_its_lot(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false };

	make(&fixture);
	lease_key(server);
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 7, 0, &verdict));
	CHECK(ask(server, WEIR__STORE_REFUND, 'a', 3, 0, &verdict));
	CHECK(verdict.allowed && verdict.granted == 0);
	CHECK_EQ(held(server), 12);
	CHECK(!ask(server, WEIR__STORE_REFUND, 'a', 10, 0, &verdict)); /* 4 into the lot, and the store has charged 4 */
	settle(server);
	CHECK_EQ(held(server), 16);
	CHECK_EQ(fixture.allowed[0], 0);
	CHECK_EQ(fixture.keys[0].left, MOST - 16);
	unmake(&fixture);
}

/* The server returns the rest of an unused lot. Units that were spent of it can still be refunded. */
static void a_refund_goes_into_a_lot_that_is_not_used_any_more(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false };

	make(&fixture);
	lease_key(server);
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 7, 0, &verdict));
	for (int i = 0; i < 2; i++) { /* it was used, and not since */
		fixture.now += S(4) + MS(100);
		weir__store_due(server->store, now_of(server));
		fixture.now += MS(10);
		weir__store_due(server->store, now_of(server));
		settle(server);
	}
	CHECK_EQ(held(server), 0);
	CHECK_EQ(fixture.keys[0].left, MOST - USES - 7);
	CHECK(ask(server, WEIR__STORE_REFUND, 'a', 7, 0, &verdict));
	CHECK_EQ(held(server), 7);
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 7, 0, &verdict));
	CHECK(!ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict));
	settle(server);
	unmake(&fixture);
}

static void a_refund_ends_repeated_denials(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict verdict = { .allowed = false };

	make(&fixture);
	fixture.keys[0].left = 0;
	CHECK(!take_one(server, 'a'));
	CHECK(ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict) && !verdict.allowed);
	CHECK(!ask(server, WEIR__STORE_REFUND, 'a', 1, 0, &verdict));
	CHECK(!ask(server, WEIR__STORE_TAKE, 'a', 1, 0, &verdict));
	settle(server);
	CHECK_EQ(fixture.keys[0].left, 0);
	unmake(&fixture);
}

/* Units were taken out of a lot, and the store denies. If a refund may have put as many into the lot meanwhile, they
 * are not returned, because that would return them twice. */
static void what_was_refunded_meanwhile_is_not_returned_twice(void)
{
	for (int is_refunded = 0; is_refunded < 2; is_refunded++) {
		struct fixture fixture;
		struct server *const server = &fixture.servers[0];
		struct weir_verdict verdict = { .allowed = false };

		make(&fixture);
		lease_key(server);
		fixture.keys[1].left = 0;
		CHECK(!ask(server, WEIR__STORE_TAKE, 'a', 9, 'b', &verdict)); /* 9 of 16 are taken out */
		fixture.now += MS(1);
		weir__store_flush(server->store);
		CHECK_EQ(server->line.n_late, 2); /* and more is drawn */
		if (is_refunded)
			CHECK(ask(server, WEIR__STORE_REFUND, 'a', 9, 0, &verdict));
		for (int i = 0; i < 2; i++)
			arrive(&fixture, &server->line.late[i]);
		reply(&server->line, server->line.late[0].request->operation == WEIR__STORE_GRANT ? 0 : 1, false);
		settle(server);
		fixture.now += MS(10);
		weir__store_due(server->store, now_of(server)); /* what was gathered to be returned */
		settle(server);
		CHECK_EQ(fixture.keys[0].left + held(server), MOST - USES);
		CHECK_EQ(fixture.keys[0].left + lent(&fixture, 'a'), MOST - USES);
		unmake(&fixture);
	}
}

static void verdicts_are_as_if_the_store_had_decided_all(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	struct weir_verdict told[2];

	make(&fixture);
	lease_key(server);
	/* More than the limit has never fits, however much of it is held. */
	ask_and_settle(server, WEIR__STORE_TAKE, 'a', MOST + 1, 0, told);
	CHECK(!told[0].allowed && told[0].never);
	CHECK_EQ(held(server), 16);
	/* The other one of two limits denies, so the held units stay. The store said that 50 more are left. */
	(void)weir_table_take(server->table, server->limit, "a", 1, now_of(server), 50);
	fixture.keys[1].left = 0;
	ask_and_settle(server, WEIR__STORE_TAKE, 'a', 1, 'b', told);
	CHECK(told[0].allowed && !told[1].allowed && told[0].granted == 0);
	CHECK_EQ(told[0].remaining, 50 + 16);
	/* UPTO takes only the held units. */
	fixture.keys[0].left = 0;
	ask_and_settle(server, WEIR__STORE_UPTO, 'a', 20, 0, told);
	CHECK(told[0].allowed && told[0].granted == 16 && told[0].retry_after == 0);
	unmake(&fixture);
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

/* Lends what servers draw, at once, and allows everything else. */
static bool submit_generous(struct weir__store *store, struct weir__store_request *request)
{
	const struct server *const server = ((const struct line *)(void *)store)->server;

	request->outcome = WEIR__STORE_DECIDED;
	request->decided_at = store_us(server->fixture) * 1000;
	request->fallback_nodes = 0;
	for (uint32_t i = 0; i < request->n; i++) {
		request->verdicts[i] = (struct weir_verdict){
			.allowed = true, .limit = MOST, .remaining = MOST, .granted = request->claims[i].cost
		};
		if (request->operation == WEIR__STORE_GRANT) {
			const uint64_t grid_us = request->lease_duration / 4000;

			request->lease_ends[i] = (request->decided_at / 1000 / grid_us + 5) * grid_us;
		}
	}
	return true;
}

static struct weir__store_request take_of(struct server *server, const struct weir_claim *claim,
					  struct weir_verdict *verdict)
{
	return (struct weir__store_request){ .operation = WEIR__STORE_TAKE,
					     .n = 1,
					     .claims = claim,
					     .verdicts = verdict,
					     .now = now_of(server),
					     .caller = &caller };
}

/* A limit without a key has an empty key, and its pointer may be NULL. */
static void an_empty_key_is_leased(void)
{
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];

	make(&fixture);
	server->line.store.submit = submit_generous;
	for (int i = 0; i <= USES; i++) {
		const struct weir_claim claim = { server->limit, NULL, 0, 1 };
		struct weir_verdict verdict;
		struct weir__store_request request = take_of(server, &claim, &verdict);

		CHECK(weir__store_submit(server->store, &request));
		weir__store_flush(server->store);
		CHECK_EQ(request.fallback_nodes, i < USES ? 0 : WEIR__STORE_IN_LEASE);
	}
	CHECK(weir__store_leave(server->store, false));
	CHECK_EQ(held(server), 0);
	unmake(&fixture);
}

static void a_leased_key_takes_little_memory(void)
{
	enum { LEASED = 100000, LONG = 11, BYTES_MOST = 48 };

	static const struct weir_table_options options = { .size_bytes = 16 << 20 };
	struct fixture fixture;
	struct server *const server = &fixture.servers[0];
	const struct lease *lease;

	make(&fixture);
	kill(server);
	weir_table_free(server->table);
	server->table = table_with(&options);
	server->limit = server->leased = limit_in(server->table, "100/1000day");
	server->line.store.submit = submit_generous;
	start(server, false);
	for (int i = 0; i < USES * LEASED; i++) {
		char key[LONG + 1];
		const struct weir_claim claim = { server->limit, key, LONG, 1 };
		struct weir_verdict verdict;
		struct weir__store_request request = take_of(server, &claim, &verdict);

		(void)snprintf(key, sizeof(key), "key:%07d", i / USES);
		CHECK(weir__store_submit(server->store, &request));
		if (i % 256 == 255)
			weir__store_flush(server->store);
	}
	weir__store_flush(server->store);
	lease = (const struct lease *)(void *)server->store;
	CHECK_EQ(held(server), LEASED * (uint64_t)50);
	CHECK(lease->watch_bytes > 0 && lease->watch_bytes <= (size_t)LEASED * BYTES_MOST);
	unmake(&fixture);
}

/* --- several servers --------------------------------------------------------------------------------------------- */

static void any_request(struct fixture *fixture, struct server *server)
{
	static const enum weir__store_operation operations[] = {
		WEIR__STORE_TAKE, WEIR__STORE_TAKE,   WEIR__STORE_TAKE,   WEIR__STORE_UPTO,
		WEIR__STORE_PEEK, WEIR__STORE_DEPART, WEIR__STORE_REFUND,
	};
	const enum weir__store_operation operation = operations[below(sizeof(operations) / sizeof(operations[0]))];
	const char key = (char)('a' + below(KEYS));
	const bool is_pair = (operation == WEIR__STORE_TAKE || operation == WEIR__STORE_DEPART) && below(4) == 0;
	struct weir_verdict verdict = { .allowed = false };

	if (server->line.n_late + 8 > LATE_MAX)
		return;
	(void)fixture;
	(void)ask(server, operation, key, below(8) == 0 ? 1 + below(9) : 1,
		  is_pair ? (char)('a' + (key - 'a' + 1) % KEYS) : (char)0, &verdict);
}

static void any_step(struct fixture *fixture)
{
	struct server *const server = &fixture->servers[below(SERVERS)];
	struct line *const line = &server->line;

	switch (below(12)) {
	case 0:
		fixture->now += below(4) == 0 ? S(1) * below(4) : MS(1) * below(500);
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
	case 4: /* in order of submission */
		for (size_t i = 0; i < line->n_late; i++)
			if (!line->late[i].is_decided) {
				arrive(fixture, &line->late[i]);
				break;
			}
		break;
	case 5:
	case 6:
		if (line->n_late > 0) {
			const size_t i = below(line->n_late);
			const bool is_lost = below(20) == 0;

			if (is_lost || line->late[i].is_decided)
				reply(line, i, is_lost);
		}
		break;
	case 7:
		if (below(200) == 0) {
			kill(server);
			start(server, below(2));
		} else if (below(100) == 0) {
			struct weir_limit limit;
			const char *const text = below(2) ? "100/1000day" : "90/1000day";

			CHECK(weir_limit_parse(text, strlen(text), &limit, NULL) == WEIR_OK);
			CHECK(weir_table_change_limit(server->table, server->limit, &limit, now_of(server), NULL) ==
			      WEIR_OK);
		} else if (below(100) == 0) {
			fixture->stranded = below(2) ? 50 : 20;
			fixture->version++;
		}
		break;
	default:
		any_request(fixture, server);
	}
}

/* The limit does not refill, so what was allowed, minus what was refunded, and what is left never exceed it. And units
 * are spent only while the store counts them as lent. */
static void servers_never_allow_more_than_the_limit(void)
{
	uint64_t allowed_here = 0, refunded_here = 0;

	for (int run = 0; run < 500; run++) {
		struct fixture fixture;

		make(&fixture);
		for (int i = 0; i < 1500; i++)
			any_step(&fixture);
		for (int key = 0; key < KEYS; key++) {
			CHECK((int64_t)(fixture.allowed[key] + fixture.keys[key].left) <= MOST);
			for (int i = 0; i < SERVERS; i++)
				settle(&fixture.servers[i]);
			CHECK((int64_t)(fixture.allowed[key] + fixture.keys[key].left) <= MOST);
		}
		allowed_here += fixture.allowed_here;
		refunded_here += fixture.refunded_here;
		unmake(&fixture);
	}
	CHECK(allowed_here > 2400 && refunded_here > 300);
}

TESTS(TEST(a_key_in_use_is_leased), TEST(a_limit_that_is_exact_goes_to_the_store),
      TEST(a_key_that_is_seldom_used_is_not_leased), TEST(what_is_not_used_is_given_back),
      TEST(a_server_that_stops_gives_all_back), TEST(the_end_of_a_lease_ends_it),
      TEST(a_lease_by_a_newer_plan_ends_with_its_window), TEST(a_restart_forgets_what_is_held),
      TEST(a_change_forgets_what_is_held), TEST(a_denial_is_repeated_here_for_a_while),
      TEST(what_is_left_can_be_taken_after_a_denial), TEST(the_rest_of_a_cost_is_taken_from_the_store),
      TEST(together_is_all_or_nothing), TEST(peeks_add_what_is_held), TEST(an_undo_goes_back_into_its_lot),
      TEST(a_refund_goes_back_into_its_lot), TEST(a_refund_goes_into_a_lot_that_is_not_used_any_more),
      TEST(a_refund_ends_repeated_denials), TEST(what_was_refunded_meanwhile_is_not_returned_twice),
      TEST(verdicts_are_as_if_the_store_had_decided_all), TEST(an_empty_key_is_leased),
      TEST(a_leased_key_takes_little_memory), TEST(servers_never_allow_more_than_the_limit))
