/* counters.h: what workers count of themselves: connections, requests and strangers, by wire, and why nobody was accepted. Each worker
 * writes its own counters, by plain loads and stores, and whoever asks sums them up. */
#ifndef WEIR_OBSERVE_COUNTERS_H
#define WEIR_OBSERVE_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "observe/protocol.h"

/* Why somebody who has connected was left to wait: all workers have as many as they may, or the kernel had no room. */
enum weir__counters_pause { WEIR__PAUSE_FULL, WEIR__PAUSE_KERNEL, WEIR__PAUSES };

/* Of one worker. */
struct weir__counters {
	_Alignas(64) _Atomic uint64_t connections[WEIR__PROTOCOLS]; /* that are open */
	_Atomic uint64_t requests[WEIR__PROTOCOLS];                 /* that were answered */
	_Atomic uint64_t auth_failures[WEIR__PROTOCOLS];            /* who said a wrong name, password or token */
	_Atomic uint64_t pauses[WEIR__PAUSES];                      /* of accepting, while somebody waited for that */
	_Atomic uint64_t in_flight, overflows; /* requests that are answered later; and those beyond the bound */
};

struct weir__counters_sum {
	uint64_t connections[WEIR__PROTOCOLS], requests[WEIR__PROTOCOLS], auth_failures[WEIR__PROTOCOLS];
	uint64_t pauses[WEIR__PAUSES];
	uint64_t in_flight, overflows;
};

struct weir__counters_set;

/* NULL: no memory. */
struct weir__counters_set *weir__counters_set_new(uint32_t workers);
void weir__counters_set_free(struct weir__counters_set *counters_set); /* NULL is allowed */

/* That of a worker; NULL if there are none. */
struct weir__counters *weir__counters_set_of(struct weir__counters_set *counters_set, uint32_t worker);

/* How long ago these were made, in whole seconds. */
uint64_t weir__counters_set_age_s(const struct weir__counters_set *counters_set);
uint64_t weir__counters_set_made_at_s(const struct weir__counters_set *counters_set); /* of Unix time */

void weir__counters_set_sum(struct weir__counters_set *counters_set, struct weir__counters_sum *ret_sum);

/* Whether a line of the log may tell of such a thing: of all workers 10 a second may of strangers, and one in 10 s of pauses, so
 * that who guesses passwords, or connects too often, does not fill the log. *ret_left_out: how many were told of by none since
 * the last one. */
enum weir__counters_line { WEIR__COUNTERS_LINE_AUTH_FAILURE, WEIR__COUNTERS_LINE_PAUSE, WEIR__COUNTERS_LINE_N };
bool weir__counters_set_may_log(struct weir__counters_set *counters_set, enum weir__counters_line what,
				uint64_t *ret_left_out);

/* By the worker itself; a negative number takes away. */
static inline void weir__counters_add(_Atomic uint64_t *counter, int64_t n)
{
	const uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, before + (uint64_t)n, memory_order_relaxed);
}

#endif
