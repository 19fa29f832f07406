/* fallback_store_test.c: decisions without the primary store, by the rule of each limit, and deferred charges.
 *
 * The fallback uses the real clock, so the limits here do not refill within a test. */
#include "store/fallback_store.h"

#include "store/table/inline_limit.h"
#include "tables.h"

enum { CLAIMS = 3, LATER_MAX = 8 };

/* A store that fails on command. */
struct behind {
	struct weir__store store; /* first, so that a pointer to it can be cast */
	enum weir__store_outcome outcome;
	bool is_late;
	struct weir__store_request *waiting[LATER_MAX];
	size_t n_waiting;
	weir_ns budget; /* of the last request */
	uint32_t nodes;
	uint32_t n_submitted, n_flushed, n_collected, n_freed;
	bool is_joining, is_behind;
	struct weir_verdict said;      /* the verdict on every claim if the outcome is DECIDED */
	weir_ns decided_at;            /* if it is DECIDED */
	uint64_t deferred;             /* units of charges */
	uint64_t refunded, undone;     /* units */
	uint32_t n_deferred, n_resets; /* charges; resets */
};

struct fixture {
	struct weir_table *table;
	struct behind behind;
	struct weir__store *store;
	const struct weir_table_limit *ten, *open, *closed, *local, *of_local, *none;
	uint64_t version;
	uint32_t n_found; /* rules that were looked up */
};

/* --- the store behind -------------------------------------------------------------------------------------------- */

static bool submit_behind(struct weir__store *store, struct weir__store_request *request)
{
	struct behind *const behind = (struct behind *)(void *)store;

	behind->n_submitted++;
	behind->budget = request->budget;
	request->outcome = behind->outcome;
	request->is_closed = false;
	request->is_behind = behind->is_behind;
	request->decided_at = behind->decided_at;
	for (uint32_t i = 0; i < request->n && behind->outcome == WEIR__STORE_DECIDED; i++)
		request->verdicts[i] = behind->said;
	if (!behind->is_late)
		return true;
	behind->waiting[behind->n_waiting++] = request->caller->keep(request);
	return false;
}

static void flush_behind(struct weir__store *store)
{
	((struct behind *)(void *)store)->n_flushed++;
}

static void collect_behind(struct weir__store *store)
{
	((struct behind *)(void *)store)->n_collected++;
}

static void defer_behind(struct weir__store *store, const struct weir_claim *claim, enum weir__store_deferred what,
			 uint64_t units)
{
	struct behind *const behind = (struct behind *)(void *)store;

	(void)claim;
	behind->n_deferred += what == WEIR__STORE_DEFER_CHARGE;
	behind->deferred += what == WEIR__STORE_DEFER_CHARGE ? units : 0;
	behind->refunded += what == WEIR__STORE_DEFER_REFUND ? units : 0;
	behind->undone += what == WEIR__STORE_DEFER_UNDO ? units : 0;
	behind->n_resets += what == WEIR__STORE_DEFER_RESET;
}

static void status_behind(struct weir__store *store, struct weir__store_status *ret_status)
{
	*ret_status = (struct weir__store_status){ .health = WEIR__STORE_DOWN,
						   .nodes = ((struct behind *)(void *)store)->nodes,
						   .is_joining = ((struct behind *)(void *)store)->is_joining };
}

static void free_behind(struct weir__store *store)
{
	((struct behind *)(void *)store)->n_freed++;
}

/* --- rules ------------------------------------------------------------------------------------------------------- */

static void find_rule(void *fixture_, const struct weir_table_limit *limit, struct weir__fallback_rule *rule)
{
	struct fixture *const fixture = fixture_;

	fixture->n_found++;
	if (limit == fixture->open)
		*rule = (struct weir__fallback_rule){ .mode = WEIR__FALLBACK_OPEN, .budget = MS(20) };
	else if (limit == fixture->closed)
		*rule = (struct weir__fallback_rule){ .mode = WEIR__FALLBACK_CLOSED, .budget = MS(5) };
	else if (limit == fixture->local)
		*rule = (struct weir__fallback_rule){ WEIR__FALLBACK_LOCAL, fixture->of_local, MS(30), false, false };
	else if (limit == fixture->none)
		*rule = (struct weir__fallback_rule){ .mode = WEIR__FALLBACK_NONE, .budget = MS(40) };
}

static uint64_t version_of(void *fixture)
{
	return ((const struct fixture *)fixture)->version;
}

