/* simulated_leases.h: leases and pushes of a simulated Redis, for "100/s burst 20" and "40/100ms fixed_window". Lent units
 * count as used, and are charged when their lease ends, as src/store/redis/leases.lua does. */
#ifndef WEIR_TESTS_SIMULATED_LEASES_H
#define WEIR_TESTS_SIMULATED_LEASES_H

#include <stdio.h>
#include <stdlib.h>

#include <weir/step.h>

enum { SIM_LOTS = 16, SIM_TOKEN_US = 10000, SIM_WINDOW_US = 100000, SIM_BURST = 20, SIM_COUNT = 40 };

struct sim_lot {
	uint64_t end_us, units; /* of a free place: 0 */
};

struct sim_value {
	struct weir_state state;
	struct sim_lot lots[SIM_LOTS];
	/* Of a key to which servers push: when the bucket is full, or the window and its count. */
	uint64_t full_at_us, window, count;
};

static bool sim_is_window(const struct weir_plan *plan)
{
	return plan->kind == WEIR_KIND_WINDOW;
}

static void sim_charge_lot(struct weir_state *state, const struct weir_plan *plan, weir_ns at, uint64_t units)
{
	if (units > 0 && !weir_step_take(plan, state, at, units).allowed) {
		printf("# the simulated Redis: more is lent than is left\n");
		abort();
	}
}

/* Charges leases that have ended, soonest first. Returns the state as if the others were spent now. */
static struct weir_state sim_view(struct sim_value *value, const struct weir_plan *plan, weir_ns now)
{
	struct weir_state view;

	for (;;) {
		struct sim_lot *first = NULL;

		for (struct sim_lot *lot = value->lots; lot < value->lots + SIM_LOTS; lot++)
			if (lot->units > 0 && lot->end_us * 1000 <= now && (!first || lot->end_us < first->end_us))
				first = lot;
		if (first == NULL)
			break;
		sim_charge_lot(&value->state, plan, first->end_us * 1000, first->units);
		*first = (struct sim_lot){ 0, 0 };
	}
	view = value->state;
	for (size_t i = 0; i < SIM_LOTS; i++)
		sim_charge_lot(&view, plan, now, value->lots[i].units);
	return view;
}

static struct sim_lot *sim_lot_at(struct sim_value *value, uint64_t end_us)
{
	struct sim_lot *unused = NULL;

	for (struct sim_lot *lot = value->lots; lot < value->lots + SIM_LOTS; lot++) {
		if (lot->units > 0 && lot->end_us == end_us)
			return lot;
		if (lot->units == 0)
			unused = lot;
	}
	return unused;
}

/* 0: the window ends too soon. */
static uint64_t sim_lease_end(const struct weir_plan *plan, uint64_t now_us, uint64_t duration_us)
{
	const uint64_t grid = (duration_us + 3) / 4;
	const uint64_t end = (now_us + duration_us + (duration_us + 999) / 1000 + grid - 1) / grid * grid;
	const uint64_t window_end = (now_us / SIM_WINDOW_US + 1) * SIM_WINDOW_US;

	if (!sim_is_window(plan) || end < window_end)
		return end;
	return (window_end - 1) / grid * grid > now_us ? (window_end - 1) / grid * grid : 0;
}

static uint64_t sim_lent(const struct sim_value *value)
{
	uint64_t lent = 0;

	for (size_t i = 0; i < SIM_LOTS; i++)
		lent += value->lots[i].units;
	return lent;
}

static struct weir_verdict sim_grant(struct sim_value *value, const struct weir_plan *plan, weir_ns now,
				     uint64_t wanted, uint64_t duration_us, uint64_t most)
{
	struct weir_state view = sim_view(value, plan, now);
	struct weir_verdict verdict = weir_step_peek(plan, &view, now, 0);
	const uint64_t end_us = sim_lease_end(plan, now / 1000, duration_us), lent = sim_lent(value);
	struct sim_lot *const lot = sim_lot_at(value, end_us);
	uint64_t units = wanted < verdict.remaining ? wanted : verdict.remaining;

	units = lent >= most ? 0 : units < most - lent ? units : most - lent;
	if (units == 0 || end_us == 0 || lot == NULL) {
		verdict.allowed = false;
		verdict.retry_after = 1000;
		return verdict;
	}
	*lot = (struct sim_lot){ end_us, (lot->units > 0 ? lot->units : 0) + units };
	view = sim_view(value, plan, now);
	verdict = weir_step_peek(plan, &view, now, 0);
	verdict.granted = units;
	verdict.delay = (end_us - now / 1000) * 1000;
	return verdict;
}

static struct weir_verdict sim_return(struct sim_value *value, const struct weir_plan *plan, weir_ns now,
				      uint64_t units, uint64_t end_us)
{
	struct weir_state view = sim_view(value, plan, now);
	struct sim_lot *const lot = sim_lot_at(value, end_us);
	struct weir_verdict verdict;
	uint64_t back = 0;

	if (lot && lot->units > 0) {
		back = units < lot->units ? units : lot->units;
		lot->units -= back;
		view = sim_view(value, plan, now);
	}
	verdict = weir_step_peek(plan, &view, now, 0);
	verdict.granted = back;
	return verdict;
}

static struct weir_verdict sim_push(struct sim_value *value, const struct weir_plan *plan, weir_ns now_ns,
				    uint64_t units, weir_ns at_ns)
{
	const uint64_t now = now_ns / 1000, window = now / SIM_WINDOW_US;
	struct weir_verdict verdict = { .allowed = true, .limit = plan->most, .granted = units };

	if (sim_is_window(plan)) {
		if (value->window != window) {
			value->window = window;
			value->count = 0;
		}
		if (at_ns / 1000 / SIM_WINDOW_US < window)
			verdict.granted = 0;
		value->count += verdict.granted;
		verdict.remaining = value->count < SIM_COUNT ? SIM_COUNT - value->count : 0;
		verdict.reset_after = value->count > 0 ? ((window + 1) * SIM_WINDOW_US - now) * 1000 : 0;
		return verdict;
	}
	if (value->full_at_us < now)
		value->full_at_us = now;
	value->full_at_us += units * SIM_TOKEN_US;
	verdict.reset_after = (value->full_at_us - now) * 1000;
	if (value->full_at_us - now < SIM_BURST * SIM_TOKEN_US)
		verdict.remaining = (SIM_BURST * SIM_TOKEN_US - (value->full_at_us - now)) / SIM_TOKEN_US;
	return verdict;
}

#endif
