-- counter.lua: a sliding counter of `a` sub-windows, each of which is a period long, as src/core/segments.c. State: the
-- newest one's start, `at` and `rest`; counts, from the newest on, without zeros at the end.

local COUNTS_FORM, COUNTS_BYTES, COUNT_BYTES = '<I7I2', 9, 6

local counter = {}

-- Sub-windows since the newest, what has passed of the current one, what is leaving, what the newer ones counted.
local function counter_view(plan, state)
	local counts = state.counts
	local passed, passed_rest = minus(now, 0, state.at, state.rest, 1000)
	local turned, newer = 0, 0
	if #counts == 0 then
		passed, passed_rest = elapsed_at_now(plan)
	elseif passed < 0 then
		passed, passed_rest = 0, 0
	elseif not is_less(passed, passed_rest, plan.span, plan.span_rest) then
		turned = plan.a + 1
		passed, passed_rest = elapsed_at_now(plan)
	else
		turned = divide(plan, passed, passed_rest)
		local whole, rest = times(plan, turned)
		passed, passed_rest = minus(passed, passed_rest, whole, rest, 1000)
	end
	for i = 1, math.min(plan.a - turned, #counts) do
		newer = newer + counts[i]
	end
	return turned, passed, passed_rest, counts[plan.a + 1 - turned] or 0, newer
end

local function weight(plan, leaving, passed, passed_rest)
	if leaving == 0 then
		return 0
	end
	local stays, stays_rest = minus(plan.whole, plan.rest, passed, passed_rest, 1000)
	return (portion(leaving, stays, stays_rest, plan.whole, plan.rest, 1000))
end

-- What has passed of a sub-window when the weight of what is leaving comes down to room, which is less than that:
-- period - (ceil((room + 1) * period / leaving) - 1 ns)
local function weight_is(plan, leaving, room)
	local whole, remains = portion(plan.whole, room + 1, 0, leaving, 0, 1)
	local rest, remains_rest = portion(1000, remains, 0, leaving, 0, 1)
	local more_rest, more_remains = portion(plan.rest, room + 1, 0, leaving, 0, 1)
	rest, remains = rest + more_rest, remains_rest + more_remains
	if remains >= leaving then
		rest, remains = rest + 1, remains - leaving
	end
	if remains == 0 then
		rest = rest - 1
	end
	whole, rest = whole + floor(rest / 1000), rest % 1000
	return minus(plan.whole, plan.rest, whole, rest, 1000)
end

function counter.notice(plan, state)
	if #state.counts > 0 and is_new_clock(state) then
		local sum = 0
		for i = 1, #state.counts do
			sum = sum + state.counts[i]
		end
		state.at, state.rest = minus(now, 0, elapsed_at_now(plan))
		state.counts, state.is_changed = { math.min(sum, plan.most) }, true
	end
end

function counter.fits(plan, state, cost)
	local _, passed, passed_rest, leaving, newer = counter_view(plan, state)
	return newer <= plan.most and cost <= plan.most - newer and
		weight(plan, leaving, passed, passed_rest) <= plan.most - newer - cost
end

function counter.charge(plan, state, cost)
	local turned, passed, passed_rest = counter_view(plan, state)
	if turned > 0 or #state.counts == 0 then
		local counts = {}
		for i = 1, turned do
			counts[i] = 0
		end
		counts[1] = 0
		for i = turned + 1, math.min(plan.a + 1, turned + #state.counts) do
			counts[i] = state.counts[i - turned]
		end
		if turned > plan.a or #state.counts == 0 then
			counts = { 0 }
		end
		state.at, state.rest = minus(now, 0, passed, passed_rest, 1000)
		state.counts = counts
	end
	state.counts[1] = math.min(state.counts[1] + cost, floor(COUNTS_MOST / (plan.a + 1)))
end

counter.count_denied = counter.charge

function counter.retry(plan, state, cost)
	local turned, passed, passed_rest, leaving, newer = counter_view(plan, state)
	local may_stay, ahead = plan.most - cost, 0
	local at, rest = now, 0
	if turned == 0 and #state.counts > 0 then
		at, rest = state.at, state.rest
	else
		at, rest = minus(now, 0, passed, passed_rest, 1000)
	end
	while newer > may_stay do
		ahead = ahead + 1
		leaving = state.counts[plan.a + 1 - turned - ahead] or 0
		newer = newer - leaving
	end
	at, rest = plus(at, rest, times(plan, ahead))
	return until_instant(plus(at, rest, weight_is(plan, leaving, may_stay - newer)))
end

function counter.level(plan, state)
	local _, passed, passed_rest, leaving, newer = counter_view(plan, state)
	local estimate = newer + weight(plan, leaving, passed, passed_rest)
	if estimate == 0 then
		return plan.most, 0, 0
	end
	return plan.most - math.min(plan.most, estimate), counter.retry(plan, state, plan.most)
end

function counter.refund(plan, state, n)
	local turned = counter_view(plan, state)
	local counts, kept = state.counts, 0
	for i = 1, #counts do
		local back = turned + i <= plan.a + 1 and math.min(n, counts[i]) or 0
		counts[i], n = counts[i] - back, n - back
		kept = kept + counts[i]
	end
	if kept == 0 then
		state.counts = {}
	end
end

function counter.convert() end

function counter.read(plan, value)
	local bytes = #value - TAG_BYTES - COUNTS_BYTES
	local n = bytes / COUNT_BYTES
	if bytes < COUNT_BYTES or bytes % COUNT_BYTES ~= 0 or n > plan.a + 1 then
		return nil
	end
	local fields = { read(COUNTS_FORM .. string.rep('I6', n), value, TAG_BYTES + 1) }
	if fields[1] > EXACT or fields[2] >= 1000 then
		return nil
	end
	return { at = fields[1], rest = fields[2], counts = { unpack(fields, 3, n + 2) } }
end

function counter.write(plan, state)
	local counts = state.counts
	local n = #counts
	while counts[n] == 0 do
		n = n - 1
	end
	return pack(COUNTS_FORM .. string.rep('I6', n), state.at, state.rest, unpack(counts, 1, n))
end

function counter.is_fresh(state)
	return #state.counts == 0
end

function counter.lasts(plan, state)
	return (until_instant(plus(state.at, state.rest, plan.span, plan.span_rest)))
end
