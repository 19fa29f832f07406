/* guard_check.h: a request that a policy decides, as a small state machine that says what it asks a store next.
 *
 *     weir__guard_check_begin -> { weir__guard_check_next -> the store } ... -> the answer
 *
 * Enforced limits are taken together. Then each limit in shadow is taken, if all of those allow, or else looked at. A check
 * goes by one version of the policy, which it holds from begin to the end. It may move in memory between two questions. */
#ifndef WEIR_GUARD_GUARD_CHECK_H
#define WEIR_GUARD_GUARD_CHECK_H

#include "guard/guard.h"
#include "store/store.h"

struct weir__guard_check {
	struct weir_guard *guard;
	const struct weir__bound_policy *bound; /* the policy that it goes by; NULL: it has ended */
	uint32_t phase;                         /* under which that is read */
	uint8_t stage;
	bool is_kept;           /* its attributes are gone: it cannot start over by another policy */
	uint32_t n_enforced, n; /* claims: the enforced ones first, then those in shadow */
	struct weir__epoch_check epoch_check;
	/* As they were given; read only while it is not kept. */
	const struct weir_attribute *attributes;
	size_t n_attributes;
	uint64_t cost;
	uint32_t plans[WEIR_POLICY_CLAIMS_MAX];  /* of the claims */
	uint64_t hashes[WEIR_POLICY_CLAIMS_MAX]; /* of the keys of enforced ones */
	struct weir_guard_answer answer;
};

/* What a request matches. Keys of claims lie in here, or in the attributes, until the check is kept. */
struct weir__guard_match {
	struct weir_policy_answer answer;
	const struct weir__ahead *ahead[WEIR_POLICY_CLAIMS_MAX]; /* of each claim, what is known ahead; NULL: nothing */
};

/* Matches the request. `claims` and `verdicts` have room for WEIR_POLICY_CLAIMS_MAX. WEIR_ERR_LIMIT: as weir_policy_match;
 * then it has ended. */
int weir__guard_check_begin(struct weir__guard_check *check, struct weir_guard *guard, struct weir__guard_match *match,
			    const struct weir_attribute *attributes, size_t n, uint64_t cost, struct weir_claim *claims,
			    struct weir_message *ret_message);

/* What to ask next: operation, claims, verdicts, premise and hashes of `asked` are set. False: it has ended, and the answer is
 * there. A policy that came meanwhile may refuse the request as begin does: then *ret_error is not WEIR_OK. */
bool weir__guard_check_next(struct weir__guard_check *check, struct weir__guard_match *match, struct weir_claim *claims,
			    struct weir_verdict *verdicts, struct weir__store_request *store_request, int *ret_error,
			    struct weir_message *ret_message);

/* It has moved, and its claims own their keys: attributes and match are gone. */
static inline void weir__guard_check_kept(struct weir__guard_check *check)
{
	check->is_kept = true;
	check->attributes = NULL;
}

/* Whether limits in shadow were taken, and not just looked at. */
static inline bool weir__guard_check_takes_shadows(const struct weir__guard_check *check)
{
	return check->answer.verdict.allowed;
}

/* --- descriptors: guard_descriptors.c ------------------------------------------------------------------------------- */

/* The same for descriptors. Where all count together: quotas and limits in shadow are looked at first, then the enforced ones
 * are taken together, or looked at if all quotas are used up, and then the others are taken. Where each counts: all are taken,
 * each by itself. */
struct weir__guard_descriptors {
	struct weir_guard *guard;
	const struct weir__bound_policy *bound;
	uint32_t phase;
	uint8_t stage;
	bool is_kept, is_each;
	bool is_allowed, is_charged, is_seen, is_by_quotas;
	uint32_t n_enforced, n_claims; /* claims: the enforced ones first, then quotas and those in shadow */
	uint32_t n;                    /* descriptors */
	struct weir__epoch_check epoch_check;
	const char *domain; /* as they were given; read only while it is not kept */
	size_t domain_length;
	const struct weir_descriptor *descriptors;
	uint64_t hits;
	uint8_t claim_of[WEIR_DESCRIPTORS_MAX]; /* of each descriptor: which claim, and 1; 0: none */
	struct weir_guard_answer answer;
};

