/* operations.h: the operations that requests perform, independent of the protocol. They make the claims, call the store
 * and count the results. Protocols decode requests into operations and encode the results.
 *
 * A function that runs an operation returns one of three results. DONE: the result is in the operation. LATER: the
 * request has moved to the heap, and its `write` is called when it is done. REFUSED: nothing was done, and the refusal
 * gives the error.
 * The reasons are in docs/internals/road.md. */
#ifndef WEIR_ENGINE_OPERATIONS_H
#define WEIR_ENGINE_OPERATIONS_H

#include "engine/limit_ref.h"
#include "engine/request.h"
#include "engine/request_audit.h"
#include "guard/guard_check.h"

enum weir__run_result { WEIR__RUN_DONE, WEIR__RUN_LATER, WEIR__RUN_REFUSED };

/* --- the operations, and who may use them ------------------------------------------------------------------------ */

enum weir__operation {
	WEIR__OP_CONNECTION, /* about the connection itself, or public information */
	WEIR__OP_CHECK,
	WEIR__OP_TAKE,
	WEIR__OP_PEEK,
	WEIR__OP_REFUND,
	WEIR__OP_RESET,
	WEIR__OP_INSPECT,
	WEIR__OP_HOLD,
	WEIR__OP_SETTLE,
	WEIR__OP_LIMITS,
	WEIR__OP_CHANGE,
	WEIR__OP_EXPLAIN,
	WEIR__OP_LIVE,
	WEIR__OP_METRICS,
	WEIR__OP_CONFIG,
	WEIR__OP_POLICY,
	WEIR__OP_POLICY_PUT,
	WEIR__OP_POLICY_VALIDATE,
	WEIR__OP_RECORD,
	WEIR__OPERATIONS,
};

/* The set of roles, one of which a user needs for the operation. It always includes admin. 0: any user may use the
 * operation. */
unsigned weir__operation_roles(enum weir__operation operation);

/* Whether every user, or every user with the role `decide`, may use the operation. */
static inline bool weir__operation_is_common(enum weir__operation operation)
{
	const unsigned roles = weir__operation_roles(operation);

	return roles == 0 || (roles & WEIR__ROLE_DECIDE) != 0;
}

/* Writes the roles, and admin only if no other role suffices. Returns the length: 0 if any user may use it. */
size_t weir__operation_write_roles(enum weir__operation operation, const char *between,
				   char ret_text[WEIR__ROLES_TEXT]);

/* Whether a role of the user suffices, and the operation does not show or change what tenants share, or the user has no
 * key prefix. */
bool weir__user_may(const struct weir__user *user, enum weir__operation operation);

/* Whether the client may use the operation: with its roles, or because there are no users. */
static inline bool weir__client_may(const struct weir__client *client, enum weir__operation operation)
{
	return client->user == NULL || weir__user_may(client->user, operation);
}

/* Writes which role the operation needs, and which ones the user has, or that it is not for tenants. */
enum { WEIR__ROLE_FAULT = 256 };
void weir__operation_explain_role(const struct weir__user *user, enum weir__operation operation,
				  char ret_text[WEIR__ROLE_FAULT]);

/* --- claims ------------------------------------------------------------------------------------------------------ */

/* Takes each claim of a request on its own. The request can be run repeatedly, since a store that completes later works
 * on a copy. */
void weir__take_each_init(struct weir__request *request, size_t size, struct weir__context *context,
			  struct weir_claim *claims, struct weir_verdict *verdicts);

/* Runs the first n claims. Returns true if it is done, false if it completes later. */
bool weir__take_each_run(struct weir__request *request, struct weir__client *client, uint32_t n);

/* An operation on one claim, or a take of several claims together. */
struct weir__decide {
	struct weir__request request;
	enum weir__store_operation operation;
	enum weir__protocol protocol;
	size_t decided_by;           /* index of the claim that decided, if there are several */
	struct weir_verdict verdict; /* see struct weir_decision */
	bool is_stored, is_closed;   /* see struct weir__store_request */
	weir_ns full_at;
	int64_t repeated; /* for the protocol: a number from the request that the reply needs */
	/* For a reset or refund that has moved: whether to audit it, and for whom. The client may be gone by the time
	 * it is done. */
	bool is_audited;
	struct weir__audit_who who;
	/* Used until the request moves. Then request.claims and request.verdicts point elsewhere. */
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX];
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
};

