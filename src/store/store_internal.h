/* store_internal.h: the implementation behind weir/store.h.
 *
 * A struct weir_store is shared by all threads. Each submitter has its own store handle (store/store.h), because a
 * handle belongs to one thread. A blocking call on a store other than a table borrows an idle submitter, and gives it
 * back. There are as many as threads that have called at the same time. A table needs no handle: it decides on the
 * caller's thread.
 *
 * The rules of limits, for when the store fails, are pushed into the struct weir_store, by the program or by a guard,
 * and each handle reads them again when their version changes. The reasons are in docs/internals/store.md. */
#ifndef WEIR_STORE_STORE_INTERNAL_H
#define WEIR_STORE_STORE_INTERNAL_H

#include <weir/policy.h>
#include <weir/store.h>

#include <stdatomic.h>

#include "os/lock.h"
#include "os/loop.h"
#include "store/fallback_store.h"
#include "store/store.h"

/* The functions of a store that is not a table. */
struct weir__store_kind {
	/* Makes a handle for one submitter. `loop` is woken when there is something to collect, and stands for the loop
	 * of the program: only its `wake` is set. NULL: no memory. */
	struct weir__store *(*open)(struct weir_store *store, uint32_t submitter, struct weir__loop *loop);
	/* Whether the state of a limit fits this store. */
	int (*check_limit)(const struct weir_limit *limit, enum weir_policy_store where,
			   struct weir_message *ret_message);
	int (*wait)(struct weir_store *store, weir_ns at_most, struct weir_message *ret_message);
	void (*status)(struct weir_store *store, struct weir__store_status *ret_status);
	/* Called when all submitters are freed. Frees the memory of the store, too. */
	void (*free)(struct weir_store *store);
};

/* The rule of a limit of the table. */
struct weir__store_rule {
	bool is_in_table; /* the table keeps its state, and not the store */
	bool is_set;
	struct weir__fallback_rule fallback; /* budget 0: the store's */
	weir_ns since; /* when the limit was put into force, on the table's clock; 0: before the store was made */
};

struct weir_store {
	struct weir_table *table;
	const struct weir__store_kind *kind; /* NULL: the table keeps the state */
	weir_ns (*now)(void *context);       /* NULL: the table's clock */
	void *now_context;
	_Atomic uint64_t by_fallback;
	_Atomic uint64_t version; /* of the rules */
	atomic_bool has_any_in_table;

	struct weir__lock lock; /* protects the fields below */
	struct weir_submitter *submitters, *idle;
	uint32_t n_submitters;
	struct weir__store_rule *rules; /* by index of the limit */
};

/* Sets all fields, for a store of another kind. WEIR_ERR_SYSTEM: no memory. */
WEIR__BETWEEN_LIBRARIES int weir__store_init(struct weir_store *store, struct weir_table *table,
					     const struct weir__store_kind *kind, struct weir_message *ret_message);
/* Frees what init made. All submitters must be gone. */
WEIR__BETWEEN_LIBRARIES void weir__store_fini(struct weir_store *store);

/* Returns false for UNSET, which is not a mode. */
WEIR__BETWEEN_LIBRARIES bool weir__store_fallback_mode(enum weir_store_failure failure,
						       enum weir__fallback_mode *ret_mode);

/* For struct weir__fallback_options and struct weir__redis_plan_source; the context is the store. */
WEIR__BETWEEN_LIBRARIES void weir__store_find_rule(void *store, const struct weir_table_limit *limit,
						   struct weir__fallback_rule *rule);
WEIR__BETWEEN_LIBRARIES weir_ns weir__store_since(void *store, const struct weir_table_limit *limit);
WEIR__BETWEEN_LIBRARIES uint64_t weir__store_version(void *store);
/* For struct weir__routed_options. */
WEIR__BETWEEN_LIBRARIES bool weir__store_is_in_table(void *store, const struct weir_table_limit *limit);
WEIR__BETWEEN_LIBRARIES bool weir__store_has_any_in_table(void *store);

/* Sets the rules of n limits at once. A limit that is NULL is skipped. A `since` that is earlier than the known one is
 * ignored. */
WEIR__BETWEEN_LIBRARIES void weir__store_set_rules(struct weir_store *store,
						   const struct weir_table_limit *const *limits,
						   const struct weir__store_rule *rules, size_t n);

/* Decides a request and waits for the result. The caller sets operation, is_each, claims, verdicts and n, and for a
 * table also now. Returns WEIR_ERR_UNREACHABLE or WEIR_ERR_UNANSWERED if neither the store nor a fallback has decided,
 * WEIR_ERR_SYSTEM without memory or a descriptor for a handle. */
WEIR__BETWEEN_LIBRARIES int weir__store_call(struct weir_store *store, struct weir__store_request *request);

/* The time to decide at, if the table decides. */
WEIR__BETWEEN_LIBRARIES weir_ns weir__store_now(const struct weir_store *store);

/* The error of a request that is complete, or WEIR_OK. Counts decisions of the fallback. */
WEIR__BETWEEN_LIBRARIES int weir__store_result(struct weir_store *store, const struct weir__store_request *request);

/* The result of a request that was decided. */
void weir__store_set_answer(const struct weir__store_request *request, struct weir_store_answer *ret_answer);

/* --- submitters: submitter.c ------------------------------------------------------------------------------------- */

/* A request in memory that stays valid until `finish`. */
struct weir__submission {
	struct weir__store_request request; /* must be first, so that it casts to the submission */
	struct weir__submission *next;
	struct weir_submitter *submitter;
	int error; /* set by advance */
	/* Runs the next step, from the start or with the store's verdict. Returns false if it waits for the store. */
	bool (*advance)(struct weir__submission *submission);
	/* Calls the completion and frees the submission. */
	void (*finish)(struct weir__submission *submission);
};

/* Copies claims with their keys, and returns the end of the keys. */
WEIR__BETWEEN_LIBRARIES char *weir__claims_copy(struct weir_claim *to, const struct weir_claim *claims, size_t n,
						char *keys);

/* Whether the submitter accepts a request: WEIR_OK, WEIR_ERR_FULL or WEIR_ERR_CLOSED. */
WEIR__BETWEEN_LIBRARIES int weir__submitter_accepts(const struct weir_submitter *submitter);

/* Runs the submission, which the submitter owns from then on. */
WEIR__BETWEEN_LIBRARIES void weir__submitter_run(struct weir_submitter *submitter, struct weir__submission *submission);

/* For advance: submits submission->request. Returns true if it is complete. */
WEIR__BETWEEN_LIBRARIES bool weir__submission_submit(struct weir__submission *submission);

WEIR__BETWEEN_LIBRARIES struct weir_store *weir__submitter_store(const struct weir_submitter *submitter);

/* For blocking calls. */
struct weir_submitter *weir__submitter_borrow(struct weir_store *store);
void weir__submitter_give_back(struct weir_submitter *submitter);
struct weir__store *weir__submitter_handle(const struct weir_submitter *submitter);
void weir__submitter_wait(const struct weir_submitter *submitter);

/* Frees all submitters, with their completions. */
void weir__submitters_free(struct weir_store *store);

#endif
