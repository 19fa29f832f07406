-- decide.lua: the decisions of src/core, implemented again inside Redis. One call decides many requests in order, each
-- with up to 16 claims, all or nothing. redis_call.c writes the arguments and reads the reply. redis_plan.c makes the
-- plans, and rejects those that the numbers here cannot hold.
--
-- KEYS: one per claim, in order. A key may occur more than once. ARGV[1]: requests. ARGV[2]: plans. ARGV[3], only in
-- tests: the time in microseconds, instead of the server's clock. Keys then do not expire, because their time is not
-- Redis's.
--
-- Exact. Numbers are doubles, so integers are exact up to 2^53. An instant or a duration is a pair: whole microseconds,
-- and a rest in units of 1/grain microsecond. `grain` is 1000 except for smooth buckets, which count in 1/count ns as
-- the core does. Products that may be larger are computed bit by bit (times_any, portion). floor(a / b) of integers is
-- exact up to 2^53, too: the quotient cannot be rounded up to the next integer, which is at least 1 / b away.
--
-- Fast. One MGET for all keys, one SET for each charged key. Each call creates the functions at the top level of the
-- script again, so there is only one, make_general. It contains everything that the fast path does not need. The fast
-- path is a plain take from a smooth bucket, in the loop at the end.
local read, pack, floor, ceil, call = struct.unpack, struct.pack, math.floor, math.ceil, redis.call
local TAKE, UNDO, DEPART, CANCEL, GRANT, BUCKET = 1, 6, 7, 8, 9, 0
local EXACT = 2 ^ 53
local STEP_BACK = 60000000 -- a clock that steps back further is a new clock
-- A key expires GRACE_MS after it is full, so that the clocks of two servers may differ a little. It lives longer by up
-- to 1/16 (EXPIRIES) of its longest lifetime. So a call uses few different expiry times: formatting a number takes half
-- as long as a SET.
local GRACE_MS, EXPIRIES = 100, 16
-- A plan's tag identifies the plan that packed a state, and is stored with it: version, kind, options, a, period, most.
-- In a call, the plan's duration and the instant at which the plan was set follow. A stored value has that instant,
-- too.
local TAG_BYTES, PLAN_BYTES = 28, 48
local AGES = 2 ^ 55 -- from here on, the instant of a plan in a call is its age instead: Redis's clock was not known
local SHARED = 4 -- an option: other plans charge the key, too
-- Tag, instant of the plan, instant at which the bucket is full, instant of the last use.
local BUCKET_FORM, BUCKET_BYTES = '<c28I7I7I6I7', 55
-- A verdict: flags, remaining, time until full.
local ANSWER_FORM, ALLOWED, NEVER, HAS_WAIT, HAS_GRANTED, HAS_LIMIT, IS_RETRY = '<BI6I7I2', 1, 2, 4, 8, 16, 32
local WAIT_FORM = ANSWER_FORM .. 'I7I2' -- plus the time until retry or departure

local requests, plan_bytes, now = ARGV[1], ARGV[2], tonumber(ARGV[3])
local is_test = now ~= nil
if not is_test then
	local time = call('TIME')
	now = time[1] * 1000000 + time[2]
end
-- Whether all keys are distinct, and whether the call has logs, whose values are not read completely.
local is_distinct, has_logs = read('<B', requests) % 2 == 1, read('<B', requests) >= 2
local values, answers = not has_logs and call('MGET', unpack(KEYS)), {}
-- The values that the loop at the end has written, by key, because a key may occur again.
local written = not is_distinct and {}
local anew = 0 -- values that were damaged or not Weir's; their keys were reset

local function make_general()
	-- include numbers.lua
	-- include leases.lua
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

-- Loops over requests, or runs of requests that differ only in their keys.
local n, at, bytes, general = 0, 2, #requests, nil
while at <= bytes do
	local operation, claims, place, cost, repeats
	operation, claims, place, cost, repeats, at = read('<BBI2I7I2', requests, at)
	local kind, options, count, whole, rest, most, span, span_rest, set_at =
		read('<BBI6I7I6I6I7I6I7', plan_bytes, place * PLAN_BYTES + 2)
	local grain = count * 1000
	if operation == TAKE and claims == 1 and values and kind == BUCKET and options % SHARED == 0 and cost > 0 and
		cost <= most and (span + STEP_BACK) * grain + span_rest < EXACT then
		-- Here the time until full (`used`) fits one number. bucket.lua does the same with pairs.
		local tag = read('<c28', plan_bytes, place * PLAN_BYTES + 1)
		local token, full = whole * grain + rest, span * grain + span_rest
		local price, latest = cost * token, span + STEP_BACK
		local room = full - price -- used + price may be too large for one number
		local step_ms, expiries = ceil((span + 1) / (1000 * EXPIRIES)), {}
		if set_at >= AGES then
			set_at = math.max(1, now - (set_at - AGES))
		end
		for i = n + 1, n + repeats do
			local key, value, used, since = KEYS[i], values[i], 0, set_at
			if written then
				value = written[key] or value
				if general and general.holds(key) then
					used, value = nil, false -- the general path has a newer state, not written yet
				end
			end
			if value then
				local value_tag, full_at, units = nil, 0, 0
				if #value == BUCKET_BYTES then
					value_tag, since, full_at, units = read(BUCKET_FORM, value)
				end
				if value_tag ~= tag or units >= grain or full_at - now >= latest or since > EXACT then
					used = nil
				elseif full_at >= now then
					used = (full_at - now) * grain + units
					if since < set_at and used > room then
						used = nil -- store the newer instant, although nothing is charged
					end
				end
			end
			if not used then
				general = general or make_general()
				answers[i] = general.decide(TAKE, place, cost, i)
			elseif used > room then
				local wait = used - room
				local reset, retry = floor(used / grain), floor(wait / grain)
				answers[i] = pack(WAIT_FORM, HAS_WAIT, used < full and floor((full - used) / token) or 0, reset,
					ceil((used - reset * grain) / count), retry, ceil((wait - retry * grain) / count))
			else
				local after = used + price
				local reset = floor(after / grain)
				local units = after - reset * grain
				answers[i] = pack(ANSWER_FORM, ALLOWED, floor((full - after) / token), reset, ceil(units / count))
				local stored = pack(BUCKET_FORM, tag, since > set_at and since or set_at, now + reset, units, now)
				if is_test then
					call('SET', key, stored)
				else
					local k = floor(reset / (1000 * step_ms)) + 1
					local expiry = expiries[k] or string.format('%d', k * step_ms + GRACE_MS)
					expiries[k] = expiry
					if value then
						call('SET', key, stored, 'PX', expiry)
					elseif not call('SET', key, stored, 'PX', expiry, 'NX') then
						anew = anew + 1 -- the value is not a string, which MGET does not report
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
		if operation == UNDO or operation == CANCEL then
			local charge = {}
			charge.at, charge.cost, at = read('<I7I7', requests, at)
			if operation == CANCEL then
				charge.full, charge.full_ns, at = read('<I7I2', requests, at)
			end
			n = n + 1
			answers[n] = general.undo(operation, place, cost, n, charge)
		elseif operation >= GRANT then
			local first, second
			first, second, at = read('<I7I7', requests, at)
			n = n + 1
			answers[n] = general.lease(operation, place, cost, n, first, second)
		elseif operation == DEPART then
			local longest, longest_ns
			longest, longest_ns, at = read('<I7I2', requests, at)
			at = general.take_together(place, cost, claims, n, at, longest, longest_ns)
			n = n + claims
		elseif claims == 1 then
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
