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

enum { WEIR__REDIS_PLAN_BYTES = 67 };

struct weir__redis_plan {
	struct weir_plan plan;
	struct weir_state untouched; /* state of a key never seen: 0, unless the burst was raised */
	bool is_changed;             /* at least once, most recently at changed_at */
	weir_ns changed_at;
	/* A tag exists in two versions that mean the same. A change that would keep the tag flips this, so that the
	 * script notices the change. */
	bool is_turned;
	unsigned char bytes[WEIR__REDIS_PLAN_BYTES]; /* the plan as the script reads it */
};

/* WEIR_ERR_MAXIMUM: the plan does not fit Redis, and ret_message says what would. */
int weir__redis_plan_init(struct weir__redis_plan *ret_plan, const struct weir_plan *plan,
			  struct weir_message *ret_message);

/* Changes the plan as of now, a time on Redis's clock. Stored keys are converted when they are next used, all others at
 * once. Nothing changes on an error: WEIR_ERR_MAXIMUM, or WEIR_ERR_CHANGE as in weir_step_convertible. */
int weir__redis_plan_change(struct weir__redis_plan *plan, const struct weir_plan *to, weir_ns now,
			    struct weir_message *ret_message);

#endif
