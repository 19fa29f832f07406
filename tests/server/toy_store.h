/* toy_store.h: a store for tests that completes most requests later, and in any order.
 *
 * Requests are decided on the table of the server when they are submitted, so in that order. One of 8 completes at once; the
 * others complete 0 to 2 ms after the store was flushed. Until then their verdicts are no verdicts, and their claims must stay as
 * they are: else the store aborts. `table` of the store is NULL: the server does not know that its own table decides. */
#ifndef WEIR_TESTS_SERVE_TOY_STORE_H
#define WEIR_TESTS_SERVE_TOY_STORE_H

#include "os/loop.h"
#include "store/store.h"

/* The store of a worker, whose loop is woken when a request is due. The same seed makes the same choices. NULL: no memory, or
 * no thread. */
struct weir__store *toy_store_new(struct weir_table *table, struct weir__loop *loop, uint64_t seed);

#endif
