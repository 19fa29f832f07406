/* plan.h: a limit, checked once and ready to decide.
 *
 * A plan is plain data without pointers: copy it, share it between threads and processes, keep it in a file of the
 * same version. All refusals of bad limits happen in weir_plan_compile; no step can fail. */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include <weir/limit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a plan decides. Several kinds serve one algorithm, chosen by compile; users need not look. */
enum weir_kind {
	WEIR_KIND_BUCKET,   /* token and leaky buckets, smooth */
	WEIR_KIND_INTERVAL, /* token bucket that refills count at once */
	WEIR_KIND_WINDOW,   /* fixed window */
	WEIR_KIND_COUNTER,  /* sliding counter that fits 16 bytes */
	WEIR_KIND_SEGMENTS, /* sliding counter of several sub-windows, large counts, or counting denied requests */
	WEIR_KIND_LOG,      /* sliding log */
	WEIR_KIND_COUNT_
};

struct weir_plan {
	uint32_t kind;  /* enum weir_kind */
	uint32_t flags; /* WEIR_PLAN_... */
	uint64_t count; /* buckets: of the rate in lowest terms */
	weir_ns period; /* buckets: of the rate in lowest terms. segments: of one sub-window */
	uint64_t most;  /* what one request may cost: burst of a bucket, count of a window */
	uint64_t room;  /* segments: sub-windows in a period. log: entries that its state has room for. else 0 */
};

enum {
	WEIR_PLAN_SLIM = 1u << 0,      /* every state leaves the top 16 bits of `hi` clear: see state in step.h */
	WEIR_PLAN_SHAPE = 1u << 1,     /* verdicts carry the delay until departure */
	WEIR_PLAN_FIRST = 1u << 2,     /* windows start at the first request */
	WEIR_PLAN_COUNT_ALL = 1u << 3, /* denied requests are counted */
	WEIR_PLAN_DEBT = 1u << 4,      /* set by a store that reserves: what is owed is debt, no step back */
};

/* Checks limit and makes its plan. WEIR_ERR_LIMIT: a count, period, burst or number of segments of 0, segments that
 * do not divide the period. WEIR_ERR_MAXIMUM: see limit.h. The plan is written only on success. */
WEIR_API int weir_plan_compile(const struct weir_limit *limit, struct weir_plan *ret_plan,
			       struct weir_message *ret_message);

/* Bytes of state that the steps of this plan work on: 16, but for sliding logs and segments. A multiple of 8. */
WEIR_API size_t weir_plan_state_size(const struct weir_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
