/* replay.h: decides the requests of a log by a policy, as a server with that policy would have done.
 *
 * The guard and the table are the server's. Only the clock differs: `now` is the arrival of each record. So the
 * same records give the same decisions, at any speed.
 *
 *     weir__replay_new -> { weir__replay_decide } ... -> weir__replay_table_stats -> weir__replay_free
 *
 * To compare two policies, make two replays and give the same records to both. The reasons are in
 * docs/internals/replay.md. */
#ifndef WEIR_REPLAY_REPLAY_H
#define WEIR_REPLAY_REPLAY_H

#include <weir/guard.h>

#include "replay/log_record.h"

enum { WEIR__REPLAY_BATCH = 32, WEIR__REPLAY_NO_CLAIM = UINT32_MAX };

struct weir__replay_options {
	weir_ns begins;                  /* the arrival of the first record. Times are valid for 9 years around it */
	uint64_t keys;                   /* in use at once, for the size of the table; 0: 4 million */
	const struct weir__slice *names; /* of the values of the records: the `wanted` of the log reader */
	size_t n_names;
};

/* The decision on one record. Pointers are valid until the next call of weir__replay_decide. */
struct weir__replay_answer {
	/* False: the policy cannot decide this request, and `error` says why. A server would return an error. */
	bool is_decided;
	bool is_unmatched;      /* no limit of the policy matches it */
	uint32_t n_enforced, n; /* claims: enforced limits first, then those in shadow */
	/* The enforced claim that decided: see struct weir_decision. NO_CLAIM: none did. */
	uint32_t decider;
	struct weir_verdict verdict;         /* of decided_by, with the longest delay of all enforced limits */
	const struct weir_claim *claims;     /* n */
	const struct weir_verdict *verdicts; /* n, each of that limit alone */
	const uint32_t *plans;               /* n, for weir_policy_plan_of */
	const uint64_t *hashes;              /* n_enforced, of the keys */
	const char *error;
};

struct weir__replay;

/* The names of the attributes that a policy uses, for the `wanted` of a log reader. ret_names has room for
 * WEIR__LOG_VALUES_MAX. They belong to the policy. Returns their number. */
size_t weir__replay_names(const struct weir_policy *policy, struct weir__slice *ret_names);

/* Takes ownership of the policy, even when it fails. WEIR_ERR_UNSUPPORTED: the policy is in Envoy's format. Other
 * errors as weir_table_new and weir_guard_new. */
int weir__replay_new(struct weir_policy *policy, const struct weir__replay_options *options,
		     struct weir__replay **ret_replay, struct weir_message *ret_message);

/* Decides up to WEIR__REPLAY_BATCH records, in their order. */
void weir__replay_decide(struct weir__replay *replay, const struct weir__log_record *const *records, size_t n,
			 struct weir__replay_answer *ret_answers);

const struct weir_policy *weir__replay_policy(const struct weir__replay *replay);

/* The guard, for the texts of keys and the names of limits. */
struct weir_guard *weir__replay_guard(struct weir__replay *replay);

/* If `evicted` or `folded` is not 0, decisions may differ from those of a server with a larger table. */
void weir__replay_table_stats(const struct weir__replay *replay, weir_ns now, struct weir_table_stats *ret_stats);

void weir__replay_free(struct weir__replay *replay); /* NULL is allowed */

#endif
