/* routed_store_test.c: which store decides, what is charged and undone, and that no limit is exceeded in any order of
 * completion.
 *
 * The store behind decides with the same table, under its own limits. The limits here do not refill within a test. */
#include "store/routed_store.h"

#include "tables.h"

enum { CLAIMS = 16, LATE_MAX = 64, KEYS = 3 };

/* A request that the store behind has decided but not completed. */
struct late {
	struct weir__store_request *request;
	struct weir__store_request decided;
	struct weir_verdict verdicts[CLAIMS];
};

struct behind {
	struct weir__store store; /* first, so that a pointer to it can be cast */
	struct weir_table *table;
	bool is_late, fails;
	struct late late[LATE_MAX];
	size_t n_late;
	uint32_t n_submitted, n_claims, n_flushed, n_collected, n_freed;
};

enum { HERE, HERE_WINDOW, HERE_LOG, HERE_ALL, HERE_QUEUE, FAR, FAR_LOG, FAR_ALL, FAR_QUEUE, LIMITS };

static const char *const texts[LIMITS] = { [HERE] = "4/1000day",
					   [HERE_WINDOW] = "5/1000day fixed_window",
					   [HERE_LOG] = "4/1000day sliding_log",
					   [HERE_ALL] = "3/1000day fixed_window count all",
					   [HERE_QUEUE] = "1/1000day leaky queue 6",
					   [FAR] = "6/1000day",
					   [FAR_LOG] = "5/1000day sliding_log",
					   [FAR_ALL] = "7/1000day fixed_window count all",
					   [FAR_QUEUE] = "1/1000day leaky queue 6 " };
static const uint64_t mosts[LIMITS] = { 4, 5, 4, 3, 6, 6, 5, 7, 6 };

struct fixture {
	struct weir_table *table;
	struct behind behind;
	struct weir__store *store;
	const struct weir_table_limit *limits[LIMITS];
	uint64_t version;
	uint32_t n_found;
	bool has_none; /* no limit is in the table */
};

/* --- the store behind -------------------------------------------------------------------------------------------- */

/* Decides by the submitted data, at the time of submission. */
static bool submit_behind(struct weir__store *store, struct weir__store_request *request)
{
	struct behind *const behind = (struct behind *)(void *)store;
	struct late *const late = &behind->late[behind->n_late];

	behind->n_submitted++;
	behind->n_claims += request->n;
	if (behind->fails) {
		request->outcome = WEIR__STORE_UNREACHED;
		return true;
	}
	weir__table_store_decide(behind->table, request);
	if (!behind->is_late || request->outcome != WEIR__STORE_DECIDED)
		return true;
	late->decided = *request;
	memcpy(late->verdicts, request->verdicts, request->n * sizeof(late->verdicts[0]));
	late->request = request->caller->keep(request);
	if (late->request == NULL)
		return true;
	memset(late->request->verdicts, 0xa5, request->n * sizeof(late->verdicts[0]));
	behind->n_late++;
	return false;
}

static void complete_late(struct behind *behind, size_t i)
{
	const struct late late = behind->late[i];

	behind->late[i] = behind->late[--behind->n_late];
	for (uint32_t j = 0; j < late.request->n; j++) /* the key has moved with the request */
		CHECK(late.request->claims[j].key_length == 1 && *(const char *)late.request->claims[j].key >= 'a' &&
		      *(const char *)late.request->claims[j].key < 'a' + KEYS);
	memcpy(late.request->verdicts, late.verdicts, late.request->n * sizeof(late.verdicts[0]));
	late.request->outcome = late.decided.outcome;
	late.request->decided_at = late.decided.decided_at;
	late.request->fallback_nodes = 0;
	late.request->is_closed = false;
	weir__store_complete(&behind->store, late.request);
}

static void flush_behind(struct weir__store *store)
{
	((struct behind *)(void *)store)->n_flushed++;
}

static void collect_behind(struct weir__store *store)
{
	struct behind *const behind = (struct behind *)(void *)store;

	behind->n_collected++;
	while (behind->n_late > 0)
		complete_late(behind, 0);
}

static void status_behind(struct weir__store *store, struct weir__store_status *ret_status)
{
	(void)store;
	*ret_status = (struct weir__store_status){ .nodes = 3 };
}

