/* redis_plan.h: a plan in the form that the script in Redis reads (decide.lua), and whether it fits.
 *
 * Pure. The script's numbers are exact up to 2^53. A plan that would need more is rejected here, once, so that the
 * script never rounds. */
#ifndef WEIR_STORE_REDIS_REDIS_PLAN_H
#define WEIR_STORE_REDIS_REDIS_PLAN_H

#include <weir/step.h>

/* Maxima of limits in Redis. */
#define WEIR__REDIS_COUNT_MAX ((UINT64_C(1) << 48) - 1)  /* burst of a bucket, or count of a window */
#define WEIR__REDIS_COUNTS_MAX ((UINT64_C(1) << 49) - 1) /* sliding counter: count * (segments + 1) */
#define WEIR__REDIS_RATE_MAX UINT64_C(0xffffffff)        /* smooth bucket: count of the rate in lowest terms */
#define WEIR__REDIS_PER_NS_MAX UINT64_C(65536)           /* smooth bucket: upper bound of the rate per nanosecond */
#define WEIR__REDIS_DURATION_MAX_US ((UINT64_C(1) << 51) - 1) /* from used up to full: 71 years */
#define WEIR__REDIS_TIME_MAX_US (UINT64_C(1) << 52)           /* until the year 2112 */
#define WEIR__REDIS_SEGMENTS_MAX UINT64_C(4096)               /* every decision reads and writes all of them */
#define WEIR__REDIS_LOG_MAX UINT64_C(1000000)                 /* events of a log: at most 13 MB */

enum { WEIR__REDIS_PLAN_BYTES = 48 };

struct weir__redis_plan {
	struct weir_plan plan;
	/* The instant on Redis's clock at which the limit was set to this plan, in whole microseconds. Of the plans
	 * that nodes have for one key, the one that was set last decides. 0: before all others, or not known yet. */
	weir_ns set_at;
	unsigned char bytes[WEIR__REDIS_PLAN_BYTES]; /* the plan as the script reads it */
};

/* set_at is 0. WEIR_ERR_MAXIMUM: the plan does not fit Redis, and ret_message says what would. */
int weir__redis_plan_init(struct weir__redis_plan *ret_plan, const struct weir_plan *plan,
			  struct weir_message *ret_message);

/* Sets the instant, a time on Redis's clock. After the year 2255 all instants are the same. */
void weir__redis_plan_set_at(struct weir__redis_plan *plan, weir_ns at);

/* For a plan that is sent while Redis's clock is not known: tells the script how long ago the plan was set. The instant
 * then depends on how long the call takes. */
void weir__redis_plan_set_age(struct weir__redis_plan *plan, weir_ns age);

/* Changes the plan as of now, a time on Redis's clock. Keys are converted when they are next used. If now is not later
 * than the instant of the previous plan, because the clock went back, the new plan is a microsecond later than that.
 * Nothing changes on an error: WEIR_ERR_MAXIMUM, or WEIR_ERR_CHANGE as in weir_step_convertible. */
int weir__redis_plan_change(struct weir__redis_plan *plan, const struct weir_plan *to, weir_ns now,
			    struct weir_message *ret_message);

#endif