/* Sets the request's client, protocol and write. The caller sets the fields that shape the reply. */
void weir__decide_init(struct weir__decide *decide, struct weir__context *context, struct weir__client *client,
		       enum weir__protocol protocol, void (*write)(struct weir__request *request, void *to));

/* Whether the store did not do this reset, or may not have done it. Then *ret_error says which. */
bool weir__decide_is_unreset(const struct weir__decide *decide, enum weir__error_number *ret_error);

/* Returns DONE or LATER, never REFUSED. */
enum weir__run_result weir__decide_run(struct weir__decide *decide, enum weir__store_operation operation,
				       const struct weir_claim *claims, size_t n);

/* --- checks by the policy ---------------------------------------------------------------------------------------- */

struct weir__check {
	struct weir__request request;
	struct weir__guard_check check;  /* has the result */
	struct weir__guard_match *match; /* until the request moves */
	bool is_closed;
};

extern const struct weir__request_kind weir__check_kind;

static inline void weir__check_init(struct weir__check *check, struct weir__context *context,
				    struct weir__client *client, void (*write)(struct weir__request *request, void *to))
{
	weir__request_init(&check->request, sizeof(*check), &weir__check_kind, context, client);
	check->request.write = write;
	check->is_closed = false;
}

/* On REFUSED, *ret_why gives the reason. */
enum weir__run_result weir__check_run(struct weir__check *check, struct weir_guard *guard,
				      const struct weir_attribute *attributes, size_t n, uint64_t cost,
				      struct weir_message *ret_why);

struct weir__descriptors_check {
	struct weir__request request;
	struct weir__guard_descriptors check;                    /* has the result */
	struct weir_descriptors_answer *matched;                 /* until the request moves */
	const struct weir__guard_prefix *prefix;                 /* until the request moves; NULL: none */
	void *giver;                                             /* until the request moves: for inline limits */
	struct weir_guard_status statuses[WEIR_DESCRIPTORS_MAX]; /* only as many as there are descriptors are copied */
};

void weir__descriptors_init(struct weir__descriptors_check *check, struct weir__context *context,
			    struct weir__client *client, void (*write)(struct weir__request *request, void *to));

struct weir__descriptors {
	const char *domain;
	size_t domain_length;
	const struct weir_descriptor *at;
	size_t n;
	uint64_t hits;
};

enum weir__run_result weir__descriptors_run(struct weir__descriptors_check *check, struct weir_guard *guard,
					    const struct weir__descriptors *descriptors, struct weir_message *ret_why);

/* Whether the status of a decided descriptor says OVER_LIMIT. Giving back is always OK, also without the store. */
static inline bool weir__descriptors_denies(const struct weir__descriptors_check *check, size_t descriptor)
{
	const struct weir_guard_status *const status = &check->statuses[descriptor];

	return !status->verdict.allowed && status->claim.mode != WEIR_MODE_SHADOW && !status->claim.is_refund;
}

/* The seconds until the window of a decided descriptor ends, rounded up. The verdict says 0 for a window that has counted
 * nothing. For clients, this window ends with the unit, too. */
uint64_t weir__descriptors_reset_s(const struct weir__descriptors_check *check, size_t descriptor);

/* What each limit that applies to a request would decide. When it is done, call weir__look_tell once. */
struct weir__look {
	struct weir__request request;
	struct weir__guard_look look;
	struct weir_claim claims[WEIR__GUARD_LOOK_CLAIMS];
	struct weir_verdict verdicts[WEIR__GUARD_LOOK_CLAIMS];
	struct weir_policy_answer matched; /* holds the keys */
};

void weir__look_init(struct weir__look *look, struct weir__context *context, struct weir__client *client,
		     void (*write)(struct weir__request *request, void *to));
enum weir__run_result weir__look_run(struct weir__look *look, struct weir_guard *guard,
				     const struct weir_attribute *attributes, size_t n, uint64_t cost,
				     const struct weir__guard_chosen *chosen, struct weir_message *ret_why);