static void free_behind(struct weir__store *store)
{
	((struct behind *)(void *)store)->n_freed++;
}

/* --- rules ------------------------------------------------------------------------------------------------------- */

static bool is_in_table(void *fixture_, const struct weir_table_limit *limit)
{
	struct fixture *const fixture = fixture_;

	fixture->n_found++;
	return limit == fixture->limits[HERE] || limit == fixture->limits[HERE_WINDOW] ||
	       limit == fixture->limits[HERE_LOG] || limit == fixture->limits[HERE_ALL] ||
	       limit == fixture->limits[HERE_QUEUE];
}

static bool has_any(void *fixture)
{
	return !((const struct fixture *)fixture)->has_none;
}

static uint64_t version_of(void *fixture)
{
	return ((const struct fixture *)fixture)->version;
}

static void make(struct fixture *fixture)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(10000, 0) + (1 << 20),
						    .arena_bytes = 1 << 20 };
	struct weir__routed_options of_routed = { .store = &fixture->behind.store,
						  .is_in_table = is_in_table,
						  .has_any = has_any,
						  .version = version_of,
						  .context = fixture };

	memset(fixture, 0, sizeof(*fixture));
	of_routed.table = fixture->table = fixture->behind.table = table_with(&options);
	fixture->behind.store = (struct weir__store){ .submit = submit_behind,
						      .flush = flush_behind,
						      .collect = collect_behind,
						      .status = status_behind,
						      .free = free_behind };
	for (size_t i = 0; i < LIMITS; i++)
		fixture->limits[i] = limit_in(fixture->table, texts[i]);
	fixture->store = weir__routed_store_new(&of_routed);
	CHECK(fixture->store != NULL);
}

static void unmake(struct fixture *fixture)
{
	fixture->store->free(fixture->store);
	CHECK_EQ(fixture->behind.n_freed, 1);
	weir_table_free(fixture->table);
}

/* --- asking ------------------------------------------------------------------------------------------------------ */

struct asked {
	struct weir__store_request request; /* first, so that a pointer to it can be cast */
	struct asked *moved;                /* its new address after it was kept */
	bool is_complete, cannot_move;
	struct weir_claim claims[CLAIMS];
	struct weir_verdict verdicts[CLAIMS];
	char keys[CLAIMS];
};

/* Moves the request and overwrites the old one. */
static struct weir__store_request *keep(struct weir__store_request *request)
{
	struct asked *const asked = (struct asked *)(void *)request;
	struct asked *moved;

	if (asked->cannot_move)
		return NULL;
	if (asked->moved)
		return request;
	moved = calloc(1, sizeof(*moved));
	*moved = *asked;
	moved->moved = asked->moved = moved;
	moved->request.claims = moved->claims;
	moved->request.verdicts = moved->verdicts;
	for (size_t i = 0; i < CLAIMS; i++)
		moved->claims[i].key = &moved->keys[i];
	memset(asked->keys, 'z', sizeof(asked->keys));
	memset((void *)asked->claims, 0xa5, sizeof(asked->claims));
	return &moved->request;
}

static void complete(struct weir__store_request *request)
{
	((struct asked *)(void *)request)->is_complete = true;
}

static const struct weir__store_caller caller = { keep, complete };

struct want {
	int limit;
	char key;
	uint64_t cost;
};

static void prepare(const struct fixture *fixture, struct asked *asked, enum weir__store_operation operation,
		    bool is_each, const struct want *wants, uint32_t n)
{
	memset(asked, 0, sizeof(*asked));
	for (uint32_t i = 0; i < n; i++) {
		asked->keys[i] = wants[i].key;
		asked->claims[i] = (struct weir_claim){ fixture->limits[wants[i].limit], &asked->keys[i], 1,
							wants[i].cost };
	}
	asked->request = (struct weir__store_request){ .operation = operation,
						       .is_each = is_each,
						       .n = n,
						       .claims = asked->claims,
						       .verdicts = asked->verdicts,
						       .now = weir_table_now(fixture->table),
						       .caller = &caller };
}

/* Completes all late requests. Returns the request as it is then. */
static struct asked ask(struct fixture *fixture, enum weir__store_operation operation, bool is_each,
			const struct want *wants, uint32_t n)
{
	struct asked asked, done;

	prepare(fixture, &asked, operation, is_each, wants, n);
	if (weir__store_submit(fixture->store, &asked.request)) {
		CHECK(asked.moved == NULL);
		return asked;
	}
	weir__store_collect(fixture->store);
	done = *asked.moved;
	CHECK(done.is_complete);
	free(asked.moved);
	return done;
}

