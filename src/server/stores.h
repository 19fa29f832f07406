/* stores.h: the only place that makes the store that the settings name. */
#ifndef WEIR_SERVER_STORES_H
#define WEIR_SERVER_STORES_H

#include "os/loop.h"
#include "store/store.h"

struct weir_guard;
struct weir__log;
struct weir__settings;
struct weir__stores;

/* Checks the setting `store`. Returns WEIR_OK, or WEIR_ERR_... and what is wrong. */
int weir__stores_check_url(const char *url, size_t length, struct weir_message *ret_message);

/* Writes the setting without its password, with a NUL. */
void weir__stores_show_url(const char *url, char *ret_text, size_t size);

/* Whether the store can hold a limit. Returns WEIR_OK, or WEIR_ERR_... and what would be right. */
int weir__stores_check_limit(const struct weir_limit *limit, struct weir_message *ret_message);

/* Makes what all workers share. Does not wait for the store: until it replies, limits decide by their on_store_failure.
 * Settings without a store_budget get the budget of the URL. Returns WEIR_OK, or WEIR_ERR_... and a message. */
int weir__stores_new(struct weir__settings *settings, struct weir_table *table, struct weir__log *log,
		     struct weir__stores **ret_stores, struct weir_message *ret_message);
void weir__stores_free(struct weir__stores *stores); /* NULL is allowed */

/* The store of one worker. Its loop is woken when there are replies to collect. The guard has the rules of limits;
 * NULL: without a policy. Returns NULL if memory runs out. */
struct weir__store *weir__stores_open(struct weir__stores *stores, uint32_t worker, struct weir_guard *guard,
				      struct weir__loop *loop);

/* Returns the URL of the store's Redis, for commands that decide nothing. NULL: the store is not Redis. */
struct weir__redis_url;
const struct weir__redis_url *weir__stores_redis(const struct weir__stores *stores);

#endif
