/* limiter.h: what limiter.c shows to limiter_wait.c. */
#ifndef WEIR_LIMITER_LIMITER_H
#define WEIR_LIMITER_LIMITER_H

#include <weir/limiter.h>

#include "core/wide.h"
#include "os/lock.h"

/* A thread that waits, on its own stack; in the limiter's list, in order of arrival, under the limiter's lock. */
struct weir__waiter {
	struct weir__waiter *previous, *next;
	struct weir_canceller *canceller;     /* it sleeps on this one's word */
	uint64_t cost;                        /* reserved; 0 if it only waits to ask again */
	uint64_t inherited;                   /* under the lock: of cancelled waits, and held back by later ones */
	struct weir_reservation reservation;  /* under the lock */
	struct weir_reservation after_change; /* under the lock */
	weir_ns act_at;                       /* atomic; WEIR_NEVER: a change left it without hope */
};

struct weir__waiters {
	struct weir__waiter *first, *last;
};

struct weir__lock *weir__limiter_lock(struct weir_limiter *limiter);

/* These hold the lock. */
struct weir__waiters *weir__limiter_waiters(struct weir_limiter *limiter);
struct weir_verdict weir__limiter_reserve_held(struct weir_limiter *limiter, weir_ns now, uint64_t cost,
					       weir_ns max_wait, struct weir_reservation *ret_reservation);

void weir__limiter_refund_held(struct weir_limiter *limiter, weir_ns now, uint64_t n);
uint64_t weir__limiter_cancel_held(struct weir_limiter *limiter, weir_ns now, struct weir_reservation *reservation);

/* Without the lock: of a limiter that shapes, as weir__reserve_departure. */
bool weir__limiter_shapes(struct weir_limiter *limiter);
struct weir_verdict weir__limiter_depart(struct weir_limiter *limiter, weir_ns now, uint64_t cost, weir_ns max_wait,
					 struct weir_reservation *ret_departure);

bool weir__limiter_can_reserve(struct weir_limiter *limiter);

#endif