#define ASK(fixture, operation, is_each, ...)                                                                          \
	ask(fixture, operation, is_each, (const struct want[]){ __VA_ARGS__ },                                         \
	    sizeof((const struct want[]){ __VA_ARGS__ }) / sizeof(struct want))

static uint64_t left(const struct fixture *fixture, int limit, char key)
{
	return weir_table_peek(fixture->table, fixture->limits[limit], &key, 1, weir_table_now(fixture->table), 0)
		.remaining;
}

static struct weir_table_limit_stats counted(const struct fixture *fixture, int limit)
{
	struct weir_table_limit_stats stats;

	weir_table_limit_stats(fixture->table, fixture->limits[limit], &stats);
	return stats;
}

/* --- one kind ---------------------------------------------------------------------------------------------------- */

static void requests_of_one_kind_go_straight(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	asked = ASK(&fixture, WEIR__STORE_TAKE, false, { HERE, 'a', 1 }, { HERE_WINDOW, 'a', 2 });
	CHECK(asked.request.decision.verdict.allowed);
	CHECK_EQ(asked.request.fallback_nodes, WEIR__STORE_IN_TABLE);
	CHECK_EQ(fixture.behind.n_submitted, 0);
	fixture.behind.is_late = true;
	asked = ASK(&fixture, WEIR__STORE_TAKE, false, { FAR, 'a', 1 }, { FAR_LOG, 'a', 2 });
	CHECK(asked.request.decision.verdict.allowed);
	CHECK_EQ(asked.request.fallback_nodes, 0);
	CHECK_EQ(fixture.behind.n_claims, 2);
	CHECK(left(&fixture, HERE, 'a') == 3 && left(&fixture, HERE_WINDOW, 'a') == 3);
	CHECK(left(&fixture, FAR, 'a') == 5 && left(&fixture, FAR_LOG, 'a') == 3);
	unmake(&fixture);
}

