/* tally.h: what workers count of themselves: connections, requests and strangers, by wire, and why nobody was accepted. Each worker
 * writes its own counters, by plain loads and stores, and whoever asks sums them up. */
#ifndef WEIR_SERVE_TALLY_H
#define WEIR_SERVE_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "serve/worker.h"

/* Why somebody who has connected was left to wait: all workers have as many as they may, or the kernel had no room. */
enum weir__tally_pause { WEIR__PAUSE_FULL, WEIR__PAUSE_KERNEL, WEIR__PAUSES };

/* Of one worker. */
struct weir__tally {
	_Alignas(64) _Atomic uint64_t connections[WEIR__WIRES]; /* that are open */
	_Atomic uint64_t requests[WEIR__WIRES];                 /* that were answered */
	_Atomic uint64_t strangers[WEIR__WIRES];                /* who said a wrong name, password or token */
	_Atomic uint64_t pauses[WEIR__PAUSES];                  /* of accepting, while somebody waited for that */
	_Atomic uint64_t in_flight, overflows; /* requests that are answered later; and those beyond the bound */
};

struct weir__tally_sum {
	uint64_t connections[WEIR__WIRES], requests[WEIR__WIRES], strangers[WEIR__WIRES];
	uint64_t pauses[WEIR__PAUSES];
	uint64_t in_flight, overflows;
};

struct weir__tallies;

/* NULL: no memory. */
struct weir__tallies *weir__tallies_new(uint32_t workers);
void weir__tallies_free(struct weir__tallies *tallies); /* NULL is allowed */

/* That of a worker; NULL if there are none. */
struct weir__tally *weir__tallies_of(struct weir__tallies *tallies, uint32_t worker);

/* How long ago these were made, in whole seconds. */
uint64_t weir__tallies_age_s(const struct weir__tallies *tallies);
uint64_t weir__tallies_made_at_s(const struct weir__tallies *tallies); /* of Unix time */

void weir__tallies_sum(struct weir__tallies *tallies, struct weir__tally_sum *ret_sum);

/* Whether a line of the log may tell of such a thing: of all workers 10 a second may of strangers, and one in 10 s of pauses, so
 * that who guesses passwords, or connects too often, does not fill the log. *ret_left_out: how many were told of by none since
 * the last one. */
enum weir__told { WEIR__TOLD_STRANGER, WEIR__TOLD_PAUSE, WEIR__TOLD_N };
bool weir__tallies_may_tell(struct weir__tallies *tallies, enum weir__told what, uint64_t *ret_left_out);

/* By the worker itself; a negative number takes away. */
static inline void weir__tally_add(_Atomic uint64_t *counter, int64_t n)
{
	const uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, before + (uint64_t)n, memory_order_relaxed);
}

#endif
