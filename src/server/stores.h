/* stores.h: the one place that makes the store that the settings name. */
#ifndef WEIR_SERVER_STORES_H
#define WEIR_SERVER_STORES_H

#include "os/loop.h"
#include "store/store.h"

struct weir_guard;
struct weir__log;
struct weir__settings;
struct weir__stores;

/* What is wrong with the setting `store`; WEIR_OK: nothing. */
int weir__stores_check_url(const char *url, size_t length, struct weir_message *ret_message);

/* The setting without its password, with a NUL. */
void weir__stores_show_url(const char *url, char *ret_text, size_t size);

/* Whether a limit can be in the store. WEIR_ERR_...: no, and the message tells what would be right. */
int weir__stores_check_limit(const struct weir_limit *limit, struct weir_message *ret_message);

/* What all workers share. Does not wait for the store: until it replies, what limits say for that case decides. The settings
 * get the budget of the URL, unless they state one. WEIR_ERR_...: the message tells. */
int weir__stores_new(struct weir__settings *settings, struct weir_table *table, struct weir__log *log,
		     struct weir__stores **ret_stores, struct weir_message *ret_message);
void weir__stores_free(struct weir__stores *stores); /* NULL is allowed */

/* The store of a worker, which has this number, and whose loop is woken when there is something to collect. The guard has the rules of limits; NULL: there
 * is no policy. NULL: no memory. */
struct weir__store *weir__stores_open(struct weir__stores *stores, uint32_t worker, struct weir_guard *guard,
				      struct weir__loop *loop);

#endif
