/* history_step.c: steps of sliding logs and of sub-windows, by searches. The arithmetic follows core/log.c and
 * core/segments.c. The units that count are the difference of two running totals.
 *
 * In a plan of sub-windows, `period` is the length of a sub-window, `room` is their number, and the instant of an event
 * is the number of its sub-window. */
#include "store/table/history_step.h"

#include "core/algorithm.h"
#include "core/sliding.h"

static bool is_log(const struct weir_plan *plan)
{
	return plan->kind == WEIR_KIND_LOG;
}

static bool counts_all(const struct weir_plan *plan)
{
	return plan->flags & WEIR_PLAN_COUNT_ALL;
}

/* What counts at an instant, with the units that were added to the events. */
struct view {
	const struct weir_plan *plan;
	struct weir__events *events;
	weir_ns now;
	uint64_t when;           /* the instant or the number of the sub-window, not before the newest event */
	weir_ns elapsed;         /* since that sub-window began */
	struct weir__found live; /* the first event that counts, in part or in full */
	uint64_t leaving;        /* units of the sub-window that counts in part */
	uint64_t total, newer;   /* of all events, and of those that count in full */
	uint64_t added;          /* in an event at `when` */
	uint64_t newest;         /* instant of the newest event */
};

bool weir__history_step_is_new_clock(const struct weir_plan *plan, const struct weir__events *events, weir_ns now)
{
	const uint64_t last = events->newest.at;
	const weir_ns start = is_log(plan) ? last : last * plan->period;

	return start > now && start - now > WEIR__STEP_BACK_MAX;
}

/* The first event that counts at `when`. If that is the oldest event of a log, only its instant is set, which the root
 * has. */
static struct weir__found first_live(const struct weir_plan *plan, struct weir__events *events, uint64_t when)
{
	const uint64_t least = is_log(plan) ? (when >= plan->period ? when - plan->period + 1 : 0) :
					      when - weir__min(when, plan->room);

	if (is_log(plan) && events->n > 1 && events->first_at >= least)
		return (struct weir__found){ .event = { .at = events->first_at } };
	return weir__events_find(events, WEIR__EVENTS_BY_INSTANT, least);
}

static struct view view_at(const struct weir_plan *plan, struct weir__events *events, weir_ns now)
{
	struct view view = { .plan = plan, .events = events, .now = now, .when = now };

	if (!is_log(plan)) {
		view.when = now / plan->period;
		view.elapsed = now % plan->period;
	}
	if (view.when < events->newest.at) {
		view.when = events->newest.at;
		view.elapsed = 0;
	}
	view.live = first_live(plan, events, view.when);
	view.total = events->newest.total;
	view.newer = view.total - view.live.before;
	view.newest = events->newest.at;
	if (!is_log(plan) && view.live.i < events->n && view.when >= plan->room &&
	    view.live.event.at == view.when - plan->room) {
		view.leaving = view.live.event.total - view.live.before;
		view.newer -= view.leaving;
	}
	return view;
}

static void add(struct view *view, uint64_t units)
{
	view->added += units;
	view->total += units;
	view->newer += units;
	if (units > 0)
		view->newest = view->when;
}

static bool fits(const struct view *view, uint64_t cost)
{
	const uint64_t most = view->plan->most;

	if (cost == 0)
		return true;
	if (view->newer > most || cost > most - view->newer)
		return false;
	return is_log(view->plan) ||
	       weir__sliding_fits(view->leaving, view->plan->period, view->elapsed, most - view->newer - cost);
}

/* The first event with a running total of at least `least`. The event that units were added to is the last one. */
static struct weir__found find_total(const struct view *view, uint64_t least)
{
	struct weir__events *const events = view->events;
	struct weir__found found = weir__events_find(events, WEIR__EVENTS_BY_TOTAL, least);

	if (view->added == 0)
		return found;
	if (found.i == events->n && events->n > 0 && view->when == events->newest.at) /* it is the newest one */
		found = weir__events_find(events, WEIR__EVENTS_BY_INSTANT, view->when);
	if (found.i == events->n || found.event.at == view->when)
		found.event = (struct weir__event){ view->when, view->total };
	return found;
}

/* The time until no more than `may_stay` units count. More count now. */
static weir_ns until_at_most(const struct view *view, uint64_t may_stay)
{
	const struct weir_plan *const plan = view->plan;
	uint64_t leaving = view->leaving, newer = view->newer, ahead = 0;
	struct weir__found found;

	if (is_log(plan)) {
		/* The first unit belongs to the oldest event. Among fast writers a reader could not read its cell in
		 * time, so it uses the root. */
		if (view->events->is_careful && view->events->n > 1 && view->total - may_stay == 1)
			return weir__until((weir__u128)view->events->first_at + plan->period, view->now);
		found = find_total(view, view->total - may_stay);
		return weir__until((weir__u128)found.event.at + plan->period, view->now);
	}
	if (newer > may_stay) {
		found = find_total(view, view->total - may_stay);
		leaving = found.event.total - found.before;
		newer = view->total - found.event.total;
		ahead = found.event.at + plan->room - view->when;
		if (view->events->is_lost || leaving <= may_stay - newer) /* damage, or to be read again */
			return weir__until(weir__mul(view->when + plan->room + 1, plan->period), view->now);
	}
	return weir__until(weir__mul(view->when, plan->period) + weir__mul(ahead, plan->period) +
				   weir__sliding_when(leaving, plan->period, may_stay - newer),
			   view->now);
}

