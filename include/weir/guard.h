/* guard.h: a policy in front of a table, or of any store. You describe a request by its attributes, and the guard
 * decides all limits that apply to it together.
 *
 *     struct weir_attribute attributes[] = { { "api_key", 7, key, strlen(key) }, { "path", 4, path, strlen(path) } };
 *     struct weir_guard_answer answer;
 *     struct weir_policy *policy;
 *     struct weir_guard *guard;
 *     struct weir_message why;
 *
 *     if (weir_policy_load("policy.yaml", print_line, NULL, &policy) != WEIR_OK)
 *             errx(1, "policy.yaml cannot be used");               print_line has printed all errors
 *     if (weir_guard_new(table, policy, &guard, &why) != WEIR_OK)
 *             errx(1, "%s", why.text);
 *     if (weir_guard_check(guard, attributes, 2, 1, weir_table_now(table), &answer, &why) == WEIR_OK &&
 *         answer.verdict.allowed)
 *             serve();
 *
 * Threads. Any thread may call any function here, except weir_guard_free. Any thread may replace the policy at any
 * time. Threads that decide take no lock and do not wait for a change. Each decision uses either the old or the new
 * policy throughout. Keys keep their usage, by the names of limits, as weir_table_change_limit describes.
 *
 * Ownership. A guard owns its policy, from the call that passes it on, even if that call fails. It does not own its
 * table or store, which must outlive it.
 *
 * This is part of libweir-policy. */
#ifndef WEIR_GUARD_H
#define WEIR_GUARD_H

#include <weir/policy.h>
#include <weir/store.h>
#include <weir/table.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_guard;

struct weir_guard_answer {
	/* The verdict of decided_by, with the longest delay of all enforced limits: see struct weir_decision. Allowed
	 * if no enforced limit applies, unless the request is unmatched and the policy says `unmatched: deny`. */
	struct weir_verdict verdict;
	size_t limits;        /* number of limits that apply, including limits in shadow */
	size_t shadow_denied; /* limits in shadow that would have denied the request */
	bool is_limited;      /* an enforced limit applies; then decided_by is its name */
	/* See struct weir_decision; for an override, the name of its plan. `(unmatched)` if the request was denied
	 * because it is unmatched. */
	char decided_by[64];
	const struct weir_table_limit *limit; /* the table's limit of decided_by; NULL if no enforced limit applies */
	uint32_t fallback_nodes;              /* 0: the store decided. n: its fallback did, as one of n nodes */
	bool is_closed;                       /* denied because the store failed and a limit's rule is CLOSED */
	bool is_unmatched;                    /* as in struct weir_policy_answer */
};

/* Makes a guard on a table. It takes ownership of the policy, even when it fails. The table must outlive the guard.
 * Errors as weir_table_add_limit, if a limit of the policy does not fit this table. */
WEIR_API int weir_guard_new(struct weir_table *table, struct weir_policy *policy, struct weir_guard **ret_guard,
			    struct weir_message *ret_message);

/* Makes a guard on any store (store.h). It takes ownership of the policy, even when it fails. The store must outlive
 * the guard. on_store_failure and store_budget of the policy's limits become the rules of the store. Limits without
 * them have the default of the store. Errors as weir_guard_new, and WEIR_ERR_MAXIMUM if a limit does not fit Redis.
 *
 * All functions below work with such a guard. Functions that decide block until the store has decided. They return
 * WEIR_ERR_UNREACHABLE or WEIR_ERR_UNANSWERED if neither the store nor its fallback decides. Programs with the same
 * policy on one Redis share its limits by their names. weir_guard_change_limit changes a limit for this program alone:
 * in Redis, the latest change decides for all. */
WEIR_API int weir_guard_new_on(struct weir_store *store, struct weir_policy *policy, struct weir_guard **ret_guard,
			       struct weir_message *ret_message);

/* Frees the guard and its policy. No other thread may use the guard any more. Requests that were submitted by
 * weir_guard_submit still complete. NULL is allowed. */
WEIR_API void weir_guard_free(struct weir_guard *guard);

/* Replaces the policy, and takes ownership of the new one, even when it fails. Blocks until no thread decides by the
 * old policy, and frees that. Threads that decide do not wait. `now` is a time of weir_table_now.
 *
 * A key keeps its usage under a limit of the same name, in a table and in Redis, if only the rate or burst of a bucket
 * or the count of a window changes: see weir_table_change_limit. It starts over if the name, the algorithm, an option,
 * the period of a window or the parts of the key change. A limit that the new policy does not have stays in the table.
 * If a later policy has it again, keys have what they used, minus what has refilled. docs/reference/policy.md has all cases.
 *
 * On failure the new policy is freed and nothing has changed, except that some of its limits may have been added to the
 * table. Errors as weir_guard_new. */
