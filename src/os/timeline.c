/* timeline.c: how a line of time is steered. */
#include "os/timeline.h"

enum {
	STEER_MAX_PPM = 500,
	/* An error is taken out over this time, or as fast as the above allows. */
	STEER_OVER_NS = 1000000000,
};

static const weir_ns follow_at_once_ns = 1000000000;

uint64_t weir__timeline_rate(const struct weir__clock_sample *from, const struct weir__clock_sample *to)
{
	const uint64_t ticks = to->ticks - from->ticks;

	if (to->ticks <= from->ticks || to->monotonic <= from->monotonic)
		return 0;
	return (uint64_t)(((weir__ticks_wide)(to->monotonic - from->monotonic) << WEIR__RATE_SHIFT) / ticks);
}

struct weir__timeline weir__timeline_start(const struct weir__clock_sample *sample, uint64_t rate)
{
	return (struct weir__timeline){ .bend = sample->ticks, .at_bend = sample->wall, .rate_after = rate };
}

/* The measured rate if it is within 1 % of the one before, as that of a sound counter always is. */
static uint64_t plausible_rate(uint64_t before, uint64_t measured)
{
	const uint64_t tolerance = before / 100;

	return measured > before - tolerance && measured < before + tolerance ? measured : before;
}

static uint64_t steered_rate(uint64_t rate, weir_ns ours, weir_ns wall)
{
	const bool behind = wall > ours;
	const weir_ns error = behind ? wall - ours : ours - wall;
	const weir_ns most = (weir_ns)STEER_OVER_NS / 1000000 * STEER_MAX_PPM;
	const uint64_t change = (uint64_t)((weir__ticks_wide)rate * (error < most ? error : most) /
					   (weir_ns)STEER_OVER_NS);

	return behind ? rate + change : rate - change;
}

struct weir__timeline weir__timeline_steer(const struct weir__timeline *line, const struct weir__clock_sample *last,
					   const struct weir__clock_sample *sample, uint64_t ahead)
{
	const uint64_t rate = plausible_rate(line->rate_after, weir__timeline_rate(last, sample));
	const weir_ns ours = weir__timeline_at(line, sample->ticks);
	struct weir__timeline next = { .bend = sample->ticks + ahead, .rate_before = line->rate_after };

	if (sample->wall > ours && sample->wall - ours > follow_at_once_ns) {
		next.at_bend = sample->wall;
		next.bend = sample->ticks;
		next.rate_before = 0;
		next.rate_after = rate;
		return next;
	}
	if (sample->ticks < last->ticks) { /* the counter went back: the monotonic clock tells how far time has come */
		const weir_ns elapsed = sample->monotonic - last->monotonic;

		next.at_bend = weir__timeline_at(line, last->ticks) + elapsed + elapsed / 1000;
		next.bend = sample->ticks;
		next.rate_before = 0;
	} else {
		/* One more than the old line says at the bend makes up for both lines' rounding down before it. */
		next.at_bend = weir__timeline_at(line, next.bend) + 1;
	}
	next.rate_after = steered_rate(rate, ours, sample->wall);
	return next;
}
