/* limit_row.h: a limit or override of the policy, as WEIR.LIMITS and GET /v1/limits show it. */
#ifndef WEIR_ENGINE_LIMIT_ROW_H
#define WEIR_ENGINE_LIMIT_ROW_H

#include "engine/context.h"
#include "store/eventual.h"
#include "store/lease.h"

struct weir__limit_row {
	const char *name, *mode, *key;
	const char *store;              /* where its state is kept: table or redis */
	const char *consistency;        /* how servers agree on it: exact, lease or eventual */
	char text[WEIR_LIMIT_TEXT_MAX]; /* the current limit */
	weir_ns wait;                   /* the longest that /v1/authorize holds a response back; 0: not at all */
	uint64_t allowed, denied;
	const char *changed; /* where it was changed since the policy was loaded: all, here, or empty */
	char changed_by[WEIR__CHANGE_BY_SIZE];
	uint64_t changed_at_s; /* Unix time; 0: not known */
};

/* Whether servers lease the limit, and how. */
bool weir__limit_row_is_leased(const struct weir__context *context, const struct weir__guard_row *row,
			       struct weir__lease_terms *ret_terms);

/* How many units of a key this server may allow before the store has confirmed them. 0: the limit is not eventual. */
uint64_t weir__limit_row_ahead(const struct weir__context *context, const struct weir__guard_row *row);

/* By how many units all servers together may exceed an eventual limit, if each may be `ahead` units ahead. */
uint64_t weir__limit_row_bound(const struct weir__context *context, uint64_t ahead);

/* `most` of the terms, and `ahead`, are 0 if the limit has another consistency. */
const char *weir__limit_row_consistency(const struct weir__lease_terms *terms, uint64_t ahead);

void weir__limit_row(const struct weir__context *context, const struct weir__guard_row *row,
		     struct weir__limit_row *ret_row);

#endif
