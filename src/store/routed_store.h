/* routed_store.h: a store that keeps the state of some limits in a table, and of all others in the store behind it.
 *
 * A request whose limits are all in one of the two goes straight there. If limits of both are decided together, the
 * table is charged first, since it replies at once. Then the store behind decides. If the store denies, or fails and
 * its fallback denies, the charge in the table is undone. So the request is charged everywhere or nowhere, and never
 * allowed before all limits are charged. Until the undo, that charge may deny other requests.
 *
 * If a departure with limits in both is cancelled after it was allowed, only the charge in the store behind is given
 * back, since one request describes one charge. The charge in the table stays.
 *
 * If the table denies, the store behind is not called: a flood that a limit of the table stops does not reach Redis.
 * The verdicts of the store's limits are then `allowed`, since they denied nothing, with nothing used. Only limits with
 * count all are charged there, because they count denied requests, too. */
#ifndef WEIR_STORE_ROUTED_STORE_H
#define WEIR_STORE_ROUTED_STORE_H

#include "store/store.h"

struct weir__routed_options {
	struct weir__store *store; /* keeps all state that the table does not keep; freed with this store */
	struct weir_table *table;
	/* Whether the table keeps the state of one of its limits, and whether it does so for any of them. Called again
	 * when the version changes. Inline limits are never in the table. */
	bool (*is_in_table)(void *context, const struct weir_table_limit *limit);
	bool (*has_any)(void *context);
	uint64_t (*version)(void *context);
	void *context;
};

/* NULL: no memory; the store behind it is then not freed. */
WEIR__BETWEEN_LIBRARIES struct weir__store *weir__routed_store_new(const struct weir__routed_options *options);

#endif
