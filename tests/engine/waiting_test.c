/* waiting_test.c: takes that wait, at times of the test's own. */
#include "engine/waiting.h"

#include "store/table/tables.h"

#define MOST 16

/* Waits have the numbers 1, 2, 3...: owners are places in this. */
static char owners[MOST + 2];

struct fixture {
	struct weir_table *table;
	struct weir__inline_limits limits;
	struct weir__waiting *waiting;
	struct weir__waiter *waiters[MOST + 2];
};

static struct fixture *made(void)
{
	static struct fixture fixture;

	fixture.table = table_for(1000, MADE_AT);
	weir__inline_limits_init(&fixture.limits, fixture.table, limit_in(fixture.table, "1/s"));
	fixture.waiting = weir__waiting_new(fixture.table, MOST);
	CHECK(fixture.waiting != NULL);
	return &fixture;
}

static void unmake(struct fixture *fixture)
{
	CHECK_EQ(weir__waiting_n(fixture->waiting), 0);
	CHECK_EQ(weir__waiting_next(fixture->waiting), WEIR_NEVER);
	weir__waiting_free(fixture->waiting);
	weir_table_free(fixture->table);
}

static enum weir__wait_result begin(struct fixture *fixture, int number, const char *key, const char *text,
				    uint64_t cost, weir_ns patience, weir_ns now, struct weir_verdict *ret_verdict)
{
	struct weir_limit limit;
	const struct weir__wait_request request = { .limits = &fixture->limits,
						    .stated = &limit,
						    .key = key,
						    .key_length = strlen(key),
						    .cost = cost,
						    .patience = patience,
						    .owner = &owners[number] };

	CHECK_EQ(weir_limit_parse(text, strlen(text), &limit, NULL), WEIR_OK);
	return weir__waiting_begin(fixture->waiting, &request, now, ret_verdict, &fixture->waiters[number], NULL);
}

/* The number of a wait that is over, or 0. */
static int over(struct fixture *fixture, weir_ns now, struct weir_verdict *ret_verdict)
{
	const char *const owner = weir__waiting_over(fixture->waiting, now, ret_verdict);

	return owner ? (int)(owner - owners) : 0;
}

static uint64_t left(struct fixture *fixture, const char *key, const char *text, weir_ns now)
{
	const struct weir_table_limit *found;
	struct weir_limit limit;

	CHECK_EQ(weir_limit_parse(text, strlen(text), &limit, NULL), WEIR_OK);
	CHECK_EQ(weir__inline_limits_find(&fixture->limits, WEIR__SPACE_TEXT, &limit, &found, NULL), WEIR_OK);
	return weir_table_peek(fixture->table, found, key, strlen(key), now, 0).remaining;
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

/* Each departs one interval after the other, to the nanosecond, and in the order in which they came. */
static void waits_of_a_key_are_a_line(void)
{
	static const struct {
		const char *text;
		weir_ns first, each;
	} rows[] = {
		{ "10/s burst 1", MS(100), MS(100) },
		{ "7/min burst 1", NS(8571428572), 0 }, /* not a whole number of ns: no sum of them either */
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
			CHECK_EQ(over(fixture, now, &verdict),
				 0); /* who has just become the first asks, and waits on */
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

/* Denied at once if it is known to be too late, else when it is; and nothing stays charged. */
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
	for (int n = 0; n < 3; n++) { /* 1 goes, 2 cannot go by 1500 ms, nor 3 by now: in which order is their own */
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
		CHECK_EQ(begin(fixture, 1, "key", of_each_kind[i], 1000, S(1000), MADE_AT, &verdict), WEIR__WAIT_OVER);
		CHECK(!verdict.allowed && verdict.never);
	}
	unmake(fixture);
}

/* Who gives up, wherever in the line, leaves nothing behind, and those behind move up. */
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
		verdict = weir__waiting_give_up(fixture->waiting, fixture->waiters[gives_up], MADE_AT + 1);
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
	(void)weir__waiting_give_up(fixture->waiting, fixture->waiters[2], MADE_AT);
	(void)weir__waiting_give_up(fixture->waiting, fixture->waiters[1], MADE_AT);
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
		(void)weir__waiting_give_up(fixture->waiting, fixture->waiters[k], MADE_AT);
	weir__waiting_end(fixture->waiting);
	CHECK_EQ(begin(fixture, 1, "key", "1/hour", 1, S(86400), MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK(!verdict.allowed);
	CHECK_EQ(verdict.retry_after, S(3600));
	CHECK_EQ(begin(fixture, 1, "other", "1/hour", 1, S(86400), MADE_AT, &verdict), WEIR__WAIT_OVER);
	CHECK(verdict.allowed);
	unmake(fixture);
}

/* Under a limit that counts denied requests, a wait counts once when it begins and not whenever it asks. */
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

/* Random waits of random keys begin, give up and come due: each is over once, in the order of its line. */
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

			CHECK(verdict.allowed); /* they have all the time there is */
			busy[done] = false;
			for (int k = 0; k < 3 && !is_found; k++)
				if (length[k] > 0 && line[k][0] == done) {
					is_found = true;
					memmove(line[k], line[k] + 1, sizeof(line[k][0]) * (size_t)--length[k]);
				}
			CHECK(is_found); /* the first of its line */
		}
		if (busy[number] && below(4) == 0) {
			(void)weir__waiting_give_up(fixture->waiting, fixture->waiters[number], now);
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

TESTS(TEST(who_need_not_wait_goes_at_once), TEST(waits_of_a_key_are_a_line), TEST(lateness_is_not_handed_on),
      TEST(a_small_cost_does_not_overtake), TEST(patience_ends),
      TEST(who_stands_in_line_in_vain_is_told_when_it_is_late), TEST(what_never_fits_is_told_at_once),
      TEST(who_gives_up_leaves_nothing), TEST(a_departure_is_given_back), TEST(waits_are_bounded_and_can_be_ended),
      TEST(a_wait_asks_without_being_counted), TEST(any_order))
