/* plan.c: checks a limit and compiles it into the plan that the steps run on. All checks for invalid limits are
 * here.
 * The reasons are in docs/internals/core.md. */
#include <weir/plan.h>

#include "core/argument.h"
#include "core/log.h"
#include "core/notation.h"
#include "core/segments.h"
#include "core/text.h"
#include "core/wide.h"

static int refuse(struct weir_message *ret_message, int error, const char *what, uint64_t found, const char *right)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	weir__text_add(&why, " of ");
	weir__text_add_number(&why, found);
	weir__text_add(&why, ": ");
	weir__text_add(&why, right);
	return error;
}

static int refuse_option(struct weir_message *ret_message, const char *option, const char *algorithms)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, option);
	weir__text_add(&why, " belongs to ");
	weir__text_add(&why, algorithms);
	return WEIR_ERR_LIMIT;
}

static int check(const struct weir_limit *limit, struct weir_message *ret_message)
{
	if ((unsigned)limit->algorithm > WEIR_SLIDING_COUNTER)
		return refuse(ret_message, WEIR_ERR_LIMIT, "an algorithm", (uint64_t)limit->algorithm,
			      "use 0 to 4, see enum weir_algorithm");
	if (limit->count == 0)
		return refuse(ret_message, WEIR_ERR_LIMIT, "a count", 0, "a rate needs 1 or more");
	if (limit->period == 0)
		return refuse(ret_message, WEIR_ERR_LIMIT, "a period", 0, "a rate needs 1 ns or more");
	if (weir__limit_is_bucket(limit) && limit->burst == 0)
		return refuse(ret_message, WEIR_ERR_LIMIT, "a burst", 0, "a bucket needs room for 1 or more");
	if (limit->segments == 0)
		return refuse(ret_message, WEIR_ERR_LIMIT, "a number of segments", 0, "1 is the plain sliding counter");
	if (limit->period % limit->segments != 0)
		return refuse(ret_message, WEIR_ERR_LIMIT, "a number of segments", limit->segments,
			      "it must divide the period in nanoseconds");
	if (limit->segments > WEIR_SEGMENTS_MAX)
		return refuse(ret_message, WEIR_ERR_MAXIMUM, "a number of segments", limit->segments,
			      "the maximum is 1048576");
	if (limit->algorithm == WEIR_SLIDING_LOG && limit->count > WEIR_LOG_COUNT_MAX)
		return refuse(ret_message, WEIR_ERR_MAXIMUM, "a count", limit->count,
			      "a sliding_log counts at most 4294967295; use sliding_counter");
	if (limit->segments > 1 && limit->algorithm != WEIR_SLIDING_COUNTER)
		return refuse_option(ret_message, "segments", "sliding_counter");
	if (limit->refill_interval && limit->algorithm != WEIR_TOKEN_BUCKET)
		return refuse_option(ret_message, "refill interval", "token_bucket");
	if (limit->shape && limit->algorithm != WEIR_LEAKY_BUCKET)
		return refuse_option(ret_message, "queue", "leaky");
	if (limit->align_first && limit->algorithm != WEIR_FIXED_WINDOW)
		return refuse_option(ret_message, "align first", "fixed_window");
	if (limit->count_all && weir__limit_is_bucket(limit))
		return refuse_option(ret_message, "count all", "windows");
	return WEIR_OK;
}

/* The largest state is an empty bucket at the last possible instant. In units of 1/count ns it may need all 128 bits;
 * most limits need fewer than 112. */
static int compile_bucket(const struct weir_limit *limit, struct weir_plan *plan, struct weir_message *ret_message)
{
	const uint64_t divisor = weir__common_divisor(limit->count, limit->period);
	weir__u128 largest;

	plan->kind = WEIR_KIND_BUCKET;
	plan->count = limit->count / divisor;
	plan->period = limit->period / divisor;
	if (__builtin_add_overflow(weir__mul(UINT64_MAX, plan->count), weir__mul(plan->most, plan->period), &largest))
		return refuse(ret_message, WEIR_ERR_MAXIMUM, "a burst", limit->burst,
			      "in lowest terms of count/period, 2^64 * count + burst * period must not exceed 2^128");
	if (largest >> WEIR__SLIM_BITS == 0)
		plan->flags |= WEIR_PLAN_SLIM;
	return WEIR_OK;
}

static void compile_counter(const struct weir_limit *limit, struct weir_plan *plan)
{
	if (limit->segments == 1 && limit->count <= UINT32_MAX && !limit->count_all) {
		plan->kind = WEIR_KIND_COUNTER;
		if (UINT64_MAX / limit->period <= WEIR__SLIM_HI_MAX)
			plan->flags |= WEIR_PLAN_SLIM;
		return;
	}
	weir__segments_widen(plan);
	plan->period = limit->period / limit->segments;
	plan->room = limit->segments;
}

int weir_plan_compile(const struct weir_limit *limit, struct weir_plan *ret_plan, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(ret_plan, ret_message);

	struct weir_plan plan = { 0 };
	int error = check(limit, ret_message);

	if (error != WEIR_OK)
		return error;
	plan.count = limit->count;
	plan.period = limit->period;
	plan.most = weir__limit_is_bucket(limit) ? limit->burst : limit->count;
	plan.flags = (limit->shape ? WEIR_PLAN_SHAPE : 0u) | (limit->align_first ? WEIR_PLAN_FIRST : 0u) |
		     (limit->count_all ? WEIR_PLAN_COUNT_ALL : 0u);
	if (weir__limit_is_bucket(limit) && !limit->refill_interval) {
		error = compile_bucket(limit, &plan, ret_message);
		if (error != WEIR_OK)
			return error;
	} else if (limit->algorithm == WEIR_SLIDING_COUNTER) {
		compile_counter(limit, &plan);
	} else if (limit->algorithm == WEIR_SLIDING_LOG) {
		plan.kind = WEIR_KIND_LOG;
		plan.room = limit->count;
	} else { /* refill interval and fixed window: hi holds the missing tokens or the counted requests */
		plan.kind = limit->refill_interval ? WEIR_KIND_INTERVAL : WEIR_KIND_WINDOW;
		if (plan.most <= WEIR__SLIM_HI_MAX)
			plan.flags |= WEIR_PLAN_SLIM;
	}
	*ret_plan = plan;
	return WEIR_OK;
}

size_t weir_plan_state_size(const struct weir_plan *plan)
{
	switch (plan->kind) {
	case WEIR_KIND_SEGMENTS:
		return weir__segments_size(plan->room);
	case WEIR_KIND_LOG:
		return weir__log_size(plan->room);
	default:
		return sizeof(struct weir_state);
	}
}