static void every_operation_goes_where_the_state_is(void)
{
	static const struct {
		enum weir__store_operation operation;
		uint64_t left; /* of 4 or 6, of which 2 were taken before */
	} rows[] = { { WEIR__STORE_PEEK, 2 },
		     { WEIR__STORE_UPTO, 1 },
		     { WEIR__STORE_REFUND, 3 },
		     { WEIR__STORE_INSPECT, 2 },
		     { WEIR__STORE_RESET, 4 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture fixture;
		struct asked asked;

		make(&fixture);
		(void)ASK(&fixture, WEIR__STORE_TAKE, false, { HERE, 'a', 2 });
		(void)ASK(&fixture, WEIR__STORE_TAKE, false, { FAR, 'a', 2 });
		CHECK_EQ(fixture.behind.n_submitted, 1);
		asked = ASK(&fixture, rows[i].operation, false, { HERE, 'a', 1 });
		CHECK_EQ(asked.request.is_stored, rows[i].operation == WEIR__STORE_INSPECT);
		CHECK_EQ(fixture.behind.n_submitted, 1);
		CHECK_EQ(left(&fixture, HERE, 'a'), rows[i].left);
		(void)ASK(&fixture, rows[i].operation, false, { FAR, 'a', 1 });
		CHECK_EQ(fixture.behind.n_submitted, 2);
		CHECK_EQ(left(&fixture, FAR, 'a'), rows[i].left + 2);
		unmake(&fixture);
	}
}

/* A limit may have moved to the other store since the charge. Neither store may give back what it was not charged. */
static void a_charge_is_undone_where_it_was_made(void)
{
	const struct want wants[] = { { HERE, 'a', 2 }, { FAR, 'a', 2 } };

	for (size_t i = 0; i < 2; i++) {
		struct fixture fixture;
		struct asked taken, asked;

		make(&fixture);
		taken = ask(&fixture, WEIR__STORE_TAKE, false, &wants[i], 1);
		CHECK_EQ(taken.request.fallback_nodes, i == 0 ? WEIR__STORE_IN_TABLE : 0);
		fixture.has_none = true; /* now no limit is in the table */
		fixture.version++;
		prepare(&fixture, &asked, WEIR__STORE_UNDO, false, &wants[i], 1);
		asked.request.charged_at = taken.request.decided_at;
		asked.request.charged_cost = 2;
		asked.request.charged_nodes = taken.request.fallback_nodes;
		CHECK(weir__store_submit(fixture.store, &asked.request));
		CHECK_EQ(asked.verdicts[0].granted, 2);
		CHECK_EQ(fixture.behind.n_submitted, 2 * i);
		unmake(&fixture);
	}
}

static void rules_are_read_once_a_version(void)
{
	struct fixture fixture;

	make(&fixture);
	fixture.has_none = true;
	(void)ASK(&fixture, WEIR__STORE_TAKE, false, { HERE, 'a', 1 });
	CHECK(fixture.behind.n_submitted == 1 && fixture.n_found == 0);
	fixture.has_none = false;
	fixture.version++;
	for (int i = 0; i < 3; i++)
		(void)ASK(&fixture, WEIR__STORE_PEEK, false, { HERE, 'a', 1 });
	CHECK(fixture.behind.n_submitted == 1 && fixture.n_found == 1);
	fixture.version++;
	(void)ASK(&fixture, WEIR__STORE_PEEK, false, { HERE, 'a', 1 });
	CHECK_EQ(fixture.n_found, 2);
	unmake(&fixture);
}

/* --- both kinds -------------------------------------------------------------------------------------------------- */

static void both_allow(bool is_late)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	fixture.behind.is_late = is_late;
	asked = ASK(&fixture, WEIR__STORE_TAKE, false, { FAR, 'a', 1 }, { HERE, 'b', 2 }, { FAR_LOG, 'c', 3 },
		    { HERE, 'b', 1 });
	CHECK_EQ(asked.request.outcome, WEIR__STORE_DECIDED);
	CHECK(asked.request.decision.verdict.allowed);
	CHECK_EQ(asked.request.decision.decided_by, 1); /* one of four remains, two of five elsewhere */
	CHECK_EQ(asked.request.decision.verdict.remaining, 1);
	CHECK(asked.verdicts[0].remaining == 5 && asked.verdicts[0].granted == 1 && asked.verdicts[0].limit == 6);
	CHECK(asked.verdicts[1].remaining == 1 && asked.verdicts[1].limit == 4);
	CHECK(asked.verdicts[2].remaining == 2 && asked.verdicts[2].limit == 5);
	CHECK(asked.verdicts[3].remaining == 1);
	CHECK(left(&fixture, FAR, 'a') == 5 && left(&fixture, HERE, 'b') == 1 && left(&fixture, FAR_LOG, 'c') == 2);
	CHECK(counted(&fixture, HERE).allowed == 1 && counted(&fixture, HERE).denied == 0);
	unmake(&fixture);
}

static void both_allow_now_or_later(void)
{
	both_allow(false);
	both_allow(true);
}

/* The table's charge is given back, also of a key that occurs twice. */
static void the_store_behind_denies(bool is_late)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	fixture.behind.is_late = is_late;
	(void)ASK(&fixture, WEIR__STORE_TAKE, false, { FAR, 'a', 6 });
	asked = ASK(&fixture, WEIR__STORE_TAKE, false, { HERE, 'a', 1 }, { FAR, 'a', 1 }, { HERE_WINDOW, 'a', 2 },
		    { HERE, 'a', 2 }, { FAR_LOG, 'a', 1 });
	CHECK(!asked.request.decision.verdict.allowed);
	CHECK_EQ(asked.request.decision.decided_by, 1);
	CHECK(asked.request.decision.verdict.retry_after > 0);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(asked.verdicts[i].allowed, i != 1);
		CHECK_EQ(asked.verdicts[i].granted, 0);
	}
	CHECK(asked.verdicts[0].remaining == 4 && asked.verdicts[3].remaining == 4);
	CHECK(asked.verdicts[2].remaining == 5 && asked.verdicts[4].remaining == 5);
	CHECK(left(&fixture, HERE, 'a') == 4 && left(&fixture, HERE_WINDOW, 'a') == 5);
	CHECK(counted(&fixture, HERE).allowed == 0 && counted(&fixture, HERE).denied == 0);
	unmake(&fixture);
}

