/* user_reload.h: the current users. They are read again when the configuration file changes, and on request, together
 * with the template of denials.
 *
 * Workers share the current list. Each replaces its reference between requests when it is notified of a change. A file
 * with any error outside of its limits changes nothing. A file without users changes nothing either, if there were
 * users before: the file may be only half written. */
#ifndef WEIR_SERVER_USER_RELOAD_H
#define WEIR_SERVER_USER_RELOAD_H

#include "server/settings.h"

struct weir__user_reload;
struct weir__accept_balancer;

/* Starts with the users of these settings. `denial_body` is read again with them; NULL: none. NULL: no memory. */
struct weir__denial_body;
struct weir__user_reload *weir__user_reload_new(const struct weir__settings *settings,
						struct weir__denial_body *denial_body);

/* Begins to watch the configuration file, if the server has one. Changes wake the workers of the balancer. Returns
 * false if it cannot get a thread, a descriptor or memory. */
bool weir__user_reload_start(struct weir__user_reload *user_reload, struct weir__accept_balancer *balancer);

/* Call it when all workers have ended. NULL is allowed. */
void weir__user_reload_free(struct weir__user_reload *user_reload);

/* Requests a reload of the file, from any thread. Does not wait. */
void weir__user_reload_reload(struct weir__user_reload *user_reload);

/* Increases when users change. */
uint64_t weir__user_reload_version(const struct weir__user_reload *user_reload);

/* Returns the current users, which stay until they are released, and their version. Takes no lock. */
const struct weir__users *weir__user_reload_acquire(struct weir__user_reload *user_reload, uint64_t *ret_version);
void weir__user_reload_release(const struct weir__users *users); /* NULL is allowed */

#endif
