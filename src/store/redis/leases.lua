-- leases.lua: units lent to servers, which spend them without a call, and charges that servers push after they allowed
-- them. A lent unit counts as used now. It does not refill while it is lent, and it is charged as of the instant at
-- which its lease ends, unless it was given back before. So what is left and what is lent are never more than the limit
-- together, and what a server spends until then is charged no earlier than it was spent.
--
-- State: `lots`, the lent units by the instant at which their lease ends, soonest first, and their sum, `lent`. A value
-- with lots, or with more usage than the limit, has version LEASED. After the plain value it has its lots and their
-- number.

local LEASED, LOT_FORM, LOT_BYTES, LOTS_MOST = 4, '<I7I6', 13, 8
-- A lease lasts at most 10.01 s, rounded up to a multiple of 2.5 s.
local LEASE_MOST = 12510000

-- Returns the plain value, the lots and their sum. nil: the value is damaged.
local function without_lots(value)
	local n = value:byte(#value)
	local bytes, before = #value - 1 - n * LOT_BYTES, 0
	if n > LOTS_MOST or bytes <= TAG_BYTES then
		return nil
	end
	local lots, lent = {}, 0
	for i = 1, n do
		local lot = {}
		lot.at, lot.n = read(LOT_FORM, value, bytes + 1 + (i - 1) * LOT_BYTES)
		if lot.at <= before or lot.at > EXACT or lot.n == 0 then
			return nil
		end
		lots[i], lent, before = lot, lent + lot.n, lot.at
	end
	if lent > COUNT_MOST then
		return nil
	end
	return string.char(VERSION) .. sub(value, 2, bytes), lots, lent
end

local function with_lots(value, state)
	local packed, lots = {}, state.lots
	for i = 1, #lots do
		packed[i] = pack(LOT_FORM, lots[i].at, lots[i].n)
	end
	return string.char(LEASED) .. sub(value, 2) .. table.concat(packed) .. string.char(#lots)
end

-- Lent units, as far as the limit has them: it may have become smaller since.
local function lent_of(plan, state)
	return min(state.lent, plan.most)
end

-- Charges lots whose lease has ended, each as of that instant. A lot further ahead than any lease, because the clock
-- has stepped back, ends after the longest lease.
local function settle(state)
	local lots, plan, really_now = state.lots, state.plan, now
	while #lots > 0 and lots[1].at <= really_now do
		local lot = table.remove(lots, 1)
		now = lot.at
		plan.functions.look(plan, state)
		state.lent = state.lent - lot.n
		plan.functions.charge_late(plan, state, min(lot.n, plan.most))
	end
	now = really_now
	local latest = now + LEASE_MOST
	if #lots > 0 and lots[#lots].at > latest + STEP_BACK then
		local units = 0
		while #lots > 0 and lots[#lots].at >= latest do
			units = units + table.remove(lots).n
		end
		lots[#lots + 1] = { at = latest, n = units }
		state.is_changed = true
	end
end

-- When a new lease ends: a multiple of a quarter of its duration, so that there are few lots, and late enough for a
-- server whose clock is slow by a thousandth. A lease of a window ends in the window. nil: the window ends too soon.
local function lease_end(plan, state, duration)
	local grid, from = ceil(duration / 4), now
	if plan.kind == WINDOW and state.view_at > now then
		from = state.view_at -- the clock stepped back a little; other leases ended before this window
	end
	local at = ceil((from + duration + ceil(duration / 1000)) / grid) * grid
	if plan.kind == WINDOW and at >= state.view_at + plan.whole then
		at = floor((state.view_at + plan.whole - 1) / grid) * grid
	end
	return at > from and at or nil
end

local function lot_at(lots, at)
	local i = 1
	while i <= #lots and lots[i].at < at do
		i = i + 1
	end
	return i, lots[i] and lots[i].at == at
end

-- Returns whether the units were lent: there may be too many lots already.
local function lend(state, at, units)
	local lots = state.lots
	local i, is_there = lot_at(lots, at)
	if is_there then
		lots[i].n = lots[i].n + units
	elseif #lots == LOTS_MOST then
		return false
	else
		table.insert(lots, i, { at = at, n = units })
	end
	state.lent, state.is_changed = state.lent + units, true
	return true
end

-- Returns the units given back. Of a lease that has ended there are none.
local function take_back(state, at, units)
	local lots = state.lots
	local i, is_there = lot_at(lots, at)
	if not is_there then
		return 0
	end
	local back = min(units, lots[i].n)
	lots[i].n = lots[i].n - back
	if lots[i].n == 0 then
		table.remove(lots, i)
	end
	state.lent, state.is_changed = state.lent - back, state.is_changed or back > 0
	return back
end

-- Limits that shape have nothing to lend, since departures are apart. Logs need the instant of each unit, and with
-- count_all also those of denied requests.
local function is_lendable(plan)
	return not (plan.kind == LOG or plan.counts_all or plan.is_shared or (plan.kind == BUCKET and plan.option))
end

-- Returns, as `step`: allowed, remaining, granted, time until the lease ends or until retry, time until full.
local function grant(plan, state, wanted, duration, most)
	local kind = plan.functions
	local _, remaining, _, _, _, reset, reset_rest = kind.step(plan, state, PEEK, 0)
	if not is_lendable(plan) then
		return false, remaining, 0, nil, nil, reset, reset_rest
	elseif remaining == 0 then
		return kind.step(plan, state, PEEK, 1)
	end
	local units, at = min(wanted, remaining, most - state.lent), lease_end(plan, state, duration)
	if units > 0 and at and lend(state, at, units) then
		if kind.open then
			kind.open(state)
		end
		_, remaining, _, _, _, reset, reset_rest = kind.step(plan, state, PEEK, 0)
		return true, remaining, units, at - now, 0, reset, reset_rest
	end
	local first, wait, wait_rest = state.lots[1], duration, 0
	if not at then
		wait, wait_rest = kind.retry(plan, state, 1)
	elseif first then
		wait = first.at - now
	end
	return false, remaining, 0, wait, wait_rest, reset, reset_rest
end

-- A push charges at most a whole limit. `reserved` units count as lent until the end of the call: the server may have
-- allowed them, too, and pushes them by another call.
local function push(plan, state, cost, at, reserved)
	local kind = plan.functions
	kind.step(plan, state, PEEK, 0) -- notices a new clock, and looks
	cost = min(cost, plan.most)
	local charged = cost > 0 and kind.push(plan, state, cost, at) and cost or 0
	if charged > 0 then
		state.is_over, state.is_changed = true, true
	end
	state.lent = state.lent - (state.reserved or 0) + reserved
	state.reserved = reserved
	local _, remaining, _, _, _, reset, reset_rest = kind.step(plan, state, PEEK, 0)
	return true, remaining, charged, 0, 0, reset, reset_rest
end

local function lease(state, operation, units, first, second)
	local plan = state.plan
	if operation == GRANT then
		return grant(plan, state, units, first, second)
	elseif operation == PUSH then
		return push(plan, state, units, first, second)
	end
	local back = take_back(state, first, units)
	local _, remaining, _, _, _, reset, reset_rest = plan.functions.step(plan, state, PEEK, 0)
	return true, remaining, back, 0, 0, reset, reset_rest
end
