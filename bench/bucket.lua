-- A token bucket in a hash, as rate limiters on Redis are usually written. One key holds the tokens left and the time of the last
-- change. It expires when the bucket is full again. The time is Redis's, so the clocks of clients do not matter.
-- KEYS[1]: the bucket. ARGV: burst, tokens a period, the period in us, cost.
-- Returns allowed (1 or 0), the tokens left, and the us to wait.
local burst, count, period, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(state[1]) or burst
local at = tonumber(state[2]) or now

tokens = math.min(burst, tokens + math.max(0, now - at) * count / period)
if tokens < cost then
	return { 0, math.floor(tokens), math.ceil((cost - tokens) * period / count) }
end
tokens = tokens - cost
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil((burst - tokens) * period / count / 1000))
return { 1, math.floor(tokens), 0 }
