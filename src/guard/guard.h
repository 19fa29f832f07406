/* guard.h: what the daemon asks of a guard beyond weir/guard.h. */
#ifndef WEIR_GUARD_GUARD_H
#define WEIR_GUARD_GUARD_H

#include <weir/guard.h>

#include "guard/bound_policy.h"

enum { WEIR__GUARD_KEY_SIZE = 8 * 64 };

/* A limit or override of the policy. */
struct weir__guard_row {
	const char *name;                     /* of the plan */
	const struct weir_table_limit *limit; /* NULL: unlimited */
	enum weir_mode mode;
	enum weir_store_failure on_store_failure;
	bool is_local;                  /* the limit for when a store fails */
	bool is_keyed;                  /* each key has its own state; else all requests share one, of the empty key */
	weir_ns store_budget;           /* 0: the policy does not say */
	char key[WEIR__GUARD_KEY_SIZE]; /* names of attributes, with commas; of Envoy's form none */
};

/* weir_guard_new, with a check that all limits of all its policies are to pass. */
int weir__guard_new(struct weir_table *table, struct weir_policy *policy, weir__bound_policy_check *check,
		    struct weir_guard **ret_guard, struct weir_message *ret_message);

/* The limit of the plan of this name, which lives as long as the table; NULL: there is none, or it is unlimited. */
const struct weir_table_limit *weir__guard_limit(struct weir_guard *guard, const char *plan, size_t length);

/* What a plan says of a store that fails. */
struct weir__guard_failure {
	enum weir_store_failure mode;         /* UNSET also if there is no such plan */
	const struct weir_table_limit *local; /* of LOCAL: the limit for that case, which lives as long as the table */
	weir_ns budget;                       /* 0: the policy does not say */
};

void weir__guard_failure(struct weir_guard *guard, const char *plan, size_t length,
			 struct weir__guard_failure *ret_failure);

/* Tells of up to `most` plans from number `first` on, in the order of the file, all of one policy. `begin` is called before,
 * with how many there will be. */
void weir__guard_list(struct weir_guard *guard, uint32_t first, uint32_t most, void (*begin)(void *context, uint32_t n),
		      void (*tell)(void *context, const struct weir__guard_row *row), void *context);

/* Tells of the plan of this name. False: there is none. */
bool weir__guard_row(struct weir_guard *guard, const char *plan, size_t length,
		     void (*tell)(void *context, const struct weir__guard_row *row), void *context);

/* --- keys as text: guard_keys.c ----------------------------------------------------------------------------------- */

/* Text for people of the key of a limit, with a NUL, cut to what fits: NAME=VALUE for each part, with a space between, as in
 * `ip=10.0.0.0/24 api_key=abc`; of Envoy's form `domain=NAME` and the entries. `plan` is the name of the plan, or of its
 * limit in the table. Bytes of values that are no characters, or none that are seen, become \xHH, as does a backslash, and
 * one byte of a value that weir__guard_read_key would else take for another. Of a
 * key that has `whole` bytes the first `length` are known; what is missing becomes `...`. A key that is not such as the
 * policy makes, perhaps since another one made it, is written as if it were one value without a name. Returns the length. */
enum { WEIR__KEY_TEXT_SIZE = 512 };
size_t weir__guard_key_text(struct weir_guard *guard, const char *plan, const void *key, size_t length, size_t whole,
			    char *text, size_t size);

/* The same without a policy, of any key. */
size_t weir__key_text(const void *key, size_t length, size_t whole, char *text, size_t size);

/* A key that was given as text. */
struct weir__guard_key {
	const struct weir_table_limit *limit; /* of the plan; it lives as long as the table */
	const char *bytes;                    /* in the text, or in the room */
	size_t length;
	size_t written; /* bytes of the room that are used: 0, or the length */
};

/* The bytes of a key that is given as weir__guard_key_text writes it, or, of a limit by one attribute, as its value alone: those
 * that a request with these attributes gets. Values are read as a request's, in any spelling, but for those with an \xHH behind
 * their names, which are taken as they stand; of an address its network will do. What is no address is told behind a name alone.
 * A text that needs no change is not copied. WEIR_ERR_LIMIT: there is no such plan, or it is unlimited. WEIR_ERR_SYNTAX: it is
 * no key of that limit; the message says what would be. WEIR_ERR_FULL: there is no room; WEIR__GUARD_KEY_ROOM will do for any
 * key that a request can have. */
enum { WEIR__GUARD_KEY_ROOM = 16384 };
int weir__guard_read_key(struct weir_guard *guard, const char *plan, size_t plan_length, const char *text,
			 size_t length, char *room, size_t size, struct weir__guard_key *ret_key,
			 struct weir_message *ret_message);

/* --- looking: guard_look.c ---------------------------------------------------------------------------------------- */

/* weir_guard_explain, with the limits that apply before all others. */
void weir__guard_explain(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
			 weir_policy_report *report, void *context);

/* Tells of up to `most` plans, in the order of the file, which limit each has; of those alone that have one. */
void weir__guard_walk(struct weir_guard *guard, uint32_t most,
		      void (*visit)(void *context, uint32_t plan, const struct weir_table_limit *limit), void *context);

/* A plan and a key of its limit, as bytes, to look at whatever a request says. */
struct weir__guard_chosen {
	const char *plan;
	const void *key;
	size_t plan_length, key_length;
	enum weir_mode mode;
};

/* A limit that applies to a request, or was chosen, and what it would say. */
struct weir__guard_view {
	bool applies;
	const char *name;                     /* of the plan */
	const struct weir_table_limit *limit; /* NULL: unlimited, and the verdict admits */
	enum weir_mode mode;
	uint64_t cost;
	struct weir_verdict verdict;
	char key[WEIR__KEY_TEXT_SIZE]; /* as weir__guard_key_text writes it */
};

/* Of each limit that applies to a request whether it would admit it now, which charges nothing; in the order of the file. Then
 * of the chosen one, unless it is among these or the policy no longer has it; NULL: none is. By the table; guard_check.h has the
 * same for any store. WEIR_ERR_LIMIT: as weir_policy_match. */
int weir__guard_view(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n, uint64_t cost,
		     const struct weir__guard_chosen *chosen, weir_ns now,
		     void (*tell)(void *context, const struct weir__guard_view *view), void *context,
		     struct weir_message *ret_message);

/* How many limits the policy has; and how many plans, with those of overrides. */
uint32_t weir__guard_limits(struct weir_guard *guard);
uint32_t weir__guard_plans(struct weir_guard *guard);

#endif
