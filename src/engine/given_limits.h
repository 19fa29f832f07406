/* given_limits.h: inline limits of the descriptors of a request. Requests may state any number of different ones. */
#ifndef WEIR_ENGINE_GIVEN_LIMITS_H
#define WEIR_ENGINE_GIVEN_LIMITS_H

#include "engine/context.h"

enum { WEIR__GIVEN_MAX = 16 /* limits of one request that the cache of the worker cannot hold at the same time */ };

struct weir__giver {
	struct weir__context *context;
	struct weir_table_limit *made; /* room for WEIR__GIVEN_MAX */
};

/* Finds or makes a limit, without touching those that the first n claims use. For `give` of guard_check.h. */
int weir__give_limit(void *giver, const struct weir_claim *claims, uint32_t n, const struct weir_limit *stated,
		     const struct weir_table_limit **ret_limit, struct weir_message *ret_message);

#endif