static void what_the_table_was_charged_is_undone(void)
{
	the_store_behind_denies(false);
	the_store_behind_denies(true);
}

static void the_table_denies_without_the_store(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	fixture.behind.is_late = true;
	asked = ASK(&fixture, WEIR__STORE_TAKE, false, { FAR, 'a', 1 }, { HERE, 'a', 5 }, { HERE_WINDOW, 'a', 1 });
	CHECK(!asked.request.decision.verdict.allowed && asked.request.decision.verdict.never);
	CHECK_EQ(asked.request.decision.decided_by, 1);
	CHECK_EQ(fixture.behind.n_submitted, 0);
	CHECK(asked.verdicts[0].allowed && asked.verdicts[0].granted == 0 && asked.verdicts[0].limit == 6);
	CHECK(asked.verdicts[2].allowed && asked.verdicts[2].remaining == 5);
	CHECK(left(&fixture, FAR, 'a') == 6 && left(&fixture, HERE_WINDOW, 'a') == 5);
	CHECK(counted(&fixture, HERE).denied == 1 && counted(&fixture, HERE_WINDOW).denied == 0);
	unmake(&fixture);
}

/* With count all, a denied request counts in both stores, whichever denied it. */
static void attempts_count_in_both(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	fixture.behind.is_late = true;
	asked = ASK(&fixture, WEIR__STORE_TAKE, false, { HERE, 'a', 5 }, { FAR_ALL, 'a', 1 }, { FAR, 'a', 1 });
	CHECK(!asked.request.decision.verdict.allowed);
	CHECK_EQ(asked.request.decision.decided_by, 0);
	CHECK(asked.verdicts[1].allowed && asked.verdicts[1].granted == 0 && asked.verdicts[1].remaining == 6);
	CHECK(left(&fixture, FAR_ALL, 'a') == 6 && left(&fixture, FAR, 'a') == 6);
	asked = ASK(&fixture, WEIR__STORE_TAKE, false, { HERE_ALL, 'a', 1 }, { HERE, 'a', 1 }, { FAR, 'a', 7 });
	CHECK(!asked.request.decision.verdict.allowed);
	CHECK_EQ(asked.request.decision.decided_by, 2);
	CHECK(left(&fixture, HERE_ALL, 'a') == 2 && left(&fixture, HERE, 'a') == 4);
	unmake(&fixture);
}

static void a_store_that_fails_charges_nothing(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	fixture.behind.fails = true; /* and has no fallback */
	asked = ASK(&fixture, WEIR__STORE_TAKE, false, { HERE, 'a', 1 }, { FAR, 'a', 1 });
	CHECK_EQ(asked.request.outcome, WEIR__STORE_UNREACHED);
	CHECK_EQ(left(&fixture, HERE, 'a'), 4);
	unmake(&fixture);
}

static void each_is_decided_by_itself(void)
{
	for (int is_late = 0; is_late < 2; is_late++) {
		struct fixture fixture;
		struct asked asked;

		make(&fixture);
		fixture.behind.is_late = is_late;
		asked = ASK(&fixture, WEIR__STORE_TAKE, true, { FAR, 'a', 7 }, { HERE, 'a', 3 }, { HERE, 'a', 3 },
			    { FAR, 'a', 2 }, { HERE, 'b', 1 });
		CHECK(!asked.verdicts[0].allowed && asked.verdicts[1].allowed && !asked.verdicts[2].allowed);
		CHECK(asked.verdicts[3].allowed && asked.verdicts[4].allowed);
		CHECK(left(&fixture, FAR, 'a') == 4 && left(&fixture, HERE, 'a') == 1 &&
		      left(&fixture, HERE, 'b') == 3);
		CHECK(counted(&fixture, HERE).allowed == 2 && counted(&fixture, HERE).denied == 1);
		asked = ASK(&fixture, WEIR__STORE_PEEK, true, { HERE, 'a', 1 }, { FAR, 'a', 1 });
		CHECK(asked.verdicts[0].remaining == 1 && asked.verdicts[1].remaining == 4);
		unmake(&fixture);
	}
}

