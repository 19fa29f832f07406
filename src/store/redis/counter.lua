-- counter.lua: a sliding counter of `a` sub-windows, each one period long, as src/core/segments.c. State: the start of
-- the newest sub-window, `at` and `rest`, and the counts from the newest on, without zeros at the end. The view is
-- relative to the sub-window that contains now: how many sub-windows have begun since the newest, the time passed in
-- the current one, the count that is sliding out, and the sum of the newer counts.

local function make_counter()
	local HEAD_FORM, HEAD_BYTES, COUNT_BYTES = '<c28I7I7I2', TAG_BYTES + 16, 6
	local counter = {}

	-- floor(leaving * (period - passed) / period)
	local function weight(plan, leaving, passed, passed_rest)
		if leaving == 0 then
			return 0
		end
		local stays, stays_rest = minus(plan.whole, plan.rest, passed, passed_rest)
		local product = leaving * (stays * 1000 + stays_rest)
		if product < EXACT then
			return floor(product / plan.sum)
		end
		return (portion(leaving, stays, stays_rest, plan.whole, plan.rest, 1000))
	end

	-- The time passed in a sub-window when the weight of the leaving count has fallen to `room`, which is less than
	-- that count: period - (ceil((room + 1) * period / leaving) - 1 ns)
	local function when_weight_is(plan, leaving, room)
		local product = (room + 1) * plan.sum
		if product < EXACT then
			local passed = plan.sum - floor((product - 1) / leaving)
			return floor(passed / 1000), passed % 1000
		end
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
		return minus(plan.whole, plan.rest, whole, rest)
	end

	function counter.look(plan, state)
		local counts, segments = state.counts, plan.a
		local passed, passed_rest = minus(now, 0, state.at, state.rest)
		local turned, newer = 0, 0
		if passed < 0 and #counts > 0 then
			passed, passed_rest = 0, 0
		elseif #counts == 0 or not is_less(passed, passed_rest, plan.span, plan.span_rest) then
			turned = segments + 1
			passed, passed_rest = elapsed_at_now(plan)
		elseif not is_less(passed, passed_rest, plan.whole, plan.rest) then
			turned = divide(plan, passed, passed_rest)
			local whole, rest = times(plan, turned)
			passed, passed_rest = minus(passed, passed_rest, whole, rest)
		end
		for i = 1, min(segments - turned, #counts) do
			newer = newer + counts[i]
		end
		local leaving = counts[segments + 1 - turned] or 0
		newer = newer + lent_of(plan, state)
		state.turned, state.passed, state.passed_rest, state.leaving, state.newer =
			turned, passed, passed_rest, leaving, newer
		state.used = newer + weight(plan, leaving, passed, passed_rest)
		return plan.most - min(plan.most, state.used)
	end

	function counter.notice(plan, state)
		if #state.counts > 0 and is_new_clock(state) then
			local sum = 0
			for i = 1, #state.counts do
				sum = sum + state.counts[i]
			end
			state.at, state.rest = minus(now, 0, elapsed_at_now(plan))
			state.counts, state.is_changed = { min(sum, plan.most) }, true
		end
	end

	-- Makes the sub-window that contains now the newest one.
	local function advance(plan, state)
		local counts, before, turned = { 0 }, state.counts, state.turned
		for i = 2, turned <= plan.a and turned or 1 do
			counts[i] = 0
		end
		for i = turned + 1, min(plan.a + 1, turned + #before) do
			counts[i] = before[i - turned]
		end
		state.at, state.rest = minus(now, 0, state.passed, state.passed_rest)
		state.counts, state.turned = counts, 0
	end

	function counter.charge(plan, state, cost)
		if state.turned > 0 then
			advance(plan, state)
		end
		local counted = min(state.counts[1] + cost, floor(COUNTS_MOST / (plan.a + 1)))
		local more = counted - state.counts[1]
		state.counts[1], state.newer, state.used = counted, state.newer + more, state.used + more
	end

	counter.count_denied, counter.charge_late = counter.charge, counter.charge

	-- Charges the sub-window that contains `at`. Returns false if it no longer counts.
	function counter.push(plan, state, cost, at)
		local newest, rest, i = state.at, state.rest, 1
		if state.turned > 0 then
			newest, rest = minus(now, 0, state.passed, state.passed_rest)
		end
		if is_less(at, 0, newest, rest) then
			newest, rest = minus(newest, rest, at, 1)
			i = divide(plan, newest, rest) + 2
		end
		if i > plan.a + 1 then
			return false
		elseif state.turned > 0 then
			advance(plan, state)
		end
		local counts = state.counts
		for k = #counts + 1, i do
			counts[k] = 0
		end
		counts[i] = min(counts[i] + cost, floor(COUNTS_MOST / (plan.a + 1)))
		return true
	end

	-- Walks ahead, sub-window by sub-window. With each one the next count begins to leave. Lent units leave as if
	-- they were spent now.
	function counter.retry(plan, state, cost)
		local may_stay, ahead, leaving, newer = plan.most - cost, 0, state.leaving, state.newer
		local at, rest = state.at, state.rest
		if state.turned > 0 then
			at, rest = minus(now, 0, state.passed, state.passed_rest)
		end
		while newer > may_stay do
			ahead = ahead + 1
			leaving = (state.counts[plan.a + 1 - state.turned - ahead] or 0) + (ahead == plan.a and lent_of(plan, state) or 0)
			newer = newer - leaving
		end
		at, rest = plus(at, rest, times(plan, ahead))
		return until_instant(plus(at, rest, when_weight_is(plan, leaving, may_stay - newer)))
	end

	function counter.reset(plan, state)
		if state.used == 0 then
			return 0, 0
		end
		return counter.retry(plan, state, plan.most)
	end

	local function forget_zeros(state)
		local kept = 0
		for i = 1, #state.counts do
			kept = kept + state.counts[i]
		end
		if kept == 0 then
			state.counts = {}
		end
	end

	-- Does not advance to a later sub-window, in which nothing was counted yet.
	function counter.refund(plan, state, n)
		local counts = state.counts
		for i = 1, #counts do
			local back = state.turned + i <= plan.a + 1 and min(n, counts[i]) or 0
			counts[i], n = counts[i] - back, n - back
		end
		forget_zeros(state)
	end

	-- Gives back only in the sub-window that the charge was counted in, while it counts.
	function counter.undo(plan, state, n, charge)
		local since, since_rest = minus(charge.at, 0, state.at, state.rest)
		local i = 1
		if since < 0 then
			since, since_rest = minus(state.at, state.rest, charge.at, 1)
			i = divide(plan, since, since_rest) + 2
		elseif not is_less(since, since_rest, plan.whole, plan.rest) then
			return 0
		end
		local back = state.turned + i <= plan.a + 1 and min(n, state.counts[i] or 0) or 0
		if back > 0 then
			state.counts[i] = state.counts[i] - back
			forget_zeros(state)
		end
		return back
	end

	function counter.convert() end

	function counter.read(plan, value, _, _, is_leased)
		local n = (#value - HEAD_BYTES) / COUNT_BYTES
		if n < (is_leased and 0 or 1) or n > plan.a + 1 or n ~= floor(n) then
			return nil
		end
		local fields = { read(HEAD_FORM .. string.rep('I6', n), value) }
		if fields[3] > EXACT or fields[4] >= 1000 then
			return nil
		end
		return { set_at = fields[2], at = fields[3], rest = fields[4], counts = { unpack(fields, 5, n + 4) } }
	end

	function counter.write(plan, state)
		local counts = state.counts
		local n = #counts
		while counts[n] == 0 do
			n = n - 1
		end
		return pack(HEAD_FORM .. string.rep('I6', n), plan.tag, state.set_at, state.at, state.rest, unpack(counts, 1, n))
	end

	function counter.is_fresh(state)
		return #state.counts == 0
	end

	function counter.lasts(plan, state)
		return (until_instant(plus(state.at, state.rest, plan.span, plan.span_rest)))
	end

	return counter
end
