/* guard.h: what the daemon asks of a guard beyond weir/guard.h. */
#ifndef WEIR_GUARD_GUARD_H
#define WEIR_GUARD_GUARD_H

#include <weir/guard.h>

enum { WEIR__GUARD_KEY_SIZE = 8 * 64 };

/* A limit or override of the policy. */
struct weir__guard_row {
	const char *name;                     /* of the plan */
	const struct weir_table_limit *limit; /* NULL: unlimited */
	enum weir_mode mode;
	enum weir_store_failure on_store_failure;
	bool is_local;                  /* the limit for when a store fails */
	weir_ns store_budget;           /* 0: the policy does not say */
	char key[WEIR__GUARD_KEY_SIZE]; /* names of attributes, with commas; empty: one for all requests */
};

/* The limit of the plan of this name, which lives as long as the table; NULL: there is none, or it is unlimited. */
const struct weir_table_limit *weir__guard_limit(struct weir_guard *guard, const char *plan, size_t length);

/* Tells of up to `most` plans from number `first` on, in the order of the file, all of one policy. `begin` is called before,
 * with how many there will be. */
void weir__guard_list(struct weir_guard *guard, uint32_t first, uint32_t most, void (*begin)(void *context, uint32_t n),
		      void (*tell)(void *context, const struct weir__guard_row *row), void *context);

/* Tells of the plan of this name. False: there is none. */
bool weir__guard_row(struct weir_guard *guard, const char *plan, size_t length,
		     void (*tell)(void *context, const struct weir__guard_row *row), void *context);

/* How many limits the policy has. */
uint32_t weir__guard_limits(struct weir_guard *guard);

#endif
