/* clock_anchor.c: the offset of the time of day from CLOCK_MONOTONIC, for several processes.
 *
 * There are two lines. The next one is valid from its instant on. To move the anchor once the next line is valid, copy
 * it over the current line. The place of the next line is then free for a line that begins a little later, and that
 * agrees with the old one there, unless it is a jump. Each of these two steps is one 16-byte swap, and the swap of a
 * process that is too late fails. */
#include "os/clock.h"

enum {
	NS_A_MS = 1000000,
	MOVE_EACH_MS = 100,
	BEGIN_AHEAD_MS = 20, /* longer than a swap takes to become visible to all */
	/* A process looks at the anchor each time it reads its clock, so it sees the jump early enough. But a time that
	 * was read before the announcement must have been used by then. */
	JUMP_AHEAD_MS = 200,
	RATE_BITS = 22,
	RATE_SHIFT = 30,
	RATE_MAX = (1 << RATE_SHIFT) / 1000000 * 500, /* 500 ppm */
};

static const int64_t jump_ns = 1000000000;
static const weir_ns taken_out_over_ns = 1000000000;
static const uint64_t from_most_ms = UINT64_C(3155760000000); /* no machine has been running for 100 years */

struct line {
	uint64_t ahead;
	uint64_t from_ms;
	int64_t rate; /* in 2^-30 */
};

static struct weir_state pack(const struct line *line)
{
	const uint64_t biased = (uint64_t)(line->rate + (INT64_C(1) << (RATE_BITS - 1)));

	return (struct weir_state){ .lo = line->ahead, .hi = line->from_ms << RATE_BITS | biased };
}

static struct line unpack(struct weir_state word)
{
	const uint64_t biased = word.hi & ((UINT64_C(1) << RATE_BITS) - 1);

	return (struct line){ .ahead = word.lo,
			      .from_ms = word.hi >> RATE_BITS,
			      .rate = (int64_t)biased - (INT64_C(1) << (RATE_BITS - 1)) };
}

/* A rate is valid for one second, in which it corrects the error that it was set for. If nothing moves the anchor after
 * that, the offset stays. */
static uint64_t line_at(const struct line *line, weir_ns monotonic)
{
	const weir_ns from = line->from_ms * NS_A_MS;
	const weir_ns elapsed = monotonic > from ? monotonic - from : 0;

	return line->ahead + (uint64_t)((int64_t)(elapsed < taken_out_over_ns ? elapsed : taken_out_over_ns) *
					line->rate / (1 << RATE_SHIFT));
}

void weir__clock_anchor_begin(struct weir__clock_anchor *anchor, weir_ns monotonic, weir_ns wall)
{
	const struct line line = { .ahead = wall - monotonic, .from_ms = monotonic / NS_A_MS };

	anchor->current.state = anchor->next.state = pack(&line);
}

bool weir__clock_anchor_is_sound(struct weir__clock_anchor *anchor)
{
	const struct line next = unpack(weir__atomic16_load(&anchor->next));
	const struct line current = unpack(weir__atomic16_load(&anchor->current));

	return current.rate >= -RATE_MAX && current.rate <= RATE_MAX && next.rate >= -RATE_MAX &&
	       next.rate <= RATE_MAX && current.from_ms <= next.from_ms && next.from_ms <= from_most_ms;
}

weir_ns weir__clock_anchor_moved_at(struct weir__clock_anchor *anchor)
{
	const struct line line = unpack(weir__atomic16_load(&anchor->next));

	return line.ahead + line.from_ms * NS_A_MS;
}

uint64_t weir__clock_anchor_at(struct weir__clock_anchor *anchor, weir_ns monotonic)
{
	struct line line = unpack(weir__atomic16_load(&anchor->next));

	if (__builtin_expect(monotonic < line.from_ms * NS_A_MS, 0))
		line = unpack(weir__atomic16_load(&anchor->current));
	return line_at(&line, monotonic);
}

static struct line next_line(const struct line *now, weir_ns monotonic, weir_ns wall)
{
	const uint64_t wanted = wall - monotonic;
	const int64_t error = (int64_t)(wanted - line_at(now, monotonic));
	struct line next = { .from_ms = monotonic / NS_A_MS + BEGIN_AHEAD_MS };

	if (error > jump_ns) {
		next.from_ms = monotonic / NS_A_MS + JUMP_AHEAD_MS;
		next.ahead = wanted;
		return next;
	}
	next.ahead = line_at(now, next.from_ms * NS_A_MS);
	/* Corrects the error over one second, or as fast as the maximum rate allows. */
	if (error > 500000 || error < -500000)
		next.rate = error > 0 ? RATE_MAX : -RATE_MAX;
	else
		next.rate = error * (1 << RATE_SHIFT) / (int64_t)taken_out_over_ns;
	return next;
}

void weir__clock_anchor_move(struct weir__clock_anchor *anchor, weir_ns monotonic, weir_ns wall)
{
	const struct weir_state current = weir__atomic16_load(&anchor->current);
	const struct weir_state seen = weir__atomic16_load(&anchor->next);
	const struct line now = unpack(seen);
	struct line next;

	if (monotonic < (now.from_ms + MOVE_EACH_MS) * NS_A_MS || !weir__atomic16_swap(&anchor->current, current, seen))
		return;
	next = next_line(&now, monotonic, wall);
	(void)weir__atomic16_swap(&anchor->next, seen, pack(&next));
}
