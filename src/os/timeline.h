/* timeline.h: converts the ticks of a counter to Unix time, steered towards the wall clock. Pure: the ticks and the
 * wall clock are arguments.
 *
 * A line bends at one tick, which lies a little ahead when the line is published. Up to the bend the old and the new
 * line agree, so time never goes back, however late a reader sees the new line. */
#ifndef WEIR_OS_TIMELINE_H
#define WEIR_OS_TIMELINE_H

#include <weir/types.h>

__extension__ typedef unsigned __int128 weir__ticks_wide;

/* Rates are nanoseconds per tick, times 2^64: the upper half of a product is the time. A tick must be shorter than 1
 * ns. */
#define WEIR__RATE_SHIFT 64

struct weir__timeline {
	uint64_t bend; /* a tick */
	weir_ns at_bend;
	uint64_t rate_before; /* 0: until the bend, time stands still at at_bend */
	uint64_t rate_after;
};

/* What the clocks read at one moment. */
struct weir__clock_sample {
	uint64_t ticks;
	weir_ns monotonic; /* to measure how fast the counter runs */
	weir_ns wall;
};

static inline weir_ns weir__timeline_at(const struct weir__timeline *line, uint64_t ticks)
{
	if (__builtin_expect(ticks >= line->bend, 1))
		return line->at_bend +
		       (weir_ns)((weir__ticks_wide)(ticks - line->bend) * line->rate_after >> WEIR__RATE_SHIFT);
	return line->at_bend -
	       (weir_ns)((weir__ticks_wide)(line->bend - ticks) * line->rate_before >> WEIR__RATE_SHIFT);
}

/* Returns the rate between two samples, or 0 if they are too close, the counter went back, or its ticks are too
 * long. */
uint64_t weir__timeline_rate(const struct weir__clock_sample *from, const struct weir__clock_sample *to);

/* Returns a line that starts at the sample and runs at the rate. */
struct weir__timeline weir__timeline_start(const struct weir__clock_sample *sample, uint64_t rate);

/* Returns the next line, which bends `ahead` ticks after the sample. It runs at the rate measured since the last
 * sample, plus at most 500 ppm towards the wall clock. A wall clock more than a second ahead is followed at once. A
 * counter that stopped, jumped or went back (suspend, another host) keeps its old rate. */
struct weir__timeline weir__timeline_steer(const struct weir__timeline *line, const struct weir__clock_sample *last,
					   const struct weir__clock_sample *sample, uint64_t ahead);

/* Returns the next line after a line that was not read for long. It begins at the time of the sample, but not before
 * the time that the old line gives `given_out` ticks after its bend. */
struct weir__timeline weir__timeline_restart(const struct weir__timeline *line, const struct weir__clock_sample *last,
					     const struct weir__clock_sample *sample, uint64_t given_out);

#endif
