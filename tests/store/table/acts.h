/* acts.h: operations on one key of a tiny table, in which all keys compete for the same slots. The result is a number
 * that is compared with that of another order. */
#ifndef WEIR_TESTS_STORE_ACTS_H
#define WEIR_TESTS_STORE_ACTS_H

#include "tables.h"

static struct {
	struct weir_table *table;
	const struct weir_table_limit *limit;
	uint64_t first, second; /* results of the operations */
} stage;

struct act {
	const char *name;
	uint64_t (*act)(void);
};

static inline uint64_t allow_two(void)
{
	return weir_table_allow(stage.table, stage.limit, "key", 3, MADE_AT, 2);
}

static inline uint64_t take_three(void)
{
	const struct weir_verdict verdict = weir_table_take(stage.table, stage.limit, "key", 3, MADE_AT, 3);

	return verdict.allowed * 100u + verdict.remaining;
}

static inline uint64_t up_to_nine(void)
{
	return weir_table_upto(stage.table, stage.limit, "key", 3, MADE_AT, 9).granted;
}

static inline uint64_t refund_one(void)
{
	return weir_table_refund(stage.table, stage.limit, "key", 3, MADE_AT, 1).remaining;
}

static inline uint64_t undo_two(void)
{
	const struct weir__charge charge = { MADE_AT, 2 };
	const struct weir_verdict verdict = weir__table_undo(stage.table, stage.limit, "key", 3, MADE_AT, &charge, 2);

	return verdict.granted * 100u + verdict.remaining;
}

static inline uint64_t reset(void)
{
	return weir_table_reset(stage.table, stage.limit, "key", 3);
}

static inline uint64_t look(void)
{
	return weir_table_peek(stage.table, stage.limit, "key", 3, MADE_AT, 1).remaining;
}

#endif
