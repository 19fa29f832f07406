/* toy_store.h: a store for tests that completes most requests later, and in any order.
 *
 * It decides requests on the server's table when they are submitted, in that order. One in 8 completes at once; the
 * others complete 0 to 2 ms after the store was flushed. Until then their verdicts are invalid, and their claims must
 * not change: otherwise the store aborts. The store's `table` is NULL, so the server does not know that its own table
 * decides. */
#ifndef WEIR_TESTS_SERVE_TOY_STORE_H
#define WEIR_TESTS_SERVE_TOY_STORE_H

#include "os/loop.h"
#include "store/store.h"

/* Makes the store of a worker, whose loop is woken when a request is due. The same seed makes the same choices. NULL:
 * no memory, or no thread. */
struct weir__store *toy_store_new(struct weir_table *table, struct weir__loop *loop, uint64_t seed);

#endif
