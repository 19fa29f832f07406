/* compare.h: says what happens to the usage of keys when one policy replaces another.
 *
 * A limit keeps the usage of its keys by its name, as far as the old state can be converted. weir_step_convertible
 * decides that, as in the table and in Redis. */
#ifndef WEIR_POLICY_COMPARE_H
#define WEIR_POLICY_COMPARE_H

#include "policy/policy.h"

enum weir__policy_fate {
	WEIR__FATE_KEPT,      /* the limit is the same */
	WEIR__FATE_CONVERTED, /* the limit differs, and keys keep what they have used */
	WEIR__FATE_ANEW,      /* keys start over */
	WEIR__FATE_ADDED,
	WEIR__FATE_REMOVED,
	WEIR__FATES
};

/* How servers agree on a limit: exact, if what the policy says is not possible. */
struct weir__policy_agreement {
	enum weir_policy_consistency consistency;
	uint32_t percent; /* LEASE: how much may be stranded; EVENTUAL: how far one server may be ahead */
	weir_ns sync;     /* EVENTUAL */
};

/* A limit or override of either policy. */
struct weir__policy_difference {
	enum weir__policy_fate fate;
	const char *name;                                             /* of the plan */
	char before[WEIR_LIMIT_TEXT_MAX], after[WEIR_LIMIT_TEXT_MAX]; /* empty: not in that policy */
	const char *why;                                              /* ANEW: what differs, as a sentence */
	struct weir__policy_agreement agreed_before, agreed_after;
	/* Rows of the limit's CSV file that now give a different limit than before. Their keys start over, even if the
	 * limit itself keeps its keys. */
	uint64_t rows;
};

/* Says how servers agree on a plan's limit. */
typedef struct weir__policy_agreement weir__policy_agree(const struct weir_policy_plan *plan);

/* Reports each plan of `after` in the order of the file, then those that only `before` has. Returns false, and reports
 * nothing, if memory ran out. `agree` NULL: consistency is not compared. */
typedef void weir__policy_compare_report(void *context, const struct weir__policy_difference *difference);
bool weir__policy_compare(const struct weir_policy *before, const struct weir_policy *after, weir__policy_agree *agree,
			  weir__policy_compare_report *report, void *context);

/* Whether the policy denies requests that no limit matches. */
bool weir__policy_denies_unmatched(const struct weir_policy *policy);

/* Whether all keys start over, or some. */
bool weir__policy_difference_is_anew(const struct weir__policy_difference *difference);

/* Writes what becomes of the keys, with a NUL, as in
 * `per-ip: keys start over, because the period of the window changed: 5/hour fixed_window, before 5/min fixed_window`. */
enum { WEIR__POLICY_DIFFERENCE_SIZE = 768 };
void weir__policy_difference_write(const struct weir__policy_difference *difference,
				   char ret_text[WEIR__POLICY_DIFFERENCE_SIZE]);

#endif