/* Limits without a rule use this server's share. Four servers share a limit. */
static void make(struct fixture *fixture)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0) + (1 << 20),
						    .arena_bytes = 1 << 20 };
	struct weir__fallback_options of_fallback = { .store = &fixture->behind.store,
						      .otherwise = { .mode = WEIR__FALLBACK_SHARE, .budget = MS(10) },
						      .find_rule = find_rule,
						      .version = version_of,
						      .context = fixture };

	memset(fixture, 0, sizeof(*fixture));
	fixture->behind = (struct behind){ .store = { .submit = submit_behind,
						      .flush = flush_behind,
						      .collect = collect_behind,
						      .defer = defer_behind,
						      .status = status_behind,
						      .free = free_behind },
					   .outcome = WEIR__STORE_UNREACHED,
					   .nodes = 4 };
	of_fallback.table = fixture->table = table_with(&options);
	fixture->ten = limit_in(fixture->table, "10/1000day");
	fixture->open = limit_in(fixture->table, "5/1000day");
	fixture->closed = limit_in(fixture->table, "6/1000day");
	fixture->local = limit_in(fixture->table, "7/1000day");
	fixture->of_local = limit_in(fixture->table, "2/1000day");
	fixture->none = limit_in(fixture->table, "8/1000day");
	fixture->store = weir__fallback_store_new(&of_fallback);
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
	struct weir_claim claims[CLAIMS];
	struct weir_verdict verdicts[CLAIMS];
	uint32_t n_completed;
};

static struct weir__store_request *keep(struct weir__store_request *request)
{
	return request;
}

static void complete(struct weir__store_request *request)
{
	((struct asked *)(void *)request)->n_completed++;
}

static const struct weir__store_caller caller = { keep, complete };

/* Submits key "k" of each limit; NULL ends the list. */
static bool submit(struct fixture *fixture, struct asked *asked, enum weir__store_operation operation, bool is_each,
		   const struct weir_table_limit *const limits[CLAIMS], uint64_t cost)
{
	memset(asked, 0, sizeof(*asked));
	for (uint32_t i = 0; i < CLAIMS && limits[i]; i++)
		asked->claims[asked->request.n++] = (struct weir_claim){ limits[i], "k", 1, cost };
	asked->request.operation = operation;
	asked->request.is_each = is_each;
	asked->request.claims = asked->claims;
	asked->request.verdicts = asked->verdicts;
	asked->request.now = weir_table_now(fixture->table);
	asked->request.caller = &caller;
	return weir__store_submit(fixture->store, &asked->request);
}

static struct asked ask(struct fixture *fixture, enum weir__store_operation operation, bool is_each,
			const struct weir_table_limit *const limits[CLAIMS], uint64_t cost)
{
	struct asked asked;

	CHECK(submit(fixture, &asked, operation, is_each, limits, cost));
	CHECK_EQ(asked.request.outcome, WEIR__STORE_DECIDED);
	CHECK_EQ(asked.n_completed, 0);
	return asked;
}

static struct asked ask_one(struct fixture *fixture, enum weir__store_operation operation,
			    const struct weir_table_limit *limit, uint64_t cost)
{
	return ask(fixture, operation, false, (const struct weir_table_limit *[CLAIMS]){ limit }, cost);
}

/* The store replies that `remaining` of ten are left. */
static void hear(struct fixture *fixture, uint64_t remaining)
{
	fixture->behind.outcome = WEIR__STORE_DECIDED;
	fixture->behind.decided_at += 1000;
	fixture->behind.said = (struct weir_verdict){ .limit = 10,
						      .remaining = remaining,
						      .reset_after = S(8640000) * (10 - remaining) };
	(void)ask_one(fixture, WEIR__STORE_TAKE, fixture->ten, 1);
	fixture->behind.outcome = WEIR__STORE_UNREACHED;
}

static uint64_t in_mirror(struct fixture *fixture)
{
	return weir_table_peek(fixture->table, fixture->ten, "k", 1, weir_table_now(fixture->table), 0).remaining;
}

/* --- one limit --------------------------------------------------------------------------------------------------- */

/* A unit counts four times: a quarter of ten is two, and the rest is not allowed to anyone. */
static void a_share_is_this_servers_part(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	for (uint64_t i = 0; i < 2; i++) {
		asked = ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1);
		CHECK(asked.verdicts[0].allowed && !asked.request.is_closed);
		CHECK_EQ(asked.verdicts[0].limit, 10);
		CHECK_EQ(asked.verdicts[0].granted, 1);
		CHECK_EQ(asked.verdicts[0].remaining, 1 - i);
	}
	asked = ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1);
	CHECK(!asked.verdicts[0].allowed && !asked.verdicts[0].never && !asked.request.is_closed);
	CHECK_EQ(weir_table_peek(fixture.table, fixture.ten, "k", 1, weir_table_now(fixture.table), 0).remaining, 2);
	CHECK_EQ(fixture.behind.deferred, 2);
	unmake(&fixture);
}

/* The store may allow it when it is back. A cost above the limit is never allowed. */
static void a_cost_above_the_share_waits_for_the_store(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	asked = ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 3);
	CHECK(!asked.verdicts[0].allowed && !asked.verdicts[0].never);
	CHECK_EQ(asked.verdicts[0].retry_after, S(1));
	asked = ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 11);
	CHECK(!asked.verdicts[0].allowed && asked.verdicts[0].never);
	CHECK_EQ(asked.verdicts[0].retry_after, WEIR_NEVER);
	unmake(&fixture);
}

