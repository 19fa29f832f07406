/* redis_backlog_test.c: deferred charges are remembered, made once, and bounded. */
#include "store/redis/redis_backlog.h"

#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "plans.h"

enum { THREADS = 4, ROUNDS = 2000, SHARED_KEYS = 50 };

static struct weir__redis_backlog_charge charge;

static struct weir__resp_slice slice(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

static bool defer(struct weir__redis_backlog *backlog, const char *name, const char *key, uint64_t cost)
{
	const struct weir__redis_plan plan = plan_of("10/s");

	return weir__redis_backlog_add(backlog, &plan, slice(name), slice(key), cost);
}

static struct weir__redis_backlog_info info_of(struct weir__redis_backlog *backlog)
{
	struct weir__redis_backlog_info info;

	weir__redis_backlog_info(backlog, &info);
	return info;
}

/* The payment comes back; of each claim `granted` at most. */
static void end(struct weir__redis_backlog *backlog, enum weir__redis_outcome outcome, uint64_t granted)
{
	charge.job.outcome = outcome;
	for (size_t i = 0; i < charge.n; i++) {
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
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(1);

	CHECK(!weir__redis_backlog_begin(backlog, &charge));
	CHECK(defer(backlog, "a", "k", 2)); /* the first: somebody may have to be woken */
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
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(2);

	defer(backlog, "a", "k", 10);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	end(backlog, WEIR__REDIS_JOB_DECIDED, 4); /* no more was left there */
	CHECK_EQ(info_of(backlog).charged, 4);
	CHECK_EQ(info_of(backlog).excess, 6);

	defer(backlog, "a", "k", 5);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	end(backlog, WEIR__REDIS_JOB_UNANSWERED, 0); /* perhaps it was taken: not again */
	CHECK_EQ(info_of(backlog).uncertain, 5);
	CHECK(!weir__redis_backlog_begin(backlog, &charge));

	defer(backlog, "a", "k", 3);
	defer(backlog, "a", "l", 1);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK_EQ(info_of(backlog).keys, 2); /* still to be paid */
	CHECK(defer(backlog, "a", "k", 4)); /* while the payment is on its way */
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

/* A key is paid by the plan that its limit had last; one that is on its way keeps its own. */
static void plans_are_the_newest(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(3);
	const struct weir__redis_plan old = plan_of("10/s"), new = plan_of("20/s");

	weir__redis_backlog_add(backlog, &old, slice("a"), slice("k"), 1);
	weir__redis_backlog_add(backlog, &new, slice("a"), slice("l"), 1);
	CHECK(weir__redis_backlog_begin(backlog, &charge));
	CHECK_EQ(charge.claims[0].plan->plan.most, 20);
	CHECK(charge.claims[0].plan == charge.claims[1].plan);
	weir__redis_backlog_add(backlog, &old, slice("a"), slice("m"), 1);
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

static void keys_have_a_bound(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(4);
	uint64_t keys;
	char key[16];

	for (int i = 0; i < WEIR__REDIS_BACKLOG_KEYS + 10; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		defer(backlog, "a", key, 2);
	}
	CHECK_EQ(info_of(backlog).keys, WEIR__REDIS_BACKLOG_KEYS);
	CHECK_EQ(info_of(backlog).dropped, 20);
	defer(backlog, "a", "7", 5); /* one that is known is no more of them */
	CHECK_EQ(info_of(backlog).dropped, 20);
	pay_all(backlog, &keys);
	CHECK_EQ(keys, WEIR__REDIS_BACKLOG_KEYS);
	CHECK_EQ(info_of(backlog).charged, 2 * WEIR__REDIS_BACKLOG_KEYS + 5);
	defer(backlog, "a", "again", 1);
	CHECK_EQ(info_of(backlog).keys, 1);
	weir__redis_backlog_free(backlog);
}

static void bytes_have_a_bound(void)
{
	enum { LONG = 1 << 20 };
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(5);
	const struct weir__redis_plan plan = plan_of("10/s");
	char *const key = calloc(1, LONG);
	uint64_t keys;

	for (int i = 0; i < 40; i++) {
		key[0] = (char)i;
		weir__redis_backlog_add(backlog, &plan, slice("a"), (struct weir__resp_slice){ key, LONG }, 1);
	}
	CHECK_EQ(info_of(backlog).keys, WEIR__REDIS_BACKLOG_BYTES / LONG - 1);
	CHECK_EQ(info_of(backlog).dropped, 40 - (WEIR__REDIS_BACKLOG_BYTES / LONG - 1));
	pay_all(backlog, &keys);
	CHECK_EQ(keys, WEIR__REDIS_BACKLOG_BYTES / LONG - 1);
	weir__redis_backlog_free(backlog);
	free(key);
}

static void many_limits_are_several_payments(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(6);
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
		weir__redis_backlog_add(context, &plan, slice("a"), slice(key), 1);
	}
	return NULL;
}

/* Nothing is lost or paid twice between those who owe and the one who pays. */
static void threads_owe_while_one_pays(void)
{
	struct weir__redis_backlog *const backlog = weir__redis_backlog_new(7);
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
      TEST(keys_have_a_bound), TEST(bytes_have_a_bound), TEST(many_limits_are_several_payments),
      TEST(threads_owe_while_one_pays))