/* The policy was replaced: nothing is charged, and nothing is sent. */
static void a_stale_policy_charges_nothing(void)
{
	for (int is_each = 0; is_each < 2; is_each++) {
		struct weir__bound_policy *const is = (void *)1, *const was = (void *)2;
		_Atomic(struct weir__bound_policy *) current = is;
		const struct weir__epoch_check check = { (void *)&current, was };
		const struct want wants[] = { { HERE, 'a', 1 }, { FAR, 'a', 1 } };
		struct fixture fixture;
		struct asked asked;

		make(&fixture);
		prepare(&fixture, &asked, WEIR__STORE_TAKE, is_each, wants, 2);
		asked.request.epoch_check = &check;
		CHECK(weir__store_submit(fixture.store, &asked.request));
		CHECK_EQ(asked.request.outcome, WEIR__STORE_STALE);
		CHECK_EQ(fixture.behind.n_submitted, 0);
		CHECK_EQ(left(&fixture, HERE, 'a'), 4);
		unmake(&fixture);
	}
}

/* During the request, the policy moves the limits to the other store. */
static void rules_that_change_meanwhile_undo_only_the_own_charge(void)
{
	const struct want wants[] = { { HERE, 'a', 1 }, { FAR, 'a', 1 } };
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	(void)ASK(&fixture, WEIR__STORE_TAKE, false, { FAR, 'a', 6 });
	fixture.behind.is_late = true;
	prepare(&fixture, &asked, WEIR__STORE_TAKE, false, wants, 2);
	CHECK(!weir__store_submit(fixture.store, &asked.request));
	CHECK_EQ(left(&fixture, HERE, 'a'), 3);
	fixture.limits[HERE] = fixture.limits[FAR];
	fixture.limits[FAR] = asked.moved->claims[0].limit;
	fixture.version++;
	(void)ASK(&fixture, WEIR__STORE_PEEK, false, { HERE_WINDOW, 'b', 1 }); /* reads the rules */
	weir__store_collect(fixture.store);
	CHECK(asked.moved->is_complete && !asked.moved->request.decision.verdict.allowed);
	CHECK_EQ(left(&fixture, FAR, 'a'), 4);  /* which was HERE */
	CHECK_EQ(left(&fixture, HERE, 'a'), 0); /* which was FAR */
	free(asked.moved);
	unmake(&fixture);
}

static void the_store_behind_is_reached_through_it(void)
{
	struct weir__store_status status;
	struct fixture fixture;

	make(&fixture);
	CHECK(fixture.store->table == NULL);
	fixture.store->status(fixture.store, &status);
	CHECK_EQ(status.nodes, 3);
	weir__store_flush(fixture.store);
	weir__store_collect(fixture.store);
	CHECK(fixture.behind.n_flushed == 1 && fixture.behind.n_collected == 1);
	unmake(&fixture);
}

/* --- departures -------------------------------------------------------------------------------------------------- */

/* A queue in the table and a queue in the store behind, each with one token per 1000 days. */
static struct asked depart(struct fixture *fixture, uint64_t cost_here, uint64_t cost_far, weir_ns max_delay)
{
	const struct want wants[] = { { HERE_QUEUE, 'a', cost_here }, { FAR_QUEUE, 'a', cost_far } };
	struct asked asked, done;

	prepare(fixture, &asked, WEIR__STORE_DEPART, false, wants, 2);
	asked.request.max_delay = max_delay;
	if (weir__store_submit(fixture->store, &asked.request))
		return asked;
	weir__store_collect(fixture->store);
	done = *asked.moved;
	free(asked.moved);
	return done;
}

/* All or nothing, within the longest delay, in either store. If the other store denies a departure, the table's charge
 * is cancelled and not counted. */
