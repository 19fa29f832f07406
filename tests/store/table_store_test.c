/* table_store_test.c: the operations of a store, tested with the table store. */
#include "store/store.h"
#include "store/table/decision.h"

#include "tables.h"

enum { CLAIMS = 4 };

struct fixture {
	struct weir_table *table;
	struct weir__table_store store;
	const struct weir_table_limit *ten, *three, *log;
};

static void make(struct fixture *fixture)
{
	fixture->table = table_with_arena(1000, 1 << 20);
	fixture->ten = limit_in(fixture->table, "10/hour");
	fixture->three = limit_in(fixture->table, "3/hour");
	fixture->log = limit_in(fixture->table, "10/hour sliding_log");
	weir__table_store_init(&fixture->store, fixture->table);
}

static void unmake(struct fixture *fixture)
{
	weir_table_free(fixture->table);
}

static struct weir_claim claim_of(const struct weir_table_limit *limit, const char *key, uint64_t cost)
{
	return (struct weir_claim){ limit, key, strlen(key), cost };
}

/* A store that completes at once must not keep a request. */
static struct weir__store_request *keep_nothing(struct weir__store_request *request)
{
	CHECK(false);
	return request;
}

static void submit(struct fixture *fixture, struct weir__store_request *request)
{
	static const struct weir__store_caller caller = { .keep = keep_nothing };

	request->caller = &caller;
	CHECK(weir__store_submit(&fixture->store.store, request));
}

/* One operation on one key. */
static struct weir_verdict ask(struct fixture *fixture, enum weir__store_operation operation,
			       const struct weir_table_limit *limit, weir_ns now, uint64_t cost)
{
	const struct weir_claim claim = claim_of(limit, "key", cost);
	struct weir_verdict verdict;
	struct weir__store_request request = { .operation = operation,
					       .n = 1,
					       .claims = &claim,
					       .verdicts = &verdict,
					       .now = now,
					       .charged_at = MADE_AT,
					       .charged_cost = 2 };

	submit(fixture, &request);
	CHECK_EQ(request.outcome, WEIR__STORE_DECIDED);
	CHECK_EQ(request.decided_at, now);
	CHECK_EQ(request.fallback_nodes, 0);
	CHECK(!request.is_closed);
	return verdict;
}

static void every_operation_is_that_of_the_table(void)
{
	/* clang-format off */
	static const struct {
		const char *what;
		enum weir__store_operation operation;
		uint64_t cost;
		bool allowed;
		uint64_t remaining, granted;
	} rows[] = {
		{ "a take charges",                     WEIR__STORE_TAKE,    4, true,  6, 4 },
		{ "a peek does not",                    WEIR__STORE_PEEK,    6, true,  6, 0 },
		{ "a take beyond what is left is none", WEIR__STORE_TAKE,    7, false, 6, 0 },
		{ "upto charges what is left",          WEIR__STORE_UPTO,    9, true,  0, 6 },
		{ "a refund gives back",                WEIR__STORE_REFUND,  3, true,  3, 0 },
		{ "an undo tells how much that was",    WEIR__STORE_UNDO,    2, true,  5, 2 },
		{ "to inspect charges nothing",         WEIR__STORE_INSPECT, 0, true,  5, 0 },
	};
	/* clang-format on */
	struct fixture fixture;

	make(&fixture);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct weir_verdict verdict = ask(&fixture, rows[i].operation, fixture.ten, MADE_AT,
							rows[i].cost);

		if (verdict.allowed != rows[i].allowed || verdict.remaining != rows[i].remaining ||
		    (weir__store_charges(rows[i].operation) && verdict.granted != rows[i].granted) ||
		    (rows[i].operation == WEIR__STORE_UNDO && verdict.granted != rows[i].granted))
			check_fail(__FILE__, __LINE__, rows[i].what);
	}
	CHECK(ask(&fixture, WEIR__STORE_RESET, fixture.ten, MADE_AT, 0).allowed);
	CHECK(!ask(&fixture, WEIR__STORE_RESET, fixture.ten, MADE_AT, 0).allowed);
	unmake(&fixture);
}

