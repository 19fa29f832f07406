/* segments.c: sliding counters of n sub-windows. Here plan->period is the length of one sub-window, and plan->room is
 * n. */
#include "core/segments.h"

#include <string.h>

#include "core/algorithm.h"
#include "core/sliding.h"

/* The ring as seen from the sub-window of now, or from the newest one if the clock is behind that. */
struct view {
	uint64_t number;
	weir_ns elapsed;
	uint64_t leaving; /* counted n sub-windows ago */
	weir__u128 newer; /* counted in the n sub-windows since */
};

static uint64_t *place(const struct weir_plan *plan, struct weir__segments *segments, uint64_t number)
{
	return &segments->counts[number % (plan->room + 1)];
}

/* Returns the count of the sub-window that is `ago` (at most n) before number. */
static uint64_t counted(const struct weir_plan *plan, const struct weir__segments *segments, uint64_t number,
			uint64_t ago)
{
	if (ago > number || number - ago > segments->newest)
		return 0;
	return segments->counts[(number - ago) % (plan->room + 1)];
}

/* Returns the sum of the n sub-windows that end with number. number is not before the newest. */
static weir__u128 sum_of_newer(const struct weir_plan *plan, const struct weir__segments *segments, uint64_t number)
{
	uint64_t at = segments->newest % (plan->room + 1);
	weir__u128 sum = 0;

	for (uint64_t ago = number - segments->newest; ago < plan->room && ago <= number; ago++) {
		sum += segments->counts[at];
		at = at == 0 ? plan->room : at - 1;
	}
	return sum;
}

static struct view view_at(const struct weir_plan *plan, const struct weir__segments *segments, weir_ns now)
{
	struct view view = { .number = now / plan->period, .elapsed = now % plan->period };

	if (view.number < segments->newest) {
		view.number = segments->newest;
		view.elapsed = 0;
	}
	view.leaving = counted(plan, segments, view.number, plan->room);
	view.newer = sum_of_newer(plan, segments, view.number);
	return view;
}

/* Makes number the newest sub-window, and clears the places of those that have passed since. */
static void advance(const struct weir_plan *plan, struct weir__segments *segments, uint64_t number)
{
	const uint64_t passed = weir__min(number - segments->newest, plan->room + 1);

	for (uint64_t ago = 0; ago < passed; ago++)
		*place(plan, segments, number - ago) = 0;
	segments->newest = number;
}

static void notice(const struct weir_plan *plan, void *state, weir_ns now)
{
	struct weir__segments *segments = state;
	const weir_ns start = segments->newest * plan->period;
	weir__u128 sum;

	if (start <= now || start - now <= WEIR__STEP_BACK_MAX)
		return;
	sum = sum_of_newer(plan, segments, segments->newest) + counted(plan, segments, segments->newest, plan->room);
	memset(segments->counts, 0, ((size_t)plan->room + 1) * sizeof(segments->counts[0]));
	segments->newest = now / plan->period;
	*place(plan, segments, segments->newest) = weir__min(weir__saturate(sum), plan->most);
}

static bool view_fits(const struct weir_plan *plan, const struct view *view, uint64_t cost)
{
	if (cost == 0)
		return true;
	if (view->newer > plan->most || cost > plan->most - view->newer)
		return false;
	return weir__sliding_fits(view->leaving, plan->period, view->elapsed,
				  plan->most - (uint64_t)view->newer - cost);
}

static bool fits(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost)
{
	const struct view view = view_at(plan, state, now);

	return view_fits(plan, &view, cost);
}

static void count(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	struct weir__segments *segments = state;
	const uint64_t number = now / plan->period;
	uint64_t *current;

	if (number > segments->newest)
		advance(plan, segments, number);
	current = place(plan, segments, segments->newest);
	*current = weir__add_saturating(*current, cost);
}

static bool allow(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	notice(plan, state, now);
	if (!fits(plan, state, now, cost))
		return false;
	if (cost > 0)
		count(plan, state, now, cost);
	return true;
}

/* Walks ahead, sub-window by sub-window. With each step the next count begins to leave. After n steps every count has
 * begun to leave. */
static weir_ns retry_after(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost)
{
	struct view view = view_at(plan, state, now);
	const uint64_t may_stay = plan->most - cost;
	uint64_t ahead = 0;

	while (view.newer > may_stay) {
		ahead++;
		view.leaving = counted(plan, state, view.number, plan->room - ahead);
		view.newer -= view.leaving;
	}
	return weir__until(weir__mul(view.number, plan->period) + weir__mul(ahead, plan->period) +
				   weir__sliding_when(view.leaving, plan->period, may_stay - (uint64_t)view.newer),
			   now);
}

static void level(const struct weir_plan *plan, const void *state, weir_ns now, struct weir_verdict *verdict)
{
	const struct view view = view_at(plan, state, now);
	const weir__u128 estimate = view.newer + weir__sliding_weight(view.leaving, plan->period, view.elapsed);

	verdict->remaining = plan->most - weir__min(plan->most, weir__saturate(estimate));
	verdict->reset_after = estimate == 0 ? 0 : retry_after(plan, state, now, plan->most);
}

/* Refunds without moving the state on to a later sub-window, because nothing was counted there yet. */
static void refund(const struct weir_plan *plan, void *state, weir_ns now, uint64_t n)
{
	struct weir__segments *segments = state;
	const uint64_t number = view_at(plan, segments, now).number;
	weir__u128 left = 0;

	for (uint64_t ago = 0; ago <= plan->room && ago <= segments->newest; ago++) {
		uint64_t *const count_then = place(plan, segments, segments->newest - ago);
		uint64_t back = 0;

		if (number - (segments->newest - ago) <= plan->room)
			back = weir__min(n, *count_then);
		*count_then -= back;
		n -= back;
		left += *count_then;
	}
	if (left == 0)
		segments->newest = 0;
}

static uint64_t undo(const struct weir_plan *plan, void *state, weir_ns now, const struct weir__charge *charge,
		     uint64_t n)
{
	struct weir__segments *segments = state;
	const uint64_t number = charge->at / plan->period;
	uint64_t *const count_then = place(plan, segments, number);
	uint64_t back, left = 0;

	if (number > segments->newest || view_at(plan, segments, now).number - number > plan->room)
		return 0;
	back = weir__min(n, *count_then);
	*count_then -= back;
	for (uint64_t i = 0; i <= plan->room; i++)
		left |= segments->counts[i];
	if (left == 0)
		segments->newest = 0;
	return back;
}

void weir__segments_widen(struct weir_plan *plan)
{
	plan->kind = WEIR_KIND_SEGMENTS;
	plan->flags &= ~(uint32_t)WEIR_PLAN_SLIM;
	plan->room = 1;
}

void weir__segments_from_counter(void *state)
{
	const struct weir_state counter = *(struct weir_state *)state;
	struct weir__segments *segments = state;

	segments->newest = counter.hi;
	segments->counts[counter.hi % 2] = counter.lo & UINT32_MAX;
	segments->counts[(counter.hi + 1) % 2] = counter.lo >> 32;
}

static void convert(const struct weir_plan *from, const struct weir_plan *to, void *state, weir_ns now)
{
	(void)to;
	notice(from, state, now);
}

const struct weir__algorithm weir__segments_algorithm = {
	.notice = notice,
	.allow = allow,
	.fits = fits,
	.retry_after = retry_after,
	.level = level,
	.count_denied = count,
	.refund = refund,
	.undo = undo,
	.convert = convert,
};
