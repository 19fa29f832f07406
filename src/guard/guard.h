/* guard.h: functions of a guard that only the daemon needs, beyond weir/guard.h. The reasons are in
 * docs/internals/policies.md. */
#ifndef WEIR_GUARD_GUARD_H
#define WEIR_GUARD_GUARD_H

#include <weir/guard.h>

#include "guard/bound_policy.h"
#include "policy/compare.h"

enum { WEIR__GUARD_KEY_SIZE = 8 * 64, WEIR__CHANGE_USER = 64, WEIR__CHANGE_PEER = 64 };

/* A change of a limit after its policy was loaded. */
struct weir__limit_change {
	struct weir_limit to;
	char user[WEIR__CHANGE_USER]; /* who made it; "-" or empty: not known */
	char peer[WEIR__CHANGE_PEER]; /* from where; the same */
	weir_ns at;                   /* Unix time; 0: not known */
	/* For a change on all servers of a store, a number that grows with each change. 0: a change on this server
	 * alone. */
	uint64_t version;
};

/* A limit or override of the policy. */
struct weir__guard_row {
	const char *name;                     /* of the plan */
	const struct weir_table_limit *limit; /* NULL: unlimited */
	struct weir_limit now;                /* what `limit` is, unless it is NULL */
	enum weir_mode mode;
	enum weir_policy_store store;
	enum weir_policy_consistency consistency;
	uint32_t stranded; /* LEASE: percent */
	uint32_t ahead;    /* EVENTUAL: percent */
	weir_ns sync;      /* EVENTUAL */
	enum weir_store_failure on_store_failure;
	bool is_local;                  /* a limit for when the store fails */
	bool is_keyed;                  /* false: all requests share one state, of the empty key */
	weir_ns store_budget;           /* 0: not set in the policy */
	weir_ns wait;                   /* 0: not set in the policy */
	char key[WEIR__GUARD_KEY_SIZE]; /* names of attributes, separated by commas; empty in Envoy's form */
	bool is_changed;                /* since the policy was loaded, as `change` says */
	struct weir__limit_change change;
};

/* weir_guard_new, with a check that every limit of every policy must pass. */
int weir__guard_new(struct weir_table *table, struct weir_policy *policy, weir__bound_policy_check *check,
		    struct weir_guard **ret_guard, struct weir_message *ret_message);

/* Returns the limit of the plan with this name. It lives as long as the table. NULL: unknown plan, or unlimited. */
const struct weir_table_limit *weir__guard_limit(struct weir_guard *guard, const char *plan, size_t length);

/* The time since when the plan of this name has had this limit of the table, through all policies, on the table's
 * clock. 0: it does not have it. */
weir_ns weir__guard_limit_since(struct weir_guard *guard, const char *plan, size_t length,
				const struct weir_table_limit *limit);

/* How a plan decides when the store fails. */
struct weir__guard_failure {
	enum weir_store_failure mode;         /* UNSET also for an unknown plan */
	const struct weir_table_limit *local; /* with LOCAL: the limit to use; lives as long as the table */
	weir_ns budget;                       /* 0: not set in the policy */
};

void weir__guard_failure(struct weir_guard *guard, const char *plan, size_t length,
			 struct weir__guard_failure *ret_failure);

/* Where the policy says that the state of this plan is kept. UNSET also for an unknown plan. */
enum weir_policy_store weir__guard_store(struct weir_guard *guard, const char *plan, size_t length);

/* Whether the policy says of any plan that its state is kept in the table. */
bool weir__guard_has_table_store(struct weir_guard *guard);

/* The percentage of the limit that servers may hold unspent. 0: the plan is exact, unknown or kept in the table. */
uint32_t weir__guard_stranded(struct weir_guard *guard, const char *plan, size_t length);

/* How far servers may be ahead of Redis, for the plan with this name. */
struct weir__guard_eventual {
	uint32_t ahead; /* percent; 0: the plan is not eventual */
	weir_ns sync;
	weir_ns budget; /* 0: not set in the policy */
};
struct weir__guard_eventual weir__guard_eventual(struct weir_guard *guard, const char *plan, size_t length);

/* Whether the limit of any plan is leased or eventual. */
bool weir__guard_has_lease(struct weir_guard *guard);

/* weir__policy_denies_unmatched of the policy in force. */
bool weir__guard_denies_unmatched(struct weir_guard *guard);

/* weir__policy_find_misspelled by the policy in force. Returns n if no name seems misspelled. The name that was meant
 * is copied to ret_meant with a NUL. */
size_t weir__guard_find_misspelled(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
				   char ret_meant[WEIR__ATTRIBUTE_NAME_MAX + 1]);

/* --- lists: guard_list.c ------------------------------------------------------------------------------------------ */

