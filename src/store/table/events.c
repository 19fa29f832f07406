/* events.c: binary search in the events of a key. */
#include "store/table/events.h"

enum { LOOKS_MOST = 8 }; /* in a row, until the oldest event stays for two reads */

static uint64_t since_oldest(const struct weir__history *history, uint64_t total)
{
	return (total - history->oldest.total) & WEIR__TOTAL_MASK;
}

static uint64_t index_of(const struct weir__history *history, uint32_t position)
{
	return position >= history->oldest.position ?
		       position - history->oldest.position :
		       position + weir__shape_cells(&history->shape) - history->oldest.position;
}

/* Whether the oldest event has moved on. If it has not, the newest has not gone round the ring since. */
static bool is_moved(const struct weir__history *history)
{
	const struct weir__point now = weir__history_oldest_now(history);

	return now.at != history->oldest.at || now.total != history->oldest.total ||
	       now.position != history->oldest.position;
}

bool weir__events_init(struct weir__events *events, struct weir__history *history, uint64_t base, bool is_careful)
{
	events->is_lost = is_careful;
	for (int looks = 0; looks < LOOKS_MOST && events->is_lost; looks++) {
		if (!weir__history_look_again(history))
			return false;
		events->is_lost = is_moved(history);
	}
	events->history = history;
	events->base = base;
	events->is_careful = is_careful;
	events->first_at = history->oldest.at + base;
	events->newest = (struct weir__event){ history->newest.at + base,
					       since_oldest(history, history->newest.total) };
	events->n = events->newest.total == 0 ? 1 : index_of(history, history->newest.position) + 1;
	return events->newest.total <= WEIR__TOTAL_MASK / 2; /* otherwise the oldest event was read too late */
}

static bool is_reached(enum weir__events_by by, const struct weir__event *event, uint64_t least)
{
	return (by == WEIR__EVENTS_BY_INSTANT ? event->at : event->total) >= least;
}

static bool read_event(const struct weir__events *events, uint64_t i, struct weir__event *ret_event)
{
	const struct weir__history *const history = events->history;
	struct weir__point point;
	uint64_t position;

	if (i == events->n - 1) {
		*ret_event = events->newest;
		return true;
	}
	if (history == NULL) {
		*ret_event = events->few[i];
		return true;
	}
	position = history->oldest.position + i;
	if (position >= weir__shape_cells(&history->shape))
		position -= weir__shape_cells(&history->shape);
	if (!weir__history_read_at(history, (uint32_t)position, &point))
		return false;
	*ret_event = (struct weir__event){ point.at + events->base, since_oldest(history, point.total) };
	return true;
}

/* Walks from the first event to the last and skips what cannot be read. */
static struct weir__found walk(struct weir__events *events, enum weir__events_by by, uint64_t least)
{
	const struct weir__history *const history = events->history;
	struct weir__point point = weir__history_first(history);
	uint64_t before = 0;

	do {
		const struct weir__event event = { point.at + events->base, since_oldest(history, point.total) };

		if (is_reached(by, &event, least))
			return (struct weir__found){ weir__min(index_of(history, point.position), events->n - 1), event,
						     before };
		before = event.total;
	} while (weir__history_next(history, &point));
	return (struct weir__found){ .i = events->n, .before = before };
}

/* The first steps double, since what is searched for is most often among the oldest. All events before `i` are too
 * small, those from `until` on are large enough. A cell that was overwritten has a total larger than the newest, and is
 * not between the events around it: the bits of a total suffice for several rounds of the ring. */
struct weir__found weir__events_find(struct weir__events *events, enum weir__events_by by, uint64_t least)
{
	struct weir__event below = { 0, 0 }, above = events->newest;
	uint64_t i = 0, until = events->n - 1, step = 1;

	if (events->n == 0 || !is_reached(by, &events->newest, least))
		return (struct weir__found){ .i = events->n, .before = events->newest.total };
	while (i < until) {
		const uint64_t half = (until - i) / 2, middle = i + (step <= half ? step - 1 : half);
		struct weir__event event;

		step *= 2;
		if (!read_event(events, middle, &event) || event.at < below.at || event.total < below.total ||
		    event.at > above.at || event.total > above.total) {
			if (weir__history_is_unchanged(events->history)) /* damage */
				return walk(events, by, least);
			events->is_lost = true;
			break;
		}
		if (is_reached(by, &event, least)) {
			until = middle;
			above = event;
			step = UINT64_MAX / 2; /* halve from here on */
		} else {
			i = middle + 1;
			below = event;
		}
	}
	return (struct weir__found){ i, above, below.total };
}

struct weir__point weir__events_point(const struct weir__events *events, const struct weir__found *found)
{
	const struct weir__history *const history = events->history;
	const uint64_t position = history->oldest.position + found->i, cells = weir__shape_cells(&history->shape);

	return (struct weir__point){ found->event.at - events->base,
				     (history->oldest.total + found->before) & WEIR__TOTAL_MASK,
				     (uint32_t)(position >= cells ? position - cells : position) };
}

bool weir__events_hold(const struct weir__events *events)
{
	struct weir__point oldest;

	if (events->is_lost)
		return false;
	if (events->history == NULL)
		return true;
	if (!events->is_careful)
		return weir__history_is_unchanged(events->history);
	/* If the oldest event is not after the newest that was read, no cell has gone round the ring twice. A history
	 * that was made in the same root meanwhile begins with another total. */
	oldest = weir__history_oldest_now(events->history);
	return since_oldest(events->history, oldest.total) <= events->newest.total;
}