static void to_inspect_tells_when_a_key_is_full(void)
{
	struct fixture fixture;
	struct weir_claim claim;
	struct weir_verdict verdict;
	struct weir__store_request request = {
		.operation = WEIR__STORE_INSPECT, .n = 1, .claims = &claim, .verdicts = &verdict, .now = MADE_AT
	};

	make(&fixture);
	claim = claim_of(fixture.ten, "key", 0);
	submit(&fixture, &request);
	CHECK(!request.is_stored && request.full_at == 0);
	(void)ask(&fixture, WEIR__STORE_TAKE, fixture.ten, MADE_AT, 2);
	submit(&fixture, &request);
	CHECK(request.is_stored);
	CHECK_EQ(request.full_at, MADE_AT + S(720));
	unmake(&fixture);
}

/* Only what is left of the charge, and not what others were charged. */
static void an_undo_finds_its_own_charge(void)
{
	struct fixture fixture;

	make(&fixture);
	(void)ask(&fixture, WEIR__STORE_TAKE, fixture.ten, MADE_AT, 2);
	(void)ask(&fixture, WEIR__STORE_TAKE, fixture.ten, MADE_AT + S(600), 3);
	CHECK_EQ(ask(&fixture, WEIR__STORE_UNDO, fixture.ten, MADE_AT + S(600), 5).granted, 1);
	CHECK_EQ(ask(&fixture, WEIR__STORE_UNDO, fixture.ten, MADE_AT + S(300), 5).granted, 2);
	(void)ask(&fixture, WEIR__STORE_TAKE, fixture.log, MADE_AT, 2);
	(void)ask(&fixture, WEIR__STORE_TAKE, fixture.log, MADE_AT + S(60), 3);
	CHECK_EQ(ask(&fixture, WEIR__STORE_UNDO, fixture.log, MADE_AT + S(120), 5).granted, 2);
	CHECK_EQ(ask(&fixture, WEIR__STORE_PEEK, fixture.log, MADE_AT + S(120), 0).remaining, 7);
	CHECK_EQ(ask(&fixture, WEIR__STORE_UNDO, fixture.log, MADE_AT + S(120), 5).granted, 0);
	unmake(&fixture);
}

/* --- several claims ---------------------------------------------------------------------------------------------- */

static void together_all_are_charged_or_none(void)
{
	struct fixture fixture;
	struct weir_claim claims[2];
	struct weir_verdict verdicts[2];
	struct weir__store_request request = { .n = 2, .claims = claims, .verdicts = verdicts, .now = MADE_AT };

	make(&fixture);
	claims[0] = claim_of(fixture.ten, "a", 2);
	claims[1] = claim_of(fixture.three, "b", 2);
	submit(&fixture, &request);
	CHECK(request.decision.verdict.allowed && verdicts[0].allowed && verdicts[1].allowed);
	CHECK_EQ(request.decision.decided_by, 1);
	submit(&fixture, &request);
	CHECK(!request.decision.verdict.allowed && verdicts[0].allowed && !verdicts[1].allowed);
	CHECK_EQ(request.decision.decided_by, 1);
	CHECK_EQ(weir_table_peek(fixture.table, fixture.ten, "a", 1, MADE_AT, 0).remaining, 8);
	unmake(&fixture);
}

static void each_is_decided_by_itself(void)
{
	struct fixture fixture;
	struct weir_claim claims[CLAIMS];
	struct weir_verdict verdicts[CLAIMS];
	struct weir__store_request request = {
		.is_each = true, .n = CLAIMS, .claims = claims, .verdicts = verdicts, .now = MADE_AT
	};

	make(&fixture);
	for (size_t i = 0; i < CLAIMS; i++)
		claims[i] = claim_of(fixture.three, "a", 1);
	submit(&fixture, &request);
	for (size_t i = 0; i < CLAIMS; i++)
		CHECK_EQ(verdicts[i].allowed, i < 3);
	request.operation = WEIR__STORE_PEEK;
	submit(&fixture, &request);
	for (size_t i = 0; i < CLAIMS; i++)
		CHECK(!verdicts[i].allowed);
	unmake(&fixture);
}

