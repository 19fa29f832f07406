-- interval.lua: a bucket that gets `a` tokens at once, each period, as src/core/interval.h. State: the running interval's
-- start, `at` and `rest`; n, the tokens that are missing.

local AT_FORM, AT_BYTES = '<I7I2I6', 43 -- of a window, too; with the tag
local interval = {}

function interval.notice(plan, state)
	if state.n > 0 and is_new_clock(state) then
		state.at, state.rest, state.n, state.is_changed = now, 0, math.min(state.n, plan.most), true
	end
end

local function settled(plan, state)
	local passed, passed_rest = minus(now, 0, state.at, state.rest, 1000)
	if passed < 0 or is_less(passed, passed_rest, plan.whole, plan.rest) then
		return state.at, state.rest, state.n
	end
	local intervals = divide(plan, passed, passed_rest)
	if intervals * plan.a >= state.n then
		return 0, 0, 0
	end
	local at, rest = plus(state.at, state.rest, times(plan, intervals))
	return at, rest, state.n - intervals * plan.a
end

local function until_refilled(plan, at, rest, tokens)
	return until_instant(plus(at, rest, times(plan, floor((tokens + plan.a - 1) / plan.a))))
end

function interval.fits(plan, state, cost)
	local _, _, missing = settled(plan, state)
	return cost <= plan.most and missing <= plan.most - cost
end

function interval.charge(plan, state, cost)
	local at, rest, missing = settled(plan, state)
	if missing == 0 then
		at, rest = now, 0
	end
	state.at, state.rest, state.n = at, rest, missing + cost
end

function interval.retry(plan, state, cost)
	local at, rest, missing = settled(plan, state)
	return until_refilled(plan, at, rest, missing - (plan.most - cost))
end

function interval.level(plan, state)
	local at, rest, missing = settled(plan, state)
	return plan.most - math.min(plan.most, missing), until_refilled(plan, at, rest, missing)
end

function interval.refund(plan, state, n)
	local at, rest, missing = settled(plan, state)
	if missing <= n then
		state.at, state.rest, state.n = 0, 0, 0
	else
		state.at, state.rest, state.n = at, rest, missing - n
	end
end

function interval.convert(from, to, state)
	local at, rest, missing = settled(from, state)
	if missing == 0 or from.whole ~= to.whole or from.rest ~= to.rest then
		at, rest = now, 0
	end
	missing = missing - math.min(missing, math.max(0, from.most - to.most)) + math.max(0, to.most - from.most)
	if missing == 0 then
		at, rest = 0, 0
	end
	state.at, state.rest, state.n = at, rest, missing
end

local function read_instant(plan, value)
	if #value ~= AT_BYTES then
		return nil
	end
	local at, rest, n = read(AT_FORM, value, TAG_BYTES + 1)
	if at > EXACT or rest >= 1000 then
		return nil
	end
	return { at = at, rest = rest, n = n }
end

local function write_instant(plan, state)
	return pack(AT_FORM, state.at, state.rest, state.n)
end

local function is_fresh_instant(state)
	return state.n == 0
end

interval.write, interval.is_fresh = write_instant, is_fresh_instant

function interval.read(plan, value)
	local state = read_instant(plan, value)
	return state and state.n <= plan.most and state or nil
end

function interval.lasts(plan, state)
	return (until_refilled(plan, state.at, state.rest, state.n))
end
