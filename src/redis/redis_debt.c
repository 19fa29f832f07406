/* redis_debt.c: two tables of chains, of limits and of their keys, and the keys in the order in which they came. */
#include "redis/redis_debt.h"

#include <stdlib.h>
#include <string.h>

#include "core/wide.h"
#include "os/lock.h"

enum {
	CHAINS = 65536,
	CHAIN_MOST = 64, /* whoever finds keys that meet in one chain gets no more than this much of a thread's time */
};

_Static_assert((int)WEIR__REDIS_PAYMENT_PLANS <= (int)WEIR__REDIS_CALL_PLANS_MAX, "a payment is a call");

struct limit {
	struct limit *next;
	uint64_t hash;
	uint32_t keys; /* that owe under it */
	struct weir__redis_plan plan;
	size_t name_length;
	char name[];
};

struct weir__redis_debt {
	struct weir__redis_debt *next;          /* of its chain */
	struct weir__redis_debt *older, *newer; /* of all */
	struct limit *limit;
	uint64_t hash;
	uint64_t cost;
	size_t key_length;
	char key[];
};

struct weir__redis_debts {
	struct weir__lock lock;
	uint64_t seed;
	size_t bytes;
	struct weir__redis_debts_info info; /* keys: also those on their way */
	struct weir__redis_debt *oldest, *newest;
	struct limit *limits[CHAINS];
	struct weir__redis_debt *keys[CHAINS];
};

struct weir__redis_debts *weir__redis_debts_new(uint64_t seed)
{
	struct weir__redis_debts *const debts = calloc(1, sizeof(*debts));

	if (debts)
		debts->seed = seed;
	return debts;
}

void weir__redis_debts_free(struct weir__redis_debts *debts)
{
	if (debts == NULL)
		return;
	while (debts->oldest) {
		struct weir__redis_debt *const debt = debts->oldest;

		debts->oldest = debt->newer;
		free(debt);
	}
	for (size_t i = 0; i < CHAINS; i++) {
		while (debts->limits[i]) {
			struct limit *const limit = debts->limits[i];

			debts->limits[i] = limit->next;
			free(limit);
		}
	}
	free(debts);
}

