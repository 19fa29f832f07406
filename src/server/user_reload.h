/* user_reload.h: the users that there are now. They are read again when the file of settings changes, and when it is asked for.
 *
 * Workers have a copy each, which they take anew between requests when they are told that users have changed. A file that
 * is wrong in anything but its limits changes nothing; neither does one without users, if there were any: it may be one that
 * is just being written. */
#ifndef WEIR_SERVER_USER_RELOAD_H
#define WEIR_SERVER_USER_RELOAD_H

#include "server/settings.h"

struct weir__user_reload;
struct weir__accept_balancer;

/* With the users of these settings. NULL: no memory. */
struct weir__user_reload *weir__user_reload_new(const struct weir__settings *settings);

/* Begins to look for other versions of the file, if there is one; workers of the crew will be told. False: there is no thread,
 * or no descriptor. */
bool weir__user_reload_start(struct weir__user_reload *user_reload, struct weir__accept_balancer *balancer);

/* When all workers have ended. NULL is allowed. */
void weir__user_reload_free(struct weir__user_reload *user_reload);

/* Lets it read the file now; from any thread, without a wait. */
void weir__user_reload_reload(struct weir__user_reload *user_reload);

/* Goes up when users change. */
uint64_t weir__user_reload_version(const struct weir__user_reload *user_reload);

/* The users of now. Returns their version. Takes no lock. */
uint64_t weir__user_reload_copy(struct weir__user_reload *user_reload, struct weir__users *ret_users);

#endif
