/* log.c: sliding logs.
 *
 * Decisions are made at `now` or at the newest event, whichever is later. So a clock that is a little behind gets the
 * same decision as at the newest event, and its charge is recorded with that event. */
#include "core/log.h"

#include "core/algorithm.h"

static const struct weir__event *event_at(const struct weir_plan *plan, const struct weir__log *log, uint64_t i)
{
	return &log->events[(log->first + i) % plan->room];
}

static struct weir__event *event_to_change(const struct weir_plan *plan, struct weir__log *log, uint64_t i)
{
	return &log->events[(log->first + i) % plan->room];
}

/* Returns the running total before entry i. If i is the number of entries, that is the total of all ever recorded. */
static uint64_t total_before(const struct weir_plan *plan, const struct weir__log *log, uint64_t i)
{
	return i == 0 ? log->gone : event_at(plan, log, i - 1)->total;
}

static weir_ns newest(const struct weir_plan *plan, const struct weir__log *log)
{
	return log->entries == 0 ? 0 : event_at(plan, log, log->entries - 1)->at;
}

typedef bool predicate(const struct weir__event *event, uint64_t a, uint64_t b);

/* Whether the event still counts at `when`, which is not before the newest event. */
static bool is_live(const struct weir__event *event, weir_ns when, weir_ns period)
{
	return when - event->at < period;
}

static bool is_after(const struct weir__event *event, weir_ns when, uint64_t unused)
{
	(void)unused;
	return event->at > when;
}

/* Whether at least `units` were recorded, up to and including this entry, since the running total was `start`. */
static bool frees(const struct weir__event *event, uint64_t start, uint64_t units)
{
	return event->total - start >= units;
}

/* Returns the first entry, from `below` on, for which the predicate holds. It must hold for all entries after that,
 * too. */
static uint64_t first_entry(const struct weir_plan *plan, const struct weir__log *log, uint64_t below, predicate *holds,
			    uint64_t a, uint64_t b)
{
	uint64_t above = log->entries;

	while (below < above) {
		const uint64_t middle = below + (above - below) / 2;

		if (holds(event_at(plan, log, middle), a, b))
			above = middle;
		else
			below = middle + 1;
	}
	return below;
}

/* What counts at an instant, and where it begins in the log. */
struct view {
	weir_ns when;
	uint64_t live; /* first entry that counts */
	uint64_t gone; /* running total before it */
	uint64_t used;
};

static struct view view_at(const struct weir_plan *plan, const struct weir__log *log, weir_ns now)
{
	const weir_ns last = newest(plan, log);
	struct view view = { .when = now > last ? now : last };

	view.live = first_entry(plan, log, 0, is_live, view.when, plan->period);
	view.gone = total_before(plan, log, view.live);
	view.used = total_before(plan, log, log->entries) - view.gone;
	return view;
}

/* Events that are in the future of a new clock are merged into one entry at now. */
static void notice(const struct weir_plan *plan, void *state, weir_ns now)
{
	struct weir__log *log = state;
	const weir_ns last = newest(plan, log);
	uint64_t total, kept;

	if (last <= now || last - now <= WEIR__STEP_BACK_MAX)
		return;
	total = total_before(plan, log, log->entries);
	kept = first_entry(plan, log, 0, is_after, now, 0);
	log->entries = kept + 1;
	*event_to_change(plan, log, kept) = (struct weir__event){ .at = now, .total = total };
}

static bool view_fits(const struct weir_plan *plan, const struct view *view, uint64_t cost)
{
	return cost == 0 || (view->used <= plan->most && cost <= plan->most - view->used);
}

static bool fits(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost)
{
	const struct view view = view_at(plan, state, now);

	return view_fits(plan, &view, cost);
}

static void forget_before(const struct weir_plan *plan, struct weir__log *log, uint64_t live, uint64_t gone)
{
	log->first = (log->first + live) % plan->room;
	log->entries -= live;
	log->gone = gone;
}

static void record(const struct weir_plan *plan, struct weir__log *log, weir_ns when, uint64_t units)
{
	const uint64_t total = total_before(plan, log, log->entries) + units;

	if (log->entries == 0 || newest(plan, log) != when)
		log->entries++;
	*event_to_change(plan, log, log->entries - 1) = (struct weir__event){ .at = when, .total = total };
}

