/* remote_plans.c: a list by the numbers of the table's limits; for others a table by hash with one place for each. */
#include "serve/remote_plans.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "guard/guard.h"

enum { KEPT = 256, ANEW_LENGTH = 17 };

static const weir_ns tell_ns = 100000000; /* how often it is worth a lock */

void weir__remote_plan_drop(struct weir__remote_plan *plan)
{
	if (plan && atomic_fetch_sub(&plan->users, 1) == 1)
		free(plan);
}

static struct weir__remote_plan *use(struct weir__remote_plan *plan)
{
	if (plan)
		atomic_fetch_add(&plan->users, 1);
	return plan;
}

int weir__remote_check_limit(const struct weir_limit *limit, struct weir_message *ret_message)
{
	struct weir__redis_plan redis;
	struct weir_plan plan;
	const int error = weir_plan_compile(limit, &plan, ret_message);

	return error == WEIR_OK ? weir__redis_plan_init(&redis, &plan, ret_message) : error;
}

/* --- names ------------------------------------------------------------------------------------------------------- */

/* A limit comes with requests if it has no name. */
static bool is_inline(const struct weir_table_limit *limit)
{
	return limit->name[0] == '\0';
}

/* The name of the plan. That of a limit whose keys were to start anew has a ~ and a hash before it (guard/bound.c), which
 * other nodes, that were started later, do not have; in Redis a key that is of another kind starts anew by itself. A name
 * that may have been cut is left as it is. */
static const char *plan_name(const struct weir_table_limit *limit)
{
	const char *const name = limit->name;
	size_t hex = 1;

	while (hex < ANEW_LENGTH && isxdigit((unsigned char)name[hex]))
		hex++;
	return name[0] == '~' && hex == ANEW_LENGTH && strlen(name) < WEIR_TABLE_NAME_MAX ? name + ANEW_LENGTH : name;
}

/* A colon ends the name in Redis: one within it is written in another way. */
static void write_name(struct weir__remote_plan *plan, const char *name)
{
	size_t length = 0;

	for (; *name; name++)
		length += (size_t)snprintf(plan->name + length, sizeof(plan->name) - length,
					   *name == ':' || *name == '%' ? "%%%02X" : "%c", (unsigned char)*name);
	plan->name_length = length;
}

/* --- the book ---------------------------------------------------------------------------------------------------- */

struct weir__remote_book {
	pthread_mutex_t lock;
	struct weir_table *table;
	_Atomic weir_ns told_at; /* by the table's clock; 0: never */
	weir_ns told;            /* Redis's clock by then */
	uint32_t n;
	struct page {
		uint64_t number; /* of the limit's changes */
		struct weir__remote_plan *plan;
	} pages[];
};

struct weir__remote_book *weir__remote_book_new(struct weir_table *table)
{
	const uint32_t n = table->region.limits_max;
	struct weir__remote_book *const book = calloc(1, sizeof(*book) + n * sizeof(book->pages[0]));

	if (book == NULL)
		return NULL;
	book->table = table;
	book->n = n;
	(void)pthread_mutex_init(&book->lock, NULL);
	return book;
}

void weir__remote_book_free(struct weir__remote_book *book)
{
	if (book == NULL)
		return;
	for (uint32_t i = 0; i < book->n; i++)
		weir__remote_plan_drop(book->pages[i].plan);
	(void)pthread_mutex_destroy(&book->lock);
	free(book);
}

void weir__remote_book_tell(struct weir__remote_book *book, weir_ns redis_now)
{
	const weir_ns now = weir_table_now(book->table);
	const weir_ns before = atomic_load(&book->told_at);

	if (before != 0 && now < before + tell_ns)
		return;
	(void)pthread_mutex_lock(&book->lock);
	book->told = redis_now;
	atomic_store(&book->told_at, now);
	(void)pthread_mutex_unlock(&book->lock);
}

/* A plan as it is by its number. If Redis's clock is not known, Redis finds itself what keys were stored by. */
static struct weir__remote_plan *make(const struct weir__remote_book *book, const struct weir_table_limit *limit,
				      const struct weir__remote_plan *before)
{
	const struct weir_limit stated = weir_table_limit_limit(limit);
	const weir_ns told_at = atomic_load(&book->told_at), now = weir_table_now(book->table);
	struct weir__remote_plan *const plan = calloc(1, sizeof(*plan));
	struct weir_plan compiled;
	int error = WEIR_ERR_CHANGE;

	if (plan == NULL)
		return NULL;
	atomic_init(&plan->users, 1);
	write_name(plan, plan_name(limit));
	if (weir_plan_compile(&stated, &compiled, NULL) != WEIR_OK) {
		free(plan);
		return NULL;
	}
	if (before && told_at != 0) {
		plan->redis = before->redis;
		error = weir__redis_plan_change(&plan->redis, &compiled,
						book->told + (now > told_at ? now - told_at : 0), NULL);
	}
	if (error != WEIR_OK)
		error = weir__redis_plan_init(&plan->redis, &compiled, NULL);
	if (error == WEIR_OK)
		return plan;
	free(plan);
	return NULL;
}

/* The newest, counted. */
static struct weir__remote_plan *get(struct weir__remote_book *book, const struct weir_table_limit *limit,
				     uint64_t number)
{
	struct page *const page = &book->pages[limit->index];
	struct weir__remote_plan *plan;

	(void)pthread_mutex_lock(&book->lock);
	if (page->plan == NULL || page->number != number) {
		plan = make(book, limit, page->plan);
		weir__remote_plan_drop(page->plan);
		page->plan = plan;
		page->number = number;
	}
	plan = use(page->plan);
	(void)pthread_mutex_unlock(&book->lock);
	return plan;
}