void weir__look_tell(struct weir__look *look, void (*tell)(void *context, const struct weir__guard_view *view),
		     void *context);

/* --- holds ------------------------------------------------------------------------------------------------------- */

struct weir__hold_take {
	struct weir__request request;
	struct weir__hold *hold;
	struct weir_verdict verdict;
	bool is_closed;
	char decided_by[64];     /* for the protocol: the limit as the request stated it */
	struct weir_claim claim; /* until the request moves; then request.claims points elsewhere */
	struct weir_verdict of_claim;
};

void weir__hold_take_init(struct weir__hold_take *take, struct weir__context *context, struct weir__client *client,
			  void (*write)(struct weir__request *request, void *to));
enum weir__run_result weir__hold_take_run(struct weir__hold_take *take, const struct weir__hold_request *request,
					  struct weir__refusal *ret_refusal);

struct weir__hold_settle {
	struct weir__request request;
	struct weir__hold *hold;
	struct weir__hold_store_call question;
	uint64_t actual;
	struct weir__settlement settlement;
	struct weir_claim claim; /* until the request moves; then request.claims points elsewhere */
	struct weir_verdict of_claim;
};

void weir__hold_settle_init(struct weir__hold_settle *settle, struct weir__context *context,
			    struct weir__client *client, void (*write)(struct weir__request *request, void *to));
enum weir__run_result weir__hold_settle_run(struct weir__hold_settle *settle, const void *id, size_t id_length,
					    uint64_t actual, struct weir__refusal *ret_refusal);

/* --- waiting ----------------------------------------------------------------------------------------------------- */

/* The longest wait that a request may state. */
#define WEIR__WAIT_MAX UINT64_C(86400000000000)

/* A take that waits at the server until all its claims are allowed together. */
struct weir__wait {
	struct weir__request request;
	struct weir__waiter *waiter; /* NULL: the wait is over */
	struct weir_verdict verdict; /* its delay is 0 */
	uint32_t decided_by;         /* index of the claim that decided */
	bool is_closed;              /* see struct weir__store_request */
	weir_ns waited;
	/* Used until the request moves. Then request.claims and request.verdicts point elsewhere. */
	struct weir_claim claims[WEIR_TABLE_CLAIMS_MAX];
	struct weir_verdict verdicts[WEIR_TABLE_CLAIMS_MAX];
};

void weir__wait_init(struct weir__wait *wait, struct weir__context *context, struct weir__client *client,
		     void (*write)(struct weir__request *request, void *to));
enum weir__run_result weir__wait_run(struct weir__wait *wait, const struct weir_claim *claims, size_t n,
				     weir_ns patience, struct weir__refusal *ret_refusal);

/* A check that waits at the server for the delays of limits that shape. A request that a limit denies, or that would be
 * delayed by more than the patience, is denied at once and charged nothing. */
struct weir__check_wait {
	struct weir__check check;
	struct weir__waiter *waiter; /* NULL: it does not wait, or no longer */
	bool may_wait;               /* it has a patience */
	weir_ns waited;
};

void weir__check_wait_init(struct weir__check_wait *wait, struct weir__context *context, struct weir__client *client,
			   void (*write)(struct weir__request *request, void *to));

/* `patience` may be NULL. Then the policy's `wait` applies, if it has one for this request. */
enum weir__run_result weir__check_wait_run(struct weir__check_wait *wait, struct weir_guard *guard,
					   const struct weir_attribute *attributes, size_t n, uint64_t cost,
					   const weir_ns *patience, struct weir__refusal *ret_refusal);

/* The waits of a context (waiting.h) call these when a wait is over, and when one continues after a call of the
 * store. */
void weir__wait_over(void *request, const struct weir__wait_outcome *outcome);
void weir__wait_goes_on(void *request);

/* Whether the request is a wait for which the store is being called. It may turn out that it need not wait. */
bool weir__wait_is_under_way(const struct weir__request *request);

/* Continues the waits that are due by now. weir__waits_deny ends all waits of a client as denied. */
void weir__waits_end(struct weir__context *context);
void weir__waits_deny(struct weir__context *context, struct weir__client *client);

#endif
