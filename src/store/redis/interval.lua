-- interval.lua: a bucket that gets `a` tokens at once, every period, as src/core/interval.h. State: the start of the
-- current interval, `at` and `rest`, the number of missing tokens, n, and the instant of the last use. The view is the
-- same, with the refills until now.

local function make_interval()
	local interval = { read = read_instant, write = write_instant, is_fresh = is_fresh_instant }

	function interval.notice(plan, state)
		if state.n > 0 and is_new_clock(state) then
			state.at, state.rest, state.n = now, 0, min(state.n, plan.most)
			state.used_at, state.is_changed = now, true
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
		return plan.most - min(plan.most, missing + lent_of(plan, state))
	end

	-- As if lent tokens were spent now.
	local function until_refilled(plan, state, tokens)
		local intervals = floor((tokens + plan.a - 1) / plan.a)
		if state.view_n == 0 then
			return until_instant(plus(now, 0, times(plan, intervals)))
		end
		return until_instant(plus(state.view_at, state.view_rest, times(plan, intervals)))
	end

	function interval.charge(_, state, cost)
		if state.view_n == 0 then
			state.view_at, state.view_rest = now, 0
		end
		state.view_n = state.view_n + cost
		state.at, state.rest, state.n, state.used_at = state.view_at, state.view_rest, state.view_n, now
	end

	-- Charges what was allowed already, up to twice the tokens.
	function interval.charge_late(plan, state, cost)
		interval.charge(plan, state, min(cost, math.max(0, min(2 * plan.most, COUNT_MOST) - state.view_n)))
		return true
	end

	interval.push = interval.charge_late

	function interval.retry(plan, state, cost)
		return until_refilled(plan, state, state.view_n + lent_of(plan, state) - (plan.most - cost))
	end

	function interval.reset(plan, state)
		return until_refilled(plan, state, state.view_n + lent_of(plan, state))
	end

	function interval.refund(_, state, n)
		local missing = state.view_n - min(state.view_n, n)
		state.at, state.rest, state.n, state.used_at = state.view_at, state.view_rest, missing, now
		if missing == 0 then
			state.at, state.rest = 0, 0
		end
	end

	-- The bucket may have been full since the charge, and its intervals have started again. Counted back from the
	-- current interval, there are at least as many starts as there were refills.
	function interval.undo(plan, state, n, charge)
		local since, since_rest = minus(state.view_at, state.view_rest, charge.at, 0)
		local refills = 0
		if since > 0 or (since == 0 and since_rest > 0) then
			since, since_rest = minus(since, since_rest, 0, 1)
			refills = divide(plan, since, since_rest) + 1
		end
		n = min(n, charge.cost - min(charge.cost, refills * plan.a), state.view_n)
		if n > 0 then
			interval.refund(plan, state, n)
		end
		return n
	end

	function interval.convert(from, to, state)
		interval.look(from, state)
		local at, rest, missing = state.view_at, state.view_rest, state.view_n
		if missing == 0 then
			at, rest = 0, 0
		elseif from.whole ~= to.whole or from.rest ~= to.rest then
			at, rest = now, 0
		end
		state.at, state.rest = at, rest
		state.n = min(min(missing, from.most, to.most) + math.max(0, missing - from.most), 2 * to.most, COUNT_MOST)
	end

	function interval.lasts(plan, state)
		state.view_at, state.view_rest, state.view_n = state.at, state.rest, state.n
		return (until_refilled(plan, state, state.n))
	end

	function interval.is_over(plan, state)
		return state.n > plan.most
	end

	return interval
end
