-- window.lua: at most `most` in a fixed window, as src/core/window.h. State: the start of the window, `at` and `rest`,
-- and its count, n. The view is the window that contains now.

local function make_window()
	local window = { read = read_instant, write = write_instant, is_fresh = is_fresh_instant }

	local function start_at_now(plan)
		if plan.option then
			return now, 0
		end
		return minus(now, 0, elapsed_at_now(plan))
	end

	function window.look(plan, state)
		local at, rest, counted = state.at, state.rest, state.n
		local passed, passed_rest = minus(now, 0, at, rest)
		if passed < 0 then
			if is_new_clock(state) then
				at, rest = start_at_now(plan)
			end
		elseif not is_less(passed, passed_rest, plan.whole, plan.rest) then
			at, rest = start_at_now(plan)
			counted = 0
		end
		if counted == 0 and plan.option and state.lent == 0 then
			at, rest = now, 0
		end
		state.view_at, state.view_rest, state.view_n = at, rest, counted
		return plan.most - min(plan.most, counted + lent_of(plan, state))
	end

	function window.notice(plan, state)
		if is_new_clock(state) then
			window.look(plan, state)
			state.at, state.rest, state.n, state.is_changed = state.view_at, state.view_rest, state.view_n, true
		end
	end

	function window.charge(_, state, cost)
		state.view_n = min(state.view_n + cost, COUNT_MOST)
		state.at, state.rest, state.n = state.view_at, state.view_rest, state.view_n
	end

	window.count_denied, window.charge_late = window.charge, window.charge

	-- The window of a lease begins, although nothing is charged.
	function window.open(state)
		state.at, state.rest, state.n = state.view_at, state.view_rest, state.view_n
	end

	-- A window that began with a request may have begun with this one, or began a little later because servers
	-- pushed in a different order.
	function window.push(plan, state, cost, at)
		local begins = plan.option and min(at, now) or state.view_at
		if not plan.option then
			if is_less(at, 0, state.view_at, state.view_rest) then
				return false
			end
		elseif state.view_n + state.lent > 0 then
			begins = state.view_at
			if is_less(at + plan.whole, plan.rest, state.view_at, state.view_rest) then
				return false
			end
		elseif is_less(at + plan.whole, plan.rest, now, 1) or
			(state.n > 0 and is_less(at, 0, plus(state.at, state.rest, plan.whole, plan.rest))) then
			return false
		end
		if begins ~= state.view_at then
			state.view_at, state.view_rest = begins, 0
		end
		window.charge(plan, state, cost)
		return true
	end

	-- A cost that does not fit waits for the next window.
	function window.retry(plan, state)
		return until_instant(plus(state.view_at, state.view_rest, plan.whole, plan.rest))
	end

	function window.reset(plan, state)
		if state.view_n + state.lent == 0 then
			return 0, 0
		end
		return window.retry(plan, state)
	end

	function window.refund(_, state, n)
		state.at, state.rest, state.n = state.view_at, state.view_rest, state.view_n - min(state.view_n, n)
	end

	-- Gives back only in the window that the charge was counted in.
	function window.undo(plan, state, n, charge)
		local since, since_rest = minus(charge.at, 0, state.view_at, state.view_rest)
		if since < 0 or not is_less(since, since_rest, plan.whole, plan.rest) then
			return 0
		end
		n = min(n, state.view_n)
		if n > 0 then
			window.refund(plan, state, n)
		end
		return n
	end

	function window.convert() end

	function window.lasts(plan, state)
		return (until_instant(plus(state.at, state.rest, plan.whole, plan.rest)))
	end

	return window
end
