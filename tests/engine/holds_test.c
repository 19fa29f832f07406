/* holds_test.c: costs that are held, with the test's own clock. */
#include "engine/holds.h"

#include <pthread.h>
#include <sched.h>

#include "store/table/tables.h"

#define MOST 8

struct fixture {
	struct weir_table *table;
	struct weir__inline_limits limits;
	struct weir__holds *holds;
};

static struct fixture *made(void)
{
	static struct fixture fixture;

	fixture.table = table_with_arena(1000, 1 << 20);
	weir__inline_limits_init(&fixture.limits, fixture.table, limit_in(fixture.table, "1/s"));
	fixture.holds = weir__holds_new(MOST);
	CHECK(fixture.holds != NULL);
	return &fixture;
}

static void unmake(struct fixture *fixture)
{
	weir__holds_free(fixture->holds);
	weir_table_free(fixture->table);
}

static struct weir_limit parsed(const char *text)
{
	struct weir_limit limit;

	CHECK_EQ(weir_limit_parse(text, strlen(text), &limit, NULL), WEIR_OK);
	return limit;
}

/* Decides in the table directly, as a store does that completes at once. */
static void ask_table(struct weir_table *table, struct weir__inline_limits *limits, const struct weir_limit *limit,
		      struct weir_claim *claim, struct weir__store_request *request)
{
	request->n = 1;
	request->claims = claim;
	CHECK_EQ(weir__inline_limits_find(limits, WEIR__SPACE_TEXT, limit, &claim->limit, NULL), WEIR_OK);
	weir__table_store_decide(table, request);
}

/* Retries while another thread works on the same id. */
static enum weir__hold_result take_hold(struct fixture *fixture, struct weir__inline_limits *limits,
					const struct weir__hold_request *request, weir_ns now,
					struct weir_verdict *ret_verdict)
{
	struct weir__store_request take = { .operation = WEIR__STORE_TAKE, .verdicts = ret_verdict, .now = now };
	struct weir_claim claim = { NULL, request->key, request->key_length, request->cost };
	enum weir__hold_result result;
	struct weir__hold *hold;

	while ((result = weir__holds_take(fixture->holds, request, now, &hold, ret_verdict)) == WEIR__HOLD_BUSY)
		(void)sched_yield();
	if (result != WEIR__HOLD_BEGUN)
		return result;
	ask_table(fixture->table, limits, request->stated, &claim, &take);
	weir__holds_took(fixture->holds, hold, &take);
	return WEIR__HOLD_ANSWERED;
}

static enum weir__hold_result settle_hold(struct fixture *fixture, struct weir__inline_limits *limits, const char *id,
					  size_t id_length, uint64_t actual, weir_ns now,
					  struct weir__settlement *ret_settlement)
{
	struct weir__hold_store_call question;
	enum weir__hold_result result;
	struct weir_verdict verdict;
	struct weir__hold *hold;

	while ((result = weir__holds_settle(fixture->holds, NULL, id, id_length, actual, now, &hold, &question,
					    ret_settlement)) == WEIR__HOLD_BUSY)
		(void)sched_yield();
	if (result != WEIR__HOLD_BEGUN)
		return result;
	ask_table(fixture->table, limits, &question.stated,
		  &(struct weir_claim){ NULL, question.key, question.key_length, question.cost },
		  &(struct weir__store_request){ .operation = question.operation,
						 .verdicts = &verdict,
						 .now = now,
						 .charged_at = question.charged_at,
						 .charged_cost = question.charged_cost });
	weir__holds_settled(fixture->holds, hold, &question, actual, &verdict, ret_settlement);
	return WEIR__HOLD_ANSWERED;
}

static enum weir__hold_result hold(struct fixture *fixture, const char *id, const char *text, uint64_t cost,
				   weir_ns lasts, weir_ns now, struct weir_verdict *ret_verdict)
{
	const struct weir_limit limit = parsed(text);
	const struct weir__hold_request request = { .id = id,
						    .id_length = strlen(id),
						    .key = "key",
						    .key_length = 3,
						    .stated = &limit,
						    .cost = cost,
						    .lasts = lasts };

	return take_hold(fixture, &fixture->limits, &request, now, ret_verdict);
}

static enum weir__hold_result settle(struct fixture *fixture, const char *id, uint64_t actual, weir_ns now,
				     struct weir__settlement *ret_settlement)
{
	return settle_hold(fixture, &fixture->limits, id, strlen(id), actual, now, ret_settlement);
}

