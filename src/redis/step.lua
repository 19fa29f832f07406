-- step.lua: what all kinds share, as src/core/step.c; and states that are carried over to another plan.

local kinds = { [BUCKET] = bucket_kind, [INTERVAL] = interval, [WINDOW] = window, [COUNTER] = counter, [LOG] = log }

-- Of all kinds but smooth buckets.
local function step(plan, state, operation, cost)
	local kind = kinds[plan.kind]
	kind.notice(plan, state)
	if operation == REFUND then
		kind.refund(plan, state, cost)
		state.is_changed = true
		local remaining, reset, reset_rest = kind.level(plan, state)
		return true, remaining, 0, 0, 0, reset, reset_rest
	end
	local granted, asked, allowed = cost, cost, nil
	if operation == UP_TO then
		granted, asked = math.min(cost, (kind.level(plan, state))), 1
		allowed = granted > 0 or cost == 0
	else
		allowed = cost == 0 or kind.fits(plan, state, cost)
	end
	local retry, retry_rest = 0, 0
	if operation ~= PEEK and allowed and granted > 0 then
		kind.charge(plan, state, granted)
		state.is_changed = true
	elseif operation ~= PEEK and not allowed and plan.counts_all then
		kind.count_denied(plan, state, cost)
		state.is_changed = true
	end
	if not allowed then
		retry, retry_rest = nil, nil
		if asked <= plan.most then
			retry, retry_rest = kind.retry(plan, state, asked)
		end
	end
	local remaining, reset, reset_rest = kind.level(plan, state)
	if not allowed or operation == PEEK then
		granted = 0
	end
	return allowed, remaining, granted, retry, retry_rest, reset, reset_rest
end

-- As src/core/step.c: windows keep their period.
local function is_convertible(from, to)
	return from.kind == to.kind and from.options == to.options and
		(from.kind <= INTERVAL or (from.whole == to.whole and from.rest == to.rest and (from.kind ~= COUNTER or from.a == to.a)))
end

-- Carries a state over to another plan of the same limit, as of the instant of the change.
local function convert(from, to, state)
	local really_now = now
	now = to.changed_at > 0 and math.min(now, to.changed_at - 1) or now
	if from.kind ~= BUCKET then
		kinds[from.kind].notice(from, state)
	end
	kinds[from.kind].convert(from, to, state)
	now, state.is_changed = really_now, true
end
