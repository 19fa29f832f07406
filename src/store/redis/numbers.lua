-- numbers.lua: exact sums, products and quotients of pairs (decide.lua).

local INTERVAL, WINDOW, COUNTER, LOG = 1, 2, 3, 4
local UP_TO, PEEK, REFUND, RESET, PUSH = 2, 3, 4, 5, 11
local VERSION, SET_AT_BYTES, SPAN_MOST, SEGMENTS_MOST = 3, 7, 2 ^ 51, 4096
local TIME_MOST = 2 ^ 52 -- what redis_call.c accepts
local COUNT_MOST, COUNTS_MOST = 2 ^ 48 - 1, 2 ^ 49 - 1 -- counting of denied requests stops here
local sub, min = string.sub, math.min

local function is_less(whole, rest, than, than_rest)
	return whole < than or (whole == than and rest < than_rest)
end

local function minus(whole, rest, less, less_rest, grain)
	if rest < less_rest then
		return whole - less - 1, rest + (grain or 1000) - less_rest
	end
	return whole - less, rest - less_rest
end

-- Works from the highest bit of n down. Microseconds beyond 2^53 are rounded. They are compared only with much smaller
-- numbers.
local function times_any(plan, n)
	local whole, rest, bit = 0, 0, 1
	while bit * 2 <= n do
		bit = bit * 2
	end
	while bit >= 1 do
		whole, rest = whole * 2, rest * 2
		if n >= bit then
			n, whole, rest = n - bit, whole + plan.whole, rest + plan.rest
		end
		local carry = floor(rest / plan.grain)
		whole, rest, bit = whole + carry, rest - carry * plan.grain, bit / 2
	end
	return whole, rest
end

-- n periods.
local function times(plan, n)
	local rest = n * plan.rest
	if rest >= EXACT then
		return times_any(plan, n)
	end
	local carry = floor(rest / plan.grain)
	return n * plan.whole + carry, rest - carry * plan.grain
end

-- Periods in a duration. Not exact above 2^49, which no count reaches.
local function divide(plan, whole, rest)
	local sum = whole * plan.grain + rest
	local n = floor(sum / plan.sum)
	if (sum < EXACT and plan.sum < EXACT) or n > 2 ^ 49 then
		return n
	end
	local product, product_rest = times(plan, n)
	while is_less(whole, rest, product, product_rest) do
		n = n - 1
		product, product_rest = times(plan, n)
	end
	product, product_rest = times(plan, n + 1)
	while not is_less(whole, rest, product, product_rest) do
		n = n + 1
		product, product_rest = times(plan, n + 1)
	end
	return n
end

-- floor(n * part / all) and the remainder of that division, where part is at most all. `all` is at most 2^51
-- microseconds and a rest, and n at most 2^52.
local function portion(n, part, part_rest, all, all_rest, grain)
	local part_sum, all_sum = part * grain + part_rest, all * grain + all_rest
	local product = n * part_sum
	if product < EXACT and all_sum < EXACT then
		local quotient = floor(product / all_sum)
		local remains = product - quotient * all_sum
		return quotient, floor(remains / grain), remains % grain
	end
	local quotient, whole, rest, bit = 0, 0, 0, 1
	while bit * 2 <= n do
		bit = bit * 2
	end
	while bit >= 1 do
		quotient, whole, rest = quotient * 2, whole * 2, rest * 2
		if n >= bit then
			n, whole, rest = n - bit, whole + part, rest + part_rest
		end
		local carry = floor(rest / grain)
		whole, rest, bit = whole + carry, rest - carry * grain, bit / 2
		while not is_less(whole, rest, all, all_rest) do
			whole, rest = minus(whole, rest, all, all_rest, grain)
			quotient = quotient + 1
		end
	end
	return quotient, whole, rest
end

-- now modulo the period.
local function elapsed_at_now(plan)
	if plan.sum < 2 ^ 43 then
		local elapsed = now % plan.sum * 1000 % plan.sum
		return floor(elapsed / 1000), elapsed % 1000
	end
	return minus(now, 0, times(plan, divide(plan, now, 0)))
end

-- The time from now until an instant. 0 if it has passed.
local function until_instant(at, rest)
	if at < now then
		return 0, 0
	end
	return at - now, rest
end

local function plus(at, rest, span, span_rest)
	rest = rest + span_rest
	if rest >= 1000 then
		return at + span + 1, rest - 1000
	end
	return at + span, rest
end

local function is_new_clock(state)
	local ahead = state.at - now
	return ahead > STEP_BACK or (ahead == STEP_BACK and state.rest > 0)
end

-- Intervals and windows: an instant and a number. Intervals also have the instant of the last use.
local INSTANT_FORM, INSTANT_BYTES = '<c28I7I7I2I6', 50

local function read_instant(plan, value, _, _, is_leased)
	if #value ~= INSTANT_BYTES + (plan.kind == INTERVAL and 7 or 0) then
		return nil
	end
	local _, set_at, at, rest, n, from = read(INSTANT_FORM, value)
	if at > EXACT or rest >= 1000 or (plan.kind == INTERVAL and n > (is_leased and 2 or 1) * plan.most) then
		return nil
	end
	return { set_at = set_at, at = at, rest = rest, n = n, used_at = plan.kind == INTERVAL and read('<I7', value, from) }
end

local function write_instant(plan, state)
	local value = pack(INSTANT_FORM, plan.tag, state.set_at, state.at, state.rest, state.n)
	return plan.kind == INTERVAL and value .. pack('<I7', state.used_at) or value
end

local function is_fresh_instant(state)
	return state.n == 0
end

-- The expiry of a key that is full in `full_in` microseconds, as text. It is rounded up, so that a call needs few
-- texts.
local function expiry(plan, full_in)
	local step_ms = ceil((plan.span + 1) / (1000 * EXPIRIES))
	local k = floor(math.max(0, full_in) / (1000 * step_ms)) + 1
	local text = plan.expiries[k] or string.format('%d', k * step_ms + GRACE_MS)
	plan.expiries[k] = text
	return text
end
