/* spin.h: whether a loop looks again and again for events before it sleeps. Pure: what the clock says is an argument.
 *
 * A thread that sleeps has to be woken, and that is paid by whoever sends to it: between processors of a virtual machine an
 * interrupt of some microseconds, for each request that finds it asleep. A busy server sleeps for less than that takes. So
 * when several waits in a row were short, the next ones are spent awake, up to a bound. Where that is in vain, since there is
 * less to do, or others need this very processor, it stops, and is tried again after a rest that doubles each time, and
 * shrinks slowly while it pays. */
#ifndef WEIR_OS_SPIN_H
#define WEIR_OS_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WEIR__SPIN_STREAK = 8, /* short sleeps in a row before it begins */
	WEIR__SPIN_TRUST = 4,  /* what one in vain costs: with more than one in five it ends */
	WEIR__SPIN_TRUST_MAX = 16,
};

#define WEIR__SPIN_REST_LEAST_NS UINT64_C(1000000)
#define WEIR__SPIN_REST_MOST_NS UINT64_C(1000000000)

struct weir__spin {
	uint64_t most_ns; /* for one wait; 0: never */
	uint64_t rests_until;
	uint64_t rest_ns;
	uint32_t streak; /* asleep: short sleeps in a row */
	int32_t trust;   /* above 0: awake */
};

/* All zero but for most_ns is a loop that has just begun. */

static inline bool weir__spin_is_on(const struct weir__spin *spin)
{
	return spin->trust > 0;
}

/* After a wait: it took so long, WEIR__SPIN_IN_VAIN if others wanted the processor meanwhile, and was ended at `now`. */
#define WEIR__SPIN_IN_VAIN UINT64_MAX
void weir__spin_note(struct weir__spin *spin, uint64_t waited_ns, uint64_t now);

#endif
