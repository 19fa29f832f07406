/* guard_check.h: a request that a policy decides, as a small state machine that produces store requests.
 *
 *     weir__guard_check_begin -> { weir__guard_check_next -> the store } ... -> the answer
 *
 * Enforced limits are taken together. If they all allow, each limit in shadow is taken too, otherwise it is only peeked
 * at. A check uses one version of the policy, which it holds from begin to end. It may move in memory between two store
 * requests. */
#ifndef WEIR_GUARD_GUARD_CHECK_H
#define WEIR_GUARD_GUARD_CHECK_H

#include "guard/guard.h"
#include "store/store.h"

/* Instead of a phase: the check holds the policy itself, so that a change of the policy need not wait for it. */
enum { WEIR__GUARD_HOLDS = 2 };

struct weir__guard_check {
	struct weir_guard *guard;
	const struct weir__bound_policy *bound; /* the policy in use; NULL: the check has ended */
	uint32_t phase; /* the epoch's phase when it entered; WEIR__GUARD_HOLDS: it has left the epoch */
	uint8_t stage;
	bool is_kept;           /* its attributes are gone: it cannot start over with another policy */
	uint32_t n_enforced, n; /* claims: enforced first, then shadow */
	struct weir__epoch_check epoch_check;
	/* The caller's; not read after is_kept. */
	const struct weir__guard_prefix *prefix; /* NULL: none */
	const struct weir_attribute *attributes;
	size_t n_attributes;
	uint64_t cost;
	uint32_t plans[WEIR_POLICY_CLAIMS_MAX];  /* for each claim */
	uint64_t hashes[WEIR_POLICY_CLAIMS_MAX]; /* of the keys of enforced claims */
	struct weir_guard_answer answer;
};

/* What a request matches. Keys of claims point in here, or into the attributes, until the check is kept. */
struct weir__guard_match {
	struct weir_policy_answer answer;
	const struct weir__ahead *ahead[WEIR_POLICY_CLAIMS_MAX]; /* for each claim, addresses known ahead; NULL: none */
};

/* Matches the request. Its keys get the prefix, unless that is NULL. `claims` and `verdicts` have room for
 * WEIR_POLICY_CLAIMS_MAX. WEIR_ERR_LIMIT: as weir_policy_match; then the check has ended. */
int weir__guard_check_begin(struct weir__guard_check *check, struct weir_guard *guard, struct weir__guard_match *match,
			    const struct weir_attribute *attributes, size_t n, uint64_t cost,
			    const struct weir__guard_prefix *prefix, struct weir_claim *claims,
			    struct weir_message *ret_message);

/* Sets operation, claims, verdicts, epoch_check and hashes of the next store request. Returns false if the check has
 * ended, with check->answer set. A policy that became current in the meantime can fail the request as begin does. Then
 * *ret_error is not WEIR_OK. */
bool weir__guard_check_next(struct weir__guard_check *check, struct weir__guard_match *match, struct weir_claim *claims,
			    struct weir_verdict *verdicts, struct weir__store_request *store_request, int *ret_error,
			    struct weir_message *ret_message);

/* How long this request may wait for its limits that shape: the smallest `wait` of the enforced limits that apply.
 * Returns false if none of them has a `wait`. */
bool weir__guard_check_patience(const struct weir__guard_check *check, const struct weir_claim *claims,
				weir_ns *ret_patience);

/* Instead of a store request: the enforced claims were decided elsewhere, by `verdict` of the claim `decider`. */
void weir__guard_check_decided(struct weir__guard_check *check, const struct weir_claim *claims, size_t decider,
			       const struct weir_verdict *verdict);

/* Call it when the check has moved and its claims own their keys. The attributes and the match are not used any
 * more. */
static inline void weir__guard_check_kept(struct weir__guard_check *check)
{
	check->is_kept = true;
	check->attributes = NULL;
}

/* For a check that another event of the same thread completes: holds the policy instead of the epoch. */
void weir__guard_check_hold(struct weir__guard_check *check);

/* Ends a check that the store has failed. */
void weir__guard_check_abandon(struct weir__guard_check *check);

/* Whether the current store request is for limits in shadow. If it fails, the decision stands. */
bool weir__guard_check_is_shadowing(const struct weir__guard_check *check);

/* Whether limits in shadow were taken, not only peeked at. */
static inline bool weir__guard_check_takes_shadows(const struct weir__guard_check *check)
{
	return check->answer.verdict.allowed;
}

/* --- descriptors: guard_descriptors.c ---------------------------------------------------------------------------- */

/* The same for descriptors. By default all descriptors count together: quotas, limits in shadow and limits with a cost of
 * 0 are peeked at first. Then the enforced limits are taken together, or only peeked at if all quotas are used up, or a
 * limit with a cost of 0 has nothing left. If the request is allowed, the quotas and shadow limits are then taken. With
 * WEIR_ENVOY_COUNT_EACH every claim is taken by itself. At last, what descriptors give back is given back, whatever was
 * decided. */
