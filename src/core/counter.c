/* counter.c: all operations of a sliding counter except the decision, which is inline in counter.h. */
#include "core/counter.h"

#include "core/algorithm.h"
#include "core/segments.h"

static void notice(const struct weir_plan *plan, void *state_, weir_ns now)
{
	struct weir_state *state = state_;
	const weir_ns start = state->hi * plan->period;

	if (start <= now || start - now <= WEIR__STEP_BACK_MAX)
		return;
	state->hi = now / plan->period;
	state->lo = weir__counter_pack(0, weir__min((state->lo >> 32) + (state->lo & UINT32_MAX), plan->most));
}

static bool allow(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	notice(plan, state, now);
	return weir__counter_decide(plan, state, now, cost, true) == WEIR__ALLOWED;
}

static weir_ns retry_after(const struct weir_plan *plan, const void *state, weir_ns now, uint64_t cost)
{
	const struct weir__counter counter = weir__counter_at(plan, state, now);
	const weir__u128 start = weir__mul(counter.number, plan->period);
	const uint64_t room = plan->most - cost;
	weir_ns wait;

	if (counter.current <= room) {
		wait = weir__sliding_when(counter.previous, plan->period, room - counter.current);
		return weir__until(start + wait, now);
	}
	wait = weir__sliding_when(counter.current, plan->period, room);
	return weir__until(start + plan->period + wait, now);
}

static void level(const struct weir_plan *plan, const void *state, weir_ns now, struct weir_verdict *verdict)
{
	const struct weir__counter counter = weir__counter_at(plan, state, now);
	const uint64_t leaving = weir__sliding_weight(counter.previous, plan->period, counter.elapsed);

	verdict->remaining = plan->most - weir__min(plan->most, leaving + counter.current);
	verdict->reset_after = leaving + counter.current == 0 ? 0 : retry_after(plan, state, now, plan->most);
}

/* Refunds without moving the state on to a later window, because nothing was counted there yet. A window in the state
 * that no longer counts at now is left unchanged. */
static void refund(const struct weir_plan *plan, void *state_, weir_ns now, uint64_t n)
{
	struct weir_state *state = state_;
	const uint64_t number = weir__counter_at(plan, state, now).number;
	uint64_t previous = state->lo >> 32, current = state->lo & UINT32_MAX, back;

	if (number - state->hi > 1)
		return;
	back = weir__min(n, current);
	current -= back;
	if (number == state->hi)
		previous -= weir__min(n - back, previous);
	state->lo = weir__counter_pack(previous, current);
	if (state->lo == 0)
		state->hi = 0;
}

static uint64_t undo(const struct weir_plan *plan, void *state_, weir_ns now, const struct weir__charge *charge,
		     uint64_t n)
{
	struct weir_state *state = state_;
	const uint64_t number = charge->at / plan->period;
	uint64_t previous = state->lo >> 32, current = state->lo & UINT32_MAX, back;

	if (number > state->hi || weir__counter_at(plan, state, now).number - number > 1)
		return 0;
	if (number == state->hi) {
		back = weir__min(n, current);
		current -= back;
	} else {
		back = weir__min(n, previous);
		previous -= back;
	}
	state->lo = weir__counter_pack(previous, current);
	if (state->lo == 0)
		state->hi = 0;
	return back;
}

static void convert(const struct weir_plan *from, const struct weir_plan *to, void *state, weir_ns now)
{
	notice(from, state, now);
	if (to->kind == WEIR_KIND_SEGMENTS)
		weir__segments_from_counter(state);
}

const struct weir__algorithm weir__counter_algorithm = {
	.notice = notice,
	.allow = allow,
	.retry_after = retry_after,
	.level = level,
	.refund = refund,
	.undo = undo,
	.convert = convert,
};
