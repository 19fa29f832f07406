-- step.lua: what all kinds share, as src/core/step.c, and the conversion of states to a different plan.

-- For all kinds except smooth buckets, which have their own. A cost fits if it is at most what remains.
local function step(plan, state, operation, cost)
	local kind = plan.functions
	kind.notice(plan, state)
	local remaining = kind.look(plan, state)
	if operation == REFUND then
		kind.refund(plan, state, cost)
		state.is_changed = true
		remaining = kind.look(plan, state)
		return true, remaining, 0, 0, 0, kind.reset(plan, state)
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
	return from.kind == to.kind and from.options == to.options and
		(from.kind <= INTERVAL or (from.whole == to.whole and from.rest == to.rest and (from.kind ~= COUNTER or from.a == to.a)))
end

-- Converts a state to a different plan of the same limit, as of the instant of the change. If the old plan has used the
-- key since, for example on a node that does not know of the change yet, converts as of now.
local function convert(from, to, state)
	local really_now, changed = now, to.changed_at - 1
	local since = (state.newest or state.at) - changed - (from.kind == BUCKET and from.span or 0)
	if changed >= 0 and changed < now and since <= STEP_BACK then
		now = changed
	end
	if from.kind ~= BUCKET then
		to.functions.notice(from, state)
	end
	to.functions.convert(from, to, state)
	now, state.is_changed = really_now, true
end
