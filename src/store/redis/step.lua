-- step.lua: what all kinds share, as src/core/step.c, and the conversion of states to a different plan.

-- For all kinds except smooth buckets, which have their own. A cost fits if it is at most what remains.
local function step(plan, state, operation, cost, charge)
	local kind = plan.functions
	kind.notice(plan, state)
	local remaining = kind.look(plan, state)
	if operation == REFUND then
		kind.refund(plan, state, cost)
		state.is_changed = true
		remaining = kind.look(plan, state)
		return true, remaining, 0, 0, 0, kind.reset(plan, state)
	end
	if operation == UNDO then
		local back = plan.counts_all and 0 or kind.undo(plan, state, cost, charge)
		state.is_changed = state.is_changed or back > 0
		remaining = kind.look(plan, state)
		return true, remaining, back, 0, 0, kind.reset(plan, state)
	end
	local granted, asked = cost, cost
	if operation == UP_TO then
		granted, asked = min(cost, remaining), 1
	end
	if cost == 0 or (granted > 0 and granted <= remaining) then
		if operation == PEEK then
			granted = 0
		elseif granted > 0 then
			kind.charge(plan, state, granted)
			state.is_changed = true
		end
		return true, remaining - granted, granted, 0, 0, kind.reset(plan, state)
	end
	if operation ~= PEEK and plan.counts_all then
		kind.count_denied(plan, state, cost)
		state.is_changed = true
		remaining = kind.look(plan, state)
	end
	local retry, retry_rest
	if asked <= plan.most then
		retry, retry_rest = kind.retry(plan, state, asked)
	end
	return false, remaining, 0, retry, retry_rest, kind.reset(plan, state)
end

local makers = { [BUCKET] = make_bucket, make_interval, make_window, make_counter, make_log }
local kinds = {}

local function kind_of(plan)
	local kind = kinds[plan.kind]
	if not kind then
		kind = makers[plan.kind]()
		kind.step = kind.step or step
		kinds[plan.kind] = kind
	end
	return kind
end

-- As src/core/step.c: windows keep their period.
local function is_convertible(from, to)
	return from.kind == to.kind and from.options % SHARED == to.options % SHARED and
		(from.kind <= INTERVAL or (from.whole == to.whole and from.rest == to.rest and (from.kind ~= COUNTER or from.a == to.a)))
end

-- Converts a state to a plan that was set later, as of that instant. If the key was used since, by a node that did not
-- know of the change yet, converts as of now.
local function convert(state, to)
	local from, really_now = state.plan, now
	if from.kind <= INTERVAL and state.used_at <= to.set_at and to.set_at < now then
		now = to.set_at
	end
	if from.kind ~= BUCKET then
		to.functions.notice(from, state)
	end
	to.functions.convert(from, to, state)
	state.plan, state.set_at, state.used_at = to, to.set_at, state.used_at and now
	now, state.is_changed = really_now, true
end

-- Chooses the plan that decides the request: the plan that was set later, or the state's plan if both were set at the
-- same instant. Returns false if the key has to start over. A change to the same numbers converts, too: it forgets what
-- has refilled.
local function choose_plan(state, plan)
	if state.set_at >= plan.set_at and (state.plan.tag == plan.tag or not plan.is_shared) then
		return true
	elseif not is_convertible(state.plan, plan) then
		return false
	end
	convert(state, plan)
	return true
end