static void departures_are_all_or_nothing(void)
{
	const weir_ns day = S(86400);

	for (int is_late = 0; is_late < 2; is_late++) {
		struct fixture fixture;
		struct asked asked;

		make(&fixture);
		fixture.behind.is_late = is_late;
		asked = depart(&fixture, 1, 2, 0);
		CHECK(asked.request.decision.verdict.allowed && asked.request.decision.verdict.delay == 0);
		asked = depart(&fixture, 1, 1, 1500 * day); /* the table: 1000 days, the other: 2000 */
		CHECK(!asked.request.decision.verdict.allowed);
		CHECK_EQ(asked.request.decision.decided_by, 1);
		CHECK(asked.request.decision.verdict.retry_after > 1900 * day);
		CHECK(left(&fixture, HERE_QUEUE, 'a') == 5 && left(&fixture, FAR_QUEUE, 'a') == 4);
		asked = depart(&fixture, 1, 1, 500 * day); /* the table denies, so the other store is not called */
		CHECK(!asked.request.decision.verdict.allowed);
		CHECK_EQ(asked.request.decision.decided_by, 0);
		CHECK_EQ(fixture.behind.n_submitted, 2);
		asked = depart(&fixture, 1, 1, 2000 * day);
		CHECK(asked.request.decision.verdict.allowed);
		CHECK(asked.request.decision.verdict.delay > 1900 * day);
		CHECK(left(&fixture, HERE_QUEUE, 'a') == 4 && left(&fixture, FAR_QUEUE, 'a') == 3);
		CHECK(counted(&fixture, HERE_QUEUE).allowed == 0 && counted(&fixture, HERE_QUEUE).denied == 0);
		unmake(&fixture);
	}
}

/* --- any order --------------------------------------------------------------------------------------------------- */

/* The usage of a key, and how much of it is still to be undone. */
struct model {
	uint64_t used[LIMITS][KEYS];
};

struct pending {
	struct asked *asked;
	struct want wants[CLAIMS];
	uint32_t n;
	bool is_each, is_allowed, is_denied_here;
	bool each_allowed[CLAIMS];
};

static bool is_here(int limit)
{
	return limit <= HERE_QUEUE;
}

/* All claims of a request in the same place, together. */
static bool fits(const struct model *model, const struct pending *pending, bool here)
{
	uint64_t wanted[LIMITS][KEYS] = { { 0 } };
	bool all = true;

	for (uint32_t i = 0; i < pending->n; i++) {
		const struct want *const want = &pending->wants[i];
		uint64_t *const sum = &wanted[want->limit][want->key - 'a'];

		if (is_here(want->limit) != here)
			continue;
		*sum += want->cost;
		all = all &&
		      (want->cost == 0 || *sum <= mosts[want->limit] - model->used[want->limit][want->key - 'a']);
	}
	return all;
}

static void charge(struct model *model, const struct pending *pending, bool here, bool is_back)
{
	for (uint32_t i = 0; i < pending->n; i++) {
		const struct want *const want = &pending->wants[i];
		uint64_t *const used = &model->used[want->limit][want->key - 'a'];

		if (is_here(want->limit) == here)
			*used = is_back ? *used - want->cost : *used + want->cost;
	}
}

/* Submits the request to the model: both stores are charged now. */
static void expect(struct model *model, struct pending *pending)
{
	for (uint32_t i = 0; i < pending->n && pending->is_each; i++) {
		const struct want *const want = &pending->wants[i];
		uint64_t *const used = &model->used[want->limit][want->key - 'a'];

		pending->each_allowed[i] = want->cost <= mosts[want->limit] - *used;
		*used += pending->each_allowed[i] ? want->cost : 0;
	}
	if (pending->is_each)
		return;
	pending->is_denied_here = !fits(model, pending, true);
	if (pending->is_denied_here)
		return;
	charge(model, pending, true, false);
	pending->is_allowed = fits(model, pending, false);
	if (pending->is_allowed)
		charge(model, pending, false, false);
}

/* Compares, and undoes in the model what the store has undone by now. */
static void compare(struct model *model, const struct pending *pending, const struct asked *asked)
{
	for (uint32_t i = 0; i < pending->n && pending->is_each; i++)
		CHECK_EQ(asked->verdicts[i].allowed, pending->each_allowed[i]);
	if (pending->is_each)
		return;
	if (pending->n > 1)
		CHECK_EQ(asked->request.decision.verdict.allowed, pending->is_allowed);
	else
		CHECK_EQ(asked->verdicts[0].allowed, pending->is_allowed);
	if (pending->n > 1 && !pending->is_allowed)
		CHECK_EQ(is_here(pending->wants[asked->request.decision.decided_by].limit), pending->is_denied_here);
	if (!pending->is_allowed && !pending->is_denied_here)
		charge(model, pending, true, true);
}

/* For these, decisions and what is left are exact. A bucket rounds refunds down. */
static const int exact[] = { HERE_WINDOW, HERE_LOG, FAR, FAR_LOG };