WEIR_API int weir_guard_change(struct weir_guard *guard, struct weir_policy *policy, weir_ns now,
			       struct weir_message *ret_message);

/* Changes one limit, by the name of its plan, until the policy is replaced. WEIR_ERR_LIMIT: no plan has this name.
 * Other errors as weir_table_change_limit. */
WEIR_API int weir_guard_change_limit(struct weir_guard *guard, const char *plan, const struct weir_limit *to,
				     weir_ns now, struct weir_message *ret_message);

/* Decides a request. `now` is a time of weir_table_now, and is ignored by Redis, which has its own clock. Limits in
 * shadow have their own state, which is charged if they and all enforced limits allow the request. WEIR_ERR_LIMIT: as
 * weir_policy_match, and nothing was decided. On a store that fails, also WEIR_ERR_UNREACHABLE and
 * WEIR_ERR_UNANSWERED. */
WEIR_API int weir_guard_check(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
			      uint64_t cost, weir_ns now, struct weir_guard_answer *ret_answer,
			      struct weir_message *ret_message);

/* A completion. error is WEIR_OK, WEIR_ERR_UNREACHABLE or WEIR_ERR_UNANSWERED. The answer is valid only during the
 * call. With an error it is NULL. */
typedef void weir_guard_done(void *context, int error, const struct weir_guard_answer *answer);

/* Decides a request for a program with an event loop, like weir_guard_check, but never blocks: weir_submitter_dispatch
 * calls `done` with the result, as store.h describes. The submitter must belong to the guard's store, or to a store on
 * the guard's table. Attributes are copied. Errors as weir_submitter_submit. WEIR_ERR_LIMIT: as weir_policy_match, or
 * the submitter belongs to another store. The message says which. After an error `done` is not called. */
WEIR_API int weir_guard_submit(struct weir_guard *guard, struct weir_submitter *submitter,
			       const struct weir_attribute *attributes, size_t n, uint64_t cost, weir_guard_done *done,
			       void *context, struct weir_message *ret_message);

/* The most different inline limits (limits stated in requests) over the life of a guard. Each becomes a limit of the
 * table. */
#define WEIR_GUARD_GIVEN_MAX 64

/* The result for one descriptor. */
struct weir_guard_status {
	struct weir_descriptor_claim claim; /* what applies; its key and metadata are not valid any more */
	/* The descriptor's own verdict. In shadow, and for a quota, it is the verdict that would have applied. Allowed
	 * if no limit applies, or if the limit is unlimited. */
	struct weir_verdict verdict;
};

/* Decides descriptors, by a policy in Envoy's format. All limits that apply are decided together, and a denied request
 * is counted nowhere. With WEIR_ENVOY_COUNT_EACH every descriptor counts it, whatever the others decide. Quotas deny
 * only together, if all groups of quotas are used up. Quotas whose descriptors have the same backend_name and
 * model_name_override form a group. Without these names, quotas with the same entries do. A group is used up if one of
 * its quotas is. ret_statuses must have room for n.
 *
 * WEIR_ERR_LIMIT, WEIR_ERR_UNSUPPORTED: as weir_policy_match_descriptors, or more than WEIR_TABLE_CLAIMS_MAX limits
 * would be decided together. WEIR_ERR_FULL: there are already WEIR_GUARD_GIVEN_MAX inline limits. Other errors as
 * weir_table_add_limit. On any error nothing was decided. */
WEIR_API int weir_guard_check_descriptors(struct weir_guard *guard, const char *domain, size_t domain_length,
					  const struct weir_descriptor *descriptors, size_t n, uint64_t hits,
					  weir_ns now, struct weir_guard_answer *ret_answer,
					  struct weir_guard_status *ret_statuses, struct weir_message *ret_message);

/* Calls weir_policy_explain for the current policy. A limit that was changed since is shown in both forms: `60/hour,
 * changed to 70/hour`. */
WEIR_API void weir_guard_explain(struct weir_guard *guard, const struct weir_attribute *attributes, size_t n,
				 weir_policy_report *report, void *context);

/* Returns how often the policy has been replaced. */
WEIR_API uint64_t weir_guard_changes(const struct weir_guard *guard);

#ifdef __cplusplus
}
#endif
#endif
