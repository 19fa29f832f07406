/* clock.h: a clock that several processes agree on.
 *
 * CLOCK_MONOTONIC is the same for all processes. Each process extends it by the processor's counter, as the process's
 * clock does with the wall clock (weir/clock.h). It then adds the offset of the time of day from the anchor, which is
 * in memory that they share. The anchor follows the wall clock by at most 500 ppm. If the wall clock is more than a
 * second ahead, the anchor jumps, but announces that beforehand, so that all processes jump at the same instant.
 * Threads that read the clock move the anchor now and then. Any process may do so, and a process that is killed
 * meanwhile leaves nothing behind. The reasons are in docs/internals/clock.md. */
#ifndef WEIR_OS_CLOCK_H
#define WEIR_OS_CLOCK_H

#include <weir/clock.h>

#include <stdatomic.h>
#include <stdbool.h>

#include "os/atomic16.h"
#include "os/timeline.h"

/* The offset of the time of day from CLOCK_MONOTONIC: a value at some instant, and the rate at which it grows from
 * there. 16 bytes: lo is the offset in ns, modulo 2^64; hi is the instant in ms and the rate in units of 2^-30. */
struct weir__clock_anchor {
	union weir__atomic16 next;    /* valid from its instant on */
	union weir__atomic16 current; /* valid until then */
};

struct weir__clock_line {
	_Atomic uint64_t bend, at_bend, rate_before, rate_after;
};

/* The clock of one process. */
struct weir__clock {
	struct weir__clock_line lines[2];
	_Atomic uint64_t number; /* of lines published; its lowest bit is the index of the current one */
	uint64_t ticks_to_steer, ticks_to_bend;
	struct weir__clock_anchor *anchor; /* NULL: this clock follows the wall clock itself */
	struct weir__clock_sample last;    /* only for the thread that steers */
	_Atomic uint32_t steering;         /* a try-lock: 0, or the number of the process that steers */
	_Atomic bool is_fast;              /* started, and driven by the processor's counter */
	bool uses_tsc;
} __attribute__((aligned(64)));

void weir__clock_anchor_init(struct weir__clock_anchor *anchor);
void weir__clock_anchor_begin(struct weir__clock_anchor *anchor, weir_ns monotonic, weir_ns wall);

/* Whether these functions can have written the anchor. Random bytes almost never pass. */
bool weir__clock_anchor_is_sound(struct weir__clock_anchor *anchor);

/* Returns the time of day when the anchor was last moved. */
weir_ns weir__clock_anchor_moved_at(struct weir__clock_anchor *anchor);

/* Returns what to add to this time of CLOCK_MONOTONIC. */
uint64_t weir__clock_anchor_at(struct weir__clock_anchor *anchor, weir_ns monotonic);

/* Moves the anchor closer to the wall clock, unless that was done just before. */
void weir__clock_anchor_move(struct weir__clock_anchor *anchor, weir_ns monotonic, weir_ns wall);

/* Takes about 200 us to calibrate. There is nothing to free. */
void weir__clock_init(struct weir__clock *clock, struct weir__clock_anchor *anchor);

/* Safe from any thread. */
weir_ns weir__clock_read(struct weir__clock *clock);

#endif
