-- request.lua: requests of all kinds, and their verdicts.

-- An allowed take needs no `granted`: it is the cost.
local function answer(operation, allowed, remaining, granted, wait, wait_rest, reset, reset_rest)
	if not wait then
		return pack(ANSWER_FORM, NEVER, remaining, reset, reset_rest)
	elseif not allowed then
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

-- Returns as `granted` whether the key had a state.
local function reset_key(plan, i)
	local before, state = state_for(i, plan), untouched(plan)
	local was_there = before.is_changed == true or (before.is_stored and before.is_changed ~= 'gone')
	local _, remaining, _, _, _, reset, reset_rest = plan.functions.step(plan, state, PEEK, 0)
	state.plan, state.is_stored, state.is_changed = plan, before.is_stored, 'gone'
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
	return answer(operation, plan.functions.step(plan, state_for(i, plan), operation, cost))
end

-- Peeks at all claims, and charges all only if all would allow. Limits with count_all also count a denied attempt, and
-- return their verdict after that. But a limit that denied before does not allow after all.
function general.take_together(place, cost, claims, n, from)
	local plans_of, costs, states_of, verdicts, all = {}, {}, {}, {}, true
	for i = 1, claims do
		if i > 1 then
			place, cost, from = read('<I2I7', requests, from)
		end
		local plan = plan_at(place)
		plans_of[i], costs[i], states_of[i] = plan, cost, state_for(n + i, plan)
		verdicts[i] = { plan.functions.step(plan, states_of[i], PEEK, cost) }
		all = all and verdicts[i][1]
	end
	for i, plan in ipairs(plans_of) do
		local step_one, was_allowed = plan.functions.step, verdicts[i][1]
		if all then
			verdicts[i] = { step_one(plan, states_of[i], TAKE, costs[i]) }
		elseif plan.counts_all then
			step_one(plan, states_of[i], TAKE, costs[i])
			verdicts[i] = { step_one(plan, states_of[i], PEEK, costs[i]) }
			verdicts[i][1] = verdicts[i][1] and was_allowed
		end
		answers[n + i] = answer(all and TAKE or PEEK, unpack(verdicts[i], 1, 7))
	end
	return from
end