/* Where `statuses` has room for all descriptors, `claims` and `verdicts` for WEIR_DESCRIPTORS_MAX. Keys of claims lie in
 * `matched` until the check is kept. Errors are those of weir_guard_check_descriptors. */
struct weir__guard_descriptors_room {
	struct weir_descriptors_answer *matched;
	struct weir_claim *claims;
	struct weir_verdict *verdicts;
	struct weir_guard_status *statuses;
};

int weir__guard_descriptors_begin(struct weir__guard_descriptors *check, struct weir_guard *guard, const char *domain,
				  size_t domain_length, const struct weir_descriptor *descriptors, size_t n,
				  uint64_t hits, const struct weir__guard_descriptors_room *room,
				  struct weir_message *ret_message);

/* What to ask next. False: it has ended, and answer and statuses are there. A policy that came meanwhile may refuse the request
 * as begin does: then *ret_error is not WEIR_OK. */
bool weir__guard_descriptors_next(struct weir__guard_descriptors *check,
				  const struct weir__guard_descriptors_room *room,
				  struct weir__store_request *store_request, int *ret_error,
				  struct weir_message *ret_message);

static inline void weir__guard_descriptors_kept(struct weir__guard_descriptors *check)
{
	check->is_kept = true;
	check->domain = NULL;
	check->descriptors = NULL;
}

/* Once it has ended: tells what was charged or denied, for counting, as claims that were decided together; those in shadow
 * alone. */
void weir__guard_descriptors_tell(const struct weir__guard_descriptors *check,
				  const struct weir__guard_descriptors_room *room,
				  void (*tell)(void *context, const struct weir_claim *claims,
					       const struct weir_verdict *verdicts, size_t n, bool is_shadow),
				  void *context);

/* --- views: guard_look.c -------------------------------------------------------------------------------------------- */

enum { WEIR__GUARD_LOOK_CLAIMS = WEIR_POLICY_CLAIMS_MAX + 1 };

/* What each limit that applies to a request would say, and a chosen one: they are looked at, each by itself. */
struct weir__guard_look {
	struct weir_guard *guard;
	const struct weir__bound_policy *bound;
	uint32_t phase;
	bool has_chosen; /* it is the last */
	uint32_t n, at;  /* claims, and from which one on they have not been looked at */
	struct weir_policy_claim
		applies[WEIR__GUARD_LOOK_CLAIMS]; /* in the order of the file; keys are those of claims */
};

/* `claims` and `verdicts` have room for WEIR__GUARD_LOOK_CLAIMS; a claim without a limit is unlimited. `chosen` is looked at
 * unless it is NULL, among those that apply, or no longer in the policy. WEIR_ERR_LIMIT: as weir_policy_match; then it has
 * ended. */
int weir__guard_look_begin(struct weir__guard_look *look, struct weir_guard *guard, struct weir_policy_answer *matched,
			   const struct weir_attribute *attributes, size_t n, uint64_t cost,
			   const struct weir__guard_chosen *chosen, struct weir_claim *claims,
			   struct weir_message *ret_message);

/* What to ask next. False: all are looked at. */
bool weir__guard_look_next(struct weir__guard_look *look, const struct weir_claim *claims,
			   struct weir_verdict *verdicts, struct weir__store_request *store_request);

/* Tells of each, and ends it. */
void weir__guard_look_tell(struct weir__guard_look *look, const struct weir_claim *claims,
			   const struct weir_verdict *verdicts,
			   void (*tell)(void *context, const struct weir__guard_view *view), void *context);

#endif