static uint64_t mix(uint64_t hash, struct weir__resp_slice slice)
{
	for (size_t i = 0; i < slice.length; i++) {
		hash = (hash ^ (unsigned char)slice.bytes[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash;
}

static size_t chain_of(uint64_t hash)
{
	return (hash ^ hash >> 32) % CHAINS;
}

static bool is_same(const char *bytes, size_t length, struct weir__resp_slice slice)
{
	return length == slice.length && (length == 0 || memcmp(bytes, slice.bytes, length) == 0);
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

static size_t limit_bytes(const struct limit *limit)
{
	return sizeof(*limit) + limit->name_length;
}

/* Memory, if there may be so much more of it. */
static void *more_memory(struct weir__redis_debts *debts, size_t bytes)
{
	void *const memory = bytes <= WEIR__REDIS_DEBTS_BYTES - debts->bytes ? malloc(bytes) : NULL;

	if (memory)
		debts->bytes += bytes;
	return memory;
}

/* NULL: there is no room for another one. */
static struct limit *find_limit(struct weir__redis_debts *debts, const struct weir__redis_plan *plan,
				struct weir__resp_slice name)
{
	const uint64_t hash = mix(debts->seed, name);
	struct limit **const chain = &debts->limits[chain_of(hash)];
	struct limit *limit = *chain;
	unsigned n = 0;

	for (; limit && !(limit->hash == hash && is_same(limit->name, limit->name_length, name)); limit = limit->next)
		n++;
	if (limit == NULL) {
		if (n >= CHAIN_MOST || name.length > WEIR__REDIS_DEBTS_BYTES)
			return NULL;
		limit = more_memory(debts, sizeof(*limit) + name.length);
		if (limit == NULL)
			return NULL;
		limit->hash = hash;
		limit->keys = 0;
		limit->name_length = name.length;
		if (name.length > 0)
			memcpy(limit->name, name.bytes, name.length);
		limit->next = *chain;
		*chain = limit;
	}
	limit->plan = *plan;
	return limit;
}

static void drop_limit_of_no_keys(struct weir__redis_debts *debts, struct limit *limit)
{
	struct limit **at = &debts->limits[chain_of(limit->hash)];

	if (limit->keys > 0)
		return;
	while (*at != limit)
		at = &(*at)->next;
	*at = limit->next;
	debts->bytes -= limit_bytes(limit);
	free(limit);
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

static size_t debt_bytes(const struct weir__redis_debt *debt)
{
	return sizeof(*debt) + debt->key_length;
}

static struct weir__redis_debt *find_key(struct weir__redis_debts *debts, const struct limit *limit, uint64_t hash,
					 struct weir__resp_slice key, unsigned *ret_chain)
{
	struct weir__redis_debt *debt = debts->keys[chain_of(hash)];

	for (*ret_chain = 0; debt; debt = debt->next, ++*ret_chain) {
		if (debt->hash == hash && debt->limit == limit && is_same(debt->key, debt->key_length, key))
			return debt;
	}
	return NULL;
}

/* As the newest. */
static void link_debt(struct weir__redis_debts *debts, struct weir__redis_debt *debt)
{
	struct weir__redis_debt **const chain = &debts->keys[chain_of(debt->hash)];

	debt->next = *chain;
	*chain = debt;
	debt->older = debts->newest;
	debt->newer = NULL;
	*(debts->newest ? &debts->newest->newer : &debts->oldest) = debt;
	debts->newest = debt;
}

static void unlink_debt(struct weir__redis_debts *debts, struct weir__redis_debt *debt)
{
	struct weir__redis_debt **at = &debts->keys[chain_of(debt->hash)];

	while (*at != debt)
		at = &(*at)->next;
	*at = debt->next;
	*(debt->older ? &debt->older->newer : &debts->oldest) = debt->newer;
	*(debt->newer ? &debt->newer->older : &debts->newest) = debt->older;
}

static void drop_debt(struct weir__redis_debts *debts, struct weir__redis_debt *debt)
{
	struct limit *const limit = debt->limit;

	limit->keys--;
	debts->info.keys--;
	debts->bytes -= debt_bytes(debt);
	free(debt);
	drop_limit_of_no_keys(debts, limit);
}

static struct weir__redis_debt *new_debt(struct weir__redis_debts *debts, struct limit *limit, uint64_t hash,
					 struct weir__resp_slice key)
{
	struct weir__redis_debt *debt;

	if (debts->info.keys >= WEIR__REDIS_DEBTS_KEYS || key.length > WEIR__REDIS_DEBTS_BYTES)
		return NULL;
	debt = more_memory(debts, sizeof(*debt) + key.length);
	if (debt == NULL)
		return NULL;
	debt->limit = limit;
	debt->hash = hash;
	debt->cost = 0;
	debt->key_length = key.length;
	if (key.length > 0)
		memcpy(debt->key, key.bytes, key.length);
	limit->keys++;
	debts->info.keys++;
	link_debt(debts, debt);
	return debt;
}

static struct weir__redis_debt *need_debt(struct weir__redis_debts *debts, struct limit *limit,
					  struct weir__resp_slice key)
{
	const uint64_t hash = mix(limit->hash, key);
	struct weir__redis_debt *debt;
	unsigned chain;

	debt = find_key(debts, limit, hash, key, &chain);
	if (debt || chain >= CHAIN_MOST)
		return debt;
	return new_debt(debts, limit, hash, key);
}

bool weir__redis_debts_owe(struct weir__redis_debts *debts, const struct weir__redis_plan *plan,
			   struct weir__resp_slice name, struct weir__resp_slice key, uint64_t cost)
{
	struct weir__redis_debt *debt = NULL;
	struct limit *limit;
	bool is_first;

	if (cost == 0)
		return false;
	weir__lock_acquire(&debts->lock);
	is_first = debts->oldest == NULL;
	limit = find_limit(debts, plan, name);
	if (limit)
		debt = need_debt(debts, limit, key);
	if (debt)
		debt->cost = weir__add_saturating(debt->cost, cost);
	else
		debts->info.forgotten = weir__add_saturating(debts->info.forgotten, cost);
	if (limit)
		drop_limit_of_no_keys(debts, limit);
	weir__lock_release(&debts->lock);
	return is_first && debt;
}

/* --- paid -------------------------------------------------------------------------------------------------------- */

/* The plan as it is now, since a change may come while the payment is on its way. NULL: there are too many for a call. */
static const struct weir__redis_plan *plan_for(struct weir__redis_payment *payment, const struct limit *limit)
{
	size_t i = 0;

	while (i < payment->n_plans && payment->limits[i] != limit)
		i++;
	if (i == WEIR__REDIS_PAYMENT_PLANS)
		return NULL;
	if (i == payment->n_plans) {
		payment->limits[i] = limit;
		payment->plans[i] = limit->plan;
		payment->n_plans++;
	}
	return &payment->plans[i];
}

static void add_to_payment(struct weir__redis_payment *payment, struct weir__redis_debt *debt,
			   const struct weir__redis_plan *plan)
{
	const size_t i = payment->n++;

	payment->debts[i] = debt;
	payment->claims[i] = (struct weir__redis_claim){ .plan = plan,
							 .name = { debt->limit->name, debt->limit->name_length },
							 .key = { debt->key, debt->key_length },
							 .cost = debt->cost };
	payment->requests[i] = (struct weir__redis_request){ WEIR__REDIS_UP_TO, &payment->claims[i], 1 };
}

bool weir__redis_debts_begin(struct weir__redis_debts *debts, struct weir__redis_payment *payment)
{
	payment->n = payment->n_plans = 0;
	weir__lock_acquire(&debts->lock);
	while (payment->n < WEIR__REDIS_PAYMENT_KEYS && debts->oldest) {
		struct weir__redis_debt *const debt = debts->oldest;
		const struct weir__redis_plan *const plan = plan_for(payment, debt->limit);

		if (plan == NULL)
			break;
		unlink_debt(debts, debt);
		add_to_payment(payment, debt, plan);
	}
	weir__lock_release(&debts->lock);
	payment->job.requests = payment->requests;
	payment->job.n = payment->n;
	payment->job.verdicts = payment->verdicts;
	return payment->n > 0;
}

/* Owed again: meanwhile the key may owe more. */
static void put_back(struct weir__redis_debts *debts, struct weir__redis_debt *debt)
{
	struct weir__redis_debt *other;
	unsigned chain;

	other = find_key(debts, debt->limit, debt->hash, (struct weir__resp_slice){ debt->key, debt->key_length },
			 &chain);
	if (other) {
		other->cost = weir__add_saturating(other->cost, debt->cost);
		drop_debt(debts, debt);
	} else {
		link_debt(debts, debt);
	}
}

static void count_paid(struct weir__redis_debts_info *info, const struct weir__redis_debt *debt,
		       const struct weir_verdict *verdict)
{
	const uint64_t granted = weir__min(verdict->granted, debt->cost);

	info->paid = weir__add_saturating(info->paid, granted);
	info->drift = weir__add_saturating(info->drift, debt->cost - granted);
}

void weir__redis_debts_end(struct weir__redis_debts *debts, struct weir__redis_payment *payment)
{
	weir__lock_acquire(&debts->lock);
	for (size_t i = 0; i < payment->n; i++) {
		struct weir__redis_debt *const debt = payment->debts[i];

		if (payment->job.outcome == WEIR__REDIS_NOT_ASKED) {
			put_back(debts, debt);
			continue;
		}
		if (payment->job.outcome == WEIR__REDIS_IS_DECIDED)
			count_paid(&debts->info, debt, &payment->verdicts[i]);
		else
			debts->info.unsure = weir__add_saturating(debts->info.unsure, debt->cost);
		drop_debt(debts, debt);
	}
	payment->n = 0;
	weir__lock_release(&debts->lock);
}

void weir__redis_debts_info(struct weir__redis_debts *debts, struct weir__redis_debts_info *ret_info)
{
	weir__lock_acquire(&debts->lock);
	*ret_info = debts->info;
	weir__lock_release(&debts->lock);
}