/* Each of these reports plans of one policy, with the limits of one instant: a change of the policy or of a limit is in
 * all rows or in none. Only a list of more than WEIR__GUARD_ROWS_MAX rows is read row by row. */
enum { WEIR__GUARD_ROWS_MAX = 1024 };

/* Reports up to `most` plans, from number `first` on, in file order. Calls `begin` first, with the number of plans that
 * follow and the number of all plans. */
void weir__guard_list(struct weir_guard *guard, uint32_t first, uint32_t most,
		      void (*begin)(void *context, uint32_t n, uint32_t all),
		      void (*tell)(void *context, const struct weir__guard_row *row), void *context);

/* Reports the plan with this name. Returns false if it is unknown. */
bool weir__guard_row(struct weir_guard *guard, const char *plan, size_t length,
		     void (*tell)(void *context, const struct weir__guard_row *row), void *context);

/* Reports plans that the caller chooses. `begin` starts a choice. Then the first `most` plans are visited, in file
 * order and without unlimited ones. `choose` returns the chosen plans, at most WEIR__GUARD_ROWS_MAX, and `tell` gets
 * them in this order. If the policy changes before the first `tell`, it starts over with `begin`. Returns false if
 * memory ran out. */
struct weir__guard_choice {
	void (*begin)(void *context);
	void (*visit)(void *context, uint32_t plan, const struct weir_table_limit *limit);
	uint32_t (*choose)(void *context, const uint32_t **ret_plans);
	void (*tell)(void *context, const struct weir__guard_row *row);
};
bool weir__guard_list_chosen(struct weir_guard *guard, uint32_t most, const struct weir__guard_choice *choice,
			     void *context);

/* Compares the policy in force with its replacement. Returns false, and reports nothing, if memory ran out. */
bool weir__guard_compare(struct weir_guard *guard, const struct weir_policy *next, weir__policy_compare_report *report,
			 void *context);

/* Reports the first plans of the policy in force whose limits could not be converted from the table's limits of the
 * same names, and have decided nothing yet. Returns the number of all such plans. */
uint32_t weir__guard_list_anew(struct weir_guard *guard, void (*tell)(void *context, const char *plan), void *context);

/* --- changes of single limits: guard_changes.c -------------------------------------------------------------------- */

/* weir_guard_change_limit, which also records by whom and when. A change on all servers is made only if the policy in
 * force has this identity and no later change was made. A change on this server alone ignores the identity. Returns
 * WEIR_OK even if the limit already was as requested. ret_is_made says whether the change was made, and ret_before has
 * the limit before it. WEIR_ERR_CHANGE: also if the policy in force has another identity. */
int weir__guard_change_limit(struct weir_guard *guard, const char *plan, const struct weir__limit_change *change,
			     uint64_t identity, weir_ns now, bool *ret_is_made, struct weir_limit *ret_before,
			     struct weir_message *ret_message);

/* Whether a limit can be changed to this one. Returns WEIR_OK, or the error that the change would return. */
int weir__guard_check_change(struct weir_guard *guard, const char *plan, const struct weir_limit *to, weir_ns now,
			     struct weir_message *ret_message);

/* Returns a hash that identifies the content of the policy in force. */
uint64_t weir__guard_identity(struct weir_guard *guard);

/* Reports the latest change on all servers of each limit, if the policy in force has this identity. */
void weir__guard_list_shared(struct weir_guard *guard, uint64_t identity,
			     void (*tell)(void *context, const char *plan, const struct weir__limit_change *change),
			     void *context);

/* The number of limits that were changed since the policy was loaded. */
uint32_t weir__guard_changed(struct weir_guard *guard);

/* Writes who made a change, as `alice (192.0.2.1:5000)` or `192.0.2.1:5000`, and when, as `2026-01-31T10:00:00Z`.
 * Empty: not known. */
enum { WEIR__CHANGE_BY_SIZE = WEIR__CHANGE_USER + WEIR__CHANGE_PEER + 4, WEIR__CHANGE_AT_SIZE = 32 };
void weir__limit_change_by(const struct weir__limit_change *change, char ret_by[WEIR__CHANGE_BY_SIZE]);
void weir__limit_change_at(const struct weir__limit_change *change, char ret_at[WEIR__CHANGE_AT_SIZE]);

/* --- keys as text: guard_keys.c, guard_keys_read.c ---------------------------------------------------------------- */

/* Writes the key of a limit as readable text with a NUL, cut to `size`, and returns its length. Each part is written as
 * NAME=VALUE, separated by spaces, as in `ip=10.0.0.0/24 api_key=abc`. In Envoy's form the text is `domain=NAME` and
 * the entries. `plan` is the name of the plan, or of its limit in the table. Bytes of values that are not valid or not
 * visible characters become \xHH, and so does a backslash. One byte of a value that weir__guard_read_key would misread
 * becomes \xHH too. Only the first `length` of the key's `whole` bytes are known. The rest becomes `...`. A key that
 * this policy does not make, perhaps because another policy made it, is written as one value without a name. */
