-- bucket.lua: smooth token and leaky buckets, as src/core/bucket.h. State: the instant at which the bucket is full
-- again, `at` and `rest`. `owed` is the time from now until then.

local function make_bucket()
	local bucket = {}

	-- Whole tokens left in a bucket that is full after this time.
	local function left(plan, owed, owed_rest)
		local whole, rest = minus(plan.span, plan.span_rest, owed, owed_rest, plan.grain)
		return whole < 0 and 0 or divide(plan, whole, rest)
	end

	-- Returns, like `step` in step.lua: allowed, remaining, granted, time until retry or departure, time until
	-- full. Times are microseconds and nanoseconds. No retry time means never.
	function bucket.step(plan, state, operation, cost)
		local grain, count, span, span_rest = plan.grain, plan.a, plan.span, plan.span_rest
		local owed, rest = state.at - now, state.rest
		if owed < 0 then
			owed, rest = 0, 0
		elseif owed >= span + STEP_BACK and (owed > span + STEP_BACK or rest > span_rest) then
			owed, rest = span, span_rest
			state.at, state.rest, state.is_changed = now + span, span_rest, true
		end
		if operation == REFUND then
			local given, given_rest = times(plan, cost)
			owed, rest = owed - given, rest - given_rest
			if rest < 0 then
				owed, rest = owed - 1, rest + grain
			end
			if owed < 0 or (owed == 0 and rest == 0) then
				owed, rest = 0, 0
				state.at, state.rest = 0, 0
			else
				state.at, state.rest = now + owed, rest
			end
			state.is_changed = true
			return true, left(plan, owed, rest), 0, 0, 0, owed, ceil(rest / count)
		end
		local wanted, delay, delay_rest = cost, 0, 0
		if plan.option then
			delay, delay_rest = owed, ceil(rest / count)
		end
		if operation == UP_TO and cost > 0 then
			local most = left(plan, owed, rest)
			wanted = most == 0 and 1 or most < cost and most or cost
		end
		if wanted > plan.most then
			return false, left(plan, owed, rest), 0, nil, nil, owed, ceil(rest / count)
		end
		local after, after_rest = times(plan, wanted)
		after, after_rest = owed + after, rest + after_rest
		if after_rest >= grain then
			after, after_rest = after + 1, after_rest - grain
		end
		if wanted > 0 and (after > span or (after == span and after_rest > span_rest)) then
			after, after_rest = after - span, after_rest - span_rest
			if after_rest < 0 then
				after, after_rest = after - 1, after_rest + grain
			end
			return false, left(plan, owed, rest), 0, after, ceil(after_rest / count), owed, ceil(rest / count)
		end
		if operation == PEEK then
			return true, left(plan, owed, rest), 0, delay, delay_rest, owed, ceil(rest / count)
		end
		if wanted > 0 then
			state.at, state.rest, state.is_changed = now + after, after_rest, true
		end
		return true, left(plan, after, after_rest), wanted, delay, delay_rest, after, ceil(after_rest / count)
	end

	function bucket.read(plan, value)
		if #value ~= BUCKET_BYTES then
			return nil
		end
		local _, at, rest = read(BUCKET_FORM, value)
		if at > EXACT or rest >= plan.grain then
			return nil
		end
		return { at = at, rest = rest }
	end

	function bucket.write(plan, state)
		return pack(BUCKET_FORM, plan.tag, state.at, state.rest)
	end

	function bucket.is_fresh(state)
		return state.at == 0 and state.rest == 0
	end

	function bucket.lasts(plan, state)
		return state.at - now
	end

	-- In tokens, missing' = burst' - min(burst - missing, burst'): see convert in src/core/bucket.c.
	function bucket.convert(from, to, state)
		local owed, rest = state.at - now, state.rest
		local behind, behind_rest = 0, 0
		if owed < 0 then
			owed, rest = 0, 0
		end
		if is_less(from.span + STEP_BACK, from.span_rest, owed, rest) then
			owed, rest = from.span, from.span_rest
		end
		if is_less(from.span, from.span_rest, owed, rest) then
			behind, behind_rest = minus(owed, rest, from.span, from.span_rest, from.grain)
			owed, rest = from.span, from.span_rest
			-- 1/count ns into 1/count' ns, rounded up.
			local whole = floor(behind_rest / from.a)
			local units, remains = portion(to.a, behind_rest - whole * from.a, 0, from.a, 0, 1)
			behind_rest = whole * to.a + units + (remains > 0 and 1 or 0)
		end
		local cut, cut_rest = times(from, math.max(0, from.most - to.most))
		if is_less(owed, rest, cut, cut_rest) then
			owed, rest = 0, 0
		else
			owed, rest = minus(owed, rest, cut, cut_rest, from.grain)
		end
		local grown = math.max(0, to.most - from.most)
		if owed == 0 and rest == 0 and grown == 0 then
			state.at, state.rest = 0, 0
			return
		end
		-- owed * period' / period, rounded up. This takes whole tokens first. Of the remaining part of a token
		-- it takes the share of period' in whole microseconds, then the share of its rest.
		local tokens = divide(from, owed, rest)
		local whole, units = times(from, tokens)
		local part, part_rest = minus(owed, rest, whole, units, from.grain)
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
		whole, units = times(to, tokens + grown)
		units = units + by_grain + by_rest + up + behind_rest
		local carry = floor(units / to.grain)
		state.at, state.rest = now + whole + by_whole + behind + carry, units - carry * to.grain
	end

	return bucket
end