static const struct weir_table_limit *limit_of(struct fixture *fixture, const char *text)
{
	const struct weir_limit limit = parsed(text);
	const struct weir_table_limit *found = NULL;

	CHECK_EQ(weir__inline_limits_find(&fixture->limits, WEIR__SPACE_TEXT, &limit, &found, NULL), WEIR_OK);
	return found;
}

static uint64_t left(struct fixture *fixture, const char *text, weir_ns now)
{
	return weir_table_peek(fixture->table, limit_of(fixture, text), "key", 3, now, 0).remaining;
}

/* --- one thread ------------------------------------------------------------------------------------------------- */

static void a_hold_takes_its_estimate_once(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict first, again;

	CHECK_EQ(hold(fixture, "a", "10/hour", 4, S(60), MADE_AT, &first), WEIR__HOLD_ANSWERED);
	CHECK(first.allowed);
	CHECK_EQ(first.remaining, 6);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(hold(fixture, "a", "10/hour", 4, S(60), MADE_AT + S(30), &again), WEIR__HOLD_REPEATED);
		CHECK_EQ(again.remaining, 6);
		CHECK_EQ(again.reset_after, first.reset_after);
	}
	CHECK_EQ(left(fixture, "10/hour", MADE_AT), 6);
	CHECK_EQ(weir__holds_n(fixture->holds), 1);
	unmake(fixture);
}

static void an_id_is_of_one_hold(void)
{
	static const struct {
		const char *text;
		uint64_t cost;
		weir_ns lasts;
		enum weir__hold_result result;
	} rows[] = {
		{ "10/hour", 4, S(60), WEIR__HOLD_ANSWERED },
		{ "10/60min", 4, S(60), WEIR__HOLD_REPEATED }, /* the same limit, written differently */
		{ "11/hour", 4, S(60), WEIR__HOLD_OTHER },
		{ "10/hour", 5, S(60), WEIR__HOLD_OTHER },
		{ "10/hour", 4, S(61), WEIR__HOLD_OTHER },
	};
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ(hold(fixture, "a", rows[i].text, rows[i].cost, rows[i].lasts, MADE_AT, &verdict),
			 rows[i].result);
	CHECK_EQ(left(fixture, "10/hour", MADE_AT), 6);
	CHECK_EQ(left(fixture, "11/hour", MADE_AT), 11);
	unmake(fixture);
}

