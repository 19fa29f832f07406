/* timeline.c: how a timeline is steered. */
#include "os/timeline.h"

enum {
	STEER_MAX_PPM = 500,
	/* An error is corrected over this time, or as fast as STEER_MAX_PPM allows. */
	STEER_OVER_NS = 1000000000,
};

static const weir_ns follow_at_once_ns = 1000000000;

uint64_t weir__timeline_rate(const struct weir__clock_sample *from, const struct weir__clock_sample *to)
{
	const uint64_t ticks = to->ticks - from->ticks;

	if (to->ticks <= from->ticks || to->monotonic <= from->monotonic)
		return 0;
	if (to->monotonic - from->monotonic >= ticks)
		return 0;
	return (uint64_t)(((weir__ticks_wide)(to->monotonic - from->monotonic) << WEIR__RATE_SHIFT) / ticks);
}

struct weir__timeline weir__timeline_start(const struct weir__clock_sample *sample, uint64_t rate)
{
	return (struct weir__timeline){ .bend = sample->ticks, .at_bend = sample->wall, .rate_after = rate };
}

/* Returns the measured rate if it is within 1 % of the rate before, as with any sound counter; else the rate before. */
static uint64_t plausible_rate(uint64_t before, uint64_t measured)
{
	const uint64_t tolerance = before / 100;

	return measured > before - tolerance && measured < before + tolerance ? measured : before;
}

/* Returns the rate until the next sample, which is most likely as far away as the last one was. */
static uint64_t steered_rate(uint64_t rate, weir_ns ours, weir_ns wall, weir_ns elapsed)
{
	const bool behind = wall > ours;
	const weir_ns error = behind ? wall - ours : ours - wall;
	const weir_ns over = elapsed > STEER_OVER_NS ? elapsed : STEER_OVER_NS;
	const weir_ns most = over / 1000000 * STEER_MAX_PPM;
	const uint64_t change = (uint64_t)((weir__ticks_wide)rate * (error < most ? error : most) / over);

	return behind ? rate + change : rate - change;
}

struct weir__timeline weir__timeline_steer(const struct weir__timeline *line, const struct weir__clock_sample *last,
					   const struct weir__clock_sample *sample, uint64_t ahead)
{
	const uint64_t rate = plausible_rate(line->rate_after, weir__timeline_rate(last, sample));
	const weir_ns elapsed = sample->monotonic - last->monotonic;
	const bool went_back = sample->ticks < last->ticks;
	/* If the counter went back, the monotonic clock shows how far readers may have come. */
	const weir_ns ours = went_back ? weir__timeline_at(line, last->ticks) + elapsed + elapsed / 1000 :
					 weir__timeline_at(line, sample->ticks);
	const bool is_far_behind = sample->wall > ours && sample->wall - ours > follow_at_once_ns;
	struct weir__timeline next;

	if (went_back || is_far_behind) {
		next.bend = sample->ticks;
		next.at_bend = is_far_behind ? sample->wall : ours;
		next.rate_before = 0;
	} else {
		next.bend = sample->ticks + ahead;
		/* One more than the old line at the bend makes up for the rounding down of both lines before it. */
		next.at_bend = weir__timeline_at(line, next.bend) + 1;
		next.rate_before = line->rate_after;
	}
	next.rate_after = steered_rate(rate, is_far_behind ? sample->wall : ours, sample->wall, elapsed);
	return next;
}

struct weir__timeline weir__timeline_restart(const struct weir__timeline *line, const struct weir__clock_sample *last,
					     const struct weir__clock_sample *sample, uint64_t given_out)
{
	const weir_ns said = weir__timeline_at(line, line->bend + given_out);

	return (struct weir__timeline){
		.bend = sample->ticks,
		.at_bend = sample->wall > said ? sample->wall : said,
		.rate_after = plausible_rate(line->rate_after, weir__timeline_rate(last, sample)),
	};
}
