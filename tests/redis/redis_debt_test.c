/* redis_debt_test.c: what is owed is remembered, paid once, and bounded. */
#include "redis/redis_debt.h"

#include <pthread.h>
#include <stdlib.h>

#include "check.h"
#include "plans.h"

enum { THREADS = 4, ROUNDS = 2000, SHARED_KEYS = 50 };

static struct weir__redis_payment payment;

static struct weir__resp_slice slice(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

static bool owe(struct weir__redis_debts *debts, const char *name, const char *key, uint64_t cost)
{
	const struct weir__redis_plan plan = plan_of("10/s");

	return weir__redis_debts_owe(debts, &plan, slice(name), slice(key), cost);
}

static struct weir__redis_debts_info info_of(struct weir__redis_debts *debts)
{
	struct weir__redis_debts_info info;

	weir__redis_debts_info(debts, &info);
	return info;
}

/* The payment comes back; of each claim `granted` at most. */
static void end(struct weir__redis_debts *debts, enum weir__redis_outcome outcome, uint64_t granted)
{
	payment.job.outcome = outcome;
	for (size_t i = 0; i < payment.n; i++) {
		const uint64_t cost = payment.claims[i].cost;

		payment.verdicts[i] = (struct weir_verdict){ .granted = cost < granted ? cost : granted };
	}
	weir__redis_debts_end(debts, &payment);
}

static bool is_claim(size_t i, const char *name, const char *key, uint64_t cost)
{
	const struct weir__redis_claim *const claim = &payment.claims[i];

	return payment.requests[i].operation == WEIR__REDIS_UP_TO && payment.requests[i].n == 1 &&
	       payment.requests[i].claims == claim && claim->name.length == strlen(name) &&
	       memcmp(claim->name.bytes, name, strlen(name)) == 0 && claim->key.length == strlen(key) &&
	       memcmp(claim->key.bytes, key, strlen(key)) == 0 && claim->cost == cost;
}

static void costs_of_a_key_are_summed(void)
{
	struct weir__redis_debts *const debts = weir__redis_debts_new(1);

	CHECK(!weir__redis_debts_begin(debts, &payment));
	CHECK(owe(debts, "a", "k", 2)); /* the first: somebody may have to be woken */
	CHECK(!owe(debts, "a", "k", 3));
	CHECK(!owe(debts, "b", "k", 7)); /* the same key of another limit */
	CHECK(!owe(debts, "a", "kk", UINT64_MAX));
	CHECK(!owe(debts, "a", "kk", 1));
	CHECK(!owe(debts, "a", "", 4));
	CHECK(!owe(debts, "a", "none", 0));
	CHECK_EQ(info_of(debts).keys, 4);
	CHECK(weir__redis_debts_begin(debts, &payment));
	CHECK_EQ(payment.n, 4);
	CHECK_EQ(payment.job.n, 4);
	CHECK_EQ(payment.n_plans, 2);
	CHECK(is_claim(0, "a", "k", 5));
	CHECK(is_claim(1, "b", "k", 7));
	CHECK(is_claim(2, "a", "kk", UINT64_MAX));
	CHECK(is_claim(3, "a", "", 4));
	end(debts, WEIR__REDIS_IS_DECIDED, UINT64_MAX);
	CHECK_EQ(info_of(debts).keys, 0);
	CHECK(!weir__redis_debts_begin(debts, &payment));
	weir__redis_debts_free(debts);
}

static void each_outcome_is_counted(void)
{
	struct weir__redis_debts *const debts = weir__redis_debts_new(2);

	owe(debts, "a", "k", 10);
	CHECK(weir__redis_debts_begin(debts, &payment));
	end(debts, WEIR__REDIS_IS_DECIDED, 4); /* no more was left there */
	CHECK_EQ(info_of(debts).paid, 4);
	CHECK_EQ(info_of(debts).drift, 6);

	owe(debts, "a", "k", 5);
	CHECK(weir__redis_debts_begin(debts, &payment));
	end(debts, WEIR__REDIS_NOT_ANSWERED, 0); /* perhaps it was taken: not again */
	CHECK_EQ(info_of(debts).unsure, 5);
	CHECK(!weir__redis_debts_begin(debts, &payment));

	owe(debts, "a", "k", 3);
	owe(debts, "a", "l", 1);
	CHECK(weir__redis_debts_begin(debts, &payment));
	CHECK_EQ(info_of(debts).keys, 2); /* still to be paid */
	CHECK(owe(debts, "a", "k", 4));   /* while the payment is on its way */
	end(debts, WEIR__REDIS_NOT_ASKED, 0);
	CHECK_EQ(info_of(debts).keys, 2);
	CHECK(weir__redis_debts_begin(debts, &payment));
	CHECK_EQ(payment.n, 2);
	CHECK(is_claim(0, "a", "k", 7));
	CHECK(is_claim(1, "a", "l", 1));
	end(debts, WEIR__REDIS_IS_DECIDED, 100);
	CHECK_EQ(info_of(debts).paid, 12);
	CHECK_EQ(info_of(debts).drift, 6);
	CHECK_EQ(info_of(debts).forgotten, 0);
	weir__redis_debts_free(debts);
}

/* A key is paid by the plan that its limit had last; one that is on its way keeps its own. */
static void plans_are_the_newest(void)
{
	struct weir__redis_debts *const debts = weir__redis_debts_new(3);
	const struct weir__redis_plan old = plan_of("10/s"), new = plan_of("20/s");

	weir__redis_debts_owe(debts, &old, slice("a"), slice("k"), 1);
	weir__redis_debts_owe(debts, &new, slice("a"), slice("l"), 1);
	CHECK(weir__redis_debts_begin(debts, &payment));
	CHECK_EQ(payment.claims[0].plan->plan.most, 20);
	CHECK(payment.claims[0].plan == payment.claims[1].plan);
	weir__redis_debts_owe(debts, &old, slice("a"), slice("m"), 1);
	CHECK_EQ(payment.claims[0].plan->plan.most, 20);
	end(debts, WEIR__REDIS_IS_DECIDED, 1);
	weir__redis_debts_free(debts);
}

static void pay_all(struct weir__redis_debts *debts, uint64_t *ret_keys)
{
	*ret_keys = 0;
	while (weir__redis_debts_begin(debts, &payment)) {
		CHECK(payment.n <= WEIR__REDIS_PAYMENT_KEYS && payment.n_plans <= WEIR__REDIS_PAYMENT_PLANS);
		*ret_keys += payment.n;
		end(debts, WEIR__REDIS_IS_DECIDED, UINT64_MAX);
	}
}

static void keys_have_a_bound(void)
{
	struct weir__redis_debts *const debts = weir__redis_debts_new(4);
	uint64_t keys;
	char key[16];

	for (int i = 0; i < WEIR__REDIS_DEBTS_KEYS + 10; i++) {
		(void)snprintf(key, sizeof(key), "%d", i);
		owe(debts, "a", key, 2);
	}
	CHECK_EQ(info_of(debts).keys, WEIR__REDIS_DEBTS_KEYS);
	CHECK_EQ(info_of(debts).forgotten, 20);
	owe(debts, "a", "7", 5); /* one that is known is no more of them */
	CHECK_EQ(info_of(debts).forgotten, 20);
	pay_all(debts, &keys);
	CHECK_EQ(keys, WEIR__REDIS_DEBTS_KEYS);
	CHECK_EQ(info_of(debts).paid, 2 * WEIR__REDIS_DEBTS_KEYS + 5);
	owe(debts, "a", "again", 1);
	CHECK_EQ(info_of(debts).keys, 1);
	weir__redis_debts_free(debts);
}

static void bytes_have_a_bound(void)
{
	enum { LONG = 1 << 20 };
	struct weir__redis_debts *const debts = weir__redis_debts_new(5);
	const struct weir__redis_plan plan = plan_of("10/s");
	char *const key = calloc(1, LONG);
	uint64_t keys;

	for (int i = 0; i < 40; i++) {
		key[0] = (char)i;
		weir__redis_debts_owe(debts, &plan, slice("a"), (struct weir__resp_slice){ key, LONG }, 1);
	}
	CHECK_EQ(info_of(debts).keys, WEIR__REDIS_DEBTS_BYTES / LONG - 1);
	CHECK_EQ(info_of(debts).forgotten, 40 - (WEIR__REDIS_DEBTS_BYTES / LONG - 1));
	pay_all(debts, &keys);
	CHECK_EQ(keys, WEIR__REDIS_DEBTS_BYTES / LONG - 1);
	weir__redis_debts_free(debts);
	free(key);
}

static void many_limits_are_several_payments(void)
{
	struct weir__redis_debts *const debts = weir__redis_debts_new(6);
	char name[16];

	for (int i = 0; i < WEIR__REDIS_PAYMENT_PLANS + 6; i++) {
		(void)snprintf(name, sizeof(name), "limit-%d", i);
		owe(debts, name, "k", 1);
	}
	CHECK(weir__redis_debts_begin(debts, &payment));
	CHECK_EQ(payment.n, WEIR__REDIS_PAYMENT_PLANS);
	end(debts, WEIR__REDIS_IS_DECIDED, 1);
	CHECK(weir__redis_debts_begin(debts, &payment));
	CHECK_EQ(payment.n, 6);
	end(debts, WEIR__REDIS_IS_DECIDED, 1);
	weir__redis_debts_free(debts);
}

static void *owe_much(void *context)
{
	const struct weir__redis_plan plan = plan_of("10/s");
	char key[16];

	for (int i = 0; i < ROUNDS; i++) {
		(void)snprintf(key, sizeof(key), "%d", i % SHARED_KEYS);
		weir__redis_debts_owe(context, &plan, slice("a"), slice(key), 1);
	}
	return NULL;
}

/* Nothing is lost or paid twice between those who owe and the one who pays. */
static void threads_owe_while_one_pays(void)
{
	struct weir__redis_debts *const debts = weir__redis_debts_new(7);
	pthread_t threads[THREADS];
	uint64_t keys;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, owe_much, debts);
	for (int i = 0; i < 200; i++)
		if (weir__redis_debts_begin(debts, &payment))
			end(debts, i % 2 ? WEIR__REDIS_IS_DECIDED : WEIR__REDIS_NOT_ASKED, UINT64_MAX);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pay_all(debts, &keys);
	CHECK_EQ(info_of(debts).paid, THREADS * ROUNDS);
	CHECK_EQ(info_of(debts).keys, 0);
	weir__redis_debts_free(debts);
}

TESTS(TEST(costs_of_a_key_are_summed), TEST(each_outcome_is_counted), TEST(plans_are_the_newest),
      TEST(keys_have_a_bound), TEST(bytes_have_a_bound), TEST(many_limits_are_several_payments),
      TEST(threads_owe_while_one_pays))
