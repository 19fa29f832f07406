/* clock.h: a clock that several processes agree on.
 *
 * They share an anchor: what must be added to CLOCK_MONOTONIC, which is the same for all of them, to get the time of day.
 * Each carries its own clock on from there by the processor's counter, as the process's clock does (weir/clock.h), and
 * steers it towards the anchor. The anchor itself follows the wall clock: at most 500 ppm, but at once where that is
 * more than a second ahead. Whoever reads its clock moves it, now and then; nobody needs to. */
#ifndef WEIR_OS_CLOCK_H
#define WEIR_OS_CLOCK_H

#include <weir/clock.h>

#include <stdatomic.h>

#include "os/timeline.h"

/* In memory that processes share. */
struct weir__clock_anchor {
	_Atomic uint64_t ahead;    /* of CLOCK_MONOTONIC, in ns, modulo 2^64 */
	_Atomic uint64_t moved_at; /* by CLOCK_MONOTONIC */
	/* When it was made: the longer ago, the better this tells how fast the counter runs. */
	_Atomic uint64_t made_at_ticks, made_at_monotonic;
};

struct weir__clock_line {
	_Atomic uint64_t bend, at_bend, rate_before, rate_after;
};

/* A process's own. */
struct weir__clock {
	struct weir__clock_line lines[2];
	_Atomic uint64_t number; /* of lines published; its lowest bit is the current place */
	_Atomic bool is_fast;    /* started, and carried on by the processor's counter */
	bool uses_tsc;
	uint64_t ticks_to_steer, ticks_to_bend;
	struct weir__clock_anchor *anchor; /* NULL: the wall clock */
	_Atomic uint64_t steering_since;   /* by CLOCK_MONOTONIC; 0: nobody is */
	struct weir__clock_sample last;    /* of whoever steers */
} __attribute__((aligned(64)));

void weir__clock_anchor_init(struct weir__clock_anchor *anchor);

/* Takes about 200 us to calibrate. Nothing to free. */
void weir__clock_init(struct weir__clock *clock, struct weir__clock_anchor *anchor);

/* Safe from any thread. */
weir_ns weir__clock_read(struct weir__clock *clock);

#endif
