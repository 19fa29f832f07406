/* clock.h: a clock that several processes agree on.
 *
 * CLOCK_MONOTONIC is the same for all of them. Each carries it on by the processor's counter, as the process's clock does
 * with the wall clock (weir/clock.h), and adds what the anchor says, in memory that they share: how much the time of day
 * is ahead. The anchor follows the wall clock by at most 500 ppm; where that is more than a second ahead, at once, but
 * announced beforehand, so that all jump at the same instant. Whoever reads its clock moves the anchor, now and then;
 * nobody needs to, and who is killed while at it leaves nothing behind. */
#ifndef WEIR_OS_CLOCK_H
#define WEIR_OS_CLOCK_H

#include <weir/clock.h>

#include <stdatomic.h>

#include "os/atomic16.h"
#include "os/timeline.h"

/* How far the time of day is ahead of CLOCK_MONOTONIC: from some instant on so much, growing at some rate. 16 bytes:
 * lo is how much, in ns modulo 2^64; hi the instant in ms and the rate in 2^-30. */
struct weir__clock_anchor {
	union weir__atomic16 next;    /* from its instant on */
	union weir__atomic16 current; /* until then */
};

struct weir__clock_line {
	_Atomic uint64_t bend, at_bend, rate_before, rate_after;
};

/* A process's own. */
struct weir__clock {
	struct weir__clock_line lines[2];
	_Atomic uint64_t number; /* of lines published; its lowest bit is the current place */
	uint64_t ticks_to_steer, ticks_to_bend;
	struct weir__clock_anchor *anchor; /* NULL: follows the wall clock itself */
	struct weir__clock_sample last;    /* of whoever steers */
	_Atomic uint32_t steering;         /* a try-lock: 0, or the number of the process that steers */
	_Atomic bool is_fast;              /* started, and carried on by the processor's counter */
	bool uses_tsc;
} __attribute__((aligned(64)));

void weir__clock_anchor_init(struct weir__clock_anchor *anchor);
void weir__clock_anchor_begin(struct weir__clock_anchor *anchor, weir_ns monotonic, weir_ns wall);

/* The time of day when it was last moved. */
weir_ns weir__clock_anchor_moved_at(struct weir__clock_anchor *anchor);

/* What to add at an instant of CLOCK_MONOTONIC. */
uint64_t weir__clock_anchor_at(struct weir__clock_anchor *anchor, weir_ns monotonic);

/* Brings the anchor closer to the wall clock, unless somebody just has. */
void weir__clock_anchor_move(struct weir__clock_anchor *anchor, weir_ns monotonic, weir_ns wall);

/* Takes about 200 us to calibrate. Nothing to free. */
void weir__clock_init(struct weir__clock *clock, struct weir__clock_anchor *anchor);

/* Safe from any thread. */
weir_ns weir__clock_read(struct weir__clock *clock);

#endif
