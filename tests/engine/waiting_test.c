/* waiting_test.c: takes that wait, with the test's own clock. */
#include "engine/waiting.h"

#include "engine/inline_limits.h"
#include "store/table/tables.h"

#define MOST 16

/* Waits are numbered from 1. The owner of wait n is &owners[n]. */
static char owners[MOST + 2];

/* A store that can complete later. It decides in the table when it is called. */
struct late {
	struct weir__store store; /* first, so that a pointer to it can be cast */
	struct weir_table *table;
	bool is_late;
	struct weir__store_request *calls[2 * MOST];
	struct weir_verdict verdicts[2 * MOST][2];
	size_t n;
	uint32_t n_submitted;
};

struct fixture {
	struct weir_table *table;
	struct weir__inline_limits limits;
	struct late late;
	struct weir__waiting *waiting;
	struct weir__waiter *waiters[MOST + 2];
	/* Waits that ended, in order. */
	struct {
		int number;
		struct weir_verdict verdict;
		weir_ns waited;
	} over[MOST + 2];
	size_t n_over;
	weir_ns waited; /* of the last wait that `over` returned */
};

static struct fixture fixture_;

static void note_over(void *owner, const struct weir__wait_outcome *outcome)
{
	fixture_.over[fixture_.n_over].number = (int)((const char *)owner - owners);
	fixture_.over[fixture_.n_over].waited = outcome->waited;
	fixture_.over[fixture_.n_over++].verdict = outcome->verdict;
}

static bool submit(struct weir__store *store, struct weir__store_request *request)
{
	struct late *const late = (struct late *)(void *)store;

	late->n_submitted++;
	weir__table_store_decide(late->table, request);
	if (!late->is_late)
		return true;
	CHECK(request->caller->keep(request) == request);
	memcpy(late->verdicts[late->n], request->verdicts, request->n * sizeof(request->verdicts[0]));
	memset(request->verdicts, 0xa5,
	       request->n * sizeof(request->verdicts[0])); /* not readable until the call completes */
	late->calls[late->n++] = request;
	return false;
}

/* Completes the oldest call in flight. */
static void complete_first(struct fixture *fixture)
{
	struct weir__store_request *const call = fixture->late.calls[0];

	memcpy(call->verdicts, fixture->late.verdicts[0], call->n * sizeof(call->verdicts[0]));
	memmove(fixture->late.verdicts, fixture->late.verdicts[1],
		(fixture->late.n - 1) * sizeof(fixture->late.verdicts[0]));
	memmove((void *)fixture->late.calls, (const void *)&fixture->late.calls[1],
		--fixture->late.n * sizeof(fixture->late.calls[0]));
	weir__store_complete(&fixture->late.store, call);
}

static struct fixture *made_at(weir_ns made_at)
{
	struct fixture *const fixture = &fixture_;
	struct weir__waiting_options options = { .store = &fixture->late.store, .most = MOST, .over = note_over };

	memset(fixture, 0, sizeof(*fixture));
	options.table = fixture->table = fixture->late.table = table_for(1000, made_at);
	fixture->late.store.submit = submit;
	weir__inline_limits_init(&fixture->limits, fixture->table, limit_in(fixture->table, "1/s"));
	fixture->waiting = weir__waiting_new(&options);
	CHECK(fixture->waiting != NULL);
	return fixture;
}

static struct fixture *made(void)
{
	return made_at(MADE_AT);
}

static void unmake(struct fixture *fixture)
{
	CHECK_EQ(weir__waiting_n(fixture->waiting), 0);
	CHECK_EQ(weir__waiting_next(fixture->waiting), WEIR_NEVER);
	CHECK(fixture->late.n == 0 && fixture->n_over == 0);
	weir__waiting_free(fixture->waiting);
	weir_table_free(fixture->table);
}

static struct weir_claim claim_of(struct fixture *fixture, const char *key, const char *text, uint64_t cost)
{
	struct weir_claim claim = { .key = key, .key_length = strlen(key), .cost = cost };
	struct weir_limit limit;

