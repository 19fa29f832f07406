/* policy_loader.h: the policy that a daemon decides by, and the thread that puts another one in its place.
 *
 * All reading is done in that thread. Workers ask the guard, which has one whole policy at any time. A version that is
 * wrong in anything changes nothing; one that is the same as the current one changes nothing either. */
#ifndef WEIR_SERVER_POLICY_LOADER_H
#define WEIR_SERVER_POLICY_LOADER_H

#include <weir/guard.h>

#include "server/settings.h"

struct weir__policy_loader;
struct weir__policy_upload;
struct weir__policy_text;

/* Reads the first version: where settings say, which must be somewhere (weir__policy_loader_is_set). NULL: something is wrong,
 * and all of it was told to settings->errors. */
bool weir__policy_loader_is_set(const struct weir__settings *settings);
struct weir__policy_loader *weir__policy_loader_new(const struct weir__settings *settings);

/* Limits that a table needs room for, with those to come. */
uint32_t weir__policy_loader_limits(const struct weir__policy_loader *loader);

/* Begins to decide by it, and to look for other versions. False: that was told. */
bool weir__policy_loader_start(struct weir__policy_loader *loader, struct weir_table *table);

/* Nobody uses the guard any more. NULL is allowed. */
void weir__policy_loader_free(struct weir__policy_loader *loader);

struct weir_guard *weir__policy_loader_guard(struct weir__policy_loader *loader);

/* Lets it look now; from any thread, without a wait. Returns what `reloads` below will be when that is done. */
uint64_t weir__policy_loader_reload(struct weir__policy_loader *loader);

/* Lets it look at a policy that came with a request, or put it in force until the source has another one or a reload is
 * asked for. From any thread, without a wait; the errand comes back to its door. False: too many wait. */
bool weir__policy_loader_send(struct weir__policy_loader *loader, struct weir__policy_upload *upload);

/* The text of the one in force. */
struct weir__policy_text *weir__policy_loader_text(struct weir__policy_loader *loader);

enum { WEIR__POLICY_ERROR_SIZE = 512 };

struct weir__policy_loader_info {
	uint64_t changes;                         /* versions that came into force after the first */
	uint64_t failures;                        /* versions that were wrong */
	uint64_t reloads;                         /* of those that were asked for, how many are done */
	weir_ns loaded_at;                        /* when the current version came into force */
	uint32_t limits;                          /* that it has */
	char last_error[WEIR__POLICY_ERROR_SIZE]; /* the first fault of the latest version; empty: it is in force */
};

void weir__policy_loader_info(struct weir__policy_loader *loader, struct weir__policy_loader_info *ret_info);

/* All that is wrong with a file of settings, limits or both, or with a directory of limits, told to `errors`. The policy,
 * for the caller to free, or NULL. */
struct weir_policy *weir__policy_loader_check(const char *path, FILE *errors);

#endif