/* Each of four servers allows one of two. A bucket then lacks four units of its rate, not two. */
static void a_small_limit_allows_one_at_each_server(void)
{
	struct fixture fixture;
	const struct weir_table_limit *bucket, *window;
	struct asked asked;

	make(&fixture);
	bucket = limit_in(fixture.table, "1/10s burst 2");
	window = limit_in(fixture.table, "2/1000day fixed_window");
	asked = ask_one(&fixture, WEIR__STORE_TAKE, bucket, 1);
	CHECK(asked.verdicts[0].allowed && asked.verdicts[0].remaining == 0 && asked.verdicts[0].granted == 1);
	CHECK(asked.verdicts[0].reset_after > S(39) && asked.verdicts[0].reset_after <= S(40));
	asked = ask_one(&fixture, WEIR__STORE_TAKE, bucket, 1);
	CHECK(!asked.verdicts[0].allowed && asked.verdicts[0].retry_after > S(39));
	CHECK(ask_one(&fixture, WEIR__STORE_TAKE, window, 1).verdicts[0].allowed);
	CHECK(!ask_one(&fixture, WEIR__STORE_TAKE, window, 1).verdicts[0].allowed);
	CHECK_EQ(fixture.behind.deferred, 2);
	unmake(&fixture);
}

/* The others have not reduced their shares yet. */
static void a_server_that_joins_has_no_share(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	fixture.behind.is_joining = true;
	asked = ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1);
	CHECK(!asked.verdicts[0].allowed && asked.request.is_closed);
	CHECK_EQ(asked.verdicts[0].retry_after, S(1));
	CHECK(ask_one(&fixture, WEIR__STORE_PEEK, fixture.ten, 1).request.is_closed);
	CHECK(ask_one(&fixture, WEIR__STORE_TAKE, fixture.open, 1).verdicts[0].allowed);
	CHECK(ask_one(&fixture, WEIR__STORE_TAKE, fixture.local, 1).verdicts[0].allowed);
	hear(&fixture, 3);
	CHECK(ask_one(&fixture, WEIR__STORE_RESET, fixture.ten, 0).verdicts[0].allowed);
	CHECK_EQ(in_mirror(&fixture), 10);
	unmake(&fixture);
}

static void alone_the_share_is_all(void)
{
	struct fixture fixture;

	make(&fixture);
	fixture.behind.nodes = 0; /* unknown */
	CHECK_EQ(ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 4).verdicts[0].remaining, 6);
	unmake(&fixture);
}

static void open_allows_and_closed_denies(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	for (int i = 0; i < 20; i++) {
		asked = ask_one(&fixture, WEIR__STORE_TAKE, fixture.open, 2);
		CHECK(asked.verdicts[0].allowed && !asked.request.is_closed);
		CHECK(asked.verdicts[0].limit == 5 && asked.verdicts[0].remaining == 5 &&
		      asked.verdicts[0].granted == 2);
	}
	CHECK_EQ(fixture.behind.deferred, 40);
	asked = ask_one(&fixture, WEIR__STORE_TAKE, fixture.closed, 1);
	CHECK(!asked.verdicts[0].allowed && asked.request.is_closed);
	CHECK_EQ(asked.verdicts[0].retry_after, S(1));
	CHECK_EQ(asked.verdicts[0].limit, 6);
	CHECK_EQ(fixture.behind.deferred, 40);
	unmake(&fixture);
}

static void local_is_another_limit(void)
{
	struct fixture fixture;
	const struct weir_table_limit *of_local;

	make(&fixture);
	of_local = fixture.of_local;
	CHECK_EQ(ask_one(&fixture, WEIR__STORE_TAKE, fixture.local, 2).verdicts[0].limit, 2);
	CHECK(!ask_one(&fixture, WEIR__STORE_TAKE, fixture.local, 1).verdicts[0].allowed);
	CHECK_EQ(weir_table_peek(fixture.table, of_local, "k", 1, weir_table_now(fixture.table), 0).remaining, 0);
	fixture.of_local = NULL; /* the policy names a missing local limit: then it is a share, a quarter of seven */
	fixture.version++;
	CHECK_EQ(ask_one(&fixture, WEIR__STORE_TAKE, fixture.local, 1).verdicts[0].limit, 7);
	CHECK(!ask_one(&fixture, WEIR__STORE_TAKE, fixture.local, 1).verdicts[0].allowed);
	unmake(&fixture);
}