	CHECK_EQ(weir_limit_parse(text, strlen(text), &limit, NULL), WEIR_OK);
	CHECK_EQ(weir__inline_limits_find(&fixture->limits, WEIR__SPACE_TEXT, &limit, &claim.limit, NULL), WEIR_OK);
	return claim;
}

static enum weir__wait_result begin_request(struct fixture *fixture, const struct weir__wait_request *request,
					    weir_ns now, struct weir_verdict *ret_verdict, int number)
{
	struct weir__wait_outcome outcome;
	const enum weir__wait_result result = weir__waiting_begin(fixture->waiting, request, now, &outcome,
								  &fixture->waiters[number]);

	if (result == WEIR__WAIT_OVER)
		*ret_verdict = outcome.verdict;
	return result;
}

static enum weir__wait_result begin(struct fixture *fixture, int number, const char *key, const char *text,
				    uint64_t cost, weir_ns patience, weir_ns now, struct weir_verdict *ret_verdict)
{
	const struct weir_claim claim = claim_of(fixture, key, text, cost);
	const struct weir__wait_request request = { &claim, 1, patience, &owners[number], false, { .n = 0 } };

	return begin_request(fixture, &request, now, ret_verdict, number);
}

static struct weir_verdict give_up(struct weir__waiter *waiter, weir_ns now)
{
	struct weir__wait_outcome outcome;

	weir__waiting_give_up(waiter, now, &outcome);
	return outcome.verdict;
}

/* The number of a wait that has ended, or 0. */
static int over(struct fixture *fixture, weir_ns now, struct weir_verdict *ret_verdict)
{
	int number;

	weir__waiting_do_due(fixture->waiting, now);
	if (fixture->n_over == 0)
		return 0;
	number = fixture->over[0].number;
	*ret_verdict = fixture->over[0].verdict;
	fixture->waited = fixture->over[0].waited;
	memmove(&fixture->over[0], &fixture->over[1], --fixture->n_over * sizeof(fixture->over[0]));
	return number;
}

static uint64_t left(struct fixture *fixture, const char *key, const char *text, weir_ns now)
{
	return weir_table_peek(fixture->table, claim_of(fixture, key, text, 0).limit, key, strlen(key), now, 0)
		.remaining;
}

static void who_need_not_wait_goes_at_once(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	for (size_t i = 0; i < KINDS; i++) {
		CHECK_EQ(begin(fixture, 1, "key", of_each_kind[i], 1, 0, MADE_AT, &verdict), WEIR__WAIT_OVER);
		CHECK(verdict.allowed);
		CHECK_EQ(verdict.granted, 1);
		CHECK_EQ(verdict.delay, 0);
	}
	unmake(fixture);
}

/* Waits of one key depart one interval apart, to the nanosecond, in order of arrival. */
static void waits_of_a_key_are_a_line(void)
{
	static const struct {
		const char *text;
		weir_ns first, each;
	} rows[] = {
		{ "10/s burst 1", MS(100), MS(100) },
		{ "7/min burst 1", NS(8571428572), 0 }, /* not a whole number of ns, so errors would add up */
		{ "10/s leaky queue 50", MS(100), MS(100) },
		{ "10/s leaky burst 1", MS(100), MS(100) },
		{ "1/s refill interval burst 1", S(1), S(1) },
		{ "1/s fixed_window", S(1), S(1) },
		{ "1/s fixed_window align first", S(1), S(1) },
		{ "1/s fixed_window count all", S(1), S(1) },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture *const fixture = made();
		struct weir_verdict verdict;
		weir_ns now;

		CHECK_EQ(begin(fixture, 1, "key", rows[i].text, 1, S(100), MADE_AT, &verdict), WEIR__WAIT_OVER);
		for (int k = 1; k <= 5; k++)
			CHECK_EQ(begin(fixture, k, "key", rows[i].text, 1, S(100), MADE_AT, &verdict),
				 WEIR__WAIT_BEGUN);
		for (int k = 1; k <= 5; k++) {
			now = weir__waiting_next(fixture->waiting);
			if (rows[i].each > 0)
				CHECK_EQ(now - MADE_AT, rows[i].first + (weir_ns)(k - 1) * rows[i].each);
			CHECK_EQ(over(fixture, now - 1, &verdict), 0);
			CHECK_EQ(over(fixture, now, &verdict), k);
			CHECK(verdict.allowed);
			CHECK_EQ(verdict.granted, 1);
			CHECK_EQ(verdict.delay, 0);
			CHECK_EQ(fixture->waited, now - MADE_AT);
			CHECK_EQ(over(fixture, now, &verdict),
				 0); /* the new first of the line tries and continues to wait */
		}
		unmake(fixture);
	}
}

