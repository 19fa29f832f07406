/* redis_plan.c: encodes a plan for the script. */
#include "store/redis/redis_plan.h"

#include "core/segments.h"
#include "core/text.h"
#include "core/wide.h"

/* The same numbers as in decide.lua. */
enum kind { KIND_BUCKET, KIND_INTERVAL, KIND_WINDOW, KIND_COUNTER, KIND_LOG };

enum {
	VERSION = 3, /* 1 and 2 had no set_at */
	SET_AT_PLACE = 41,
	SET_AT_BYTES = 7,
	OPTION = 1, /* buckets: shape. Windows: start at the first request */
	OPTION_COUNT_ALL = 2,
	OPTION_SHARED = 4, /* other plans charge the key, too */
	GRAIN = 1000,      /* ns per microsecond */
};

/* The latest instant of a plan, in microseconds. An age instead of an instant: `ages` is added. */
static const uint64_t set_at_most = UINT64_C(1) << 53, ages = UINT64_C(1) << 55;

/* A duration or an instant: whole microseconds, and a rest in units of 1/grain us. */
struct pair {
	uint64_t whole, rest;
};

struct numbers {
	enum kind kind;
	unsigned options;
	uint64_t a; /* buckets: count of the rate. Sliding counter: segments. Others: 1 */
	uint64_t grain;
	weir__u128 duration; /* from used up to full, in 1/grain us */
	struct pair period;
};

static const enum kind kinds[] = {
	[WEIR_KIND_BUCKET] = KIND_BUCKET,   [WEIR_KIND_INTERVAL] = KIND_INTERVAL, [WEIR_KIND_WINDOW] = KIND_WINDOW,
	[WEIR_KIND_COUNTER] = KIND_COUNTER, [WEIR_KIND_SEGMENTS] = KIND_COUNTER,  [WEIR_KIND_LOG] = KIND_LOG,
};

static struct pair pair_of(weir__u128 sum, uint64_t grain)
{
	return (struct pair){ weir__saturate(weir__div(sum, grain)), (uint64_t)(sum % grain) };
}

static struct numbers numbers_of(const struct weir_plan *plan)
{
	struct numbers numbers = { .kind = kinds[plan->kind], .a = 1, .grain = GRAIN, .duration = plan->period };

	if (plan->flags & (WEIR_PLAN_SHAPE | WEIR_PLAN_FIRST))
		numbers.options |= OPTION;
	if (plan->flags & WEIR_PLAN_COUNT_ALL)
		numbers.options |= OPTION_COUNT_ALL;
	if (plan->flags & WEIR_PLAN_RESERVED)
		numbers.options |= OPTION_SHARED;
	if (plan->kind == WEIR_KIND_BUCKET) {
		numbers.a = plan->count;
		numbers.grain = GRAIN * weir__min(plan->count, WEIR__REDIS_RATE_MAX);
		numbers.duration = weir__mul(plan->most, plan->period);
	} else if (plan->kind == WEIR_KIND_INTERVAL) {
		numbers.a = plan->count;
		numbers.duration = weir__mul((uint64_t)weir__div_up(plan->most, plan->count), plan->period);
	} else if (numbers.kind == KIND_COUNTER) {
		numbers.a = plan->kind == WEIR_KIND_SEGMENTS ? plan->room : 1;
		numbers.duration = weir__mul(numbers.a + 1, plan->period);
	}
	numbers.period = pair_of(plan->period, numbers.grain);
	return numbers;
}

static int refuse(struct weir_message *ret_message, const char *what, uint64_t found, const char *right, uint64_t most)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	weir__text_add(&why, " of ");
	weir__text_add_number(&why, found);
	weir__text_add(&why, ": in Redis ");
	weir__text_add(&why, right);
	weir__text_add(&why, " ");
	weir__text_add_number(&why, most);
	return WEIR_ERR_MAXIMUM;
}

static int refuse_duration(struct weir_message *ret_message, uint64_t duration_us)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, "a limit that is full again after ");
	weir__text_add_number(&why, duration_us);
	weir__text_add(&why, " us: in Redis the maximum is ");
	weir__text_add_number(&why, WEIR__REDIS_DURATION_MAX_US);
	weir__text_add(&why, " us, 71 years; lower its burst, or its period");
	return WEIR_ERR_MAXIMUM;
}