enum { WEIR__KEY_TEXT_SIZE = 512 };
size_t weir__guard_key_text(struct weir_guard *guard, const char *plan, const void *key, size_t length, size_t whole,
			    char *text, size_t size);

/* The same for any key, without a policy. */
size_t weir__key_text(const void *key, size_t length, size_t whole, char *text, size_t size);

/* The prefix of all keys of a request, in the caller's memory: the name space of a tenant. A prefix ends with its only
 * slash, so no prefix is the beginning of another. */
struct weir__guard_prefix {
	const char *at;
	size_t n;
	char *room; /* for the keys with their prefixes */
	size_t size;
};

/* 1 to WEIR__KEY_PREFIX_MAX - 1 letters, digits and . _ @ -, then a slash. */
enum { WEIR__KEY_PREFIX_MAX = 32 };
bool weir__guard_is_prefix(const char *text, size_t length);

/* Replaces a key by one with the prefix, in the room behind the first *used bytes, which increases. Returns WEIR_OK, or
 * WEIR_ERR_FULL with a message. */
int weir__guard_add_prefix(const struct weir__guard_prefix *prefix, size_t *used, const char **key, size_t *length,
			   struct weir_message *ret_message);

/* A key that was parsed from text. */
struct weir__guard_key {
	const struct weir_table_limit *limit; /* of the plan; lives as long as the table */
	const char *bytes;                    /* in the text, or in the room */
	size_t length;
	size_t written; /* bytes used in the room: 0, or the length */
};

/* Converts a key from text to the bytes that a request with the same attributes gets. The text is as
 * weir__guard_key_text writes it. For a limit by one attribute, the value alone is enough. Values are normalised like
 * those of a request, so any spelling works. A value after NAME= that has an \xHH is only unescaped. An address may be
 * given as its network. If a part is an address, a value that is not an address must follow its NAME=. The text may
 * begin with the prefix of a tenant. Text that needs no change is not copied. WEIR_ERR_LIMIT: unknown plan, or
 * unlimited. WEIR_ERR_SYNTAX: not a key of that limit. The message says what would be right. WEIR_ERR_FULL: the room is
 * too small. WEIR__GUARD_KEY_ROOM fits any key that a request can have. */
enum { WEIR__GUARD_KEY_ROOM = 16384 };
int weir__guard_read_key(struct weir_guard *guard, const char *plan, size_t plan_length, const char *text,
			 size_t length, char *room, size_t size, struct weir__guard_key *ret_key,
			 struct weir_message *ret_message);

/* --- views: guard_look.c ------------------------------------------------------------------------------------------ */

/* Why this limit stays exact although its plan leases it. Empty: it does not stay exact, or its plan does not lease it. */
const char *weir__guard_why_exact(const struct weir_policy_plan *plan, const struct weir_limit *limit);

/* weir_guard_explain, but limits that apply come before all others. */
void weir__guard_explain(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
			 weir_policy_report *report, void *context);

struct weir__policy_example;

/* weir__policy_example of the policy in force. */
bool weir__guard_example(struct weir_guard *guard, struct weir__policy_example *ret_example);

/* A plan and a key of its limit, as bytes, to look at in addition to a request's own. */
struct weir__guard_chosen {
	const char *plan;
	const void *key;
	size_t plan_length, key_length;
	enum weir_mode mode;
};

/* A limit that applies to a request, or was chosen, and what it would decide. */
struct weir__guard_view {
	bool applies;
	const char *name;                     /* of the plan */
	const struct weir_table_limit *limit; /* NULL: unlimited, and the verdict allows */
	enum weir_mode mode;
	uint64_t cost;
	struct weir_verdict verdict;
	char key[WEIR__KEY_TEXT_SIZE]; /* as weir__guard_key_text writes it */
};

/* Reports, for each limit that applies to a request, whether it would allow the request now. Charges nothing. Limits
 * come in file order. Then reports the chosen limit, unless it is NULL, already reported, or not in the policy any
 * more. It reads the table. guard_check.h does the same with any store. WEIR_ERR_LIMIT: as weir_policy_match. */
int weir__guard_view(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n, uint64_t cost,
		     const struct weir__guard_chosen *chosen, weir_ns now,
		     void (*tell)(void *context, const struct weir__guard_view *view), void *context,
		     struct weir_message *ret_message);

/* The number of limits in the policy, without overrides. */
uint32_t weir__guard_limits(struct weir_guard *guard);

#endif