static void what_is_denied_is_not_remembered(void)
{
	struct fixture *const fixture = made();
	struct weir__settlement settlement;
	struct weir_verdict verdict;

	CHECK_EQ(hold(fixture, "a", "10/hour", 11, S(60), MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
	CHECK(!verdict.allowed && verdict.never);
	CHECK_EQ(weir__holds_n(fixture->holds), 0);
	CHECK_EQ(settle(fixture, "a", 1, MADE_AT, &settlement), WEIR__HOLD_UNKNOWN);
	CHECK_EQ(hold(fixture, "a", "10/hour", 3, S(60), MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
	CHECK(verdict.allowed);
	unmake(fixture);
}

static void settling_charges_or_gives_back_the_difference(void)
{
	static const struct {
		const char *what;
		uint64_t actual, charged, refunded, beyond, left;
	} rows[] = {
		{ "as estimated", 4, 0, 0, 0, 6 },  { "less", 1, 0, 3, 0, 9 },
		{ "nothing", 0, 0, 4, 0, 10 },      { "more", 9, 5, 0, 0, 1 },
		{ "all there is", 10, 6, 0, 0, 0 }, { "more than there is", 25, 6, 0, 15, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture *const fixture = made();
		struct weir__settlement settlement = { 0 };
		struct weir_verdict verdict;

		CHECK_EQ(hold(fixture, "a", "10/hour", 4, S(60), MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
		for (int again = 0; again < 2; again++) { /* the second returns the same and changes nothing */
			CHECK_EQ(settle(fixture, "a", rows[i].actual, MADE_AT + (weir_ns)again, &settlement),
				 WEIR__HOLD_ANSWERED);
			if (settlement.held != 4 || settlement.actual != rows[i].actual ||
			    settlement.charged != rows[i].charged || settlement.refunded != rows[i].refunded ||
			    settlement.beyond != rows[i].beyond || settlement.verdict.remaining != rows[i].left)
				check_fail(__FILE__, __LINE__, rows[i].what);
		}
		CHECK_EQ(left(fixture, "10/hour", MADE_AT), rows[i].left);
		CHECK_EQ(settle(fixture, "a", rows[i].actual + 1, MADE_AT, &settlement), WEIR__HOLD_OTHER);
		CHECK_EQ(left(fixture, "10/hour", MADE_AT), rows[i].left);
		CHECK_EQ(hold(fixture, "a", "10/hour", 4, S(60), MADE_AT, &verdict), WEIR__HOLD_REPEATED);
		CHECK_EQ(left(fixture, "10/hour", MADE_AT), rows[i].left);
		unmake(fixture);
	}
}

static void a_hold_ends_as_it_was_estimated(void)
{
	struct fixture *const fixture = made();
	struct weir__settlement settlement;
	struct weir_verdict verdict;

	CHECK_EQ(hold(fixture, "a", "10/day", 4, S(60), MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
	CHECK_EQ(settle(fixture, "a", 1, MADE_AT + S(60), &settlement), WEIR__HOLD_UNKNOWN);
	CHECK_EQ(left(fixture, "10/day", MADE_AT + S(60)), 6);
	CHECK_EQ(weir__holds_n(fixture->holds), 0);
	CHECK_EQ(hold(fixture, "a", "10/day", 5, S(60), MADE_AT + S(60), &verdict), WEIR__HOLD_ANSWERED);
	CHECK_EQ(verdict.remaining, 1);
	CHECK_EQ(settle(fixture, "a", 1, MADE_AT + S(120) - 1, &settlement), WEIR__HOLD_ANSWERED);
	unmake(fixture);
}

/* Units that were held in a window that has ended are not given back to the next one. */
static void what_has_come_back_by_itself_is_not_given_back(void)
{
	static const char *const limits[] = { "10/min fixed_window", "10/min fixed_window align first",
					      "10/min refill interval", "10/min" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct fixture *const fixture = made();
		struct weir__settlement settlement;
		struct weir_verdict verdict;
		weir_ns later;

		CHECK_EQ(hold(fixture, "a", limits[i], 4, S(3600), MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
		later = MADE_AT + verdict.reset_after;
		CHECK_EQ(hold(fixture, "b", limits[i], 10, S(3600), later, &verdict), WEIR__HOLD_ANSWERED);
		CHECK(verdict.allowed);
		CHECK_EQ(settle(fixture, "a", 0, later, &settlement), WEIR__HOLD_ANSWERED);
		CHECK_EQ(settlement.refunded, 0);
		CHECK_EQ(left(fixture, limits[i], later), 0);
		CHECK_EQ(settle(fixture, "b", 3, later, &settlement), WEIR__HOLD_ANSWERED);
		CHECK_EQ(settlement.refunded, 7);
		CHECK_EQ(left(fixture, limits[i], later), 7);
		unmake(fixture);
	}
}

/* Others may have taken what has refilled. Together they get no more than if nothing had been held. */
static void what_has_come_back_in_part_is_given_back_in_part(void)
{
	static const struct {
		const char *what, *text;
		uint64_t before, held, taken;
		weir_ns later;
		uint64_t actual, refunded, left;
	} rows[] = {
		{ "half of it", "10/10s", 0, 10, 5, S(5), 0, 5, 5 },
		{ "half of it, without other requests", "10/10s", 0, 10, 0, S(5), 0, 5, 10 },
		{ "a part of a token counts as one", "10/10s", 0, 10, 4, S(4) + S(1) / 2, 0, 6, 6 },
		{ "some of it was used", "10/10s", 0, 10, 5, S(5), 8, 2, 2 },
		{ "what came back may be of any", "10/10s", 5, 5, 5, S(5), 0, 0, 0 },
		{ "as much as has not come back", "10/10s", 5, 5, 2, S(2), 0, 3, 3 },
		{ "of a leaky bucket", "10/10s leaky burst 10", 0, 10, 5, S(5), 0, 5, 5 },
		{ "at intervals", "2/s burst 10 refill interval", 0, 10, 4, S(2), 0, 6, 6 },
		{ "just before an interval", "2/s burst 10 refill interval", 0, 10, 2, S(2) - 1, 0, 8, 8 },
		{ "the last interval brings less", "4/s burst 10 refill interval", 0, 10, 4, S(1), 0, 6, 6 },
		{ "what came back at intervals, too", "2/s burst 10 refill interval", 5, 5, 2, S(1), 0, 3, 3 },
		{ "none of a window", "10/min fixed_window align first", 0, 6, 4, S(59), 0, 6, 6 },
		{ "nothing where all is counted", "10/min fixed_window count all", 0, 6, 4, S(1), 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture *const fixture = made();
		const weir_ns later = MADE_AT + rows[i].later;
		struct weir__settlement settlement = { 0 };
		struct weir_verdict before, held, taken;

		(void)hold(fixture, "before", rows[i].text, rows[i].before, S(60), MADE_AT, &before);
		(void)hold(fixture, "a", rows[i].text, rows[i].held, S(60), MADE_AT, &held);
		(void)hold(fixture, "taken", rows[i].text, rows[i].taken, S(60), later, &taken);
		CHECK(before.allowed && held.allowed && taken.allowed);
		CHECK_EQ(settle(fixture, "a", rows[i].actual, later, &settlement), WEIR__HOLD_ANSWERED);
		if (settlement.refunded != rows[i].refunded || left(fixture, rows[i].text, later) != rows[i].left)
			check_fail(__FILE__, __LINE__, rows[i].what);
		unmake(fixture);
	}
}

/* The first release lowers the usage that the second hold saw, so the second hold's units refill sooner than it could
 * know. Another request has taken them by the time it is released. */
static void what_another_took_is_not_given_back(void)
{
	struct fixture *const fixture = made();
	const struct weir_table_limit *const limit = limit_of(fixture, "1/s burst 3");
	struct weir__settlement settlement = { 0 };
	struct weir_verdict verdict;

	CHECK_EQ(hold(fixture, "a", "1/s burst 3", 2, S(60), MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
	CHECK_EQ(hold(fixture, "b", "1/s burst 3", 1, S(60), MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
	CHECK_EQ(settle(fixture, "a", 0, MADE_AT, &settlement), WEIR__HOLD_ANSWERED);
	CHECK_EQ(settlement.refunded, 2);
	CHECK(weir_table_take(fixture->table, limit, "key", 3, MADE_AT + S(1), 3).allowed);
	CHECK_EQ(settle(fixture, "b", 0, MADE_AT + S(1), &settlement), WEIR__HOLD_ANSWERED);
	CHECK_EQ(settlement.refunded, 0);
	CHECK(!weir_table_take(fixture->table, limit, "key", 3, MADE_AT + S(1), 1).allowed);
	unmake(fixture);
}

/* A change to a slower rate or a smaller burst hides how much has refilled, or was cut. Then nothing is given back. */
static void of_a_changed_limit_only_what_is_certain(void)
{
	static const struct {
		const char *before, *after[2];
		bool gives_back;
	} rows[] = {
		{ "10/s burst 10", { NULL, NULL }, true },
		{ "10/s burst 10", { "20/s burst 10", NULL }, true },
		{ "10/s burst 10", { "10/s burst 30", NULL }, true },
		{ "10/s burst 10", { "1/hour burst 10", NULL }, false },
		{ "10/s burst 10", { "10/s burst 4", NULL }, false },
		{ "10/s burst 10", { "10/s burst 4", "10/s burst 10" }, false },
		{ "10/s refill interval", { "100/10s refill interval burst 10", NULL }, false },
		{ "10/s fixed_window", { "5/s fixed_window", "10/s fixed_window" }, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture *const fixture = made();
		const struct weir_table_limit *const limit = limit_in(fixture->table, rows[i].before);
		const struct weir__hold_request request = { NULL, "a", "key", 1, 3, limit, NULL, 8, S(60) };
		struct weir__store_request take = { .operation = WEIR__STORE_TAKE, .n = 1, .now = MADE_AT };
		const struct weir_claim claim = { limit, "key", 3, 8 };
		struct weir__settlement settlement = { 0 };
		struct weir__hold_store_call question;
		struct weir_verdict verdict;
		struct weir__hold *hold;

		take.claims = &claim;
		take.verdicts = &verdict;
		CHECK_EQ(weir__holds_take(fixture->holds, &request, MADE_AT, &hold, &verdict), WEIR__HOLD_BEGUN);
		weir__table_store_decide(fixture->table, &take);
		weir__holds_took(fixture->holds, hold, &take);
		for (int change = 0; change < 2 && rows[i].after[change]; change++)
			CHECK_EQ(weir_table_change_limit_text(fixture->table, limit, rows[i].after[change], MADE_AT,
							      NULL),
				 WEIR_OK);
		CHECK_EQ(weir__holds_settle(fixture->holds, NULL, "a", 1, 0, MADE_AT, &hold, &question, &settlement),
			 WEIR__HOLD_BEGUN);
		if ((question.operation == WEIR__STORE_UNDO) != rows[i].gives_back)
			check_fail(__FILE__, __LINE__, rows[i].after[0] ? rows[i].after[0] : rows[i].before);
		weir__holds_settle_not(fixture->holds, hold);
		unmake(fixture);
	}
}

/* The refund removes the held charge, not later ones, which would expire later. The state is then as if only the actual
 * cost had been taken. */
static void a_sliding_window_gives_back_what_was_held(void)
{
	static const char *const limits[] = { "100/4s sliding_log", "100/4s sliding_counter",
					      "100/4s sliding_counter segments 4", "99999/4s sliding_counter" };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct fixture *const fixture = made();
		const struct weir_table_limit *const limit = limit_of(fixture, limits[i]);
		struct weir__settlement settlement = { 0 };
		struct weir_verdict verdict;

		CHECK_EQ(hold(fixture, "a", limits[i], 50, S(60), MADE_AT + S(1), &verdict), WEIR__HOLD_ANSWERED);
		CHECK(weir_table_take(fixture->table, limit, "other", 5, MADE_AT + S(1), 10).allowed);
		CHECK(weir_table_take(fixture->table, limit, "key", 3, MADE_AT + S(2), 30).allowed);
		CHECK(weir_table_take(fixture->table, limit, "other", 5, MADE_AT + S(2), 30).allowed);
		CHECK_EQ(settle(fixture, "a", 10, MADE_AT + S(3), &settlement), WEIR__HOLD_ANSWERED);
		CHECK_EQ(settlement.refunded, 40);
		CHECK_EQ(settlement.verdict.remaining, left(fixture, limits[i], MADE_AT + S(3)));
		for (weir_ns now = MADE_AT + S(3); now < MADE_AT + S(12); now += S(1) / 10)
			if (!CHECK_EQ(left(fixture, limits[i], now),
				      weir_table_peek(fixture->table, limit, "other", 5, now, 0).remaining))
				printf("# %s\n", limits[i]);
		unmake(fixture);
	}
}

static void what_is_full_has_room_when_one_is_over(void)
{
	struct fixture *const fixture = made();
	struct weir__settlement settlement;
	struct weir_verdict verdict;
	char id[] = "a";

	for (unsigned i = 0; i < MOST; i++, id[0]++) /* the last ones end first */
		CHECK_EQ(hold(fixture, id, "100/day", 1, S(1) * (100 - i), MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
	CHECK_EQ(hold(fixture, "z", "100/day", 1, S(100), MADE_AT, &verdict), WEIR__HOLD_FULL);
	CHECK_EQ(left(fixture, "100/day", MADE_AT), 100 - MOST);
	CHECK_EQ(hold(fixture, "a", "100/day", 1, S(100), MADE_AT, &verdict), WEIR__HOLD_REPEATED);
	CHECK_EQ(settle(fixture, "b", 1, MADE_AT, &settlement), WEIR__HOLD_ANSWERED);
	CHECK_EQ(hold(fixture, "z", "100/day", 1, S(100), MADE_AT, &verdict), WEIR__HOLD_FULL);
	CHECK_EQ(hold(fixture, "z", "100/day", 1, S(100), MADE_AT + S(1) * (101 - MOST) - 1, &verdict),
		 WEIR__HOLD_FULL);
	CHECK_EQ(hold(fixture, "z", "100/day", 1, S(100), MADE_AT + S(1) * (101 - MOST), &verdict),
		 WEIR__HOLD_ANSWERED);
	CHECK_EQ(settle(fixture, "h", 1, MADE_AT + S(1) * (101 - MOST), &settlement), WEIR__HOLD_UNKNOWN);
	CHECK_EQ(weir__holds_n(fixture->holds), MOST);
	unmake(fixture);
}

/* Compares random holds with a list that is searched linearly. */
static void any_order_of_ends(void)
{
	struct fixture *const fixture = made();
	weir_ns ends[26] = { 0 }, now = MADE_AT;
	uint64_t costs[26] = { 0 };

	for (int i = 0; i < 20000; i++) {
		const unsigned which = (unsigned)below(26);
		const char id[] = { (char)('a' + which), '\0' };
		const weir_ns lasts = 1 + below(40);
		const uint64_t cost = below(3);
		struct weir_verdict verdict;
		unsigned n = 0;

		now += below(5);
		for (unsigned k = 0; k < 26; k++)
			n += ends[k] > now;
		if (ends[which] > now) {
			struct weir__settlement settlement;

			CHECK_EQ(settle(fixture, id, costs[which], now, &settlement), WEIR__HOLD_ANSWERED);
			continue;
		}
		CHECK_EQ(hold(fixture, id, "1000000/ns", cost, lasts, now, &verdict),
			 n < MOST ? WEIR__HOLD_ANSWERED : WEIR__HOLD_FULL);
		if (n < MOST) {
			ends[which] = now + lasts;
			costs[which] = cost;
		}
	}
	unmake(fixture);
}

/* --- while a store decides ---------------------------------------------------------------------------------------- */

static void an_id_is_busy_while_its_store_decides(void)
{
	struct fixture *const fixture = made();
	const struct weir_limit limit = parsed("10/day");
	const struct weir__hold_request request = { NULL, "a", "key", 1, 3, NULL, &limit, 4, S(1) };
	struct weir_verdict verdict = { .allowed = true, .limit = 10, .remaining = 6, .granted = 4 };
	const struct weir__store_request take = { .verdicts = &verdict,
						  .now = MADE_AT + S(5),
						  .decided_at = MADE_AT + S(3), /* by another clock */
						  .fallback_nodes = 7 };
	struct weir__settlement settlement;
	struct weir__hold_store_call question;
	struct weir__hold *hold, *other;

	CHECK_EQ(weir__holds_take(fixture->holds, &request, MADE_AT, &hold, &verdict), WEIR__HOLD_BEGUN);
	CHECK_EQ(weir__holds_take(fixture->holds, &request, MADE_AT, &other, &verdict), WEIR__HOLD_BUSY);
	CHECK_EQ(weir__holds_settle(fixture->holds, NULL, "a", 1, 0, MADE_AT, &other, &question, &settlement),
		 WEIR__HOLD_UNKNOWN);
	/* The hold is kept however long the store takes; its lifetime starts with the decision. */
	CHECK_EQ(weir__holds_take(fixture->holds, &request, MADE_AT + S(5), &other, &verdict), WEIR__HOLD_BUSY);
	weir__holds_took(fixture->holds, hold, &take);
	CHECK_EQ(weir__holds_take(fixture->holds, &request, MADE_AT + S(5), &other, &verdict), WEIR__HOLD_REPEATED);
	CHECK_EQ(weir__holds_settle(fixture->holds, NULL, "a", 1, 0, MADE_AT + S(5), &hold, &question, &settlement),
		 WEIR__HOLD_BEGUN);
	CHECK_EQ(weir__holds_settle(fixture->holds, NULL, "a", 1, 0, MADE_AT + S(9), &other, &question, &settlement),
		 WEIR__HOLD_BUSY);
	CHECK_EQ(question.operation, WEIR__STORE_UNDO);
	CHECK_EQ(question.cost, 4);
	CHECK_EQ(question.charged_at, MADE_AT + S(3));
	CHECK_EQ(question.charged_cost, 4);
	CHECK_EQ(question.charged_nodes, 7);
	weir__holds_settle_not(fixture->holds, hold);
	CHECK_EQ(weir__holds_settle(fixture->holds, NULL, "a", 1, 9, MADE_AT + S(5), &hold, &question, &settlement),
		 WEIR__HOLD_BEGUN);
	CHECK_EQ(question.operation, WEIR__STORE_UPTO);
	CHECK_EQ(question.cost, 5);
	verdict.granted = 3;
	weir__holds_settled(fixture->holds, hold, &question, 9, &verdict, &settlement);
	CHECK_EQ(settlement.charged, 3);
	CHECK_EQ(settlement.beyond, 2);
	CHECK_EQ(weir__holds_settle(fixture->holds, NULL, "a", 1, 9, MADE_AT + S(5), &other, &question, &settlement),
		 WEIR__HOLD_ANSWERED);
	CHECK_EQ(settlement.charged, 3);
	unmake(fixture);
}

/* A slow settlement of the hold that ends first does not keep later ones from making room. */
static void a_settlement_keeps_no_other_hold(void)
{
	struct fixture *const fixture = made();
	struct weir__settlement settlement;
	struct weir__hold_store_call question;
	struct weir_verdict verdict;
	struct weir__hold *settled;
	char id[] = "a";

	for (unsigned i = 0; i < MOST; i++, id[0]++)
		CHECK_EQ(hold(fixture, id, "100/day", 1, S(1) * (1 + i), MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
	CHECK_EQ(weir__holds_settle(fixture->holds, NULL, "a", 1, 0, MADE_AT, &settled, &question, &settlement),
		 WEIR__HOLD_BEGUN);
	CHECK_EQ(hold(fixture, "x", "100/day", 1, S(100), MADE_AT + S(1), &verdict), WEIR__HOLD_FULL);
	CHECK_EQ(hold(fixture, "y", "100/day", 1, S(100), MADE_AT + S(2), &verdict), WEIR__HOLD_ANSWERED);
	weir__holds_settled(fixture->holds, settled, &question, 0, &verdict, &settlement);
	CHECK_EQ(weir__holds_n(fixture->holds), MOST);
	/* It ended long ago and is forgotten when the next one comes. */
	CHECK_EQ(hold(fixture, "z", "100/day", 1, S(100), MADE_AT + S(2), &verdict), WEIR__HOLD_ANSWERED);
	CHECK_EQ(hold(fixture, "x", "100/day", 1, S(100), MADE_AT + S(2), &verdict), WEIR__HOLD_FULL);
	unmake(fixture);
}

/* To other owners the id is unknown, whether held or settled. They cannot repeat it either. */
static void a_hold_is_of_its_owner(void)
{
	static const struct {
		const char *says, *owner;
		enum weir__hold_result before, after; /* before and after its owner settles it */
	} rows[] = {
		{ "another user", "bob", WEIR__HOLD_UNKNOWN, WEIR__HOLD_UNKNOWN },
		{ "a name that begins alike", "an", WEIR__HOLD_UNKNOWN, WEIR__HOLD_UNKNOWN },
		{ "the owner", "ann", WEIR__HOLD_BEGUN, WEIR__HOLD_ANSWERED },
		{ "anyone", NULL, WEIR__HOLD_BEGUN, WEIR__HOLD_ANSWERED },
	};
	struct fixture *const fixture = made();
	const struct weir_limit limit = parsed("10/day");
	struct weir__hold_request request = { "ann", "a", "key", 1, 3, NULL, &limit, 4, S(60) };
	struct weir__settlement settlement;
	struct weir__hold_store_call question;
	struct weir_verdict verdict;
	struct weir__hold *hold;

	CHECK_EQ(take_hold(fixture, &fixture->limits, &request, MADE_AT, &verdict), WEIR__HOLD_ANSWERED);
	CHECK_EQ(take_hold(fixture, &fixture->limits, &request, MADE_AT, &verdict), WEIR__HOLD_REPEATED);
	request.owner = "bob";
	CHECK_EQ(take_hold(fixture, &fixture->limits, &request, MADE_AT, &verdict), WEIR__HOLD_OTHER);
	request.owner = NULL;
	CHECK_EQ(take_hold(fixture, &fixture->limits, &request, MADE_AT, &verdict), WEIR__HOLD_OTHER);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const enum weir__hold_result result = weir__holds_settle(fixture->holds, rows[i].owner, "a", 1, 1,
									 MADE_AT, &hold, &question, &settlement);

		if (result != rows[i].before)
			printf("# %s\n", rows[i].says);
		CHECK_EQ(result, rows[i].before);
		if (result == WEIR__HOLD_BEGUN)
			weir__holds_settle_not(fixture->holds, hold);
	}
	CHECK_EQ(settle_hold(fixture, &fixture->limits, "a", 1, 1, MADE_AT, &settlement), WEIR__HOLD_ANSWERED);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_EQ(weir__holds_settle(fixture->holds, rows[i].owner, "a", 1, 1, MADE_AT, &hold, &question,
					    &settlement),
			 rows[i].after);
	unmake(fixture);
}

/* --- threads ---------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 500 };

struct party {
	struct fixture *fixture;
	struct weir__inline_limits limits;
	uint64_t number;
	bool has_won;
};

static struct party parties[THREADS];
static pthread_barrier_t barrier;

/* The threads settle with different costs. Exactly one succeeds, and its cost is charged. */
static void check_round(struct party *party, const struct weir__hold_request *request, weir_ns now)
{
	const struct weir_table_limit *limit;
	uint64_t winners = 0, actual = 0;

	for (int i = 0; i < THREADS; i++) {
		winners += parties[i].has_won;
		actual += parties[i].has_won ? parties[i].number : 0;
	}
	CHECK_EQ(winners, 1);
	CHECK_EQ(weir__inline_limits_find(&party->limits, WEIR__SPACE_TEXT, request->stated, &limit, NULL), WEIR_OK);
	CHECK_EQ(weir_table_peek(party->fixture->table, limit, request->key, request->key_length, now, 0).remaining,
		 10 - actual);
}

/* All threads hold the same id and settle it. The next round has another id, and by then the earlier holds have
 * ended. */
static void *hold_and_settle(void *party_)
{
	struct party *const party = party_;
	const struct weir_limit limit = parsed("10/day");

	for (unsigned i = 0; i < ROUNDS; i++) {
		char name[16];
		const size_t length = (size_t)snprintf(name, sizeof(name), "%u", i);
		const struct weir__hold_request request = { .id = name,
							    .id_length = length,
							    .key = name,
							    .key_length = length,
							    .stated = &limit,
							    .cost = 3,
							    .lasts = 1000 };
		const weir_ns now = MADE_AT + 1000 * (weir_ns)i;
		struct weir__settlement settlement;
		struct weir_verdict verdict;
		enum weir__hold_result result;

		result = take_hold(party->fixture, &party->limits, &request, now, &verdict);
		CHECK(result == WEIR__HOLD_ANSWERED || result == WEIR__HOLD_REPEATED);
		CHECK(verdict.allowed);
		CHECK_EQ(verdict.remaining, 7);
		party->has_won = settle_hold(party->fixture, &party->limits, name, length, party->number, now,
					     &settlement) == WEIR__HOLD_ANSWERED;
		(void)pthread_barrier_wait(&barrier);
		if (party->number == 0)
			check_round(party, &request, now);
		(void)pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void of_several_at_once_one_is_charged(void)
{
	struct fixture *const fixture = made();
	pthread_t threads[THREADS];

	CHECK_EQ(pthread_barrier_init(&barrier, NULL, THREADS), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		parties[i].fixture = fixture;
		parties[i].number = i;
		weir__inline_limits_init(&parties[i].limits, fixture->table, limit_in(fixture->table, "1/s"));
		CHECK_EQ(pthread_create(&threads[i], NULL, hold_and_settle, &parties[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(weir__holds_n(fixture->holds), 1);
	(void)pthread_barrier_destroy(&barrier);
	unmake(fixture);
}

/* Each thread holds and releases its own ids, in a registry that is always full: the units are given back. The threads'
 * times differ, so a hold may have ended for one thread and not for another. Such a hold stays charged. So does a hold
 * of which a part has refilled by its thread's time. */
static uint64_t stayed;

static void *hold_many(void *party_)
{
	struct party *const party = party_;
	const struct weir_limit limit = parsed("1000000/day");

	for (unsigned i = 0; i < ROUNDS * 4; i++) {
		char id[32];
		const size_t length = (size_t)snprintf(id, sizeof(id), "%u %u", (unsigned)party->number, i);
		const struct weir__hold_request request = { .id = id,
							    .id_length = length,
							    .key = "key",
							    .key_length = 3,
							    .stated = &limit,
							    .cost = 1,
							    .lasts = 10 };
		const weir_ns now = MADE_AT + (weir_ns)i;
		struct weir__settlement settlement;
		struct weir_verdict verdict;
		enum weir__hold_result result;

		if (take_hold(party->fixture, &party->limits, &request, now, &verdict) != WEIR__HOLD_ANSWERED)
			continue;
		CHECK(verdict.allowed);
		result = settle_hold(party->fixture, &party->limits, id, length, 0, now, &settlement);
		CHECK(result == WEIR__HOLD_ANSWERED || result == WEIR__HOLD_UNKNOWN);
		if (result == WEIR__HOLD_UNKNOWN || settlement.refunded == 0)
			(void)__atomic_fetch_add(&stayed, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void many_at_once_in_little_room(void)
{
	struct fixture *const fixture = made();
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		parties[i].fixture = fixture;
		parties[i].number = i;
		weir__inline_limits_init(&parties[i].limits, fixture->table, limit_in(fixture->table, "1/s"));
		CHECK_EQ(pthread_create(&threads[i], NULL, hold_many, &parties[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	/* At the latest time of all; less than one unit has refilled by then. */
	CHECK_EQ(left(fixture, "1000000/day", MADE_AT + ROUNDS * 4), 1000000 - stayed);
	unmake(fixture);
}

TESTS(TEST(a_hold_takes_its_estimate_once), TEST(an_id_is_of_one_hold), TEST(what_is_denied_is_not_remembered),
      TEST(settling_charges_or_gives_back_the_difference), TEST(a_hold_ends_as_it_was_estimated),
      TEST(what_has_come_back_by_itself_is_not_given_back), TEST(what_has_come_back_in_part_is_given_back_in_part),
      TEST(what_another_took_is_not_given_back), TEST(of_a_changed_limit_only_what_is_certain),
      TEST(a_sliding_window_gives_back_what_was_held), TEST(what_is_full_has_room_when_one_is_over),
      TEST(any_order_of_ends), TEST(an_id_is_busy_while_its_store_decides), TEST(a_settlement_keeps_no_other_hold),
      TEST(a_hold_is_of_its_owner), TEST(of_several_at_once_one_is_charged), TEST(many_at_once_in_little_room))