struct weir__guard_descriptors {
	struct weir_guard *guard;
	const struct weir__bound_policy *bound;
	uint32_t phase;
	uint8_t stage;
	bool is_kept, is_each;
	bool is_allowed, is_charged, is_seen, is_by_quotas;
	/* Claims: enforced first, those with a cost before those that only look, then quotas and shadow, then those that
	 * give back. */
	uint32_t n_taking, n_enforced, n_taken, n_claims;
	uint32_t n; /* descriptors */
	struct weir__epoch_check epoch_check;
	const char *domain; /* the caller's; not read after is_kept */
	size_t domain_length;
	const struct weir_descriptor *descriptors;
	uint64_t hits;
	uint8_t claim_of[WEIR_DESCRIPTORS_MAX]; /* for each descriptor: index of its claim plus 1; 0: none */
	uint8_t group_of[WEIR_DESCRIPTORS_MAX]; /* for each quota: the first quota of its group */
	struct weir_guard_answer answer;
};

/* The caller's memory. `statuses` has room for all descriptors, `claims` and `verdicts` for WEIR_DESCRIPTORS_MAX. Keys
 * of claims point into `matched` until the check is kept. Errors as weir_guard_check_descriptors. */
struct weir__guard_descriptors_room {
	struct weir_descriptors_answer *matched;
	struct weir_claim *claims;
	struct weir_verdict *verdicts;
	struct weir_guard_status *statuses;
	const struct weir__guard_prefix *prefix; /* of all keys; NULL: none, or the check is kept */
	/* Finds or makes an inline limit, which must stay valid until the check is kept or has ended, and must not
	 * invalidate those of the first n claims. NULL: the guard
	 * makes limits of its table, at most WEIR_GUARD_GIVEN_MAX. */
	int (*give)(void *giver, const struct weir_claim *claims, uint32_t n, const struct weir_limit *stated,
		    const struct weir_table_limit **ret_limit, struct weir_message *ret_message);
	void *giver;
};

int weir__guard_descriptors_begin(struct weir__guard_descriptors *check, struct weir_guard *guard, const char *domain,
				  size_t domain_length, const struct weir_descriptor *descriptors, size_t n,
				  uint64_t hits, const struct weir__guard_descriptors_room *room,
				  struct weir_message *ret_message);

/* Sets the next store request. Returns false if the check has ended, with answer and statuses set. A policy that became
 * current in the meantime can fail the request as begin does. Then *ret_error is not WEIR_OK. */
bool weir__guard_descriptors_next(struct weir__guard_descriptors *check,
				  const struct weir__guard_descriptors_room *room,
				  struct weir__store_request *store_request, int *ret_error,
				  struct weir_message *ret_message);

/* Ends a check whose client has cancelled it, instead of the store request that next has set. Returns false, and does
 * nothing, if something was charged, or if that store request charges nothing. */
bool weir__guard_descriptors_cancel(struct weir__guard_descriptors *check,
				    const struct weir__store_request *store_request);

static inline void weir__guard_descriptors_kept(struct weir__guard_descriptors *check)
{
	check->is_kept = true;
	check->domain = NULL;
	check->descriptors = NULL;
}

/* After the end: reports what was charged or denied, for statistics. Enforced claims that were decided together are
 * reported in one call, all others one by one. */
void weir__guard_descriptors_tell(const struct weir__guard_descriptors *check,
				  const struct weir__guard_descriptors_room *room,
				  void (*tell)(void *context, const struct weir_claim *claims,
					       const struct weir_verdict *verdicts, size_t n, bool is_shadow),
				  void *context);

/* Calls `describe` with the claims of a request that was decided, one for each descriptor, by the policy that is current
 * now: it may have changed since, so a claim may not apply any more. The claims and their metadata are valid only during
 * the call. */
void weir__guard_describe_descriptors(struct weir_guard *guard, const char *domain, size_t domain_length,
				      const struct weir_descriptor *descriptors, size_t n,
				      void (*describe)(void *context, const struct weir_descriptor_claim *claims),
				      void *context);

/* --- views: guard_look.c ----------------------------------------------------------------------------------------- */

enum { WEIR__GUARD_LOOK_CLAIMS = WEIR_POLICY_CLAIMS_MAX + 1 };

/* What each limit that applies to a request would decide, and a chosen limit. Each is peeked at by itself. */
struct weir__guard_look {
	struct weir_guard *guard;
	const struct weir__bound_policy *bound;
	uint32_t phase;
	bool has_chosen; /* the chosen one is the last */
	bool is_denied;  /* no limit matches the request, and the policy denies such requests */
	uint32_t n, at;  /* claims; the first that has not been peeked at */
	/* In file order, with the keys of the claims. */
	struct weir_policy_claim applies[WEIR__GUARD_LOOK_CLAIMS];
};

/* `claims` and `verdicts` have room for WEIR__GUARD_LOOK_CLAIMS. A claim without a limit is unlimited. `chosen` is
 * added unless it is NULL, applies anyway, or is not in the policy any more. WEIR_ERR_LIMIT: as weir_policy_match; then
 * the look has ended. */
int weir__guard_look_begin(struct weir__guard_look *look, struct weir_guard *guard, struct weir_policy_answer *matched,
			   const struct weir_attribute *attributes, size_t n, uint64_t cost,
			   const struct weir__guard_chosen *chosen, struct weir_claim *claims,
			   struct weir_message *ret_message);

/* Sets the next store request. Returns false if all claims have verdicts. */
bool weir__guard_look_next(struct weir__guard_look *look, const struct weir_claim *claims,
			   struct weir_verdict *verdicts, struct weir__store_request *store_request);

/* Reports each view and ends the look. */
void weir__guard_look_tell(struct weir__guard_look *look, const struct weir_claim *claims,
			   const struct weir_verdict *verdicts,
			   void (*tell)(void *context, const struct weir__guard_view *view), void *context);

#endif
