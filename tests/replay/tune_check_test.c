/* tune_check_test.c: adds up decisions, by part of the log, by hand. */
#include "replay/tune_check.h"

#include "../check.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

static const struct weir__hash_secret secret = { 8, 9 };

static void add(struct weir__tune_check *check, weir_ns at, const char *key, uint32_t plan, struct weir_verdict verdict)
{
	/* the limit is the second of two */
	const struct weir_verdict verdicts[] = { { .allowed = false }, verdict };
	const struct weir_claim claims[] = { { .key = "x", .key_length = 1, .cost = 1 },
					     { .key = key, .key_length = strlen(key), .cost = 1 } };
	const uint32_t plans[] = { 7, plan };
	const struct weir__replay_answer answer = {
		.is_decided = true, .n_enforced = 2, .n = 2, .claims = claims, .verdicts = verdicts, .plans = plans
	};

	CHECK(weir__tune_check_add(check, at, &answer));
}

static void parts_and_clients(void)
{
	static const struct weir_verdict yes = { .allowed = true }, no = { .allowed = false };
	const struct weir__tuning_wish wish = { .until = 100 * SECOND, .bad = { 50 * SECOND, 60 * SECOND } };
	const struct weir__replay_answer undecided = { .is_decided = false, .error = "no" };
	struct weir__tune_check check;

	CHECK(weir__tune_check_init(&check, &wish, 3, secret, 0, SIZE_MAX));
	add(&check, 1 * SECOND, "a", 3, yes);
	add(&check, 2 * SECOND, "a", 3, no);
	add(&check, 3 * SECOND, "a", 3, no);
	add(&check, 4 * SECOND, "b", 3, yes);
	add(&check, 5 * SECOND, "c", 4, no); /* another limit */
	add(&check, 50 * SECOND, "b", 3, no);
	add(&check, 60 * SECOND, "b", 3, yes);
	add(&check, 99 * SECOND, "d", 3, yes);
	add(&check, 100 * SECOND, "d", 3, no);
	add(&check, 101 * SECOND, "a", 3, yes);
	CHECK(weir__tune_check_add(&check, 102 * SECOND, &undecided));
	weir__tune_check_end(&check);
	CHECK_EQ(check.parts[0].tried.requests, 6);
	CHECK_EQ(check.parts[0].tried.denied, 2);
	CHECK_EQ(check.parts[0].tried.marked, 1);
	CHECK_EQ(check.parts[0].tried.marked_denied, 1);
	CHECK_EQ(check.parts[0].keys, 3);
	CHECK_EQ(check.parts[0].keys_denied, 1);
	CHECK_EQ(check.parts[1].tried.requests, 2);
	CHECK_EQ(check.parts[1].tried.denied, 1);
	CHECK_EQ(check.parts[1].keys, 2);
	CHECK_EQ(check.parts[1].keys_denied, 1);
	CHECK_EQ(check.undecided, 1);
	weir__tune_check_fini(&check);
}

/* Departures count, not arrivals, and a period does not include its end. */
static void passed_and_waits(void)
{
	const struct weir__tuning_wish wish = {
		.until = UINT64_MAX, .passed = { 3, SECOND }, .has_wait = true, .wait = 500 * MS
	};
	struct weir__tune_check check;

	CHECK(weir__tune_check_init(&check, &wish, 3, secret, 0, SIZE_MAX));
	add(&check, 10 * SECOND, "", 3, (struct weir_verdict){ .allowed = true });
	add(&check, 10 * SECOND, "", 3, (struct weir_verdict){ .allowed = true, .delay = 500 * MS });
	add(&check, 10 * SECOND, "", 3, (struct weir_verdict){ .allowed = true, .delay = 1000 * MS });
	add(&check, 10 * SECOND, "", 3, (struct weir_verdict){ .allowed = false, .delay = 9000 * MS });
	CHECK_EQ(check.parts[0].passed_most, 2);
	CHECK_EQ(check.parts[0].tried.late, 1);
	CHECK_EQ(check.parts[0].tried.longest_delay, SECOND);
	for (int i = 0; i < 5; i++)
		add(&check, 12 * SECOND, "", 3, (struct weir_verdict){ .allowed = true });
	CHECK_EQ(check.parts[0].passed_most, 4); /* more than 3 */
	weir__tune_check_fini(&check);
}

static void a_budget_counts_a_sample(void)
{
	const struct weir__tuning_wish wish = { .until = UINT64_MAX };
	struct weir__tune_check check;
	char key[16];

	CHECK(weir__tune_check_init(&check, &wish, 3, secret, 0, 100000));
	for (int i = 0; i < 40000; i++) {
		(void)snprintf(key, sizeof(key), "%d", i % 20000);
		add(&check, (weir_ns)i, key, 3, (struct weir_verdict){ .allowed = i % 20000 % 4 != 0 });
	}
	weir__tune_check_end(&check);
	CHECK(check.keys.shift > 0);
	CHECK_EQ(check.parts[0].tried.requests, 40000);
	CHECK_EQ(check.parts[0].keys, check.keys.n);
	/* 20000 / 2^shift keys, a quarter of them denied, within a third */
	CHECK((check.parts[0].keys << check.keys.shift) > 15000 && (check.parts[0].keys << check.keys.shift) < 26000);
	CHECK(check.parts[0].keys_denied * 4 > check.parts[0].keys * 2 / 3);
	CHECK(check.parts[0].keys_denied * 4 < check.parts[0].keys * 4 / 3);
	weir__tune_check_fini(&check);
}

TESTS(TEST(parts_and_clients), TEST(passed_and_waits), TEST(a_budget_counts_a_sample))