static void every_operation_has_a_reply(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	CHECK_EQ(ask_one(&fixture, WEIR__STORE_UPTO, fixture.ten, 9).verdicts[0].granted, 2);
	CHECK(!ask_one(&fixture, WEIR__STORE_UPTO, fixture.ten, 9).verdicts[0].allowed);
	CHECK(ask_one(&fixture, WEIR__STORE_UPTO, fixture.ten, 0).verdicts[0].allowed);
	CHECK_EQ(fixture.behind.deferred, 2);
	CHECK(!ask_one(&fixture, WEIR__STORE_PEEK, fixture.ten, 1).verdicts[0].allowed);
	CHECK_EQ(ask_one(&fixture, WEIR__STORE_REFUND, fixture.ten, 1).verdicts[0].remaining, 1);
	CHECK_EQ(fixture.behind.refunded, 1);
	asked = ask_one(&fixture, WEIR__STORE_UNDO, fixture.ten, 1);
	CHECK(asked.verdicts[0].remaining == 1 && asked.verdicts[0].granted == 0);
	asked = ask_one(&fixture, WEIR__STORE_INSPECT, fixture.ten, 0);
	CHECK(asked.request.is_stored && asked.request.full_at > weir_table_now(fixture.table));
	CHECK_EQ(fixture.behind.n_resets, 0);
	asked = ask_one(&fixture, WEIR__STORE_RESET, fixture.ten, 0);
	CHECK(asked.verdicts[0].allowed && asked.request.fallback_nodes == 4); /* the store was not reset */
	CHECK_EQ(fixture.behind.n_resets, 1);
	asked = ask_one(&fixture, WEIR__STORE_INSPECT, fixture.ten, 0);
	CHECK(!asked.request.is_stored && asked.request.full_at == 0);
	CHECK(ask_one(&fixture, WEIR__STORE_PEEK, fixture.open, 9).verdicts[0].allowed);
	CHECK(ask_one(&fixture, WEIR__STORE_PEEK, fixture.closed, 1).request.is_closed);
	CHECK_EQ(fixture.behind.deferred, 2); /* of these, only UPTO charges */
	unmake(&fixture);
}

/* --- an undo ------------------------------------------------------------------------------------------------------ */

/* Undoes two units of a charge while the store has this outcome. */
static struct asked undo_two(struct fixture *fixture, enum weir__store_outcome outcome,
			     const struct weir_table_limit *limit, weir_ns charged_at, uint32_t charged_nodes)
{
	struct asked asked;

	memset(&asked, 0, sizeof(asked));
	fixture->behind.outcome = outcome;
	asked.claims[0] = (struct weir_claim){ limit, "k", 1, 2 };
	asked.request = (struct weir__store_request){ .operation = WEIR__STORE_UNDO,
						      .n = 1,
						      .claims = asked.claims,
						      .verdicts = asked.verdicts,
						      .charged_at = charged_at,
						      .charged_cost = 3,
						      .charged_nodes = charged_nodes,
						      .caller = &caller };
	CHECK(weir__store_submit(fixture->store, &asked.request));
	CHECK_EQ(asked.request.outcome, WEIR__STORE_DECIDED);
	return asked;
}

static void a_charge_is_undone_where_it_was_made(void)
{
	const weir_ns before = weir_clock_now();
	struct fixture fixture;
	struct asked taken, undone;
	uint32_t n;

	make(&fixture);
	fixture.behind.nodes = 3;
	taken = ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 3);
	CHECK(taken.verdicts[0].allowed);
	CHECK(taken.request.decided_at >= before && taken.request.decided_at <= weir_clock_now());
	CHECK_EQ(taken.request.fallback_nodes, 3);
	/* The store had charged it, the table had not, whatever the table has used otherwise. */
	undone = undo_two(&fixture, WEIR__STORE_UNREACHED, fixture.ten, taken.request.decided_at, 0);
	CHECK(undone.verdicts[0].granted == 0 && undone.verdicts[0].remaining == 0);
	CHECK_EQ(fixture.behind.undone, 0);
	/* The table had charged it: the store is not called, even if it is back. The deferred charge becomes
	 * smaller. */
	n = fixture.behind.n_submitted;
	undone = undo_two(&fixture, WEIR__STORE_DECIDED, fixture.ten, taken.request.decided_at, 3);
	CHECK(undone.verdicts[0].granted == 2 && undone.verdicts[0].remaining == 2);
	CHECK_EQ(fixture.behind.n_submitted, n);
	CHECK_EQ(fixture.behind.deferred, 3);
	CHECK_EQ(fixture.behind.undone, 2);
	fixture.behind.said = (struct weir_verdict){ .limit = 10, .remaining = 7, .reset_after = S(8640000) * 3 };
	undone = undo_two(&fixture, WEIR__STORE_DECIDED, fixture.ten, taken.request.decided_at, 0);
	CHECK_EQ(fixture.behind.n_submitted, n + 1);
	CHECK_EQ(undone.request.fallback_nodes, 0);
	/* The store has received the deferred charge since, and keeps it: the mirror has it once. */
	undone = undo_two(&fixture, WEIR__STORE_DECIDED, fixture.ten, taken.request.decided_at, 3);
	CHECK_EQ(undone.verdicts[0].granted, 0);
	CHECK_EQ(weir_table_peek(fixture.table, fixture.ten, "k", 1, weir_table_now(fixture.table), 0).remaining, 7);
	CHECK_EQ(fixture.behind.undone, 2);
	unmake(&fixture);
}

