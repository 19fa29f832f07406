/* limiter.h: the parts of limiter.c that limiter_wait.c uses.
 * The reasons are in docs/internals/limiter.md. */
#ifndef WEIR_LIMITER_LIMITER_H
#define WEIR_LIMITER_LIMITER_H

#include <weir/limiter.h>

#include "core/wide.h"
#include "os/lock.h"

/* A waiting thread, on its own stack. It is in the limiter's list, in order of arrival. The limiter's lock protects the
 * list. */
struct weir__waiter {
	struct weir__waiter *previous, *next;
	struct weir_canceller *canceller;     /* the thread sleeps on this canceller's word */
	uint64_t cost;                        /* cost reserved; 0 if it waits to try again */
	uint64_t inherited;                   /* under the lock: units of cancelled earlier waits, not given back yet */
	struct weir_reservation reservation;  /* under the lock */
	struct weir_reservation after_change; /* under the lock */
	weir_ns act_at;                       /* atomic; WEIR_NEVER: after a change of the limit no wait will help */
};

struct weir__waiters {
	struct weir__waiter *first, *last;
};

struct weir__lock *weir__limiter_lock(struct weir_limiter *limiter);

/* Call these with the lock held. */
struct weir__waiters *weir__limiter_waiters(struct weir_limiter *limiter);
struct weir_verdict weir__limiter_reserve_held(struct weir_limiter *limiter, weir_ns now, uint64_t cost,
					       weir_ns max_wait, struct weir_reservation *ret_reservation);

void weir__limiter_refund_held(struct weir_limiter *limiter, weir_ns now, uint64_t n);
uint64_t weir__limiter_cancel_held(struct weir_limiter *limiter, weir_ns now, struct weir_reservation *reservation);

/* Call these without the lock. For a limiter that shapes: see weir__reserve_departure. */
bool weir__limiter_shapes(struct weir_limiter *limiter);
struct weir_verdict weir__limiter_depart(struct weir_limiter *limiter, weir_ns now, uint64_t cost, weir_ns max_wait,
					 struct weir_reservation *ret_departure);

bool weir__limiter_can_reserve(struct weir_limiter *limiter);

#endif
