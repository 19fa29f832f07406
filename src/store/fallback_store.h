/* fallback_store.h: a store that decides by a table when the store behind it does not.
 *
 * Each limit says what happens when its store is gone: `open` allows, `closed` denies, `share` lets this server decide by its
 * part of the limit, `local` by another limit. What this server allows while the store was certainly not called is charged
 * there later. */
#ifndef WEIR_STORE_FALLBACK_STORE_H
#define WEIR_STORE_FALLBACK_STORE_H

#include "store/store.h"

enum weir__fallback_mode { WEIR__FALLBACK_SHARE, WEIR__FALLBACK_OPEN, WEIR__FALLBACK_CLOSED, WEIR__FALLBACK_LOCAL };

struct weir__fallback_rule {
	enum weir__fallback_mode mode;
	const struct weir_table_limit *local; /* of LOCAL; it lives as long as the table */
	weir_ns budget;                       /* how long a decision waits for the store */
};

struct weir__fallback_options {
	struct weir__store *store; /* that is asked first; it is freed with this one */
	struct weir_table *table;
	struct weir__fallback_rule otherwise; /* for limits without a rule of their own, and inline limits */
	/* The rule of a limit of the table, which begins as `otherwise`; it is asked for again when the version changes. */
	void (*find_rule)(void *context, const struct weir_table_limit *limit, struct weir__fallback_rule *rule);
	uint64_t (*version)(void *context);
	void *context; /* NULL: limits have no rules of their own */
};

/* NULL: no memory; then the store behind it is not freed. */
struct weir__store *weir__fallback_store_new(const struct weir__fallback_options *options);

#endif
