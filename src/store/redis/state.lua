-- state.lua: decodes plans, and reads and writes states. A stored state is the tag of the plan it was packed by, then
-- its own numbers. A value that is damaged or not Weir's counts as missing.

local SPAN_MOST, RATE_MOST = 2 ^ 51, 2 ^ 32
local plans, states = {}, {} -- by index, by key

local function derive(plan)
	plan.grain = plan.kind == BUCKET and plan.a * 1000 or 1000
	plan.sum = plan.whole * plan.grain + plan.rest
	plan.option, plan.counts_all = plan.options % 2 == 1, plan.options >= 2
	return plan
end

local function plan_at(place)
	local plan, from = plans[place], place * PLAN_BYTES
	if not plan then
		plan = { tag = read('<c28', plan_bytes, from + 1), expiries = {} }
		plan.kind, plan.options, plan.a, plan.whole, plan.rest, plan.most, plan.span, plan.span_rest, plan.changed_at,
			plan.at, plan.at_rest, plan.n = read('<BBI6I7I6I6I7I6I7I7I6I6', plan_bytes, from + 2)
		plan.is_raised = plan.at + plan.at_rest + plan.n > 0
		plan.functions = kind_of(plan)
		plans[place] = derive(plan)
	end
	return plan
end

-- The plan that a value was packed by. nil: not a valid plan.
local function plan_of_value(value)
	local plan = {}
	plan.version, plan.kind, plan.options, plan.a, plan.whole, plan.rest, plan.most = read('<BBBI6I7I6I6', value)
	derive(plan)
	if (plan.version ~= 1 and plan.version ~= 2) or plan.a < 1 or plan.most < 1 or plan.whole + plan.rest == 0 or
		plan.rest >= plan.grain or plan.whole > SPAN_MOST or (plan.kind == BUCKET and plan.a > RATE_MOST) then
		return nil
	end
	plan.span, plan.span_rest = times(plan, plan.most)
	return (plan.kind ~= BUCKET or plan.span <= SPAN_MOST) and plan or nil
end

-- The state of a key that is not stored. It is full, unless the limit's burst was raised recently: a raise must not
-- hand out tokens at once.
local function untouched(plan)
	if plan.kind == COUNTER then
		return { at = 0, rest = 0, counts = {} }
	elseif plan.kind == LOG then
		return plan.functions.untouched()
	end
	return { at = plan.at, rest = plan.at_rest, n = plan.n }
end

local function state_in(plan, value, key)
	local from = plan
	if type(value) ~= 'string' or #value < TAG_BYTES then
		return nil
	end
	if sub(value, 1, TAG_BYTES) ~= plan.tag then
		from = plan_of_value(value)
		if not from or not is_convertible(from, plan) then
			return nil
		end
	end
	local state = plan.functions.read(from, value, key)
	if state and from ~= plan then
		convert(from, plan, state)
	end
	return state
end

-- Calls with logs do not read all keys at once, because a log is long.
local function fetch(plan, i)
	if values then
		return written and written[KEYS[i]] or values[i]
	elseif plan.kind == LOG then
		return plan.functions.fetch(KEYS[i])
	end
	return call('MGET', KEYS[i])[1]
end

-- The state of the i-th claim's key, as stored, or as an earlier claim left it.
local function state_for(i, plan)
	local key = KEYS[i]
	local state = states[key]
	local value, is_stored, is_changed
	if state then
		is_stored, is_changed = state.is_stored, state.is_changed
		if state.plan.tag == plan.tag then
			return state
		elseif is_convertible(state.plan, plan) then
			convert(state.plan, plan, state)
			state.plan = plan
			return state
		end
		state, is_changed = nil, true
	else
		value = fetch(plan, i)
		is_stored = value and true
		state = value and state_in(plan, value, key)
	end
	if not state then
		anew, state = anew + (is_stored and 1 or 0), untouched(plan)
	end
	state.plan, state.is_stored, state.is_changed = plan, is_stored, state.is_changed or is_changed
	states[key] = state
	return state
end

-- A full state is stored only if a missing key would be read as not full.
local function is_to_delete(plan, state)
	if state.is_changed == 'gone' then
		return true
	end
	return plan.functions.is_fresh(state) and
		not (plan.is_raised and (is_test or plan.functions.lasts(plan, untouched(plan)) >= 0))
end

local function store(key, state)
	local plan = state.plan
	local kind = plan.functions
	if kind.store then
		kind.store(key, plan, state)
		return
	end
	local value = kind.write(plan, state)
	if is_test then
		call('SET', key, value)
		return
	end
	local expires_ms = expiry(plan, kind.lasts(plan, kind.is_fresh(state) and untouched(plan) or state))
	if state.is_stored then
		call('SET', key, value, 'PX', expires_ms)
	elseif not call('SET', key, value, 'PX', expires_ms, 'NX') then
		anew = anew + 1 -- the value is not a string, which MGET does not report
		call('SET', key, value, 'PX', expires_ms)
	end
end

-- Writes that Redis may reject for lack of memory come first: if it rejects them, nothing was done.
local function save()
	local to_delete = {}
	for i = 1, #KEYS do
		local key = KEYS[i]
		local state = states[key]
		if state and state.is_changed then
			if not is_to_delete(state.plan, state) then
				store(key, state)
			elseif state.is_stored then
				to_delete[#to_delete + 1] = key
			end
			state.is_changed = nil
		end
	end
	if #to_delete > 0 then
		call('DEL', unpack(to_delete))
	end
end
