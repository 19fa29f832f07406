-- request.lua: requests of all kinds, and their verdicts.

-- With debt and lent units, a time may be longer than the longest that a limit takes to be full.
local function told(whole, rest)
	if whole >= TIME_MOST then
		return TIME_MOST, 0
	end
	return whole, rest
end

-- An allowed take needs no `granted`: it is the cost.
local function answer(operation, allowed, remaining, granted, wait, wait_rest, reset, reset_rest)
	reset, reset_rest = told(reset, reset_rest)
	if not wait then
		return pack(ANSWER_FORM, NEVER, remaining, reset, reset_rest)
	end
	wait, wait_rest = told(wait, wait_rest)
	if not allowed then
		return pack(WAIT_FORM, HAS_WAIT, remaining, reset, reset_rest, wait, wait_rest)
	end
	local word, told_wait, told_granted = ALLOWED, '', ''
	if wait + wait_rest > 0 then
		word, told_wait = word + HAS_WAIT, pack('<I7I2', wait, wait_rest)
	end
	if operation ~= TAKE then
		word, told_granted = word + HAS_GRANTED, pack('<I6', granted)
	end
	return pack(ANSWER_FORM, word, remaining, reset, reset_rest) .. told_wait .. told_granted
end

-- A verdict by a plan other than the request's own includes the limit of that plan.
local function with_limit(plan, state, verdict)
	if state.plan.tag == plan.tag then
		return verdict
	end
	return string.char(verdict:byte() + HAS_LIMIT) .. sub(verdict, 2) .. pack('<I6', state.plan.most)
end

-- The wait of an allowed verdict is the time until departure. Here it is the time until retry, after counting all.
local function with_retry(verdict)
	return string.char(verdict:byte() + IS_RETRY) .. sub(verdict, 2)
end

-- Returns as `granted` whether the key had a state. A key without one has no plan either.
local function reset_key(plan, i)
	local before, state = state_for(i, plan), untouched(plan)
	local was_there = not is_untouched(before) or (before.is_stored and not before.is_changed)
	local _, remaining, _, _, _, reset, reset_rest = plan.functions.step(plan, state, PEEK, 0)
	state.is_stored, state.is_changed = before.is_stored, true
	states[KEYS[i]] = state
	return answer(RESET, true, remaining, was_there and 1 or 0, 0, 0, reset, reset_rest)
end

local general = { save = save }

-- Whether this key's state is held here, to be written at the end.
function general.holds(key)
	return states[key] ~= nil
end

function general.decide(operation, place, cost, i)
	local plan = plan_at(place)
	if operation == RESET then
		return reset_key(plan, i)
	end
	local state = state_for(i, plan)
	return with_limit(plan, state, answer(operation, state.plan.functions.step(state.plan, state, operation, cost)))
end

-- Gives back up to n units of one charge, as far as they still count. Only limits that shape have departures to cancel.
function general.undo(operation, place, n, i, charge)
	local plan = plan_at(place)
	local state = state_for(i, plan)
	local is_departure = operation == CANCEL and state.plan.kind == BUCKET and state.plan.option
	return with_limit(plan, state, answer(UNDO,
		state.plan.functions.step(state.plan, state, is_departure and CANCEL or UNDO, min(n, charge.cost, COUNT_MOST), charge)))
end

function general.lease(operation, place, units, i, first, second)
	local plan = plan_at(place)
	local state = state_for(i, plan)
	return with_limit(plan, state, answer(operation, lease(state, operation, units, first, second)))
end

-- Peeks at all claims, and charges all only if all would allow. Limits with count_all also count a denied attempt, and
-- return their numbers after that. But `allowed` stays what they decided on this request. A departure that would be
-- further away than the longest delay is denied, and the delay is the time until retry. No longest delay means that all
-- are accepted.
function general.take_together(place, cost, claims, n, from, longest, longest_ns)
	local plans_of, places, costs, states_of, verdicts, all = {}, {}, {}, {}, {}, true
	for i = 1, claims do
		if i > 1 then
			place, cost, from = read('<I2I7', requests, from)
		end
		local state = state_for(n + i, plan_at(place))
		local plan = state.plan
		plans_of[i], places[i], costs[i], states_of[i] = plan, place, cost, state
		local verdict = { plan.functions.step(plan, states_of[i], PEEK, cost) }
		if longest and verdict[1] and is_less(longest, longest_ns, verdict[4], verdict[5]) then
			verdict[1] = false
		end
		verdicts[i] = verdict
		all = all and verdict[1]
	end
	for i, plan in ipairs(plans_of) do
		local step_one, was_allowed = plan.functions.step, verdicts[i][1]
		if all then
			verdicts[i] = { step_one(plan, states_of[i], TAKE, costs[i]) }
		elseif plan.counts_all then
			step_one(plan, states_of[i], TAKE, costs[i])
			verdicts[i] = { step_one(plan, states_of[i], PEEK, costs[i]) }
			verdicts[i][1] = was_allowed
		end
		local verdict = answer(all and TAKE or PEEK, unpack(verdicts[i], 1, 7))
		if not all and plan.counts_all and was_allowed then
			verdict = with_retry(verdict)
		end
		answers[n + i] = with_limit(plan_at(places[i]), states_of[i], verdict)
	end
	return from
end