static void an_undo_where_nothing_was_charged_gives_nothing(void)
{
	struct fixture fixture;
	struct asked taken, undone;

	make(&fixture);
	taken = ask_one(&fixture, WEIR__STORE_TAKE, fixture.open, 3);
	undone = undo_two(&fixture, WEIR__STORE_UNREACHED, fixture.open, taken.request.decided_at, 4);
	CHECK(undone.verdicts[0].allowed && !undone.request.is_closed);
	CHECK_EQ(undone.verdicts[0].granted, 0);
	undone = undo_two(&fixture, WEIR__STORE_UNREACHED, fixture.closed, taken.request.decided_at, 0);
	CHECK_EQ(undone.verdicts[0].granted, 0);
	unmake(&fixture);
}

/* --- what is charged later --------------------------------------------------------------------------------------- */

static void only_what_was_certainly_not_charged_is_charged_later(void)
{
	struct fixture fixture;

	make(&fixture);
	fixture.behind.outcome = WEIR__STORE_UNANSWERED;
	CHECK(ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1).verdicts[0].allowed);
	CHECK(ask_one(&fixture, WEIR__STORE_TAKE, fixture.open, 2).request.is_uncertain);
	(void)ask_one(&fixture, WEIR__STORE_REFUND, fixture.open, 2);
	CHECK(fixture.behind.deferred == 0 && fixture.behind.refunded == 0);
	fixture.behind.outcome = WEIR__STORE_UNREACHED;
	CHECK(!ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1).request.is_uncertain);
	CHECK_EQ(fixture.behind.deferred, 1);
	CHECK(!ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1).verdicts[0].allowed);
	CHECK_EQ(fixture.behind.deferred, 1);
	fixture.behind.store.defer = NULL; /* a store without deferred charges */
	CHECK(ask_one(&fixture, WEIR__STORE_TAKE, fixture.open, 2).verdicts[0].allowed);
	CHECK_EQ(fixture.behind.deferred, 1);
	unmake(&fixture);
}

/* --- the store's replies ------------------------------------------------------------------------------------------ */

static void a_share_starts_from_what_the_store_said(void)
{
	struct fixture fixture;

	make(&fixture);
	hear(&fixture, 4);
	CHECK(ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1).verdicts[0].allowed);
	CHECK(!ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1).verdicts[0].allowed);
	hear(&fixture, 3);
	CHECK(!ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1).verdicts[0].allowed);
	hear(&fixture, 10);
	CHECK_EQ(in_mirror(&fixture), 10);
	CHECK_EQ(fixture.behind.deferred, 1);
	unmake(&fixture);
}

/* Neither another number of servers nor a change of the limit starts a share over. */
static void nothing_starts_a_share_over(void)
{
	struct fixture fixture;
	struct weir_limit twenty;
	uint64_t allowed = 0;

	make(&fixture);
	hear(&fixture, 8);
	for (uint32_t nodes = 2; nodes < 6; nodes++) {
		fixture.behind.nodes = nodes;
		fixture.version++;
		while (ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1).verdicts[0].allowed)
			allowed++;
	}
	CHECK(allowed <= 4);
	CHECK_EQ(weir_limit_parse("20/1000day", 10, &twenty, NULL), WEIR_OK);
	CHECK_EQ(weir_table_change_limit(fixture.table, fixture.ten, &twenty, weir_table_now(fixture.table), NULL),
		 WEIR_OK);
	CHECK(in_mirror(&fixture) <= 12);
	unmake(&fixture);
}

/* A reply that may lack this server's own charges never gives them back. */
static void a_reply_that_may_lack_charges_only_raises_the_usage(void)
{
	struct fixture fixture;

	make(&fixture);
	hear(&fixture, 5);
	fixture.behind.is_behind = true; /* deferred charges wait */
	hear(&fixture, 9);
	CHECK_EQ(in_mirror(&fixture), 5);
	hear(&fixture, 4);
	CHECK_EQ(in_mirror(&fixture), 4);
	fixture.behind.is_behind = false;
	fixture.behind.decided_at -= 2000; /* decided before the last one */
	hear(&fixture, 9);
	CHECK_EQ(in_mirror(&fixture), 4);
	hear(&fixture, 9);
	CHECK_EQ(in_mirror(&fixture), 9);
	fixture.behind.decided_at -= S(60) < fixture.behind.decided_at ? S(60) : 0;
	hear(&fixture, 7);
	fixture.behind.outcome = WEIR__STORE_UNANSWERED; /* it may still take effect in the store */
	CHECK(ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1).verdicts[0].allowed);
	CHECK_EQ(in_mirror(&fixture), 3);
	hear(&fixture, 7);
	CHECK_EQ(in_mirror(&fixture), 3);
	hear(&fixture, 2);
	CHECK_EQ(in_mirror(&fixture), 2);
	unmake(&fixture);
}

static void a_reset_of_the_store_resets_the_mirror(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	hear(&fixture, 3);
	fixture.behind.is_behind = true;
	fixture.behind.outcome = WEIR__STORE_DECIDED;
	fixture.behind.said = (struct weir_verdict){ .allowed = true };
	asked = ask_one(&fixture, WEIR__STORE_RESET, fixture.ten, 0);
	CHECK(asked.verdicts[0].allowed && asked.request.fallback_nodes == 0);
	CHECK_EQ(in_mirror(&fixture), 10);
	CHECK_EQ(fixture.behind.n_resets, 1);
	unmake(&fixture);
}

