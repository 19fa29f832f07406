-- log.lua: a log of events, as src/core/log.c. State: gone, the running total before the oldest; n events, one after the
-- other in a string: the instant in whole microseconds, and the running total up to and with it. Totals wrap at 2^48;
-- differences do not care. Nothing is unpacked but what a search looks at.

local LOG_FORM, LOG_BYTES, EVENT_FORM, EVENT_BYTES, TOTAL = '<I6', 6, '<I7I6', 13, 2 ^ 48
local log = {}

local function event(state, i)
	return read(EVENT_FORM, state.events, (i - 1) * EVENT_BYTES + 1)
end

local function total_before(state, i)
	if i == 1 then
		return state.gone
	end
	local _, total = event(state, i - 1)
	return total
end

local function newest(state)
	if state.n == 0 then
		return 0
	end
	return (event(state, state.n))
end

-- The first of the events from i on for which `holds` does, as it then does for all after it; or the one behind all.
local function first_event(state, i, holds)
	local behind = state.n + 1
	while i < behind do
		local middle = floor((i + behind) / 2)
		if holds(event(state, middle)) then
			behind = middle
		else
			i = middle + 1
		end
	end
	return i
end

-- Decided at the later of now and the newest event. An event is gone a period later: in whole microseconds, rounded up.
local function log_view(plan, state)
	local last = newest(state)
	local when = math.max(now, last)
	local stays = plan.rest > 0 and plan.whole + 1 or plan.whole
	local live = first_event(state, 1, function(at)
		return when - at < stays
	end)
	local gone = total_before(state, live)
	return when, live, gone, (total_before(state, state.n + 1) - gone) % TOTAL
end

local function first_to_free(state, i, gone, units)
	return first_event(state, i, function(_, total)
		return (total - gone) % TOTAL >= units
	end)
end

local function forget_before(state, i, gone)
	state.events = sub(state.events, (i - 1) * EVENT_BYTES + 1)
	state.n, state.gone = state.n - i + 1, gone
end

local function keep(state, n, at, total)
	local events = sub(state.events, 1, n * EVENT_BYTES)
	if at then
		events, n = events .. pack(EVENT_FORM, at, total), n + 1
	end
	state.events, state.n = events, n
end

local function record(state, when, units)
	local total = (total_before(state, state.n + 1) + units) % TOTAL
	local kept = state.n
	if kept > 0 and newest(state) == when then
		kept = kept - 1
	end
	keep(state, kept, when, total)
end

function log.notice(plan, state)
	if newest(state) - now > STEP_BACK then
		local total = total_before(state, state.n + 1)
		local ahead = first_event(state, 1, function(at)
			return at > now
		end)
		keep(state, ahead - 1, now, total)
		state.is_changed = true
	end
end

function log.fits(plan, state, cost)
	local _, _, _, used = log_view(plan, state)
	return used <= plan.most and cost <= plan.most - used
end

function log.charge(plan, state, cost)
	local when, live, gone = log_view(plan, state)
	forget_before(state, live, gone)
	record(state, when, cost)
end

-- Of more than `most` units the newest decide everything: the older are dropped.
function log.count_denied(plan, state, cost)
	local when, live, gone, used = log_view(plan, state)
	local units = math.min(cost, plan.most)
	forget_before(state, live, gone)
	if used > plan.most - units then
		local too_many = used - (plan.most - units)
		local oldest = math.min(first_to_free(state, 1, gone, too_many), state.n)
		if (total_before(state, oldest + 1) - gone) % TOTAL == too_many then
			oldest = oldest + 1
		end
		forget_before(state, oldest, (gone + too_many) % TOTAL)
	end
	record(state, when, units)
end

function log.retry(plan, state, cost)
	local _, live, gone, used = log_view(plan, state)
	local last = first_to_free(state, live, gone, used - (plan.most - cost))
	local at = math.min(newest(state), (event(state, math.min(last, state.n)))) -- a damaged one may be later
	return until_instant(plus(at, 0, plan.whole, plan.rest))
end

function log.level(plan, state)
	local _, _, _, used = log_view(plan, state)
	if used == 0 then
		return plan.most, 0, 0
	end
	return plan.most - math.min(plan.most, used),
		until_instant(plus(newest(state), 0, plan.whole, plan.rest))
end

function log.refund(plan, state, n)
	local _, live, gone, used = log_view(plan, state)
	forget_before(state, live, gone)
	if n >= used then
		state.events, state.n = '', 0
		return
	end
	if n > 0 then
		local stays = used - n
		local last = math.min(first_to_free(state, 1, gone, stays), state.n)
		local at = math.min(newest(state), (event(state, last))) -- a damaged one may be later
		keep(state, last - 1, at, (gone + stays) % TOTAL)
	end
end

function log.convert() end

function log.read(plan, value)
	local bytes = #value - TAG_BYTES - LOG_BYTES
	if bytes < EVENT_BYTES or bytes % EVENT_BYTES ~= 0 then
		return nil
	end
	local gone = read(LOG_FORM, value, TAG_BYTES + 1)
	return { gone = gone, n = bytes / EVENT_BYTES, events = sub(value, TAG_BYTES + LOG_BYTES + 1) }
end

function log.write(plan, state)
	return pack(LOG_FORM, state.gone) .. state.events
end

function log.is_fresh(state)
	return state.n == 0
end

function log.lasts(plan, state)
	return (until_instant(plus(newest(state), 0, plan.whole, plan.rest)))
end