static void submit_any(struct fixture *fixture, struct model *model, struct pending *pending)
{
	struct asked asked;

	pending->n = 1 + (uint32_t)below(5);
	pending->is_each = below(3) == 0;
	pending->is_allowed = false;
	for (uint32_t i = 0; i < pending->n; i++)
		pending->wants[i] = (struct want){ exact[below(4)], (char)('a' + below(KEYS)), below(3) };
	fixture->behind.is_late = below(4) > 0;
	prepare(fixture, &asked, WEIR__STORE_TAKE, pending->is_each, pending->wants, pending->n);
	expect(model, pending);
	pending->asked = NULL;
	if (weir__store_submit(fixture->store, &asked.request))
		compare(model, pending, &asked);
	else
		pending->asked = asked.moved;
}

static void finish_any(struct fixture *fixture, struct model *model, struct pending *pending, size_t *n)
{
	complete_late(&fixture->behind, below(fixture->behind.n_late));
	for (size_t i = 0; i < *n; i++)
		if (pending[i].asked->is_complete) {
			/* The store behind does not make a decision of one kind here: what it decided is late. */
			compare(model, &pending[i], pending[i].asked);
			free(pending[i].asked);
			pending[i--] = pending[--*n];
		}
}

/* In any order of completion, each request is decided by the charges before it, a denied one is given back, and what is
 * used in the end is what was allowed. */
static void any_order(void)
{
	for (int run = 0; run < 300; run++) {
		struct pending pending[LATE_MAX];
		struct model model = { { { 0 } } };
		struct fixture fixture;
		size_t n = 0;

		make(&fixture);
		for (int i = 0; i < 60; i++) {
			if (n > 0 && (n == LATE_MAX || below(2) == 0)) {
				finish_any(&fixture, &model, pending, &n);
				continue;
			}
			submit_any(&fixture, &model, &pending[n]);
			n += pending[n].asked != NULL;
		}
		while (n > 0)
			finish_any(&fixture, &model, pending, &n);
		for (int limit = 0; limit < LIMITS; limit++)
			for (int key = 0; key < KEYS; key++)
				CHECK_EQ(left(&fixture, limit, (char)('a' + key)),
					 mosts[limit] - model.used[limit][key]);
		unmake(&fixture);
	}
}

/* A bucket in the table, with denials by the other store in between: no more than its burst is allowed, and at most one
 * unit is lost. */
static void a_bucket_allows_its_burst(void)
{
	for (int run = 0; run < 200; run++) {
		const struct want wants[] = { { HERE, 'a', 1 }, { FAR, 'b', 7 } };
		struct asked asked[8];
		struct fixture fixture;
		uint64_t allowed = 0;

		make(&fixture);
		for (int i = 0; i < 8; i++) {
			fixture.behind.is_late = below(3) > 0;
			prepare(&fixture, &asked[i], WEIR__STORE_TAKE, false, wants, 1 + (uint32_t)below(2));
			if (weir__store_submit(fixture.store, &asked[i].request))
				allowed += asked[i].request.n == 1 && asked[i].verdicts[0].allowed;
			if (fixture.behind.n_late > 0 && below(2) == 0)
				complete_late(&fixture.behind, below(fixture.behind.n_late));
		}
		weir__store_collect(fixture.store);
		for (int i = 0; i < 8; i++) {
			CHECK(asked[i].moved == NULL || !asked[i].moved->request.decision.verdict.allowed);
			free(asked[i].moved);
		}
		CHECK(allowed + left(&fixture, HERE, 'a') <= 4 && allowed + left(&fixture, HERE, 'a') >= 3);
		unmake(&fixture);
	}
}

TESTS(TEST(requests_of_one_kind_go_straight), TEST(every_operation_goes_where_the_state_is),
      TEST(a_charge_is_undone_where_it_was_made), TEST(rules_are_read_once_a_version), TEST(both_allow_now_or_later),
      TEST(what_the_table_was_charged_is_undone), TEST(the_table_denies_without_the_store),
      TEST(attempts_count_in_both), TEST(a_store_that_fails_charges_nothing), TEST(each_is_decided_by_itself),
      TEST(a_stale_policy_charges_nothing), TEST(rules_that_change_meanwhile_undo_only_the_own_charge),
      TEST(the_store_behind_is_reached_through_it), TEST(departures_are_all_or_nothing), TEST(any_order),
      TEST(a_bucket_allows_its_burst))
