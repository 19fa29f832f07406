-- decide.lua: the core's decisions (src/core) a second time, inside Redis: many requests in one call, each of up to 16
-- claims, all or nothing, in the order given. What it is asked and what it answers is written and read by redis_call.c;
-- plans are made by redis_plan.c, which refuses what the numbers here cannot hold.
--
-- KEYS: one a claim, in order; the same key may come again. ARGV[1]: requests. ARGV[2]: plans. ARGV[3], in tests alone:
-- the time in microseconds; without it the server's clock counts. Keys then do not expire, as their time is not Redis's.
--
-- Exact. Numbers are doubles, so whole numbers are good up to 2^53. An instant or a span is a pair: whole microseconds,
-- and a rest in units of which a microsecond has `grain`: 1000 for all but smooth buckets, which count in 1/count ns as
-- the core does. What may still be more is multiplied bit by bit (times_any, portion). floor(a / b) of whole numbers is
-- exact up to 2^53, too: the quotient cannot be rounded up to the next whole number, which is at least 1 / b away.
--
-- Fast. One MGET for all keys, one SET for each that was charged. A call makes all functions at its outermost level anew,
-- so there is but one, which holds all that a plain take from a smooth bucket, the loop at the end, does not need.
local read, pack, floor, ceil, call = struct.unpack, struct.pack, math.floor, math.ceil, redis.call
local TAKE, BUCKET = 1, 0
local EXACT = 2 ^ 53
local STEP_BACK = 60000000 -- a clock that steps back by more is a new clock
-- A key outlives what it owes by this, so that clocks of two servers may differ a little; and by up to a sixteenth of the
-- longest that it can: a call says few different times to Redis, as making a text of a number takes half of a SET.
local GRACE_MS, EXPIRIES = 100, 16
-- A plan's tag is kept with the state, to tell by which plan that was packed: version (1, or 2 after every
-- other change to itself), kind, options, a, period, most.
local TAG_BYTES, PLAN_BYTES = 28, 67
local BUCKET_FORM, BUCKET_BYTES = '<c28I7I6', 41
-- An answer: what follows, and whether it is allowed; what is left; until it is whole again.
local ANSWER_FORM, ALLOWED, NEVER, HAS_WAIT, HAS_GRANTED = '<BI6I7I2', 1, 2, 4, 8
local WAIT_FORM = ANSWER_FORM .. 'I7I2' -- and until retry, or departure

local requests, plan_bytes, now = ARGV[1], ARGV[2], tonumber(ARGV[3])
local is_test = now ~= nil
if not is_test then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
-- Whether no key comes twice; and whether one is that of a log, which is not read as a whole.
local is_distinct, has_logs = read('<B', requests) % 2 == 1, read('<B', requests) >= 2
local values, answers = not has_logs and call('MGET', unpack(KEYS)), {}
-- What the loop at the end has written for a key that may come again.
local written = not is_distinct and {}
local anew = 0 -- values that were not ours, or damaged: their keys started anew

local function make_general()
	-- include numbers.lua
	-- include bucket.lua
	-- include interval.lua
	-- include window.lua
	-- include counter.lua
	-- include log.lua
	-- include step.lua
	-- include state.lua
	-- include request.lua
	return general
end

-- Requests, or runs of them that differ in nothing but their keys.
local n, at, bytes, general = 0, 2, #requests, nil
while at <= bytes do
	local operation, claims, place, cost, repeats
	operation, claims, place, cost, repeats, at = read('<BBI2I7I2', requests, at)
	local kind, options, count, whole, rest, most, span, span_rest, _, raised, raised_rest =
		read('<BBI6I7I6I6I7I6I7I7I6', plan_bytes, place * PLAN_BYTES + 2)
	local grain = count * 1000
	if operation == TAKE and claims == 1 and values and kind == BUCKET and options == 0 and cost > 0 and
		cost <= most and (span + STEP_BACK) * grain + span_rest < EXACT and raised + raised_rest == 0 then
		-- All that may be owed is one number here: see bucket.lua for the same in pairs.
		local tag = read('<c28', plan_bytes, place * PLAN_BYTES + 1)
		local token, full = whole * grain + rest, span * grain + span_rest
		local price, latest = cost * token, span + STEP_BACK
		local room = full - price -- owed and price together may be too much for one number
		local step_ms, expiries = ceil((span + 1) / (1000 * EXPIRIES)), {}
		for i = n + 1, n + repeats do
			local key, value, owed = KEYS[i], values[i], 0
			if written then
				value = written[key] or value
				if general and general.holds(key) then
					owed, value = nil, false -- what that has decided is not written yet
				end
			end
			if value then
				local value_tag, whole_at, units = nil, 0, 0
				if #value == BUCKET_BYTES then
					value_tag, whole_at, units = read(BUCKET_FORM, value)
				end
				if value_tag ~= tag or units >= grain or whole_at - now >= latest then
					owed = nil
				elseif whole_at >= now then
					owed = (whole_at - now) * grain + units
				end
			end
			if not owed then
				general = general or make_general()
				answers[i] = general.decide(TAKE, place, cost, i)
			elseif owed > room then
				local wait = owed - room
				local reset, retry = floor(owed / grain), floor(wait / grain)
				answers[i] = pack(WAIT_FORM, HAS_WAIT, owed < full and floor((full - owed) / token) or 0, reset,
					ceil((owed - reset * grain) / count), retry, ceil((wait - retry * grain) / count))
			else
				local after = owed + price
				local reset = floor(after / grain)
				local units = after - reset * grain
				answers[i] = pack(ANSWER_FORM, ALLOWED, floor((full - after) / token), reset, ceil(units / count))
				local stored = pack(BUCKET_FORM, tag, now + reset, units)
				if is_test then
					call('SET', key, stored)
				else
					local k = floor(reset / (1000 * step_ms)) + 1
					local expiry = expiries[k] or string.format('%d', k * step_ms + GRACE_MS)
					expiries[k] = expiry
					if value then
						call('SET', key, stored, 'PX', expiry)
					elseif not call('SET', key, stored, 'PX', expiry, 'NX') then
						anew = anew + 1 -- it is no string, and MGET has not told
						call('SET', key, stored, 'PX', expiry)
					end
				end
				if written then
					written[key] = stored
				end
			end
		end
		n = n + repeats
	else
		general = general or make_general()
		if claims == 1 then
			for i = n + 1, n + repeats do
				answers[i] = general.decide(operation, place, cost, i)
			end
			n = n + repeats
		else
			at = general.take_together(place, cost, claims, n, at)
			n = n + claims
		end
	end
end
if general then
	general.save()
end
return pack('<BI4I7', 1, anew, now) .. table.concat(answers)
