-- log.lua: a log of events, as src/core/log.c. A value is a head, then the events. An event has its instant in whole
-- microseconds, and the running total of units including its own. Totals wrap at 2^48, and only their differences
-- matter. A log may be long, so it is neither read nor written completely: a decision reads the head and the oldest
-- events, and writes the head and one event. Expired events stay in front until they outnumber the live ones.
--
-- State: n events, of which `base` are stored from the place `first` on (counted from 0), and the others wait in
-- `tail`. It also has `gone`, the running total before the oldest event, and instant and total of the newest event.
-- View: `when`, the later of now and the newest event, is the time of the decision. It also has the first event that is
-- live then, the running total before that event, and the units used since.

local function make_log()
	-- Tag, instant of the plan; gone, first, n; instant and total of the newest event; expiry in ms.
	local HEAD_FORM, HEAD_BYTES, EVENT_FORM, EVENT_BYTES, TOTAL = '<c28I7I6I4I4I7I6I6', 68, '<I7I6', 13, 2 ^ 48
	local AHEAD, GONE_MOST = 4, 64 -- events read at once; by how many expired events may outnumber live ones
	local UNDO_MOST = 10000 -- a charge with more events after it is not undone: all of them would have to be written
	local PLACES_MOST = 2 ^ 22 -- more than the longest log has
	local log = {}

	local function bytes_at(state, first, n)
		local from = state.head_bytes + first * EVENT_BYTES
		return call('GETRANGE', state.key, from, from + n * EVENT_BYTES - 1)
	end

	local function event(state, i)
		if i > state.base then
			local waiting = state.tail[i - state.base]
			return waiting.at, waiting.total
		end
		local place = state.first + i - 1
		local from = place - state.seen_first
		if from < 0 or from >= state.seen_n then
			local n = min(AHEAD, state.base - i + 1)
			state.seen, state.seen_first, state.seen_n, from = bytes_at(state, place, n), place, n, 0
		end
		if #state.seen < (from + 1) * EVENT_BYTES then
			return 0, 0 -- the value is damaged
		end
		return read(EVENT_FORM, state.seen, from * EVENT_BYTES + 1)
	end

	local function total_before(state, i)
		if i == 1 then
			return state.gone
		end
		local _, total = event(state, i - 1)
		return total
	end

	-- The first event later than an instant, or n + 1.
	local function first_after(state, instant)
		local first, behind = 1, state.n + 1
		while first < behind do
			local middle = floor((first + behind) / 2)
			if event(state, middle) > instant then
				behind = middle
			else
				first = middle + 1
			end
		end
		return first
	end

	-- The first event, from `first` on, whose running total is at least `gone` + `units`. If the value is damaged
	-- there may be none, and the result is the last event.
	local function first_with(state, first, gone, units)
		local last = state.n
		while first < last do
			local middle = floor((first + last) / 2)
			local _, total = event(state, middle)
			if (total - gone) % TOTAL >= units then
				last = middle
			else
				first = middle + 1
			end
		end
		return last
	end

	-- In a damaged value an event may be later than the newest one.
	local function instant_of(state, i)
		return min((event(state, i)), state.newest)
	end

	-- Events expire from the front, usually few at a time, so the first few are read at once.
	local function first_live(state, gone_until)
		local live = 1
		while live <= AHEAD and live <= state.n and event(state, live) <= gone_until do
			live = live + 1
		end
		return live > AHEAD and first_after(state, gone_until) or live
	end

	-- An event expires one period later, in whole microseconds, rounded up.
	function log.look(plan, state)
		local when = state.newest > now and state.newest or now
		local live = first_live(state, when - (plan.rest > 0 and plan.whole + 1 or plan.whole))
		local gone = total_before(state, live)
		state.when, state.live, state.live_gone, state.used = when, live, gone, (state.newest_total - gone) % TOTAL
		return plan.most - min(plan.most, state.used)
	end

	local function forget_before(state, i, gone)
		local stored, waiting = min(i - 1, state.base), i - 1 - min(i - 1, state.base)
		state.first, state.base, state.n = state.first + stored, state.base - stored, state.n - i + 1
		if waiting > 0 then
			state.tail = { unpack(state.tail, waiting + 1) }
		end
		state.gone, state.live, state.live_gone = gone, 1, gone
	end

	-- Keeps the first n events, and appends one.
	local function keep(state, n, at, total)
		for i = state.n, n + 1, -1 do
			state.tail[i - state.base] = nil
			if i <= state.base then
				state.base = n
				break
			end
		end
		state.n = n + 1
		state.tail[state.n - state.base] = { at = at, total = total }
		state.newest, state.newest_total = at, total
	end

	local function record(state, units)
		local is_one_more = state.n == 0 or state.newest ~= state.when
		local before = state.n == 0 and state.gone or state.newest_total
		keep(state, is_one_more and state.n or state.n - 1, state.when, (before + units) % TOTAL)
	end

	-- Events that are in the future of a new clock become one event, at now.
	function log.notice(_, state)
		if state.newest - now > STEP_BACK then
			keep(state, first_after(state, now) - 1, now, state.newest_total)
			state.is_changed = true
		end
	end

	function log.charge(_, state, cost)
		forget_before(state, state.live, state.live_gone)
		record(state, cost)
		state.used = state.used + cost
	end

	-- If the log has more than `most` units, only the newest decide, so older ones are dropped.
	function log.count_denied(plan, state, cost)
		local units = min(cost, plan.most)
		local too_many = state.used - (plan.most - units)
		forget_before(state, state.live, state.live_gone)
		if too_many > 0 then
			local gone = state.gone
			local oldest = first_with(state, 1, gone, too_many)
			if (total_before(state, oldest + 1) - gone) % TOTAL == too_many then
				oldest = oldest + 1
			end
			forget_before(state, oldest, (gone + too_many) % TOTAL)
		end
		record(state, units)
	end

	-- Charges as of now. Only the newest units decide, so more than `most` are not kept.
	function log.push(plan, state, cost)
		log.count_denied(plan, state, cost)
		return true
	end

	function log.retry(plan, state, cost)
		local last = first_with(state, state.live, state.live_gone, state.used - (plan.most - cost))
		return until_instant(plus(instant_of(state, last), 0, plan.whole, plan.rest))
	end

	function log.reset(plan, state)
		if state.used == 0 then
			return 0, 0
		end
		return until_instant(plus(state.newest, 0, plan.whole, plan.rest))
	end

	local function empty(state)
		state.n, state.first, state.base, state.tail = 0, 0, 0, {}
		state.newest, state.newest_total = 0, state.gone
	end

	function log.refund(_, state, n)
		local stays = state.used - min(state.used, n)
		forget_before(state, state.live, state.live_gone)
		if stays == 0 then
			empty(state)
		elseif n > 0 then
			local last = first_with(state, 1, state.gone, stays)
			keep(state, last - 1, instant_of(state, last), (state.gone + stays) % TOTAL)
		end
	end

	-- Gives back only from the event of the charge, while it counts. All totals from that event on decrease.
	function log.undo(_, state, n, charge)
		local i = first_after(state, charge.at - 1)
		if i < state.live or i > state.n or state.n - i > UNDO_MOST or event(state, i) ~= charge.at then
			return 0
		end
		local before = total_before(state, i)
		local _, total = event(state, i)
		local back = min(n, (total - before) % TOTAL)
		if back == 0 then
			return 0
		end
		local later, is_last = {}, (total - before) % TOTAL == back
		for k = is_last and i + 1 or i, state.n do
			local at_k, total_k = event(state, k)
			later[#later + 1] = { at = at_k, total = (total_k - back) % TOTAL }
		end
		if i == 1 and #later == 0 then
			empty(state)
			return back
		end
		if #later == 0 then
			state.newest, state.newest_total = instant_of(state, i - 1), before
		else
			state.newest_total = later[#later].total
		end
		local waiting = i - 1 - min(i - 1, state.base)
		state.base, state.tail = i - 1 - waiting, { unpack(state.tail, 1, waiting) }
		for k = 1, #later do
			state.tail[waiting + k] = later[k]
		end
		state.n = i - 1 + #later
		return back
	end

	function log.convert() end

	function log.untouched()
		local state = { gone = 0, seen_first = 0, seen_n = 0, expires = 0, head_bytes = HEAD_BYTES }
		empty(state)
		return state
	end

	-- Reads only the head of a log. Returns nil without a value, and an error if the value is not a string.
	function log.fetch(key)
		local value = redis.pcall('GETRANGE', key, 0, HEAD_BYTES - 1)
		if type(value) == 'string' and #value == HEAD_BYTES and value:byte(2) ~= LOG then
			return call('GET', key)
		end
		return value ~= '' and value or nil
	end

	function log.read(_, value, key, is_old)
		if #value < HEAD_BYTES then
			return nil
		end
		local state = { key = key, tail = {}, seen_first = 0, seen_n = 0 }
		local _
		_, state.set_at, state.gone, state.first, state.n, state.newest, state.newest_total, state.expires =
			read(HEAD_FORM, value)
		state.base, state.head_bytes = state.n, is_old and HEAD_BYTES - SET_AT_BYTES or HEAD_BYTES
		return state.n > 0 and state.first + state.n <= PLACES_MOST and state or nil
	end

	local function tail_bytes(state)
		local bytes = {}
		for i, waiting in ipairs(state.tail) do
			bytes[i] = pack(EVENT_FORM, waiting.at, waiting.total)
		end
		return table.concat(bytes)
	end

	-- Writes the whole value if it is not stored, or too many of its events have expired. Otherwise writes in
	-- place, and extends the expiry only when needed.
	function log.store(key, plan, state)
		local expires_ms = not is_test and expiry(plan, log.lasts(plan, state))
		local is_to_make = not state.is_stored or state.first > state.base + GONE_MOST or state.key ~= key or
			state.head_bytes ~= HEAD_BYTES
		local is_to_expire = is_to_make or state.expires * 1000 < now + log.lasts(plan, state) + GRACE_MS * 1000
		local kept, first = '', state.first
		if is_to_make then
			kept, first = state.base > 0 and bytes_at(state, state.first, state.base) or '', 0
		end
		if expires_ms and is_to_expire then
			state.expires = floor(now / 1000) + expires_ms
		end
		local head = pack(HEAD_FORM, plan.tag, state.set_at, state.gone, first, state.n, state.newest,
			state.newest_total, state.expires)
		if is_to_make then
			call('SET', key, head .. kept .. tail_bytes(state))
		else
			call('SETRANGE', key, HEAD_BYTES + (state.first + state.base) * EVENT_BYTES, tail_bytes(state))
			call('SETRANGE', key, 0, head)
		end
		if expires_ms and is_to_expire then
			call('PEXPIRE', key, expires_ms)
		end
	end

	function log.is_fresh(state)
		return state.n == 0
	end

	function log.lasts(plan, state)
		return (until_instant(plus(state.newest, 0, plan.whole, plan.rest)))
	end

	return log
end
