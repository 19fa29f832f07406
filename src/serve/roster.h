/* roster.h: the users that there are now. They are read again when the file of settings changes, and when it is asked for.
 *
 * Workers have a copy each, which they take anew between requests when they are told that users have changed. A file that
 * is wrong in anything but its limits changes nothing; neither does one without users, if there were any: it may be one that
 * is just being written. */
#ifndef WEIR_SERVE_ROSTER_H
#define WEIR_SERVE_ROSTER_H

#include "serve/settings.h"

struct weir__roster;
struct weir__crew;

/* With the users of these settings. NULL: no memory. */
struct weir__roster *weir__roster_new(const struct weir__settings *settings);

/* Begins to look for other versions of the file, if there is one; workers of the crew will be told. False: there is no thread,
 * or no descriptor. */
bool weir__roster_start(struct weir__roster *roster, struct weir__crew *crew);

/* When all workers have ended. NULL is allowed. */
void weir__roster_free(struct weir__roster *roster);

/* Lets it read the file now; from any thread, without a wait. */
void weir__roster_reload(struct weir__roster *roster);

/* Goes up when users change. */
uint64_t weir__roster_version(const struct weir__roster *roster);

/* The users of now. Returns their version. Takes no lock. */
uint64_t weir__roster_copy(struct weir__roster *roster, struct weir__users *ret_users);

#endif