/* Only a share needs a mirror. */
static void other_rules_have_no_mirror(void)
{
	struct fixture fixture;

	make(&fixture);
	fixture.behind.outcome = WEIR__STORE_DECIDED;
	fixture.behind.said = (struct weir_verdict){ .limit = 5, .remaining = 1, .reset_after = S(8640000) };
	(void)ask(&fixture, WEIR__STORE_TAKE, true,
		  (const struct weir_table_limit *[CLAIMS]){ fixture.open, fixture.closed, fixture.local }, 1);
	CHECK(place_of(fixture.table, fixture.open, "k", 1).slot == NULL);
	CHECK(place_of(fixture.table, fixture.closed, "k", 1).slot == NULL);
	CHECK(place_of(fixture.table, fixture.local, "k", 1).slot == NULL);
	unmake(&fixture);
}

/* --- several claims ---------------------------------------------------------------------------------------------- */

#define LIMITS(...) ((const struct weir_table_limit *[CLAIMS]){ __VA_ARGS__ })

static uint64_t left_of_share(struct fixture *fixture)
{
	return ask_one(fixture, WEIR__STORE_PEEK, fixture->ten, 0).verdicts[0].remaining;
}

static void together_all_are_charged_or_none(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	asked = ask(&fixture, WEIR__STORE_TAKE, false, LIMITS(fixture.open, fixture.ten, fixture.local), 1);
	CHECK(asked.request.decision.verdict.allowed && !asked.request.is_closed);
	CHECK_EQ(asked.request.decision.decided_by, 1); /* the share has one left, and so has the local limit of two */
	CHECK_EQ(fixture.behind.n_deferred, 3);
	asked = ask(&fixture, WEIR__STORE_TAKE, false, LIMITS(fixture.open, fixture.ten, fixture.closed), 1);
	CHECK(!asked.request.decision.verdict.allowed && asked.request.is_closed);
	CHECK_EQ(asked.request.decision.decided_by, 2);
	CHECK(asked.verdicts[0].allowed && asked.verdicts[1].allowed && !asked.verdicts[2].allowed);
	CHECK_EQ(left_of_share(&fixture), 1);
	asked = ask(&fixture, WEIR__STORE_TAKE, false, LIMITS(fixture.open, fixture.ten, fixture.local), 2);
	CHECK(!asked.request.decision.verdict.allowed && !asked.request.is_closed);
	CHECK_EQ(left_of_share(&fixture), 1);
	CHECK_EQ(fixture.behind.n_deferred, 3);
	unmake(&fixture);
}

/* The same key of the same limit twice is one key with both costs, also in a share. */
static void the_same_key_twice_is_one(void)
{
	struct fixture fixture;

	make(&fixture);
	CHECK(!ask(&fixture, WEIR__STORE_TAKE, false, LIMITS(fixture.ten, fixture.ten), 2)
		       .request.decision.verdict.allowed);
	CHECK_EQ(left_of_share(&fixture), 2);
	CHECK(ask(&fixture, WEIR__STORE_TAKE, false, LIMITS(fixture.ten, fixture.ten), 1)
		      .request.decision.verdict.allowed);
	CHECK_EQ(left_of_share(&fixture), 0);
	unmake(&fixture);
}

static void each_is_decided_by_its_own_rule(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	asked = ask(&fixture, WEIR__STORE_TAKE, true, LIMITS(fixture.closed, fixture.open, fixture.ten), 2);
	CHECK(!asked.verdicts[0].allowed && asked.verdicts[1].allowed && asked.verdicts[2].allowed);
	CHECK(asked.request.is_closed);
	CHECK_EQ(fixture.behind.deferred, 4);
	CHECK_EQ(left_of_share(&fixture), 0);
	asked = ask(&fixture, WEIR__STORE_PEEK, true, LIMITS(fixture.ten, fixture.open), 2);
	CHECK(!asked.verdicts[0].allowed && asked.verdicts[1].allowed && !asked.request.is_closed);
	CHECK_EQ(fixture.behind.deferred, 4);
	unmake(&fixture);
}

/* --- rules ------------------------------------------------------------------------------------------------------- */

static void the_budget_is_the_least_of_the_rules(void)
{
	struct fixture fixture;

	make(&fixture);
	(void)ask_one(&fixture, WEIR__STORE_TAKE, fixture.local, 1);
	CHECK_EQ(fixture.behind.budget, MS(30));
	(void)ask_one(&fixture, WEIR__STORE_TAKE, fixture.ten, 1);
	CHECK_EQ(fixture.behind.budget, MS(10));
	(void)ask(&fixture, WEIR__STORE_TAKE, false, LIMITS(fixture.local, fixture.open, fixture.ten), 1);
	CHECK_EQ(fixture.behind.budget, MS(10));
	(void)ask(&fixture, WEIR__STORE_TAKE, true, LIMITS(fixture.local, fixture.closed, fixture.open), 1);
	CHECK_EQ(fixture.behind.budget, MS(5));
	unmake(&fixture);
}

