/* guard.h: a policy before a table: requests are given by their attributes, and all limits that apply to one are decided
 * together.
 *
 * The policy may be changed for another one at any time, from any thread: those who decide take no lock and do not wait,
 * and all that an answer says is of one of the two. What keys owe stays, by the names of limits, with what
 * weir_table_change_limit does to it. */
#ifndef WEIR_GUARD_H
#define WEIR_GUARD_H

#include <weir/policy.h>
#include <weir/table.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_guard;

struct weir_guard_answer {
	struct weir_verdict
		verdict;      /* of the enforced limits, joined, but limit and remaining of the one that is decided_by;
					allowed if there are none */
	weir_ns reset_after;  /* of that one alone */
	size_t limits;        /* that apply, those in shadow among them */
	size_t shadow_denied; /* limits in shadow that would have denied it */
	bool is_limited;      /* an enforced limit applies: then decided_by is its name */
	char decided_by[64];  /* as struct weir_decision says; of an override the name of its plan */
	const struct weir_table_limit *limit; /* the one that is decided_by, as the table has it; NULL: there is none */
};

/* Takes the policy over, also when it fails. The table must outlive the guard. WEIR_ERR_...: a limit cannot be in this
 * table, as weir_table_add_limit tells. */
WEIR_API int weir_guard_new(struct weir_table *table, struct weir_policy *policy, struct weir_guard **ret_guard,
			    struct weir_message *ret_message);

/* No other thread uses the guard any more. NULL is allowed. */
WEIR_API void weir_guard_free(struct weir_guard *guard);

/* Takes the policy over and puts it in the place of the one before, which is freed when nobody decides by it any more: this
 * waits for that, they do not. If it fails the policy is freed, and nothing has changed but that some of its limits may
 * have been added to the table. */
WEIR_API int weir_guard_change(struct weir_guard *guard, struct weir_policy *policy, weir_ns now,
			       struct weir_message *ret_message);

/* Changes one limit, by the name of its plan, until the next policy comes. WEIR_ERR_LIMIT: there is none of this name. */
WEIR_API int weir_guard_change_limit(struct weir_guard *guard, const char *plan, const struct weir_limit *to,
				     weir_ns now, struct weir_message *ret_message);

/* Decides. Limits in shadow have their own state: it is charged if they and all that are enforced admit. WEIR_ERR_LIMIT: as
 * weir_policy_match; then nothing was decided. */
WEIR_API int weir_guard_check(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
			      uint64_t cost, weir_ns now, struct weir_guard_answer *ret_answer,
			      struct weir_message *ret_message);

/* Different limits that may come with requests, as long as the guard lives. Each becomes a limit of the table. */
#define WEIR_GUARD_GIVEN_MAX 64

/* What a descriptor came to. */
struct weir_guard_status {
	struct weir_descriptor_claim claim; /* what applies; its key says nothing any more */
	/* Its own, also in shadow and of a quota, where it is what it would have said; allowed if nothing applies or it is
	 * unlimited. */
	struct weir_verdict verdict;
};

/* Decides descriptors, by a policy of Envoy's form. All limits that apply are decided together, and a request that is
 * denied is counted nowhere; with WEIR_ENVOY_COUNT_EACH every descriptor counts it, whatever the others say. Quotas deny
 * only together, if all of the request's are used up. ret_statuses has room for n. WEIR_ERR_LIMIT, WEIR_ERR_UNSUPPORTED: as
 * weir_policy_match_descriptors; also if more than WEIR_TABLE_CLAIMS_MAX limits are to be decided together. WEIR_ERR_FULL: a
 * limit that comes with the request is one too many; others as weir_table_add_limit. Then nothing was decided. */
WEIR_API int weir_guard_check_descriptors(struct weir_guard *guard, const char *domain, size_t domain_length,
					  const struct weir_descriptor *descriptors, size_t n, uint64_t hits,
					  weir_ns now, struct weir_guard_answer *ret_answer,
					  struct weir_guard_status *ret_statuses, struct weir_message *ret_message);

/* weir_policy_explain of the policy as it is now; of a limit that was changed since, both: `60/hour, changed to 70/hour`. */
WEIR_API void weir_guard_explain(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
				 weir_policy_report *report, void *context);

/* How often the policy has been changed. */
WEIR_API uint64_t weir_guard_changes(const struct weir_guard *guard);

#ifdef __cplusplus
}
#endif
#endif
