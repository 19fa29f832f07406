/* window.c: all operations of a fixed window except the decision, which is inline in window.h. */
#include "core/window.h"

#include "core/algorithm.h"

static void notice(const struct weir_plan *plan, void *state, weir_ns now)
{
	if (weir__window_is_new_clock(state, now))
		*(struct weir_state *)state = weir__window_at(plan, state, now);
}

static bool allow(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	notice(plan, state, now);
	return weir__window_decide(plan, state, now, cost, true) == WEIR__ALLOWED;
}

static weir_ns until_over(const struct weir_plan *plan, const struct weir_state *window, weir_ns now)
{
	return weir__until((weir__u128)window->lo + plan->period, now);
}

static weir_ns retry_after(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost)
{
	(void)cost; /* any cost that does not fit waits for the next window */
	return until_over(plan, state, now);
}

static void level(const struct weir_plan *plan, const void *state, weir_ns now, struct weir_verdict *verdict)
{
	const struct weir_state window = weir__window_at(plan, state, now);

	verdict->remaining = plan->most - weir__min(plan->most, window.hi);
	verdict->reset_after = window.hi == 0 ? 0 : until_over(plan, &window, now);
}

static void count_denied(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	struct weir_state window = weir__window_at(plan, state, now);

	window.hi = weir__window_count_denied(plan, window.hi, cost);
	*(struct weir_state *)state = window;
}

static void refund(const struct weir_plan *plan, void *state, weir_ns now, uint64_t n)
{
	struct weir_state window = weir__window_at(plan, state, now);

	if (window.hi <= n)
		window = (struct weir_state){ 0, 0 };
	else
		window.hi -= n;
	*(struct weir_state *)state = window;
}

static uint64_t undo(const struct weir_plan *plan, void *state, weir_ns now, const struct weir__charge *charge,
		     uint64_t n)
{
	const struct weir_state window = weir__window_at(plan, state, now);

	if (charge->at < window.lo || charge->at - window.lo >= plan->period)
		return 0;
	n = weir__min(n, window.hi);
	if (n > 0)
		refund(plan, state, now, n);
	return n;
}

static void convert(const struct weir_plan *from, const struct weir_plan *to, void *state_, weir_ns now)
{
	struct weir_state *state = state_;

	notice(from, state, now);
	if (to->flags & WEIR_PLAN_SLIM)
		state->hi = weir__min(state->hi, WEIR__SLIM_HI_MAX);
}

const struct weir__algorithm weir__window_algorithm = {
	.notice = notice,
	.allow = allow,
	.retry_after = retry_after,
	.level = level,
	.count_denied = count_denied,
	.refund = refund,
	.undo = undo,
	.convert = convert,
};