static bool allow(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	struct weir__log *log = state;
	struct view view;

	notice(plan, log, now);
	view = view_at(plan, log, now);
	if (!view_fits(plan, &view, cost))
		return false;
	if (cost > 0) {
		forget_before(plan, log, view.live, view.gone);
		record(plan, log, view.when, cost);
	}
	return true;
}

/* If more than `most` units are counted, only the newest decide, because they are the last to leave. The expired
 * entries and the excess are dropped first, oldest first, which makes room for the new entry. */
static void count_denied(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	struct weir__log *log = state;
	const struct view view = view_at(plan, log, now);
	const uint64_t units = weir__min(cost, plan->most);
	uint64_t too_many, oldest_to_keep;

	forget_before(plan, log, view.live, view.gone);
	if (view.used > plan->most - units) {
		too_many = view.used - (plan->most - units);
		oldest_to_keep = first_entry(plan, log, 0, frees, log->gone, too_many);
		if (total_before(plan, log, oldest_to_keep + 1) - log->gone == too_many)
			oldest_to_keep++;
		forget_before(plan, log, oldest_to_keep, log->gone + too_many);
	}
	record(plan, log, view.when, units);
}

static weir_ns retry_after(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost)
{
	const struct weir__log *log = state;
	const struct view view = view_at(plan, log, now);
	const uint64_t must_leave = view.used - (plan->most - cost);
	const uint64_t last_to_leave = first_entry(plan, log, view.live, frees, view.gone, must_leave);

	return weir__until((weir__u128)event_at(plan, log, last_to_leave)->at + plan->period, now);
}

static void level(const struct weir_plan *plan, const void *state, weir_ns now, struct weir_verdict *verdict)
{
	const struct weir__log *log = state;
	const struct view view = view_at(plan, log, now);

	verdict->remaining = plan->most - weir__min(plan->most, view.used);
	verdict->reset_after = view.used == 0 ? 0 : weir__until((weir__u128)newest(plan, log) + plan->period, now);
}

static void refund(const struct weir_plan *plan, void *state, weir_ns now, uint64_t n)
{
	struct weir__log *log = state;
	const struct view view = view_at(plan, log, now);

	forget_before(plan, log, view.live, view.gone);
	n = weir__min(n, view.used);
	while (n > 0) {
		struct weir__event *const last = event_to_change(plan, log, log->entries - 1);
		const uint64_t units = last->total - total_before(plan, log, log->entries - 1);

		if (units > n) {
			last->total -= n;
			return;
		}
		n -= units;
		log->entries--;
	}
}

/* A charge by a clock that was a little behind was recorded with a slightly later event. When the charge does not count
 * any more, such an event may belong to another charge. */
static uint64_t undo(const struct weir_plan *plan, void *state, weir_ns now, const struct weir__charge *charge,
		     uint64_t n)
{
	struct weir__log *log = state;
	const weir_ns last = newest(plan, log), when = now > last ? now : last;
	const uint64_t first = charge->at > 0 ? first_entry(plan, log, 0, is_after, charge->at - 1, 0) : 0;
	uint64_t before = total_before(plan, log, first), kept = first, back = 0;

	if (when - charge->at >= plan->period)
		return 0;
	for (uint64_t i = first; i < log->entries; i++) {
		const struct weir__event event = *event_at(plan, log, i);
		uint64_t units = event.total - before;

		before = event.total;
		if (event.at - charge->at <= WEIR__CLOCKS_DIFFER_MAX) {
			const uint64_t here = weir__min(n - back, units);

			units -= here;
			back += here;
		}
		if (units > 0)
			*event_to_change(plan, log, kept++) = (struct weir__event){ event.at, event.total - back };
	}
	log->entries = kept;
	return back;
}

static void convert(const struct weir_plan *from, const struct weir_plan *to, void *state, weir_ns now)
{
	(void)to;
	notice(from, state, now);
}

const struct weir__algorithm weir__log_algorithm = {
	.notice = notice,
	.allow = allow,
	.fits = fits,
	.retry_after = retry_after,
	.level = level,
	.count_denied = count_denied,
	.refund = refund,
	.undo = undo,
	.convert = convert,
};