static void level(const struct view *view, struct weir_verdict *verdict)
{
	const struct weir_plan *const plan = view->plan;
	weir__u128 used = view->newer;

	if (!is_log(plan))
		used += weir__sliding_weight(view->leaving, plan->period, view->elapsed);
	verdict->remaining = plan->most - weir__min(plan->most, weir__saturate(used));
	if (used == 0)
		verdict->reset_after = 0;
	else if (is_log(plan))
		verdict->reset_after = weir__until((weir__u128)view->newest + plan->period, view->now);
	else
		verdict->reset_after = until_at_most(view, 0);
}

void weir__history_step_level(const struct weir_plan *plan, struct weir__events *events, weir_ns now,
			      struct weir_verdict *verdict)
{
	const struct view view = view_at(plan, events, now);

	level(&view, verdict);
}

static void explain_denial(const struct view *view, uint64_t cost, struct weir_verdict *verdict)
{
	verdict->never = cost > view->plan->most;
	verdict->retry_after = verdict->never ? WEIR_NEVER : until_at_most(view, view->plan->most - cost);
}

/* The units of a denied request that are counted. A log counts at most as many as its limit. Sub-windows stop counting
 * at WEIR__UNITS_MOST. */
static uint64_t units_of_denied(const struct view *view, uint64_t cost)
{
	if (is_log(view->plan))
		return weir__min(cost, view->plan->most);
	return weir__min(cost, WEIR__UNITS_MOST - weir__min(WEIR__UNITS_MOST, view->total - view->live.before));
}

/* If a log counts more than its limit, only the newest units decide, because they are the last to leave. */
static struct weir__found first_to_keep(const struct view *view)
{
	const uint64_t most = view->plan->most;
	struct weir__found kept = view->live;

	if (!is_log(view->plan) || !counts_all(view->plan) || view->total - kept.before <= most)
		return kept;
	kept = weir__events_find(view->events, WEIR__EVENTS_BY_TOTAL, view->total - most + 1);
	kept.before = view->total - most;
	return kept;
}

struct weir_verdict weir__history_step(const struct weir_plan *plan, struct weir__events *events,
				       enum weir__history_operation operation, weir_ns now, uint64_t cost,
				       struct weir__addition *ret_addition)
{
	struct view view = view_at(plan, events, now);
	struct weir_verdict verdict = { .limit = plan->most };
	uint64_t units = cost;

	if (operation == WEIR__HISTORY_UPTO) {
		level(&view, &verdict);
		units = weir__min(cost, verdict.remaining);
		verdict.allowed = units > 0 || cost == 0;
	} else {
		verdict.allowed = fits(&view, cost);
	}
	*ret_addition = (struct weir__addition){ .at = view.when };
	if (!verdict.allowed)
		units = counts_all(plan) ? units_of_denied(&view, cost) : 0;
	if (operation != WEIR__HISTORY_PEEK && units > 0) {
		ret_addition->live = first_to_keep(&view);
		add(&view, units);
		ret_addition->units = units;
		ret_addition->kept = first_to_keep(&view);
		ret_addition->used = view.total - ret_addition->kept.before;
	}
	if (!verdict.allowed)
		explain_denial(&view, operation == WEIR__HISTORY_UPTO ? 1 : cost, &verdict);
	else if (operation != WEIR__HISTORY_PEEK)
		verdict.granted = units;
	level(&view, &verdict);
	return verdict;
}

/* Core's state begins with the first event that counted when the newest was added. */
static struct weir__found first_kept(const struct weir_plan *plan, struct weir__events *events)
{
	return first_live(plan, events, events->newest.at);
}

struct weir__removal weir__history_step_refund(const struct weir_plan *plan, struct weir__events *events, weir_ns now,
					       uint64_t n)
{
	const struct view view = view_at(plan, events, now);
	const struct weir__found first = first_to_keep(&view);
	const uint64_t units = weir__min(n, view.total - first.before);

	/* A log forgets events that do not count any more. Sub-windows stay until later ones are counted. */
	return (struct weir__removal){ .first = is_log(plan) ? first : first_kept(plan, events),
				       .after = view.total - units,
				       .units = units };
}

/* In a log, a charge by a clock that was a little behind was recorded with a slightly later event. */
struct weir__removal weir__history_step_undo(const struct weir_plan *plan, struct weir__events *events, weir_ns now,
					     const struct weir__charge *charge, uint64_t n)
{
	const struct view view = view_at(plan, events, now);
	struct weir__removal removal = { .first = first_kept(plan, events) };
	const uint64_t at = is_log(plan) ? charge->at : charge->at / plan->period;
	const uint64_t until = is_log(plan) ? weir__add_saturating(at, WEIR__CLOCKS_DIFFER_MAX) : at;
	struct weir__found first, next;

	if (counts_all(plan) || events->n == 0 || at > events->newest.at ||
	    view.when - at > (is_log(plan) ? plan->period - 1 : plan->room))
		return removal;
	first = weir__events_find(events, WEIR__EVENTS_BY_INSTANT, at);
	if (first.i < removal.first.i)
		first = removal.first;
	next = weir__events_find(events, WEIR__EVENTS_BY_INSTANT, weir__add_saturating(until, 1));
	removal.after = first.before;
	removal.units = weir__min(weir__min(n, charge->cost), next.before - weir__min(next.before, first.before));
	return removal;
}

struct weir__removal weir__history_step_take_out(const struct weir_plan *plan, struct weir__events *events, uint64_t at,
						 uint64_t units)
{
	struct weir__removal removal = { .first = first_kept(plan, events) };
	const struct weir__found found = weir__events_find(events, WEIR__EVENTS_BY_INSTANT, at);

	if (found.i == events->n || found.event.at != at || found.i < removal.first.i ||
	    found.event.total - found.before < units)
		return removal;
	removal.after = found.before;
	removal.units = units;
	return removal;
}