static void rules_are_looked_up_when_they_change(void)
{
	struct weir_limit twenty;
	struct fixture fixture;

	make(&fixture);
	for (int i = 0; i < 5; i++)
		(void)ask_one(&fixture, WEIR__STORE_TAKE, fixture.open, 1);
	CHECK_EQ(fixture.n_found, 1);
	fixture.closed = fixture.open;
	fixture.open = NULL;
	fixture.version++;
	CHECK(ask_one(&fixture, WEIR__STORE_TAKE, fixture.closed, 1).request.is_closed);
	CHECK_EQ(fixture.n_found, 2);
	CHECK_EQ(weir_limit_parse("20/1000day", 10, &twenty, NULL), WEIR_OK);
	CHECK_EQ(weir_table_change_limit(fixture.table, fixture.closed, &twenty, weir_table_now(fixture.table), NULL),
		 WEIR_OK);
	for (int i = 0; i < 2; i++)
		CHECK(ask_one(&fixture, WEIR__STORE_TAKE, fixture.closed, 1).request.is_closed);
	CHECK_EQ(fixture.n_found, 3);
	unmake(&fixture);
}

static void inline_limits_have_no_rule_of_their_own(void)
{
	struct weir_table_limit limit;
	struct weir_limit eight;
	struct fixture fixture;

	make(&fixture);
	CHECK_EQ(weir_limit_parse("8/1000day", 9, &eight, NULL), WEIR_OK);
	CHECK_EQ(weir__inline_limit_init(&limit, fixture.table, "a", 1, &eight, fixture.open, NULL), WEIR_OK);
	CHECK_EQ(ask_one(&fixture, WEIR__STORE_TAKE, &limit, 1).verdicts[0].remaining, 1);
	CHECK_EQ(fixture.n_found, 0);
	unmake(&fixture);
}

/* --- what the store behind decides, or completes later ------------------------------------------------------------ */

static void what_is_decided_is_left_as_it_is(void)
{
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	fixture.behind.outcome = WEIR__STORE_DECIDED;
	CHECK(!ask_one(&fixture, WEIR__STORE_TAKE, fixture.open, 1).verdicts[0].allowed); /* as the store left it */
	fixture.behind.outcome = WEIR__STORE_STALE;
	CHECK(submit(&fixture, &asked, WEIR__STORE_TAKE, false, LIMITS(fixture.open), 1));
	CHECK_EQ(asked.request.outcome, WEIR__STORE_STALE);
	CHECK_EQ(fixture.behind.deferred, 0);
	unmake(&fixture);
}

static void a_request_may_fail_later(void)
{
	static const enum weir__store_outcome outcomes[] = { WEIR__STORE_DECIDED, WEIR__STORE_UNREACHED,
							     WEIR__STORE_UNANSWERED };
	struct fixture fixture;
	struct asked asked[3];

	make(&fixture);
	fixture.behind.is_late = true;
	for (size_t i = 0; i < 3; i++)
		CHECK(!submit(&fixture, &asked[i], WEIR__STORE_TAKE, false, LIMITS(fixture.open), 2));
	weir__store_flush(fixture.store);
	weir__store_collect(fixture.store);
	CHECK(fixture.behind.n_flushed == 1 && fixture.behind.n_collected == 1);
	for (size_t i = 3; i-- > 0;) {
		struct weir__store_request *const request = fixture.behind.waiting[i];

		CHECK_EQ(asked[i].n_completed, 0);
		request->outcome = outcomes[i];
		weir__store_complete(&fixture.behind.store, request);
		CHECK_EQ(asked[i].n_completed, 1);
		CHECK_EQ(request->outcome, WEIR__STORE_DECIDED);
		CHECK_EQ(asked[i].verdicts[0].allowed, outcomes[i] != WEIR__STORE_DECIDED);
	}
	CHECK_EQ(fixture.behind.deferred, 2); /* of the one that did not reach it */
	unmake(&fixture);
}

static void the_status_is_that_of_the_store_behind(void)
{
	struct weir__store_status status;
	struct fixture fixture;

	make(&fixture);
	fixture.store->status(fixture.store, &status);
	CHECK(status.health == WEIR__STORE_DOWN && status.nodes == 4);
	fixture.behind.store.status = NULL;
	fixture.store->status(fixture.store, &status);
	CHECK(status.health == WEIR__STORE_UP && status.nodes == 1);
	CHECK(fixture.store->table == NULL);
	unmake(&fixture);
}

/* --- no rule ----------------------------------------------------------------------------------------------------- */

/* The result is the store's, at once and later, also if only one of several limits has no rule. Nothing is charged
 * here. */
