-- bucket.lua: smooth token and leaky buckets, as src/core/bucket.h. State: the instant at which the bucket is full
-- again, `at` and `rest`, and the instant of the last use. `used` is the time from now until the bucket is full.

local function make_bucket()
	local bucket = {}

	-- Whole tokens left in a bucket that is full after this time.
	local function left(plan, used, used_rest)
		local whole, rest = minus(plan.span, plan.span_rest, used, used_rest, plan.grain)
		return whole < 0 and 0 or divide(plan, whole, rest)
	end

	-- Gives back what refills in a time. Returns the time from now until the bucket is full.
	local function refund(plan, state, used, rest, given, given_rest)
		used, rest = minus(used, rest, given, given_rest, plan.grain)
		if used < 0 or (used == 0 and rest == 0) then
			used, rest = 0, 0
			state.at, state.rest = 0, 0
		else
			state.at, state.rest = now + used, rest
		end
		state.used_at, state.is_changed = now, true
		return used, rest
	end

	-- Returns how much of a charge has not refilled since, at most n tokens, as the time in which it refills and as
	-- a number of tokens. A part of a token counts as one token, since the rest of it has refilled.
	local function undoable(plan, used, rest, n, charge)
		local given, given_rest = times(plan, charge.cost)
		local asked, asked_rest = times(plan, n)
		given = given - math.max(0, now - charge.at)
		if is_less(used, rest, given, given_rest) then
			given, given_rest = used, rest
		end
		if is_less(asked, asked_rest, given, given_rest) then
			given, given_rest = asked, asked_rest
		end
		if given < 0 then
			return 0, 0, 0
		end
		local tokens = divide(plan, given, given_rest)
		local whole, whole_rest = times(plan, tokens)
		return given, given_rest, is_less(whole, whole_rest, given, given_rest) and tokens + 1 or tokens
	end

	-- Returns how many of the n tokens of a departure no later departure was built upon. The departure's time until
	-- full was rounded up to a nanosecond. Later departures took whole tokens, so rounding up to tokens undoes
	-- that.
	local function cancellable(plan, state, used, rest, n, charge)
		local full, full_rest = charge.full - now, charge.full_ns * plan.a
		local price, price_rest = times(plan, n)
		local short, short_rest = minus(full, full_rest, used, rest, plan.grain)
		if state.set_at > charge.at or is_less(full, full_rest, price, price_rest) or
			not is_less(short, short_rest, 0, plan.a) then
			return 0
		end
		local built, built_rest = minus(used, rest, full, full_rest, plan.grain)
		if built < 0 then
			return n
		end
		local tokens = divide(plan, built, built_rest)
		local whole, whole_rest = times(plan, tokens)
		tokens = is_less(whole, whole_rest, built, built_rest) and tokens + 1 or tokens
		return math.max(0, n - tokens)
	end

	local function sum(plan, whole, rest, more, more_rest)
		rest = rest + more_rest
		if rest >= plan.grain then
			return whole + more + 1, rest - plan.grain
		end
		return whole + more, rest
	end

	-- More is used than can be, because the clock has stepped back since, not because servers have pushed more.
	local function is_behind_new_clock(plan, state, used, rest)
		return used >= plan.span + STEP_BACK and (used > plan.span + STEP_BACK or rest > plan.span_rest) and
			not (state.is_over and state.used_at - now < STEP_BACK)
	end

	-- For leases and pushes. There is nothing to look at: the state is the view.
	function bucket.look() end

	-- The most that is ever used: twice the tokens.
	local function at_most_twice(plan, used, rest)
		local most, most_rest = sum(plan, plan.span, plan.span_rest, plan.span, plan.span_rest)
		if is_less(most, most_rest, used, rest) then
			return most, most_rest
		end
		return used, rest
	end

	-- Charges what was allowed already.
	function bucket.charge_late(plan, state, cost)
		local used, rest = state.at - now, state.rest
		if used < 0 then
			used, rest = 0, 0
		end
		used, rest = at_most_twice(plan, sum(plan, used, rest, times(plan, cost)))
		state.at, state.rest, state.used_at = now + used, rest, now
		return true
	end

	bucket.push = bucket.charge_late

	function bucket.is_over(plan, state)
		return is_less(plan.span, plan.span_rest, state.at - now, state.rest)
	end

	-- Adds the time in which lent tokens refill.
	local function with_lent(plan, state, used, rest)
		if state.lent == 0 then
			return used, rest
		end
		return sum(plan, used, rest, times(plan, lent_of(plan, state)))
	end

	-- Returns, like `step` in step.lua: allowed, remaining, granted, time until retry or departure, time until
	-- full. Times are microseconds and nanoseconds. No retry time means never.
	function bucket.step(plan, state, operation, cost, charge)
		local grain, count, span, span_rest = plan.grain, plan.a, plan.span, plan.span_rest
		local used, rest = state.at - now, state.rest
		if used < 0 then
			used, rest = 0, 0
		elseif not plan.is_shared and is_behind_new_clock(plan, state, used, rest) then
			used, rest = span, span_rest
			state.at, state.rest, state.used_at, state.is_changed = now + span, span_rest, now, true
		end
		if operation == REFUND then
			used, rest = refund(plan, state, used, rest, times(plan, cost))
			used, rest = with_lent(plan, state, used, rest)
			return true, left(plan, used, rest), 0, 0, 0, used, ceil(rest / count)
		elseif operation == UNDO then
			local given, given_rest, tokens = undoable(plan, used, rest, cost, charge)
			if tokens > 0 then
				used, rest = refund(plan, state, used, rest, given, given_rest)
			end
			used, rest = with_lent(plan, state, used, rest)
			return true, left(plan, used, rest), tokens, 0, 0, used, ceil(rest / count)
		end
		if operation == CANCEL then
			local tokens = cancellable(plan, state, used, rest, cost, charge)
			if tokens > 0 then
				used, rest = refund(plan, state, used, rest, times(plan, tokens))
			end
			return true, left(plan, used, rest), tokens, 0, 0, used, ceil(rest / count)
		end
		local own, own_rest = used, rest
		used, rest = with_lent(plan, state, used, rest)
		local wanted, delay, delay_rest = cost, 0, 0
		if plan.option then
			delay, delay_rest = used, ceil(rest / count)
		end
		if operation == UP_TO and cost > 0 then
			local most = left(plan, used, rest)
			wanted = most == 0 and 1 or most < cost and most or cost
		end
		if wanted > plan.most then
			return false, left(plan, used, rest), 0, nil, nil, used, ceil(rest / count)
		end
		local price, price_rest = times(plan, wanted)
		local after, after_rest = sum(plan, used, rest, price, price_rest)
		if wanted > 0 and (after > span or (after == span and after_rest > span_rest)) then
			after, after_rest = after - span, after_rest - span_rest
			if after_rest < 0 then
				after, after_rest = after - 1, after_rest + grain
			end
			return false, left(plan, used, rest), 0, after, ceil(after_rest / count), used, ceil(rest / count)
		end
		if operation == PEEK then
			return true, left(plan, used, rest), 0, delay, delay_rest, used, ceil(rest / count)
		end
		if wanted > 0 then
			own, own_rest = sum(plan, own, own_rest, price, price_rest)
			state.at, state.rest, state.used_at, state.is_changed = now + own, own_rest, now, true
		end
		return true, left(plan, after, after_rest), wanted, delay, delay_rest, after, ceil(after_rest / count)
	end

	function bucket.read(plan, value, _, _, is_leased)
		if #value ~= BUCKET_BYTES then
			return nil
		end
		local _, set_at, at, rest, used_at = read(BUCKET_FORM, value)
		if at > EXACT or rest >= plan.grain or (plan.is_shared and at - now > SPAN_MOST) or
			(is_leased and at - used_at > 2 * plan.span + 2 * STEP_BACK) then
			return nil
		end
		return { set_at = set_at, at = at, rest = rest, used_at = used_at }
	end

	function bucket.write(plan, state)
		return pack(BUCKET_FORM, plan.tag, state.set_at, state.at, state.rest, state.used_at)
	end

	function bucket.is_fresh(state)
		return state.at == 0 and state.rest == 0
	end

	function bucket.lasts(plan, state)
		return state.at - now
	end

	-- Converts a rest in units of 1/count ns to the unit of another plan, rounded up.
	local function rest_in(to, from, rest)
		local whole = floor(rest / from.a)
		local units, remains = portion(to.a, rest - whole * from.a, 0, from.a, 0, 1)
		return whole * to.a + units + (remains > 0 and 1 or 0)
	end

	local function set(plan, state, at, rest)
		local carry = floor(rest / plan.grain)
		state.at, state.rest = at + carry, rest - carry * plan.grain
	end

	-- used * period' / period, rounded up: whole tokens first. Of the remaining part of a token it takes the share
	-- of period' in whole microseconds, then the share of its rest.
	local function rescale(from, to, used, rest)
		local tokens = divide(from, used, rest)
		local whole, units = times(from, tokens)
		local part, part_rest = minus(used, rest, whole, units, from.grain)
		local by_whole, left_whole, left_rest = portion(to.whole, part, part_rest, from.whole, from.rest, from.grain)
		local by_grain, over, over_rest = portion(to.grain, left_whole, left_rest, from.whole, from.rest, from.grain)
		local by_rest, more_over, more_rest = portion(to.rest, part, part_rest, from.whole, from.rest, from.grain)
		over, over_rest = over + more_over, over_rest + more_rest
		local up = (over > 0 or over_rest > 0) and 1 or 0
		if over_rest >= from.grain then
			over, over_rest = over + 1, over_rest - from.grain
		end
		if is_less(from.whole, from.rest, over, over_rest) then
			up = 2
		end
		whole, units = times(to, tokens)
		return whole + by_whole, units + by_grain + by_rest + up
	end

	-- In tokens, used' = min(used, burst, burst') + max(0, used - burst): see convert in src/core/bucket.c. A key
	-- that other plans charge, too, keeps the instant at which it is full.
	function bucket.convert(from, to, state)
		local used, rest = state.at - now, state.rest
		if used < 0 or (used == 0 and rest == 0) then
			state.at, state.rest = 0, 0
			return
		elseif to.is_shared then
			set(to, state, state.at, rest_in(to, from, rest))
			return
		end
		if is_behind_new_clock(from, state, used, rest) then
			used, rest = from.span, from.span_rest
		end
		if state.is_over and is_less(from.span, from.span_rest, used, rest) then
			local over, over_rest = minus(used, rest, from.span, from.span_rest, from.grain)
			used, rest = from.span, from.span_rest
			if to.most < from.most then
				used, rest = times(from, to.most)
			end
			used, rest = rescale(from, to, sum(from, used, rest, over, over_rest))
			set(to, state, used, rest)
			used, rest = at_most_twice(to, state.at, state.rest)
			state.at, state.rest = now + used, rest
			return
		end
		local behind, behind_rest = 0, 0
		if is_less(from.span, from.span_rest, used, rest) then
			behind, behind_rest = minus(used, rest, from.span, from.span_rest, from.grain)
			used, rest, behind_rest = from.span, from.span_rest, rest_in(to, from, behind_rest)
		end
		if is_less(used, rest, times(from, to.most)) then
			used, rest = rescale(from, to, used, rest)
		else
			used, rest = to.span, to.span_rest
		end
		set(to, state, now + used + behind, rest + behind_rest)
	end

	return bucket
end
