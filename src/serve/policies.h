/* policies.h: the policy that a daemon decides by, and the thread that puts another one in its place.
 *
 * All reading is done in that thread. Workers ask the guard, which has one whole policy at any time. A version that is
 * wrong in anything changes nothing; one that is the same as the current one changes nothing either. */
#ifndef WEIR_SERVE_POLICIES_H
#define WEIR_SERVE_POLICIES_H

#include <weir/guard.h>

#include "serve/settings.h"

struct weir__policies;
struct weir__policy_errand;
struct weir__policy_shown;

/* Reads the first version: where settings say, which must be somewhere (weir__policies_is_set). NULL: something is wrong,
 * and all of it was told to settings->errors. */
bool weir__policies_is_set(const struct weir__settings *settings);
struct weir__policies *weir__policies_new(const struct weir__settings *settings);

/* Limits that a table needs room for, with those to come. */
uint32_t weir__policies_plans(const struct weir__policies *policies);

/* Begins to decide by it, and to look for other versions. False: that was told. */
bool weir__policies_start(struct weir__policies *policies, struct weir_table *table);

/* Nobody uses the guard any more. NULL is allowed. */
void weir__policies_free(struct weir__policies *policies);

struct weir_guard *weir__policies_guard(struct weir__policies *policies);

/* Lets it look now; from any thread, without a wait. Returns what `reloads` below will be when that is done. */
uint64_t weir__policies_reload(struct weir__policies *policies);

/* Lets it look at a policy that came with a request, or put it in force until the source has another one or a reload is
 * asked for. From any thread, without a wait; the errand comes back to its door. False: too many wait. */
bool weir__policies_send(struct weir__policies *policies, struct weir__policy_errand *errand);

/* The text of the one in force. */
struct weir__policy_shown *weir__policies_shown(struct weir__policies *policies);

enum { WEIR__POLICY_ERROR_SIZE = 512 };

struct weir__policies_info {
	uint64_t changes;                         /* versions that came into force after the first */
	uint64_t failures;                        /* versions that were wrong */
	uint64_t reloads;                         /* of those that were asked for, how many are done */
	weir_ns loaded_at;                        /* when the current version came into force */
	uint32_t limits;                          /* that it has */
	char last_error[WEIR__POLICY_ERROR_SIZE]; /* the first fault of the latest version; empty: it is in force */
};

void weir__policies_info(struct weir__policies *policies, struct weir__policies_info *ret_info);

/* All that is wrong with a file of settings, limits or both, or with a directory of limits, told to `errors`. The policy,
 * for the caller to free, or NULL. */
struct weir_policy *weir__policies_check(const char *path, FILE *errors);

#endif