/* Checks rates before durations, which are computed correctly only if the rate fits. */
static int check(const struct weir_plan *plan, const struct numbers *numbers, struct weir_message *ret_message)
{
	const uint64_t duration_us = pair_of(numbers->duration, numbers->grain).whole;

	if (plan->most > WEIR__REDIS_COUNT_MAX)
		return refuse(ret_message, plan->kind <= WEIR_KIND_INTERVAL ? "a burst" : "a count", plan->most,
			      "the maximum is", WEIR__REDIS_COUNT_MAX);
	if (numbers->kind == KIND_INTERVAL && plan->count > WEIR__REDIS_COUNT_MAX)
		return refuse(ret_message, "a count", plan->count, "the maximum is", WEIR__REDIS_COUNT_MAX);
	if (numbers->kind == KIND_BUCKET && plan->count > WEIR__REDIS_RATE_MAX)
		return refuse(ret_message, "a rate with, in lowest terms of count/period, a count", plan->count,
			      "the maximum is", WEIR__REDIS_RATE_MAX);
	if (numbers->kind == KIND_BUCKET && plan->count / WEIR__REDIS_PER_NS_MAX >= plan->period)
		return refuse(ret_message, "a rate per nanosecond", plan->count / plan->period, "the maximum is below",
			      WEIR__REDIS_PER_NS_MAX);
	if (numbers->kind == KIND_LOG && plan->most > WEIR__REDIS_LOG_MAX)
		return refuse(ret_message, "a count", plan->most,
			      "use a sliding_counter for more; the maximum of a sliding_log is", WEIR__REDIS_LOG_MAX);
	if (numbers->kind == KIND_COUNTER && numbers->a > WEIR__REDIS_SEGMENTS_MAX)
		return refuse(ret_message, "a number of segments", numbers->a, "the maximum is",
			      WEIR__REDIS_SEGMENTS_MAX);
	if (numbers->kind == KIND_COUNTER && plan->most > WEIR__REDIS_COUNTS_MAX / (numbers->a + 1))
		return refuse(ret_message, "a count", plan->most, "with this number of segments the maximum is",
			      WEIR__REDIS_COUNTS_MAX / (numbers->a + 1));
	if (duration_us > WEIR__REDIS_DURATION_MAX_US)
		return refuse_duration(ret_message, duration_us);
	return WEIR_OK;
}

/* --- bytes, little-endian ---------------------------------------------------------------------------------------- */

static unsigned char *put(unsigned char *to, uint64_t number, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		to[i] = (unsigned char)(number >> (8 * i));
	return to + bytes;
}

/* In the order in which plan_at (state.lua) reads them. The first seven fields are the tag. */
static void write_bytes(struct weir__redis_plan *plan, const struct numbers *numbers)
{
	const struct pair duration = pair_of(numbers->duration, numbers->grain);
	unsigned char *to = plan->bytes;

	to = put(to, VERSION, 1);
	to = put(to, numbers->kind, 1);
	to = put(to, numbers->options, 1);
	to = put(to, numbers->a, 6);
	to = put(to, numbers->period.whole, 7);
	to = put(to, numbers->period.rest, 6);
	to = put(to, plan->plan.most, 6);
	to = put(to, duration.whole, 7);
	to = put(to, duration.rest, 6);
	put(to, 0, SET_AT_BYTES);
}

void weir__redis_plan_set_at(struct weir__redis_plan *plan, weir_ns at)
{
	const uint64_t us = weir__min(at / GRAIN, set_at_most);

	plan->set_at = us * GRAIN;
	put(plan->bytes + SET_AT_PLACE, us, SET_AT_BYTES);
}

void weir__redis_plan_set_age(struct weir__redis_plan *plan, weir_ns age)
{
	plan->set_at = 0;
	put(plan->bytes + SET_AT_PLACE, ages + weir__min(age / GRAIN, WEIR__REDIS_TIME_MAX_US), SET_AT_BYTES);
}

int weir__redis_plan_init(struct weir__redis_plan *ret_plan, const struct weir_plan *plan,
			  struct weir_message *ret_message)
{
	const struct numbers numbers = numbers_of(plan);
	const int error = check(plan, &numbers, ret_message);

	if (error != WEIR_OK)
		return error;
	*ret_plan = (struct weir__redis_plan){ .plan = *plan };
	write_bytes(ret_plan, &numbers);
	return WEIR_OK;
}

/* In Redis all sliding counters are one kind, and a log has no fixed room. */
static int check_change(const struct weir__redis_plan *plan, struct weir_plan *to, struct weir_message *ret_message)
{
	struct weir_plan from = plan->plan;

	if (from.kind == WEIR_KIND_SEGMENTS && from.room == 1 && to->kind == WEIR_KIND_COUNTER)
		weir__segments_widen(to);
	if (from.kind == WEIR_KIND_LOG)
		from.room = UINT64_MAX;
	return weir_step_convertible(&from, to, ret_message);
}

int weir__redis_plan_change(struct weir__redis_plan *plan, const struct weir_plan *to, weir_ns now,
			    struct weir_message *ret_message)
{
	struct weir__redis_plan changed;
	struct weir_plan next = *to;
	int error;

	if (now / GRAIN > WEIR__REDIS_TIME_MAX_US)
		return refuse(ret_message, "a time in microseconds", now / GRAIN, "the maximum is",
			      WEIR__REDIS_TIME_MAX_US);
	error = check_change(plan, &next, ret_message);
	if (error == WEIR_OK)
		error = weir__redis_plan_init(&changed, &next, ret_message);
	if (error != WEIR_OK)
		return error;
	weir__redis_plan_set_at(&changed, now > plan->set_at + GRAIN ? now : plan->set_at + GRAIN);
	*plan = changed;
	return WEIR_OK;
}
