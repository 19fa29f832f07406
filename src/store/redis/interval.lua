-- interval.lua: a bucket that gets `a` tokens at once, every period, as src/core/interval.h. State: the start of the
-- current interval, `at` and `rest`, and the number of missing tokens, n. The view is the same, with the refills until
-- now.

local function make_interval()
	local interval = { read = read_instant, write = write_instant, is_fresh = is_fresh_instant }

	function interval.notice(plan, state)
		if state.n > 0 and is_new_clock(state) then
			state.at, state.rest, state.n, state.is_changed = now, 0, min(state.n, plan.most), true
		end
	end

	function interval.look(plan, state)
		local at, rest, missing = state.at, state.rest, state.n
		local passed, passed_rest = minus(now, 0, at, rest)
		if passed >= 0 and not is_less(passed, passed_rest, plan.whole, plan.rest) then
			local intervals = divide(plan, passed, passed_rest)
			if intervals * plan.a >= missing then
				at, rest, missing = 0, 0, 0
			else
				at, rest = plus(at, rest, times(plan, intervals))
				missing = missing - intervals * plan.a
			end
		end
		state.view_at, state.view_rest, state.view_n = at, rest, missing
		return plan.most - min(plan.most, missing)
	end

	local function until_refilled(plan, state, tokens)
		local intervals = floor((tokens + plan.a - 1) / plan.a)
		return until_instant(plus(state.view_at, state.view_rest, times(plan, intervals)))
	end

	function interval.charge(_, state, cost)
		if state.view_n == 0 then
			state.view_at, state.view_rest = now, 0
		end
		state.view_n = state.view_n + cost
		state.at, state.rest, state.n = state.view_at, state.view_rest, state.view_n
	end

	function interval.retry(plan, state, cost)
		return until_refilled(plan, state, state.view_n - (plan.most - cost))
	end

	function interval.reset(plan, state)
		return until_refilled(plan, state, state.view_n)
	end

	function interval.refund(_, state, n)
		local missing = state.view_n - min(state.view_n, n)
		state.at, state.rest, state.n = state.view_at, state.view_rest, missing
		if missing == 0 then
			state.at, state.rest = 0, 0
		end
	end

	function interval.convert(from, to, state)
		interval.look(from, state)
		local at, rest, missing = state.view_at, state.view_rest, state.view_n
		if missing == 0 or from.whole ~= to.whole or from.rest ~= to.rest then
			at, rest = now, 0
		end
		missing = missing - min(missing, math.max(0, from.most - to.most)) + math.max(0, to.most - from.most)
		if missing == 0 then
			at, rest = 0, 0
		end
		state.at, state.rest, state.n = at, rest, missing
	end

	function interval.lasts(plan, state)
		state.view_at, state.view_rest = state.at, state.rest
		return (until_refilled(plan, state, state.n))
	end

	return interval
end
