/* given_limits.c: inline limits come from the cache of the worker. If that would have to evict one that the same request
 * uses, the limit is made for this request alone. An evicted limit keeps its counts, which are in the store. */
#include "engine/given_limits.h"

#include "core/text.h"
#include "observe/counters.h"

static bool is_used(const struct weir_table_limit *limit, const struct weir_claim *claims, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (claims[i].limit == limit)
			return true;
	return false;
}

int weir__give_limit(void *giver_, const struct weir_claim *claims, uint32_t n, const struct weir_limit *stated,
		     const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	const struct weir__giver *const giver = giver_;
	struct weir__context *const context = giver->context;
	const struct weir_table_limit *const evicted = weir__inline_limits_evicted(&context->limits, WEIR__SPACE_TEXT,
										   stated);
	uint32_t place = 0;
	struct weir__text why;
	int error;

	if (evicted == NULL || !is_used(evicted, claims, n)) {
		if (evicted && context->counters)
			weir__counters_add(&context->counters->inline_evicted, 1);
		return weir__inline_limits_find(&context->limits, WEIR__SPACE_TEXT, stated, ret_limit, ret_message);
	}
	while (place < WEIR__GIVEN_MAX && is_used(&giver->made[place], claims, n))
		place++;
	if (place == WEIR__GIVEN_MAX) {
		why = weir__text_of_message(ret_message, 0);
		weir__text_add(&why, "too many different inline limits in one request; use at most 16");
		return WEIR_ERR_FULL;
	}
	error = weir__inline_limits_make(&context->limits, WEIR__SPACE_TEXT, stated, &giver->made[place], ret_message);
	if (error == WEIR_OK)
		*ret_limit = &giver->made[place];
	return error;
}
