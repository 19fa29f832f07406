/* policy_loader.h: the policy of a daemon, and the thread that replaces it when its source changes.
 *
 * After the first version, only that thread reads policies. Workers use the guard, which has one complete policy at any
 * time. A version with any error changes nothing, and neither does a version that equals the current one. */
#ifndef WEIR_SERVER_POLICY_LOADER_H
#define WEIR_SERVER_POLICY_LOADER_H

#include <weir/guard.h>

#include "server/settings.h"

struct weir__policy_loader;
struct weir__policy_upload;
struct weir__policy_text;

/* Reads the first version from the source that the settings name. weir__policy_loader_is_set must be true. Returns NULL
 * if anything is wrong, after reporting all of it to settings->errors. */
bool weir__policy_loader_is_set(const struct weir__settings *settings);
struct weir__policy_loader *weir__policy_loader_new(const struct weir__settings *settings);

/* How many limits the table needs room for, including those of later versions. */
uint32_t weir__policy_loader_limits(const struct weir__policy_loader *loader);

/* Bytes of arena that the first version needs, see arena_plan.h. 0: none, or a store decides. */
size_t weir__policy_loader_arena(const struct weir__policy_loader *loader);

/* Puts the first version in force, and begins to watch for others. Returns false if that failed, after reporting it. */
bool weir__policy_loader_start(struct weir__policy_loader *loader, struct weir_table *table);

/* Call it when no thread uses the guard any more. NULL is allowed. */
void weir__policy_loader_free(struct weir__policy_loader *loader);

struct weir_guard *weir__policy_loader_guard(struct weir__policy_loader *loader);

/* Requests a reload, from any thread. Does not wait. Returns the value that `reloads` below will have when it is
 * done. */
uint64_t weir__policy_loader_reload(struct weir__policy_loader *loader);

/* Lets the thread validate an uploaded policy, or put it in force until the source changes or a reload is requested.
 * From any thread. Does not wait. The upload returns to the mailbox of its worker. Returns false if too many wait. */
bool weir__policy_loader_send(struct weir__policy_loader *loader, struct weir__policy_upload *upload);

/* The text of the policy in force. */
struct weir__policy_text *weir__policy_loader_text(struct weir__policy_loader *loader);

enum { WEIR__POLICY_ERROR_SIZE = 512 };

struct weir__policy_loader_info {
	uint64_t changes;                         /* versions that came into force after the first */
	uint64_t failures;                        /* versions with errors */
	uint64_t reloads;                         /* requested reloads that are done */
	weir_ns loaded_at;                        /* when the current version came into force */
	uint32_t limits;                          /* in the current version */
	uint32_t anew;                            /* limits of these whose keys started over with it */
	char last_error[WEIR__POLICY_ERROR_SIZE]; /* the first error of the latest version; empty: it is in force */
};

void weir__policy_loader_info(struct weir__policy_loader *loader, struct weir__policy_loader_info *ret_info);

enum { WEIR__POLICY_PATH_SIZE = 4096 };

/* Reports to `errors` all errors of a file of settings, limits or both, or of a directory of limits. Follows the
 * setting `policy` of the file to another file or directory, whose path it writes to ret_apart; else that is empty.
 * Returns the policy, which the caller frees, or NULL. */
struct weir_policy *weir__policy_loader_check(const char *path, FILE *errors, char ret_apart[WEIR__POLICY_PATH_SIZE]);

#endif
