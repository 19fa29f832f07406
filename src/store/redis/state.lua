-- state.lua: decodes plans, and reads and writes states. A stored state is the tag of the plan it was packed by and the
-- instant at which that plan was set, then the state's own numbers. A value that is damaged or not Weir's counts as
-- missing.

local RATE_MOST = 2 ^ 32
local plans, states = {}, {} -- by index and by tag, by key

local function derive(plan)
	plan.grain = plan.kind == BUCKET and plan.a * 1000 or 1000
	plan.sum = plan.whole * plan.grain + plan.rest
	plan.option, plan.counts_all = plan.options % 2 == 1, plan.options % SHARED >= 2
	plan.is_shared = plan.options >= SHARED
	return plan
end

local function plan_at(place)
	local plan, from = plans[place], place * PLAN_BYTES
	if not plan then
		plan = { tag = read('<c28', plan_bytes, from + 1), expiries = {} }
		plan.kind, plan.options, plan.a, plan.whole, plan.rest, plan.most, plan.span, plan.span_rest, plan.set_at =
			read('<BBI6I7I6I6I7I6I7', plan_bytes, from + 2)
		if plan.set_at >= AGES then
			plan.set_at = math.max(1, now - (plan.set_at - AGES))
		end
		plan.functions = kind_of(plan)
		plans[place] = derive(plan)
	end
	return plan
end

-- nil: not a valid plan.
local function plan_of_tag(tag)
	local plan = { tag = tag, expiries = {} }
	plan.kind, plan.options, plan.a, plan.whole, plan.rest, plan.most = read('<BBI6I7I6I6', tag, 2)
	derive(plan)
	if plan.kind > LOG or plan.options >= 2 * SHARED or plan.a < 1 or plan.most < 1 or plan.whole + plan.rest == 0 or
		plan.rest >= plan.grain or plan.whole > SPAN_MOST or (plan.kind == BUCKET and plan.a > RATE_MOST) or
		(plan.kind == COUNTER and plan.a > SEGMENTS_MOST) then
		return nil
	end
	plan.functions = kind_of(plan)
	if plan.kind <= INTERVAL then
		plan.span, plan.span_rest = times(plan, plan.kind == BUCKET and plan.most or ceil(plan.most / plan.a))
	elseif plan.kind == COUNTER then
		plan.span, plan.span_rest = times(plan, plan.a + 1)
	else
		plan.span, plan.span_rest = plan.whole, plan.rest
	end
	return plan.span <= SPAN_MOST and plan or nil
end

-- The state of a key that is not stored.
local function untouched(plan)
	local state = plan.kind == LOG and plan.functions.untouched() or { at = 0, rest = 0, n = 0, counts = {} }
	state.plan, state.set_at, state.used_at = plan, plan.set_at, plan.kind <= INTERVAL and 0
	state.lots, state.lent = {}, 0
	return state
end

local function is_untouched(state)
	return state.lent == 0 and state.plan.functions.is_fresh(state)
end

-- A value of versions 1 and 2, which had no instants of the plan and of the last use. The key may have been used a
-- moment ago.
local function renewed(value)
	local used_at = value:byte(2) <= INTERVAL and pack('<I7', now) or ''
	return string.char(VERSION) .. sub(value, 2, TAG_BYTES) .. string.rep('\0', SET_AT_BYTES) .. sub(value, TAG_BYTES + 1) ..
		used_at
end

-- nil: the value cannot be read. Its plan is most often the request's.
local function state_in(value, key, asked)
	if type(value) ~= 'string' or #value <= TAG_BYTES then
		return nil
	end
	local is_leased, lots, lent = value:byte(1) == LEASED, {}, 0
	if is_leased then
		value, lots, lent = without_lots(value)
		if not value then
			return nil
		end
	end
	local is_old = value:byte(1) < VERSION
	value = is_old and renewed(value) or value
	local tag = sub(value, 1, TAG_BYTES)
	local plan = asked.tag == tag and asked or plans[tag] or (value:byte(1) == VERSION and plan_of_tag(tag))
	plans[tag] = plan or nil
	local state = plan and not (is_leased and plan.kind == LOG) and
		plan.functions.read(plan, value, key, is_old, is_leased)
	if not state or state.set_at > EXACT or (state.used_at or 0) > EXACT then
		return nil
	end
	state.plan, state.lots, state.lent, state.is_over = plan, lots, lent, is_leased
	if lent > 0 then
		settle(state)
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

-- The state of the i-th claim's key, as stored, or as an earlier claim left it. The request is decided by the state's
-- plan.
local function state_for(i, plan)
	local key = KEYS[i]
	local state = states[key]
	local is_stored, is_changed
	if state then
		is_stored, is_changed = state.is_stored, state.is_changed
		state = not is_untouched(state) and state or nil
	else
		local value = fetch(plan, i)
		is_stored, state = value and true, value and state_in(value, key, plan)
		anew = anew + (value and not state and 1 or 0)
	end
	if not state or not choose_plan(state, plan) then
		state = untouched(plan)
	end
	state.is_stored, state.is_changed = is_stored, state.is_changed or is_changed
	states[key] = state
	return state
end

-- Lent units are charged when their lease ends at the latest, and refill after that.
local function lasts(plan, state)
	local full_in, lots = plan.functions.lasts(plan, state), state.lots
	if #lots == 0 then
		return full_in
	end
	return math.max(full_in, lots[#lots].at - now) + ceil(state.lent / plan.most) * plan.span
end

local function store(key, state)
	local plan = state.plan
	local kind = plan.functions
	if kind.store then
		kind.store(key, plan, state)
		return
	end
	local value = kind.write(plan, state)
	if state.lent > 0 or (state.is_over and kind.is_over and kind.is_over(plan, state)) then
		value = with_lots(value, state)
	end
	if is_test then
		call('SET', key, value)
		return
	end
	local expires_ms = expiry(plan, lasts(plan, state))
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
		if state and state.reserved then
			state.lent, state.reserved = state.lent - state.reserved, nil
		end
		if state and state.is_changed then
			if not is_untouched(state) then
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
