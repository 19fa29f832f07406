/* remote_plans.h: limits as Redis knows them: their plans, their names there, and what decides without it.
 *
 * A limit of the table may be changed at any time. The book, of all workers, has its newest plan, which tells when that was
 * by Redis's clock; each worker keeps those that it uses, and looks whether they are still the newest. Limits that come with
 * requests never change: a worker makes their plans itself. Plans are counted, and stay as long as somebody uses them: the
 * book, a worker, a question that is on its way. */
#ifndef WEIR_SERVE_REMOTE_PLANS_H
#define WEIR_SERVE_REMOTE_PLANS_H

#include <weir/policy.h>

#include <stdatomic.h>

#include "redis/redis_plan.h"
#include "serve/limits.h"

enum { WEIR__REMOTE_NAME_SIZE = 3 * WEIR_TABLE_NAME_MAX + WEIR_LIMIT_TEXT_MAX };

struct weir__remote_plan {
	_Atomic uint32_t users;
	struct weir__redis_plan redis;
	size_t name_length;
	char name[WEIR__REMOTE_NAME_SIZE]; /* what keys in Redis begin with */
};

/* One that uses it is done. NULL is allowed. */
void weir__remote_plan_drop(struct weir__remote_plan *plan);

/* Can it be in Redis? WEIR_ERR_...: no, and the message tells what would be right. */
int weir__remote_check_limit(const struct weir_limit *limit, struct weir_message *ret_message);

/* --- the book ---------------------------------------------------------------------------------------------------- */

struct weir__remote_book;

/* NULL: no memory. */
struct weir__remote_book *weir__remote_book_new(struct weir_table *table);
void weir__remote_book_free(struct weir__remote_book *book); /* NULL is allowed */

/* What Redis's clock was a moment ago. */
void weir__remote_book_tell(struct weir__remote_book *book, weir_ns redis_now);

/* --- of a worker ------------------------------------------------------------------------------------------------- */

struct weir_guard;

/* What is to be done about a limit. */
struct weir__remote_rule {
	enum weir_store_failure on_failure;   /* never UNSET */
	const struct weir_table_limit *local; /* of LOCAL */
	weir_ns budget;
};

struct weir__remote_plans;

/* `otherwise` is the rule for limits that have none of their own. The guard may be NULL. NULL: no memory. */
struct weir__remote_plans *weir__remote_plans_new(struct weir__remote_book *book, struct weir_guard *guard,
						  const struct weir__remote_rule *otherwise);
void weir__remote_plans_free(struct weir__remote_plans *plans); /* NULL is allowed */

/* The plan of a limit as it is now: to be counted by who uses it for longer than until the next is asked for. NULL: there is
 * none, or no memory. */
struct weir__remote_plan *weir__remote_plans_find(struct weir__remote_plans *plans,
						  const struct weir_table_limit *limit);

/* The rule for it, as it is now. */
struct weir__remote_rule weir__remote_plans_rule(struct weir__remote_plans *plans,
						 const struct weir_table_limit *limit);

#endif
