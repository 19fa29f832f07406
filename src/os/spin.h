/* spin.h: whether a loop polls for events for a while (spins) before it sleeps. Pure: the time is an argument.
 *
 * Waking a sleeping thread costs the sender time: between processors of a virtual machine, an interrupt of some
 * microseconds for each request that finds the thread asleep. A busy server often sleeps for less time than that. So
 * after several short waits in a row the loop spins in the next ones, up to a bound. If spinning is in vain, because
 * there is less to do or other threads need this processor, it stops. It is tried again after a rest, which doubles
 * each time and shrinks slowly while spinning pays. */
#ifndef WEIR_OS_SPIN_H
#define WEIR_OS_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WEIR__SPIN_STREAK = 8, /* short sleeps in a row before spinning begins */
	WEIR__SPIN_TRUST = 4,  /* trust lost by a spin in vain: with more than one in five, spinning ends */
	WEIR__SPIN_TRUST_MAX = 16,
};

#define WEIR__SPIN_REST_LEAST_NS UINT64_C(1000000)
#define WEIR__SPIN_REST_MOST_NS UINT64_C(1000000000)

struct weir__spin {
	uint64_t most_ns; /* for one wait; 0: never spin */
	uint64_t rests_until;
	uint64_t rest_ns;
	uint32_t streak; /* while sleeping: short sleeps in a row */
	int32_t trust;   /* above 0: spinning */
};

/* The initial state is all zero except most_ns. */

static inline bool weir__spin_is_on(const struct weir__spin *spin)
{
	return spin->trust > 0;
}

/* Call this after each wait, with its duration and the time at its end. Pass WEIR__SPIN_IN_VAIN as the duration if
 * other threads ran on this processor meanwhile. */
#define WEIR__SPIN_IN_VAIN UINT64_MAX
void weir__spin_note(struct weir__spin *spin, uint64_t waited_ns, uint64_t now);

#endif
