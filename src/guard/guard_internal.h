/* guard_internal.h: shared by the guard's files. */
#ifndef WEIR_GUARD_GUARD_INTERNAL_H
#define WEIR_GUARD_GUARD_INTERNAL_H

#include <pthread.h>

#include "guard/bound_policy.h"
#include "guard/epoch.h"
#include "guard/guard.h"
#include "store/store_internal.h"

/* An inline limit, kept for later requests that state it too. */
struct weir__given {
	struct weir_limit store_request;
	const struct weir_table_limit *limit;
};

struct weir_guard {
	struct weir__epoch epoch; /* must be first: it is aligned to cache lines */
	struct weir_table *table;
	struct weir_store *store;        /* decides, unless it is NULL: then the table decides */
	weir__bound_policy_check *check; /* NULL: no check */
	void *_Atomic bound;             /* struct weir__bound_policy, the current one */
	_Atomic uint64_t changes;
	pthread_mutex_t changing; /* serialises changes; deciding threads do not take it */
	/* Serialises waiting for readers. Not the same as `changing`, because a reader may have to change a limit
	 * first. */
	pthread_mutex_t ending;
	pthread_mutex_t giving; /* serialises adding to `given` */
	/* Protects the changes that bound policies note, and is held while one limit changes, so that a list does not
	 * mix limits from before and after. Deciding threads do not take it. */
	pthread_mutex_t noting;
	struct weir__given given[WEIR_GUARD_GIVEN_MAX];
	_Atomic uint32_t n_given; /* given[0..n_given) never change */
};

/* Plan names are no longer than limit names, so decided_by has room for them. */
static inline void weir__guard_write_decider(struct weir_guard_answer *answer, const struct weir_table_limit *limit,
					     const char *name)
{
	answer->is_limited = true;
	answer->limit = limit;
	memcpy(answer->decided_by, name, strlen(name) + 1);
}

/* For blocking calls: decides a request by the guard's store. Returns the errors of weir__store_call. `answer` gets
 * only whether the fallback decided, and may be NULL. */
int weir__guard_call_store(const struct weir_guard *guard, struct weir__store_request *request,
			   struct weir_guard_answer *answer, struct weir_message *ret_message);

/* Records in the answer that the fallback of the store has decided a request. */
static inline void weir__guard_note_fallback(struct weir_guard_answer *answer,
					     const struct weir__store_request *request)
{
	const uint32_t nodes = weir__store_fallback_nodes(request);

	if (nodes > answer->fallback_nodes)
		answer->fallback_nodes = nodes;
	answer->is_closed |= request->is_closed;
}

/* The changes of a plan since its policy was loaded. */
struct weir__plan_changes {
	struct weir__limit_change shared; /* on all servers of the store; version 0: none */
	struct weir__limit_change here;   /* on this server alone */
	bool is_here;                     /* `here` was made, and after `shared` */
};

/* Copies the change that is in force for a plan. Returns false if the plan was not changed. Call it within an epoch,
 * with `noting` locked. */
bool weir__guard_change_of(const struct weir__bound_policy *bound, uint32_t plan,
			   struct weir__limit_change *ret_change);

/* Whether the policy is still the current one. If so, limits of the table that were read before this call have no
 * numbers of the next policy: they are read with acquire loads, so the load here comes after them. */
static inline bool weir__guard_is_current(const struct weir_guard *guard, const struct weir__bound_policy *bound)
{
	return atomic_load(&guard->bound) == bound;
}

/* weir__guard_key_text by this policy; NULL: without a policy. */
size_t weir__guard_write_key(const struct weir_policy *policy, uint32_t plan, const void *key, size_t length,
			     size_t whole, char *text, size_t size);

#endif
