/* verdict.h: the answer to one request, and a place in the future of a token bucket. */
#ifndef WEIR_VERDICT_H
#define WEIR_VERDICT_H

#include <weir/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Spans count from the `now` of the call, are rounded up to whole nanoseconds and saturate at 2^64-1. */
struct weir_verdict {
	bool allowed;        /* admitted, and charged (peek: would be) */
	bool never;          /* not allowed, and no wait will help: it costs more than the limit ever has at once */
	uint64_t limit;      /* the most there can be: burst of a bucket, count of a window */
	uint64_t remaining;  /* whole units left after the decision (peek: left now) */
	uint64_t granted;    /* units charged: the cost, or what `up to` found; 0 when not allowed */
	weir_ns retry_after; /* not allowed: denied until then, admitted at it, if nobody else came; else 0 */
	weir_ns reset_after; /* until nothing is used, if nobody else came */
	weir_ns delay;       /* shaping leaky bucket: until departure. reservation: until it may act. else 0 */
};

/* A place in the future of a token bucket. Keep it to cancel; nothing needs to be freed. */
struct weir_reservation {
	uint64_t cost;  /* 0 after it was cancelled, and when it was refused */
	weir_ns act_at; /* the instant from which it may act */
	uint64_t private_[3];
};

/* One answer out of several for the same request, n >= 1: allowed only if all are, never if one is; remaining, limit
 * and granted of the one with least remaining; the longest retry_after, reset_after and delay. */
WEIR_API struct weir_verdict weir_verdict_join(const struct weir_verdict *verdicts, size_t n);

#ifdef __cplusplus
}
#endif
#endif
