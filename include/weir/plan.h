/* plan.h: a limit, checked once and ready to decide.
 *
 * You need plans only for your own stores: limiters, tables and Redis compile them for you. A plan is plain data
 * without pointers. You can copy it, share it between threads and processes, and write it to a file, as long as the
 * same version of Weir reads it. Only weir_plan_compile rejects invalid limits. The steps (step.h) then cannot fail.
 * All functions here are pure and may be called from any thread. */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include <weir/limit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a plan decides. weir_plan_compile chooses the kind. Several kinds may implement one algorithm. You need not look
 * at it. */
enum weir_kind {
	WEIR_KIND_BUCKET,   /* token and leaky buckets, smooth */
	WEIR_KIND_INTERVAL, /* token bucket that refills count tokens at once */
	WEIR_KIND_WINDOW,   /* fixed window */
	WEIR_KIND_COUNTER,  /* sliding counter that fits 16 bytes */
	WEIR_KIND_SEGMENTS, /* sliding counter with several sub-windows, large counts, or denied requests counted */
	WEIR_KIND_LOG,      /* sliding log */
	WEIR_KIND_COUNT_
};

struct weir_plan {
	uint32_t kind;  /* enum weir_kind */
	uint32_t flags; /* WEIR_PLAN_... */
	uint64_t count; /* buckets: count of the rate in lowest terms */
	weir_ns period; /* buckets: period of the rate in lowest terms. segments: length of one sub-window */
	uint64_t most;  /* the most that one request may cost: burst of a bucket, count of a window */
	uint64_t room;  /* segments: sub-windows in a period. log: entries that fit its state. others: 0 */
};

enum {
	WEIR_PLAN_SLIM = 1u << 0,      /* no state uses the top 16 bits of `hi`: see struct weir_state in step.h */
	WEIR_PLAN_SHAPE = 1u << 1,     /* verdicts carry the delay until departure */
	WEIR_PLAN_FIRST = 1u << 2,     /* windows start at the first request */
	WEIR_PLAN_COUNT_ALL = 1u << 3, /* denied requests are counted */
	WEIR_PLAN_RESERVED = 1u << 4,  /* set by stores: usage above the burst is reserved; the clock did not go back */
};

/* Checks the limit and makes its plan. Neither points to the other. WEIR_ERR_LIMIT: the algorithm is unknown, the
 * count, period, burst or number of segments is 0, the segments do not divide the period, or an option belongs to
 * another algorithm. WEIR_ERR_MAXIMUM: the limit is beyond a maximum (limit.h). */
WEIR_API int weir_plan_compile(const struct weir_limit *limit, struct weir_plan *ret_plan,
			       struct weir_message *ret_message);

/* Returns the size in bytes of the state that the steps of this plan work on, a multiple of 8. It is 16, except for
 * sliding logs and segments. */
WEIR_API size_t weir_plan_state_size(const struct weir_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
