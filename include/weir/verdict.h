/* verdict.h: the decision on one request, and a reservation of a bucket.
 *
 * All types here are plain data: copy them as you like, and free nothing. */
#ifndef WEIR_VERDICT_H
#define WEIR_VERDICT_H

#include <weir/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Durations count from the `now` of the call, are rounded up to whole nanoseconds and saturate at 2^64-1. */
struct weir_verdict {
	bool allowed;        /* allowed and charged (peek: would be allowed) */
	bool never;          /* denied, and no wait will help: the cost exceeds `limit` */
	uint64_t limit;      /* capacity: burst of a bucket, count of a window */
	uint64_t remaining;  /* whole units left after the decision (peek: left now) */
	uint64_t granted;    /* units charged: the cost, or less from an `upto` call; 0 if denied (peek: 0) */
	weir_ns retry_after; /* denied: time until the same request would be allowed, absent other requests; else 0,
			      * but see weir_table_decide for limits with count all */
	weir_ns reset_after; /* time until the bucket is full or the window reset, absent other requests */
	weir_ns delay;       /* shaping leaky bucket: until departure. reservation: until it may act. others: 0 */
};

/* What is left of a limit as an exact number: units + parts/of, in lowest terms. Smooth buckets refill by parts of a
 * unit. All other algorithms count whole units: parts is 0, and of is 1. */
struct weir_tokens {
	uint64_t units;     /* the same as remaining in a verdict */
	uint64_t parts, of; /* parts < of */
};

/* A reservation: the bucket has charged it, and its tokens may still have to flow in. Keep it if you may want to cancel
 * it. */
struct weir_reservation {
	uint64_t cost;  /* 0 if it was denied, or after it was cancelled */
	weir_ns act_at; /* the instant from which it may act */
	uint64_t private_[3];
};

/* Joins the verdicts of n limits on the same request, n >= 1. The result is allowed only if all are, and `never` if one
 * is. limit, remaining and granted come from the verdict with the least remaining. retry_after, reset_after and delay
 * are the longest of all. If the result is denied, granted and delay are 0. */
WEIR_API struct weir_verdict weir_verdict_join(const struct weir_verdict *verdicts, size_t n);

#ifdef __cplusplus
}
#endif
#endif