static void lateness_is_not_handed_on(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	CHECK_EQ(begin(fixture, 1, "key", "10/s burst 1", 1, S(9), MADE_AT, &verdict), WEIR__WAIT_OVER);
	for (int k = 1; k <= 9; k++)
		CHECK_EQ(begin(fixture, k, "key", "10/s burst 1", 1, S(9), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	for (int k = 1; k <= 9; k++) {
		CHECK_EQ(weir__waiting_next(fixture->waiting), MADE_AT + MS(100) * (weir_ns)k);
		CHECK_EQ(over(fixture, MADE_AT + MS(100) * (weir_ns)k + US(70), &verdict), k);
		CHECK_EQ(over(fixture, MADE_AT + MS(100) * (weir_ns)k + US(70), &verdict), 0);
	}
	unmake(fixture);
}

static void a_small_cost_does_not_overtake(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	CHECK_EQ(begin(fixture, 1, "key", "10/s burst 5", 5, S(9), MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK_EQ(begin(fixture, 1, "key", "10/s burst 5", 5, S(9), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin(fixture, 2, "key", "10/s burst 5", 1, S(9), MADE_AT + MS(200), &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin(fixture, 3, "other", "10/s burst 5", 1, S(9), MADE_AT + MS(200), &verdict), WEIR__WAIT_OVER);
	CHECK_EQ(over(fixture, MADE_AT + MS(499), &verdict), 0);
	CHECK_EQ(over(fixture, MADE_AT + MS(500), &verdict), 1);
	CHECK_EQ(over(fixture, MADE_AT + MS(500), &verdict), 0);
	CHECK_EQ(over(fixture, MADE_AT + MS(600), &verdict), 2);
	unmake(fixture);
}

/* A wait is denied at once if it is known to end too late, otherwise when its time is up. Nothing stays charged. */
static void patience_ends(void)
{
	static const char *const texts[] = { "1/s burst 1", "1/s leaky queue 50", "1/s leaky burst 1",
					     "1/s refill interval burst 1", "1/s fixed_window align first" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct fixture *const fixture = made();
		struct weir_verdict verdict;

		CHECK_EQ(begin(fixture, 1, "key", texts[i], 1, 0, MADE_AT, &verdict), WEIR__WAIT_OVER);
		CHECK(verdict.allowed);
		CHECK_EQ(begin(fixture, 1, "key", texts[i], 1, S(1) - 1, MADE_AT, &verdict), WEIR__WAIT_OVER);
		CHECK(!verdict.allowed && !verdict.never);
		CHECK_EQ(verdict.granted, 0);
		CHECK_EQ(verdict.retry_after, S(1));
		CHECK_EQ(begin(fixture, 1, "key", texts[i], 1, S(1), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
		CHECK_EQ(over(fixture, MADE_AT + S(1), &verdict), 1);
		CHECK(verdict.allowed);
		unmake(fixture);
	}
}

static void who_stands_in_line_in_vain_is_told_when_it_is_late(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	CHECK_EQ(begin(fixture, 1, "key", "1/s burst 1", 1, 0, MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK_EQ(begin(fixture, 1, "key", "1/s burst 1", 1, S(5), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin(fixture, 2, "key", "1/s burst 1", 1, MS(1500), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin(fixture, 3, "key", "1/s burst 1", 1, MS(1000), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin(fixture, 4, "key", "1/s burst 1", 1, S(5), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(over(fixture, MADE_AT + MS(999), &verdict), 0);
	for (int n = 0; n < 3; n++) { /* 1 departs, 2 cannot depart by 1500 ms, 3 not by now; in any order */
		const int number = over(fixture, MADE_AT + MS(1000), &verdict);

		CHECK(number >= 1 && number <= 3);
		CHECK_EQ(verdict.allowed, number == 1);
	}
	CHECK_EQ(over(fixture, MADE_AT + MS(1000), &verdict), 0);
	CHECK_EQ(weir__waiting_next(fixture->waiting), MADE_AT + S(2));
	CHECK_EQ(over(fixture, MADE_AT + S(2), &verdict), 4);
	unmake(fixture);
}

static void what_never_fits_is_told_at_once(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	for (size_t i = 0; i < KINDS; i++) {
		CHECK_EQ(begin(fixture, 1, "key", of_each_kind[i], UINT64_MAX, S(1000), MADE_AT, &verdict),
			 WEIR__WAIT_OVER);
		CHECK(!verdict.allowed && verdict.never);
	}
	unmake(fixture);
}

/* A wait that is given up, anywhere in the line, leaves no charge, and those behind it move up. */
static void who_gives_up_leaves_nothing(void)
{
	for (int gives_up = 1; gives_up <= 4; gives_up++) {
		struct fixture *const fixture = made();
		struct weir_verdict verdict;
		weir_ns now = MADE_AT;

		CHECK_EQ(begin(fixture, 1, "key", "1/s burst 1", 1, 0, MADE_AT, &verdict), WEIR__WAIT_OVER);
		for (int k = 1; k <= 4; k++)
			CHECK_EQ(begin(fixture, k, "key", "1/s burst 1", 1, S(100), MADE_AT, &verdict),
				 WEIR__WAIT_BEGUN);
		verdict = give_up(fixture->waiters[gives_up], MADE_AT + 1);
		CHECK(!verdict.allowed);
		for (int k = 1; k <= 4; k++) {
			if (k == gives_up)
				continue;
			now += S(1);
			CHECK_EQ(over(fixture, now - 1, &verdict), 0);
			CHECK_EQ(over(fixture, now, &verdict), k);
		}
		CHECK_EQ(left(fixture, "key", "1/s burst 1", now + S(1)), 1);
		unmake(fixture);
	}
}

static void a_departure_is_given_back(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	CHECK_EQ(begin(fixture, 1, "key", "1/s leaky queue 3", 1, 0, MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK_EQ(begin(fixture, 1, "key", "1/s leaky queue 3", 1, S(9), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin(fixture, 2, "key", "1/s leaky queue 3", 1, S(9), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(left(fixture, "key", "1/s leaky queue 3", MADE_AT), 0);
	(void)give_up(fixture->waiters[2], MADE_AT);
	(void)give_up(fixture->waiters[1], MADE_AT);
	CHECK_EQ(left(fixture, "key", "1/s leaky queue 3", MADE_AT), 2);
	unmake(fixture);
}

static void waits_are_bounded_and_can_be_ended(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	CHECK_EQ(begin(fixture, 1, "key", "1/hour", 1, 0, MADE_AT, &verdict), WEIR__WAIT_OVER);
	for (int k = 1; k <= MOST; k++)
		CHECK_EQ(begin(fixture, k, "key", "1/hour", 1, S(86400), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin(fixture, MOST + 1, "key", "1/hour", 1, S(86400), MADE_AT, &verdict), WEIR__WAIT_FULL);
	for (int k = 1; k <= MOST; k++)
		(void)give_up(fixture->waiters[k], MADE_AT);
	weir__waiting_end(fixture->waiting);
	CHECK_EQ(begin(fixture, 1, "key", "1/hour", 1, S(86400), MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK(!verdict.allowed);
	CHECK_EQ(verdict.retry_after, S(3600));
	CHECK_EQ(begin(fixture, 1, "other", "1/hour", 1, S(86400), MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK(verdict.allowed);
	unmake(fixture);
}

/* Under a limit with `count all`, a wait counts once when it begins, not at each try. */
static void a_wait_asks_without_being_counted(void)
{
	struct fixture *const fixture = made();
	const char *const text = "5/s fixed_window count all";
	struct weir_verdict verdict;

	CHECK_EQ(begin(fixture, 1, "key", text, 5, 0, MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK_EQ(begin(fixture, 1, "key", text, 5, S(9), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin(fixture, 2, "key", text, 5, S(9), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(over(fixture, MADE_AT + S(1), &verdict), 1);
	CHECK_EQ(over(fixture, MADE_AT + S(1), &verdict), 0);
	CHECK_EQ(over(fixture, MADE_AT + S(2), &verdict), 2);
	CHECK(verdict.allowed);
	unmake(fixture);
}

/* Random waits of random keys begin, are given up and come due. Each ends once, in the order of its line. */
static void any_order(void)
{
	static const char *const keys[] = { "a", "b", "c" };
	struct fixture *const fixture = made();
	int line[3][MOST + 2], length[3] = { 0, 0, 0 };
	bool busy[MOST + 2] = { false };
	weir_ns now = MADE_AT;
	struct weir_verdict verdict;

	for (int i = 0; i < 20000; i++) {
		const int key = (int)below(3), number = 1 + (int)below(MOST);
		int done;

		now += MS(1) * below(20);
		while ((done = over(fixture, now, &verdict)) != 0) {
			bool is_found = false;

			CHECK(verdict.allowed); /* their deadlines are far away */
			busy[done] = false;
			for (int k = 0; k < 3 && !is_found; k++)
				if (length[k] > 0 && line[k][0] == done) {
					is_found = true;
					memmove(line[k], line[k] + 1, sizeof(line[k][0]) * (size_t)--length[k]);
				}
			CHECK(is_found); /* the first of its line */
		}
		if (busy[number] && below(4) == 0) {
			(void)give_up(fixture->waiters[number], now);
			busy[number] = false;
			for (int k = 0; k < 3; k++)
				for (int at = 0; at < length[k]; at++)
					if (line[k][at] == number) {
						memmove(line[k] + at, line[k] + at + 1,
							sizeof(line[k][0]) * (size_t)(--length[k] - at));
						at--;
					}
		} else if (!busy[number] && begin(fixture, number, keys[key], "100/s burst 2", 1 + below(2), S(86400),
						  now, &verdict) == WEIR__WAIT_BEGUN) {
			busy[number] = true;
			line[key][length[key]++] = number;
		}
	}
	while (over(fixture, now += S(1), &verdict) != 0)
		;
	unmake(fixture);
}

/* --- requests that wait for departures only ------------------------------------------------------------------------ */

static enum weir__wait_result begin_departing(struct fixture *fixture, int number, const char *police, weir_ns patience,
					      weir_ns now, struct weir_verdict *ret_verdict)
{
	const struct weir_claim claims[] = { claim_of(fixture, "q", "5/s leaky queue 4", 1),
					     claim_of(fixture, "q", "2/s leaky queue 9", 1),
					     claim_of(fixture, "k", police, 1) };
	const struct weir__wait_request request = { claims, 3, patience, &owners[number], true, { .n = 0 } };

	return begin_request(fixture, &request, now, ret_verdict, number);
}

/* The longest delay counts. A denial by another limit is immediate, even if the wait would last long enough. */
static void a_denial_is_not_waited_for(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	CHECK_EQ(begin_departing(fixture, 1, "3/s burst 3", S(9), MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK(verdict.allowed);
	CHECK_EQ(begin_departing(fixture, 1, "3/s burst 3", S(9), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin_departing(fixture, 2, "3/s burst 3", S(1) - 1, MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK(!verdict.allowed); /* a delay longer than the wait charges nothing */
	CHECK_EQ(verdict.retry_after, S(1));
	CHECK_EQ(begin_departing(fixture, 2, "3/s burst 3", S(1), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin_departing(fixture, 3, "3/s burst 3", S(9), MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK(!verdict.allowed);
	CHECK_EQ(verdict.retry_after, NS(333333334));
	CHECK_EQ(left(fixture, "q", "5/s leaky queue 4", MADE_AT), 1);
	CHECK_EQ(left(fixture, "q", "2/s leaky queue 9", MADE_AT), 6);
	for (int k = 1; k <= 2; k++) {
		CHECK_EQ(over(fixture, MADE_AT + MS(500) * (weir_ns)k - 1, &verdict), 0);
		CHECK_EQ(over(fixture, MADE_AT + MS(500) * (weir_ns)k + US(70), &verdict), k);
		CHECK(verdict.allowed);
		CHECK_EQ(verdict.delay, 0);
		CHECK_EQ(fixture->waited, MS(500) * (weir_ns)k); /* without the timer's lateness */
	}
	unmake(fixture);
}

/* The limits are charged together and refunded together. */
static void who_leaves_before_its_departure_gives_all_back(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	CHECK_EQ(begin_departing(fixture, 1, "9/s burst 9", S(9), MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK_EQ(begin_departing(fixture, 1, "9/s burst 9", S(9), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(left(fixture, "k", "9/s burst 9", MADE_AT), 7);
	CHECK(!give_up(fixture->waiters[1], MADE_AT).allowed);
	CHECK_EQ(left(fixture, "k", "9/s burst 9", MADE_AT), 8);
	CHECK_EQ(left(fixture, "q", "5/s leaky queue 4", MADE_AT), 3);
	CHECK_EQ(left(fixture, "q", "2/s leaky queue 9", MADE_AT), 8);
	unmake(fixture);
}

/* --- several limits ----------------------------------------------------------------------------------------------- */

static enum weir__wait_result begin_both(struct fixture *fixture, int number, const char *other, uint64_t cost,
					 weir_ns patience, weir_ns now, struct weir_verdict *ret_verdict)
{
	const struct weir_claim claims[] = { claim_of(fixture, "q", "1/s leaky queue 5", cost),
					     claim_of(fixture, "k", other, cost) };
	const struct weir__wait_request request = { claims, 2, patience, &owners[number], false, { .n = 0 } };

	return begin_request(fixture, &request, now, ret_verdict, number);
}

/* It departs after the longest delay. If it is given up, all limits get their units back. */
static void several_limits_are_waited_for_together(void)
{
	struct fixture *const fixture = made();
	const char *const slower = "1/2s leaky queue 9";
	struct weir_verdict verdict;

	CHECK_EQ(begin_both(fixture, 1, slower, 1, S(9), MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK(verdict.allowed);
	CHECK_EQ(begin_both(fixture, 1, slower, 1, S(2) - 1, MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK(!verdict.allowed);
	CHECK_EQ(verdict.retry_after, S(2));
	CHECK(left(fixture, "q", "1/s leaky queue 5", MADE_AT) == 4 && left(fixture, "k", slower, MADE_AT) == 8);
	CHECK_EQ(begin_both(fixture, 1, slower, 1, S(2), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(begin_both(fixture, 2, slower, 1, S(9), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK(left(fixture, "q", "1/s leaky queue 5", MADE_AT) == 2 && left(fixture, "k", slower, MADE_AT) == 6);
	CHECK(!give_up(fixture->waiters[2], MADE_AT).allowed);
	CHECK(left(fixture, "q", "1/s leaky queue 5", MADE_AT) == 3 && left(fixture, "k", slower, MADE_AT) == 7);
	CHECK_EQ(over(fixture, MADE_AT + S(2) - 1, &verdict), 0);
	CHECK_EQ(over(fixture, MADE_AT + S(2), &verdict), 1);
	CHECK(verdict.allowed);
	unmake(fixture);
}

/* While a limit without a queue denies, the other limit is not charged. */
static void a_limit_that_denies_is_waited_for_with_one_that_shapes(void)
{
	struct fixture *const fixture = made();
	struct weir_verdict verdict;

	CHECK_EQ(begin_both(fixture, 1, "1/10s burst 1", 1, 0, MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK_EQ(begin_both(fixture, 1, "1/10s burst 1", 1, S(30), MADE_AT, &verdict), WEIR__WAIT_BEGUN);
	CHECK_EQ(left(fixture, "q", "1/s leaky queue 5", MADE_AT), 4);
	CHECK_EQ(weir__waiting_next(fixture->waiting), MADE_AT + S(10));
	CHECK_EQ(over(fixture, MADE_AT + S(10), &verdict), 1);
	CHECK(verdict.allowed);
	unmake(fixture);
}

/* --- a store that completes later -------------------------------------------------------------------------------- */

#define SLOW "1/1000day"
#define QUEUE "1/1000day leaky queue 5"
#define PATIENT (S(86400) * 5000)

static struct fixture *made_late(void)
{
	struct fixture *const fixture = made_at(0);

	fixture->late.is_late = true;
	return fixture;
}

static weir_ns now_in(const struct fixture *fixture)
{
	return weir_table_now(fixture->table);
}

static void a_wait_is_over_when_the_store_says_so(void)
{
	struct fixture *const fixture = made_late();
	struct weir_verdict verdict;

	CHECK_EQ(begin(fixture, 1, "key", SLOW, 1, 0, now_in(fixture), &verdict), WEIR__WAIT_BEGUN);
	CHECK(weir__waiting_is_under_way(fixture->waiters[1]));
	CHECK_EQ(weir__waiting_next(fixture->waiting), WEIR_NEVER);
	CHECK_EQ(over(fixture, now_in(fixture), &verdict), 0);
	complete_first(fixture);
	CHECK_EQ(over(fixture, now_in(fixture), &verdict), 1);
	CHECK(verdict.allowed && verdict.granted == 1);
	CHECK_EQ(begin(fixture, 2, "key", SLOW, 1, S(1), now_in(fixture), &verdict), WEIR__WAIT_BEGUN);
	complete_first(fixture);
	CHECK_EQ(over(fixture, now_in(fixture), &verdict), 2);
	CHECK(!verdict.allowed && verdict.retry_after > S(86400) * 999);
	unmake(fixture);
}

/* Waits behind the first only peek, once. */
static void one_of_a_line_calls_the_store(void)
{
	struct fixture *const fixture = made_late();
	struct weir_verdict verdict;

	(void)begin(fixture, 1, "key", SLOW, 1, PATIENT, now_in(fixture), &verdict);
	complete_first(fixture);
	CHECK_EQ(over(fixture, now_in(fixture), &verdict), 1);
	for (int k = 1; k <= 5; k++)
		CHECK_EQ(begin(fixture, k, "key", SLOW, 1, PATIENT, now_in(fixture), &verdict), WEIR__WAIT_BEGUN);
	while (fixture->late.n > 0)
		complete_first(fixture);
	CHECK_EQ(fixture->late.n_submitted, 6);
	CHECK_EQ(over(fixture, now_in(fixture), &verdict), 0);
	CHECK_EQ(fixture->late.n_submitted, 6);
	(void)give_up(fixture->waiters[1], now_in(fixture));
	CHECK_EQ(over(fixture, now_in(fixture), &verdict), 0); /* the second is first now, and tries */
	CHECK(weir__waiting_is_under_way(fixture->waiters[2]) && fixture->late.n == 1);
	complete_first(fixture);
	for (int k = 2; k <= 5; k++)
		(void)give_up(fixture->waiters[k], now_in(fixture));
	CHECK_EQ(left(fixture, "key", SLOW, now_in(fixture)), 0);
	unmake(fixture);
}

/* Units that the store takes for a client that has left are given back. For a queue that is a departure in the
 * future. */
static void what_is_taken_for_one_that_gave_up_is_given_back(void)
{
	static const char *const texts[] = { "2/1000day", QUEUE, "2/1000day fixed_window", "5/1000day burst 2" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct fixture *const fixture = made_late();
		struct weir_verdict verdict;
		uint64_t before;

		fixture->late.is_late = false;
		CHECK_EQ(begin(fixture, 1, "key", texts[i], 1, 0, now_in(fixture), &verdict), WEIR__WAIT_OVER);
		fixture->late.is_late = true;
		before = left(fixture, "key", texts[i], now_in(fixture));
		CHECK_EQ(begin(fixture, 1, "key", texts[i], 1, PATIENT, now_in(fixture), &verdict), WEIR__WAIT_BEGUN);
		(void)give_up(fixture->waiters[1], now_in(fixture));
		CHECK_EQ(left(fixture, "key", texts[i], now_in(fixture)), before - 1);
		CHECK_EQ(weir__waiting_n(fixture->waiting), 1); /* until the store replies */
		complete_first(fixture);
		CHECK_EQ(fixture->late.n, 1); /* the refund */
		complete_first(fixture);
		CHECK_EQ(left(fixture, "key", texts[i], now_in(fixture)), before);
		unmake(fixture);
	}
}

static void a_departure_is_given_back_later(void)
{
	struct fixture *const fixture = made_late();
	struct weir_verdict verdict;

	for (int k = 1; k <= 3; k++)
		CHECK_EQ(begin(fixture, k, "key", QUEUE, 1, PATIENT, now_in(fixture), &verdict), WEIR__WAIT_BEGUN);
	for (int k = 1; k <= 3; k++)
		complete_first(fixture);
	CHECK_EQ(over(fixture, now_in(fixture), &verdict), 1); /* the first departs at once */
	CHECK_EQ(left(fixture, "key", QUEUE, now_in(fixture)), 2);
	(void)give_up(fixture->waiters[2], now_in(fixture));
	complete_first(fixture);
	CHECK_EQ(left(fixture, "key", QUEUE, now_in(fixture)), 2); /* the third keeps its departure */
	(void)give_up(fixture->waiters[3], now_in(fixture));
	complete_first(fixture);
	CHECK_EQ(left(fixture, "key", QUEUE, now_in(fixture)), 3);
	unmake(fixture);
}

/* On shutdown, a request that would have to wait is denied when the store replies, and refunded. */
static void at_the_end_nobody_waits_on(void)
{
	struct fixture *const fixture = made_late();
	struct weir_verdict verdict;

	for (int k = 1; k <= 2; k++)
		(void)begin(fixture, k, "key", QUEUE, 1, PATIENT, now_in(fixture), &verdict);
	for (int k = 3; k <= 4; k++)
		(void)begin(fixture, k, "key", SLOW, 1, PATIENT, now_in(fixture), &verdict);
	weir__waiting_end(fixture->waiting);
	while (fixture->late.n > 0) {
		complete_first(fixture);
		weir__waiting_do_due(fixture->waiting, now_in(fixture));
	}
	for (int k = 1; k <= 4; k++) {
		const int number = over(fixture, now_in(fixture), &verdict);

		CHECK_EQ(verdict.allowed, number == 1 || number == 3);
	}
	CHECK_EQ(left(fixture, "key", QUEUE, now_in(fixture)), 4);
	unmake(fixture);
}

TESTS(TEST(who_need_not_wait_goes_at_once), TEST(waits_of_a_key_are_a_line), TEST(lateness_is_not_handed_on),
      TEST(a_small_cost_does_not_overtake), TEST(patience_ends),
      TEST(who_stands_in_line_in_vain_is_told_when_it_is_late), TEST(what_never_fits_is_told_at_once),
      TEST(who_gives_up_leaves_nothing), TEST(a_departure_is_given_back), TEST(waits_are_bounded_and_can_be_ended),
      TEST(a_wait_asks_without_being_counted), TEST(any_order), TEST(a_denial_is_not_waited_for),
      TEST(who_leaves_before_its_departure_gives_all_back), TEST(several_limits_are_waited_for_together),
      TEST(a_limit_that_denies_is_waited_for_with_one_that_shapes), TEST(a_wait_is_over_when_the_store_says_so),
      TEST(one_of_a_line_calls_the_store), TEST(what_is_taken_for_one_that_gave_up_is_given_back),
      TEST(a_departure_is_given_back_later), TEST(at_the_end_nobody_waits_on))