/* --- of a worker ------------------------------------------------------------------------------------------------- */

struct weir__remote_plans {
	struct weir__remote_book *book;
	struct weir_guard *guard;
	struct weir__remote_rule otherwise;
	struct weir__hash_secret cell; /* of the space of CL.THROTTLE; the other one that limits share is THROTTLE's */
	struct kept {
		struct weir__hash_secret secret;
		struct weir_plan plan;
		struct weir__remote_plan *remote; /* NULL: nobody is here */
	} kept[KEPT];
	struct of_table {
		uint64_t number;
		struct weir__remote_plan *plan;
		uint64_t changes; /* of the policy, when the rule was asked for, and 1; 0: it was not */
		struct weir__remote_rule rule;
	} of_table[];
};

struct weir__remote_plans *weir__remote_plans_new(struct weir__remote_book *book, struct weir_guard *guard,
						  const struct weir__remote_rule *otherwise)
{
	struct weir__remote_plans *const plans = calloc(1, sizeof(*plans) + book->n * sizeof(plans->of_table[0]));

	if (plans == NULL)
		return NULL;
	plans->book = book;
	plans->guard = guard;
	plans->otherwise = *otherwise;
	plans->cell = weir__limits_secret(book->table, WEIR__SPACE_CELL);
	return plans;
}

void weir__remote_plans_free(struct weir__remote_plans *plans)
{
	if (plans == NULL)
		return;
	for (size_t i = 0; i < KEPT; i++)
		weir__remote_plan_drop(plans->kept[i].remote);
	for (uint32_t i = 0; i < plans->book->n; i++)
		weir__remote_plan_drop(plans->of_table[i].plan);
	free(plans);
}

static bool is_same_secret(const struct weir__hash_secret *a, const struct weir__hash_secret *b)
{
	return a->k0 == b->k0 && a->k1 == b->k1;
}

static bool is_same_plan(const struct weir_plan *a, const struct weir_plan *b)
{
	return a->kind == b->kind && a->flags == b->flags && a->count == b->count && a->period == b->period &&
	       a->most == b->most && a->room == b->room;
}

/* No name of a policy begins with a ~. */
static void name_inline(const struct weir__remote_plans *plans, const struct weir_table_limit *limit, char *ret_name,
			size_t size)
{
	char text[WEIR_LIMIT_TEXT_MAX];

	(void)weir_limit_print(&limit->added, text);
	if (limit->plan.flags & WEIR_PLAN_DEBT)
		(void)snprintf(ret_name, size, "%s",
			       is_same_secret(&limit->secret, &plans->cell) ? "~cell" : "~throttle");
	else
		(void)snprintf(ret_name, size, "~text %s", text);
}

static struct weir__remote_plan *make_inline(const struct weir__remote_plans *plans,
					     const struct weir_table_limit *limit)
{
	struct weir__remote_plan *const plan = calloc(1, sizeof(*plan));
	char name[WEIR_LIMIT_TEXT_MAX + 16];

	if (plan == NULL)
		return NULL;
	if (weir__redis_plan_init(&plan->redis, &limit->plan, NULL) != WEIR_OK) {
		free(plan);
		return NULL;
	}
	atomic_init(&plan->users, 1);
	name_inline(plans, limit, name, sizeof(name));
	write_name(plan, name);
	return plan;
}

static struct weir__remote_plan *find_inline(struct weir__remote_plans *plans, const struct weir_table_limit *limit)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	const uint64_t hash = ((limit->secret.k0 ^ limit->plan.period) * factor ^ limit->plan.most) * factor;
	struct kept *const kept = &plans->kept[(hash >> 32) % KEPT];

	if (kept->remote && is_same_secret(&kept->secret, &limit->secret) && is_same_plan(&kept->plan, &limit->plan))
		return kept->remote;
	weir__remote_plan_drop(kept->remote);
	kept->remote = make_inline(plans, limit);
	kept->secret = limit->secret;
	kept->plan = limit->plan;
	return kept->remote;
}

struct weir__remote_plan *weir__remote_plans_find(struct weir__remote_plans *plans,
						  const struct weir_table_limit *limit)
{
	struct of_table *known;
	uint64_t number;

	if (is_inline(limit))
		return find_inline(plans, limit);
	known = &plans->of_table[limit->index];
	number = weir__plans_number(limit->entry);
	if (known->plan == NULL || known->number != number) {
		weir__remote_plan_drop(known->plan);
		known->plan = get(plans->book, limit, number);
		known->number = number;
	}
	return known->plan;
}

static void ask_rule(const struct weir__remote_plans *plans, const struct weir_table_limit *limit,
		     struct weir__remote_rule *ret_rule)
{
	const char *const name = plan_name(limit);
	struct weir__guard_failure failure;

	*ret_rule = plans->otherwise;
	weir__guard_failure(plans->guard, name, strlen(name), &failure);
	if (failure.mode != WEIR_STORE_FAILURE_UNSET) {
		ret_rule->on_failure = failure.mode;
		ret_rule->local = failure.local;
	}
	if (failure.budget != 0)
		ret_rule->budget = failure.budget;
}

struct weir__remote_rule weir__remote_plans_rule(struct weir__remote_plans *plans, const struct weir_table_limit *limit)
{
	struct of_table *const known = &plans->of_table[limit->index];
	uint64_t changes;

	if (is_inline(limit) || plans->guard == NULL)
		return plans->otherwise;
	changes = weir_guard_changes(plans->guard) + 1;
	if (known->changes != changes) {
		ask_rule(plans, limit, &known->rule);
		known->changes = changes;
	}
	return known->rule;
}
