-- window.lua: at most `most` in a fixed window, as src/core/window.h. State: its start, `at` and `rest`; n, what it has
-- counted.

local window = { read = read_instant, write = write_instant, is_fresh = is_fresh_instant }

local function window_start(plan)
	if plan.option then
		return now, 0
	end
	return minus(now, 0, elapsed_at_now(plan))
end

local function window_at(plan, state)
	local at, rest, counted = state.at, state.rest, state.n
	local passed, passed_rest = minus(now, 0, at, rest, 1000)
	if passed < 0 then
		if is_new_clock(state) then
			at, rest = window_start(plan)
		end
	elseif not is_less(passed, passed_rest, plan.whole, plan.rest) then
		at, rest = window_start(plan)
		counted = 0
	end
	if counted == 0 and plan.option then
		at, rest = now, 0
	end
	return at, rest, counted
end

function window.notice(plan, state)
	if is_new_clock(state) then
		state.at, state.rest, state.n = window_at(plan, state)
		state.is_changed = true
	end
end

function window.fits(plan, state, cost)
	local _, _, counted = window_at(plan, state)
	return counted <= plan.most and cost <= plan.most - counted
end

function window.charge(plan, state, cost)
	state.at, state.rest, state.n = window_at(plan, state)
	state.n = math.min(state.n + cost, COUNT_MOST)
end

window.count_denied = window.charge

function window.retry(plan, state)
	local at, rest = window_at(plan, state)
	return until_instant(plus(at, rest, plan.whole, plan.rest))
end

function window.level(plan, state)
	local at, rest, counted = window_at(plan, state)
	if counted == 0 then
		return plan.most, 0, 0
	end
	return plan.most - math.min(plan.most, counted), until_instant(plus(at, rest, plan.whole, plan.rest))
end

function window.refund(plan, state, n)
	state.at, state.rest, state.n = window_at(plan, state)
	state.n = state.n - math.min(state.n, n)
end

function window.convert() end

function window.lasts(plan, state)
	return (until_instant(plus(state.at, state.rest, plan.whole, plan.rest)))
end