static void without_a_rule_nothing_is_decided(void)
{
	const enum weir__store_outcome outcomes[] = { WEIR__STORE_UNREACHED, WEIR__STORE_UNANSWERED };
	struct fixture fixture;
	struct asked asked;

	make(&fixture);
	for (size_t i = 0; i < 2; i++) {
		const struct weir_table_limit *const both[CLAIMS] = { fixture.open, fixture.none };

		fixture.behind.outcome = outcomes[i];
		fixture.behind.is_late = false;
		CHECK(submit(&fixture, &asked, WEIR__STORE_TAKE, false, both, 1));
		CHECK_EQ(asked.request.outcome, outcomes[i]);
		CHECK(submit(&fixture, &asked, WEIR__STORE_TAKE, true, both, 1));
		CHECK_EQ(asked.request.outcome, outcomes[i]);
		CHECK_EQ(fixture.behind.budget, MS(20)); /* the shortest */
		fixture.behind.is_late = true;
		fixture.behind.n_waiting = 0;
		CHECK(!submit(&fixture, &asked, WEIR__STORE_TAKE, false, both, 1));
		weir__store_complete(&fixture.behind.store, fixture.behind.waiting[0]);
		CHECK_EQ(asked.n_completed, 1);
		CHECK_EQ(asked.request.outcome, outcomes[i]);
		CHECK_EQ(asked.request.fallback_nodes, 0);
	}
	CHECK_EQ(fixture.behind.deferred, 0);
	unmake(&fixture);
}

/* The fallback gives a departure within the longest delay. It is charged to the store later, and cancelled in the table
 * that gave it. */
static void departures_are_given_and_cancelled_here(void)
{
	struct fixture fixture;
	struct asked asked;
	const struct weir_table_limit *queue;
	weir_ns charged_at;

	make(&fixture);
	fixture.behind.nodes = 1;
	queue = limit_in(fixture.table, "1/1000day leaky queue 3");
	CHECK(ask_one(&fixture, WEIR__STORE_DEPART, queue, 1).verdicts[0].allowed);
	asked = ask_one(&fixture, WEIR__STORE_DEPART, queue, 1); /* accepts no delay */
	CHECK(!asked.verdicts[0].allowed && asked.verdicts[0].retry_after > S(86400) * 999);
	CHECK_EQ(asked.verdicts[0].remaining, 2);
	(void)submit(&fixture, &asked, WEIR__STORE_PEEK, false, (const struct weir_table_limit *[CLAIMS]){ queue }, 1);
	asked.request.operation = WEIR__STORE_DEPART;
	asked.request.max_delay = S(86400) * 1000;
	CHECK(weir__store_submit(fixture.store, &asked.request));
	CHECK(asked.verdicts[0].allowed && asked.verdicts[0].delay > 0 && asked.verdicts[0].remaining == 1);
	CHECK_EQ(fixture.behind.deferred, 2);
	charged_at = asked.request.decided_at;
	asked.request.operation = WEIR__STORE_CANCEL;
	asked.request.charged_at = charged_at;
	asked.request.charged_cost = 1;
	asked.request.charged_full_at = charged_at + asked.verdicts[0].reset_after;
	asked.request.charged_nodes = asked.request.fallback_nodes;
	CHECK(weir__store_submit(fixture.store, &asked.request));
	CHECK(asked.verdicts[0].granted == 1 && asked.verdicts[0].remaining == 2);
	asked.request.charged_nodes = 0; /* a departure of the store, which is unreachable */
	CHECK(weir__store_submit(fixture.store, &asked.request));
	CHECK(asked.verdicts[0].granted == 0 && asked.verdicts[0].remaining == 2);
	unmake(&fixture);
}

TESTS(TEST(a_share_is_this_servers_part), TEST(a_cost_above_the_share_waits_for_the_store),
      TEST(a_small_limit_allows_one_at_each_server), TEST(a_server_that_joins_has_no_share),
      TEST(a_share_starts_from_what_the_store_said), TEST(nothing_starts_a_share_over),
      TEST(a_reply_that_may_lack_charges_only_raises_the_usage), TEST(a_reset_of_the_store_resets_the_mirror),
      TEST(other_rules_have_no_mirror), TEST(alone_the_share_is_all), TEST(open_allows_and_closed_denies),
      TEST(local_is_another_limit), TEST(every_operation_has_a_reply), TEST(a_charge_is_undone_where_it_was_made),
      TEST(an_undo_where_nothing_was_charged_gives_nothing), TEST(only_what_was_certainly_not_charged_is_charged_later),
      TEST(together_all_are_charged_or_none), TEST(the_same_key_twice_is_one), TEST(each_is_decided_by_its_own_rule),
      TEST(the_budget_is_the_least_of_the_rules), TEST(rules_are_looked_up_when_they_change),
      TEST(inline_limits_have_no_rule_of_their_own), TEST(what_is_decided_is_left_as_it_is),
      TEST(a_request_may_fail_later), TEST(departures_are_given_and_cancelled_here),
      TEST(the_status_is_that_of_the_store_behind), TEST(without_a_rule_nothing_is_decided))
