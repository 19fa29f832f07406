/* redis_plan.h: a plan as the script in Redis takes it (decide.lua), and whether it can be there.
 *
 * Pure. A script's numbers are whole up to 2^53: what would need more is refused here, once, so that nothing is ever
 * rounded there. */
#ifndef WEIR_STORE_REDIS_REDIS_PLAN_H
#define WEIR_STORE_REDIS_REDIS_PLAN_H

#include <weir/step.h>

/* Maxima of limits in Redis. */
#define WEIR__REDIS_COUNT_MAX ((UINT64_C(1) << 48) - 1)       /* a burst, or the count of a window */
#define WEIR__REDIS_COUNTS_MAX ((UINT64_C(1) << 49) - 1)      /* of a sliding counter: count * (segments + 1) */
#define WEIR__REDIS_RATE_MAX UINT64_C(0xffffffff)             /* count of a smooth bucket's rate in lowest terms */
#define WEIR__REDIS_PER_NS_MAX UINT64_C(65536)                /* what such a rate is in a nanosecond at most */
#define WEIR__REDIS_DURATION_MAX_US ((UINT64_C(1) << 51) - 1) /* from used up to fresh: 71 years */
#define WEIR__REDIS_TIME_MAX_US (UINT64_C(1) << 52)           /* until the year 2112 */
#define WEIR__REDIS_SEGMENTS_MAX UINT64_C(4096)               /* all are read and written with each decision */
#define WEIR__REDIS_LOG_MAX UINT64_C(1000000)                 /* so are events: at most 13 MB */

enum { WEIR__REDIS_PLAN_BYTES = 67 };

struct weir__redis_plan {
	struct weir_plan plan;
	struct weir_state untouched; /* of a key that was never seen: 0, unless the burst was raised */
	bool is_changed;             /* once at least; the last time at: */
	weir_ns changed_at;
	bool is_turned; /* the other one of two that say the same: so a change to itself is told, too */
	unsigned char bytes[WEIR__REDIS_PLAN_BYTES]; /* the same as the script reads it */
};

/* Can this plan be in Redis? WEIR_ERR_MAXIMUM: no, and ret_message says what would be right. */
int weir__redis_plan_init(struct weir__redis_plan *ret_plan, const struct weir_plan *plan,
			  struct weir_message *ret_message);

/* Changes the plan as of now, which is a time of Redis's clock: stored keys are carried over when they are next touched,
 * all others at once. Nothing is changed on an error: WEIR_ERR_MAXIMUM, or WEIR_ERR_CHANGE as of weir_step_convertible. */
int weir__redis_plan_change(struct weir__redis_plan *plan, const struct weir_plan *to, weir_ns now,
			    struct weir_message *ret_message);

#endif