static void decisions_are_joined_as_a_table_joins_them(void)
{
	struct fixture fixture;
	struct weir_claim claims[CLAIMS];
	struct weir_verdict verdicts[CLAIMS];
	struct weir__store_request request = { .n = CLAIMS, .claims = claims, .verdicts = verdicts, .now = MADE_AT };

	make(&fixture);
	for (int round = 0; round < 200; round++) {
		struct weir_decision joined;

		for (size_t i = 0; i < CLAIMS; i++)
			claims[i] = claim_of(below(2) ? fixture.ten : fixture.three, &"abcdefgh"[below(8)], below(5));
		request.now += below(S(600));
		submit(&fixture, &request);
		joined = weir__decision_of(verdicts, CLAIMS);
		CHECK_EQ(joined.decided_by, request.decision.decided_by);
		CHECK_VERDICT("the same", &joined.verdict, &request.decision.verdict);
	}
	unmake(&fixture);
}

static void another_store_counts_as_the_table_does(void)
{
	struct fixture fixture;
	struct weir_claim claims[2];
	struct weir_verdict verdicts[2] = { { .allowed = true }, { .allowed = false } };
	struct weir__store_request request = { .n = 2, .claims = claims, .verdicts = verdicts };
	struct weir_table_limit_stats ten, three;

	make(&fixture);
	claims[0] = claim_of(fixture.ten, "a", 1);
	claims[1] = claim_of(fixture.three, "a", 1);
	weir__table_store_count(fixture.table, &request); /* denied by the second */
	request.is_each = true;
	weir__table_store_count(fixture.table, &request); /* one each */
	request.is_each = false;
	verdicts[1].allowed = true;
	weir__table_store_count(fixture.table, &request); /* allowed by both */
	weir_table_limit_stats(fixture.table, fixture.ten, &ten);
	weir_table_limit_stats(fixture.table, fixture.three, &three);
	CHECK(ten.allowed == 2 && ten.denied == 0);
	CHECK(three.allowed == 1 && three.denied == 2);
	unmake(&fixture);
}

/* --- a premise --------------------------------------------------------------------------------------------------- */

static void nothing_is_decided_by_a_premise_that_fails(void)
{
	static int first, second;
	struct fixture fixture;
	struct weir_claim claims[2];
	struct weir_verdict verdicts[2];
	void *_Atomic word = &first;
	struct weir__epoch_check epoch_check = { &word, &first };
	struct weir__store_request request = {
		.claims = claims, .verdicts = verdicts, .now = MADE_AT, .epoch_check = &epoch_check
	};

	make(&fixture);
	claims[0] = claim_of(fixture.ten, "a", 1);
	claims[1] = claim_of(fixture.three, "a", 1);
	for (int round = 0; round < 2; round++) {
		const enum weir__store_outcome expected = round == 0 ? WEIR__STORE_DECIDED : WEIR__STORE_STALE;

		for (uint32_t n = 1; n <= 2; n++)
			for (int each = 0; each < 2; each++) {
				request.n = n;
				request.is_each = each == 1;
				submit(&fixture, &request);
				CHECK_EQ(request.outcome, expected);
				if (each == 1)
					CHECK_EQ(request.n_current, round == 0 ? n : 0);
			}
		CHECK_EQ(weir_table_peek(fixture.table, fixture.ten, "a", 1, MADE_AT, 0).remaining, 6);
		CHECK_EQ(weir_table_peek(fixture.table, fixture.three, "a", 1, MADE_AT, 0).remaining, 1);
		word = &second;
	}
	unmake(&fixture);
}

static void hashes_that_are_known_are_used(void)
{
	struct fixture fixture;
	struct weir_claim claim;
	struct weir_verdict verdict;
	uint64_t hash;
	struct weir__store_request request = {
		.n = 1, .claims = &claim, .verdicts = &verdict, .now = MADE_AT, .hashes = &hash
	};

	make(&fixture);
	claim = claim_of(fixture.three, "not looked at", 1);
	hash = hash_of(fixture.three, "a", 1);
	submit(&fixture, &request);
	CHECK_EQ(weir_table_peek(fixture.table, fixture.three, "a", 1, MADE_AT, 0).remaining, 2);
	unmake(&fixture);
}

TESTS(TEST(every_operation_is_that_of_the_table), TEST(to_inspect_tells_when_a_key_is_full),
      TEST(an_undo_finds_its_own_charge), TEST(together_all_are_charged_or_none), TEST(each_is_decided_by_itself),
      TEST(decisions_are_joined_as_a_table_joins_them), TEST(another_store_counts_as_the_table_does),
      TEST(nothing_is_decided_by_a_premise_that_fails), TEST(hashes_that_are_known_are_used))
