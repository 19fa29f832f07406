/* redis_backlog_test.c: deferred charges are stored, made once, and bounded. */
#include "store/redis/redis_backlog.h"

#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "plans.h"

enum { BYTES = 1 << 20, THREADS = 4, ROUNDS = 2000, SHARED_KEYS = 50 };

#define CHECK_NAMED(name, condition) ((condition) ? (void)0 : check_fail(__FILE__, __LINE__, name))

static struct weir__redis_backlog_charge charge;

static struct weir__resp_slice slice(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

static bool defer(struct weir__redis_backlog *backlog, const char *name, const char *key, uint64_t cost)
{
	const struct weir__redis_plan plan = plan_of("10/s");

	return weir__redis_backlog_add(backlog, &plan, slice(name), slice(key), WEIR__REDIS_DEFER_CHARGE, cost);
}

static struct weir__redis_backlog_info info_of(struct weir__redis_backlog *backlog)
{
	struct weir__redis_backlog_info info;

	weir__redis_backlog_info(backlog, &info);
	return info;
}

/* Completes the batch of charges; each claim is granted at most `granted`. */
static void end(struct weir__redis_backlog *backlog, enum weir__redis_outcome outcome, uint64_t granted)
{
	charge.job.outcome = outcome;
	for (size_t i = 0; i < charge.job.n; i++) {
		const uint64_t cost = charge.claims[i].cost;

		charge.verdicts[i] = (struct weir_verdict){ .granted = cost < granted ? cost : granted };
	}
	weir__redis_backlog_end(backlog, &charge);
}

static bool is_claim(size_t i, const char *name, const char *key, uint64_t cost)
{
	const struct weir__redis_claim *const claim = &charge.claims[i];

	return charge.requests[i].operation == WEIR__REDIS_UP_TO && charge.requests[i].n == 1 &&
	       charge.requests[i].claims == claim && claim->name.length == strlen(name) &&
	       memcmp(claim->name.bytes, name, strlen(name)) == 0 && claim->key.length == strlen(key) &&
	       memcmp(claim->key.bytes, key, strlen(key)) == 0 && claim->cost == cost;
}

static void costs_of_a_key_are_summed(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(1, BYTES);

	CHECK(!weir__redis_backlog_begin(backlog, &charge));
	CHECK(defer(backlog, "a", "k", 2)); /* the first: the thread may have to be woken */
	CHECK(!defer(backlog, "a", "k", 3));
	CHECK(!defer(backlog, "b", "k", 7)); /* the same key of another limit */
	CHECK(!defer(backlog, "a", "kk", UINT64_MAX));
	CHECK(!defer(backlog, "a", "kk", 1));
	CHECK(!defer(backlog, "a", "", 4));
	CHECK(!defer(backlog, "a", "none", 0));
	CHECK_EQ(info_of(backlog).keys, 4);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK_EQ(charge.n, 4);
	CHECK_EQ(charge.job.n, 4);
	CHECK_EQ(charge.n_plans, 2);
	CHECK(is_claim(0, "a", "k", 5));
	CHECK(is_claim(1, "b", "k", 7));
	CHECK(is_claim(2, "a", "kk", UINT64_MAX));
	CHECK(is_claim(3, "a", "", 4));
	end(backlog, WEIR__REDIS_JOB_DECIDED, UINT64_MAX);
	CHECK_EQ(info_of(backlog).keys, 0);
	CHECK(!weir__redis_backlog_begin(backlog, &charge));
	weir__redis_backlog_free(backlog);
}

static void each_outcome_is_counted(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(2, BYTES);

	defer(backlog, "a", "k", 10);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	end(backlog, WEIR__REDIS_JOB_DECIDED, 4); /* no more was left there */
	CHECK_EQ(info_of(backlog).charged, 4);
	CHECK_EQ(info_of(backlog).excess, 6);

	defer(backlog, "a", "k", 5);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	end(backlog, WEIR__REDIS_JOB_UNANSWERED, 0); /* perhaps it was charged: not again */
	CHECK_EQ(info_of(backlog).uncertain, 5);
	CHECK(!weir__redis_backlog_begin(backlog, &charge));

	defer(backlog, "a", "k", 3);
	defer(backlog, "a", "l", 1);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK_EQ(info_of(backlog).keys, 2); /* still to be charged */
	CHECK(defer(backlog, "a", "k", 4)); /* while the batch is in flight */
	end(backlog, WEIR__REDIS_JOB_UNREACHED, 0);
	CHECK_EQ(info_of(backlog).keys, 2);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK_EQ(charge.n, 2);
	CHECK(is_claim(0, "a", "k", 7));
	CHECK(is_claim(1, "a", "l", 1));
	end(backlog, WEIR__REDIS_JOB_DECIDED, 100);
	CHECK_EQ(info_of(backlog).charged, 12);
	CHECK_EQ(info_of(backlog).excess, 6);
	CHECK_EQ(info_of(backlog).dropped, 0);
	weir__redis_backlog_free(backlog);
}

/* A key is charged by the newest plan of its limit; one in flight keeps its own. */
static void plans_are_the_newest(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(3, BYTES);
	const struct weir__redis_plan old = plan_of("10/s"), new = plan_of("20/s");

	weir__redis_backlog_add(backlog, &old, slice("a"), slice("k"), WEIR__REDIS_DEFER_CHARGE, 1);
	weir__redis_backlog_add(backlog, &new, slice("a"), slice("l"), WEIR__REDIS_DEFER_CHARGE, 1);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK_EQ(charge.claims[0].plan->plan.most, 20);
	CHECK(charge.claims[0].plan == charge.claims[1].plan);
	weir__redis_backlog_add(backlog, &old, slice("a"), slice("m"), WEIR__REDIS_DEFER_CHARGE, 1);
	CHECK_EQ(charge.claims[0].plan->plan.most, 20);
	end(backlog, WEIR__REDIS_JOB_DECIDED, 1);
	weir__redis_backlog_free(backlog);
}

static void pay_all(struct weir__redis_backlog *backlog, uint64_t *ret_keys)
{
	*ret_keys = 0;
	while (weir__redis_backlog_begin(backlog, &charge)) {
		CHECK(charge.n <= WEIR__REDIS_CHARGE_KEYS && charge.n_plans <= WEIR__REDIS_CHARGE_PLANS);
		*ret_keys += charge.n;
		end(backlog, WEIR__REDIS_JOB_DECIDED, UINT64_MAX);
	}
}

/* Only the bytes are bounded: 100,000 short keys fit the default. */
static void keys_fit_until_the_bytes_are_used_up(void)
{
	enum { KEYS = 100000 };
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(4, WEIR__REDIS_BACKLOG_BYTES);
	uint64_t keys;
	char key[16];

	for (int i = 0; i < KEYS; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		defer(backlog, "a", key, 2);
	}
	CHECK_EQ(info_of(backlog).keys, KEYS);
	CHECK_EQ(info_of(backlog).dropped, 0);
	pay_all(backlog, &keys);
	CHECK_EQ(keys, KEYS);
	CHECK_EQ(info_of(backlog).charged, 2 * KEYS);
	weir__redis_backlog_free(backlog);
}

static void bytes_have_a_bound(void)
{
	enum { LONG = BYTES / 16 };
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(5, BYTES);
	const struct weir__redis_plan plan = plan_of("10/s");
	char *const key = calloc(1, LONG);
	const struct weir__resp_slice long_key = { key, LONG };
	uint64_t fit, keys;

	for (int i = 0; i < 40; i++) {
		key[0] = (char)i;
		weir__redis_backlog_add(backlog, &plan, slice("a"), long_key, WEIR__REDIS_DEFER_CHARGE, 3);
	}
	fit = info_of(backlog).keys;
	CHECK(fit > 10 && fit < 16); /* the rest is for the chains and the bookkeeping */
	CHECK_EQ(info_of(backlog).dropped, 3 * (40 - fit));
	key[0] = 1; /* a known key needs no more room */
	weir__redis_backlog_add(backlog, &plan, slice("a"), long_key, WEIR__REDIS_DEFER_CHARGE, 5);
	CHECK_EQ(info_of(backlog).dropped, 3 * (40 - fit));
	pay_all(backlog, &keys);
	CHECK_EQ(keys, fit);
	CHECK_EQ(info_of(backlog).charged, 3 * fit + 5);
	weir__redis_backlog_add(backlog, &plan, slice("a"), long_key, WEIR__REDIS_DEFER_CHARGE, 1);
	CHECK_EQ(info_of(backlog).keys, 1); /* there is room again */
	weir__redis_backlog_free(backlog);
	free(key);
}

/* --- refunds, undone charges, resets ------------------------------------------------------------------------------ */

static bool add(struct weir__redis_backlog *backlog, const char *key, enum weir__redis_deferred what, uint64_t units)
{
	const struct weir__redis_plan plan = plan_of("10/s");

	return weir__redis_backlog_add(backlog, &plan, slice("a"), slice(key), what, units);
}

/* What is sent for one key after these steps. */
static void what_is_given_back_reduces_the_charge(void)
{
	enum { NONE = -1, CHARGE = WEIR__REDIS_DEFER_CHARGE, REFUND = WEIR__REDIS_DEFER_REFUND };
	enum { UNDO = WEIR__REDIS_DEFER_UNDO, RESET = WEIR__REDIS_DEFER_RESET };
	static const struct {
		const char *name;
		struct {
			int what;
			uint64_t units;
		} steps[4];
		uint64_t refund, cost;
	} rows[] = {
		{ "a refund takes from the charge", { { CHARGE, 5 }, { REFUND, 2 }, { NONE, 0 } }, 0, 3 },
		{ "all of it: nothing is sent", { { CHARGE, 5 }, { REFUND, 5 }, { NONE, 0 } }, 0, 0 },
		{ "the rest is refunded in Redis", { { CHARGE, 5 }, { REFUND, 7 }, { NONE, 0 } }, 2, 0 },
		{ "later charges come after it", { { REFUND, 2 }, { CHARGE, 5 }, { REFUND, 1 }, { NONE, 0 } }, 2, 4 },
		{ "refunds are summed, too", { { REFUND, 2 }, { REFUND, UINT64_MAX }, { NONE, 0 } }, UINT64_MAX, 0 },
		{ "an undo takes from the charge", { { CHARGE, 5 }, { UNDO, 2 }, { NONE, 0 } }, 0, 3 },
		{ "and from nothing else", { { CHARGE, 5 }, { UNDO, 7 }, { NONE, 0 } }, 0, 0 },
		{ "an undo alone is nothing", { { UNDO, 7 }, { NONE, 0 } }, 0, 0 },
		{ "a reset forgets a charge", { { CHARGE, 5 }, { RESET, 0 }, { NONE, 0 } }, 0, 0 },
		{ "and a refund", { { REFUND, 5 }, { CHARGE, 1 }, { RESET, 0 }, { NONE, 0 } }, 0, 0 },
		{ "but not what comes later", { { CHARGE, 5 }, { RESET, 0 }, { CHARGE, 1 }, { NONE, 0 } }, 0, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__redis_backlog *const backlog = weir__redis_backlog_new(8, BYTES);
		const bool is_sent = rows[i].refund > 0 || rows[i].cost > 0;
		size_t n = 0;

		for (size_t j = 0; j < 4 && rows[i].steps[j].what != NONE; j++)
			(void)add(backlog, "k", (enum weir__redis_deferred)rows[i].steps[j].what,
				  rows[i].steps[j].units);
		CHECK_NAMED(rows[i].name, info_of(backlog).keys == is_sent);
		CHECK_NAMED(rows[i].name, weir__redis_backlog_begin(backlog, &charge) == is_sent);
		if (rows[i].refund > 0) {
			CHECK_NAMED(rows[i].name, charge.requests[n].operation == WEIR__REDIS_REFUND);
			CHECK_NAMED(rows[i].name, charge.claims[n++].cost == rows[i].refund);
		}
		if (rows[i].cost > 0)
			CHECK_NAMED(rows[i].name, is_claim(n++, "a", "k", rows[i].cost));
		CHECK_NAMED(rows[i].name, charge.job.n == n);
		end(backlog, WEIR__REDIS_JOB_DECIDED, 1);
		CHECK_NAMED(rows[i].name, info_of(backlog).charged == (rows[i].cost > 0));
		CHECK_NAMED(rows[i].name, info_of(backlog).excess == rows[i].cost - (rows[i].cost > 0));
		weir__redis_backlog_free(backlog);
	}
}

/* A refund that came while the charge was in flight follows the charge, if that has to wait again. */
static void what_waits_again_comes_first(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(9, BYTES);

	add(backlog, "k", WEIR__REDIS_DEFER_CHARGE, 5);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	add(backlog, "k", WEIR__REDIS_DEFER_REFUND, 2);
	add(backlog, "k", WEIR__REDIS_DEFER_CHARGE, 1);
	end(backlog, WEIR__REDIS_JOB_UNREACHED, 0);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK(charge.job.n == 1 && is_claim(0, "a", "k", 4));
	add(backlog, "k", WEIR__REDIS_DEFER_REFUND, 4);
	end(backlog, WEIR__REDIS_JOB_UNREACHED, 0);
	CHECK(!weir__redis_backlog_begin(backlog, &charge));
	CHECK_EQ(info_of(backlog).keys, 0);
	weir__redis_backlog_free(backlog);
}

static void a_reply_is_behind_until_all_is_charged(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(10, BYTES);

	CHECK(!weir__redis_backlog_is_behind(backlog, 50));
	defer(backlog, "a", "k", 1);
	CHECK(weir__redis_backlog_is_behind(backlog, 50));
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK(weir__redis_backlog_is_behind(backlog, 50));
	charge.job.decided_at = 60;
	end(backlog, WEIR__REDIS_JOB_DECIDED, 1);
	CHECK(weir__redis_backlog_is_behind(backlog, 60)); /* perhaps decided before the charge */
	CHECK(!weir__redis_backlog_is_behind(backlog, 61));
	weir__redis_backlog_free(backlog);
}

static void many_limits_are_several_payments(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(6, BYTES);
	char name[16];

	for (int i = 0; i < WEIR__REDIS_CHARGE_PLANS + 6; i++) {
		(void)snprintf(name, sizeof(name), "limit-%d", i);
		defer(backlog, name, "k", 1);
	}
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK_EQ(charge.n, WEIR__REDIS_CHARGE_PLANS);
	end(backlog, WEIR__REDIS_JOB_DECIDED, 1);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK_EQ(charge.n, 6);
	end(backlog, WEIR__REDIS_JOB_DECIDED, 1);
	weir__redis_backlog_free(backlog);
}

static void *owe_much(void *context)
{
	const struct weir__redis_plan plan = plan_of("10/s");
	char key[16];

	for (int i = 0; i < ROUNDS; i++) {
		(void)snprintf(key, sizeof(key), "%d", i % SHARED_KEYS);
		weir__redis_backlog_add(context, &plan, slice("a"), slice(key), WEIR__REDIS_DEFER_CHARGE, 1);
	}
	return NULL;
}

/* Nothing is lost or charged twice between the threads that defer and the one that charges. */
static void threads_owe_while_one_pays(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(7, BYTES);
	pthread_t threads[THREADS];
	uint64_t keys;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, owe_much, backlog);
	for (int i = 0; i < 200; i++)
		if (weir__redis_backlog_begin(backlog, &charge))
			end(backlog, i % 2 ? WEIR__REDIS_JOB_DECIDED : WEIR__REDIS_JOB_UNREACHED, UINT64_MAX);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pay_all(backlog, &keys);
	CHECK_EQ(info_of(backlog).charged, THREADS * ROUNDS);
	CHECK_EQ(info_of(backlog).keys, 0);
	weir__redis_backlog_free(backlog);
}

TESTS(TEST(costs_of_a_key_are_summed), TEST(each_outcome_is_counted), TEST(plans_are_the_newest),
      TEST(keys_fit_until_the_bytes_are_used_up), TEST(bytes_have_a_bound), TEST(what_is_given_back_reduces_the_charge),
      TEST(what_waits_again_comes_first), TEST(a_reply_is_behind_until_all_is_charged),
      TEST(many_limits_are_several_payments), TEST(threads_owe_while_one_pays))
