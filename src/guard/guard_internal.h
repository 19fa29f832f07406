/* guard_internal.h: what the files of the guard share. */
#ifndef WEIR_GUARD_GUARD_INTERNAL_H
#define WEIR_GUARD_GUARD_INTERNAL_H

#include <pthread.h>

#include "guard/bound_policy.h"
#include "guard/epoch.h"
#include "guard/guard.h"

/* A limit that came with a request, and again with others. */
struct weir__given {
	struct weir_limit store_request;
	const struct weir_table_limit *limit;
};

struct weir_guard {
	struct weir__epoch epoch; /* the first: it is aligned to lines */
	struct weir_table *table;
	weir__bound_policy_check *check; /* NULL: there is none */
	void *_Atomic bound;             /* struct weir__bound_policy, the one that is in place */
	_Atomic uint64_t changes;
	pthread_mutex_t changing; /* one at a time; those who decide do not look at it */
	pthread_mutex_t ending;   /* likewise, for whoever waits for readers, who may have to change a limit first */
	pthread_mutex_t giving;   /* for whoever adds one to these */
	struct weir__given given[WEIR_GUARD_GIVEN_MAX];
	_Atomic uint32_t n_given; /* those before it are never changed */
};

/* Names of plans are as short as those of limits, and the answer has room for those. */
static inline void weir__guard_write_decider(struct weir_guard_answer *answer, const struct weir_verdict *decider,
					     const char *name)
{
	answer->verdict.limit = decider->limit;
	answer->verdict.remaining = decider->remaining;
	answer->reset_after = decider->reset_after;
	memcpy(answer->decided_by, name, strlen(name) + 1);
}

/* Of which limit a plan is, of a policy that has limits. Plans of a limit's overrides come behind its own, before that of the
 * next limit. */
const struct weir__policy_limit *weir__guard_limit_of_plan(const struct weir_policy *policy, uint32_t plan);

/* weir__guard_key_text by this policy; NULL: of any key. */
size_t weir__guard_write_key(const struct weir_policy *policy, uint32_t plan, const void *key, size_t length,
			     size_t whole, char *text, size_t size);

#endif
