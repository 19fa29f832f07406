-- weir.lua: asks Weir whether a request may pass. A denial goes to the client as Weir sends it: a 429 with all its headers,
-- and the problem as its body.
local authorize = "http://127.0.0.1:8080/v1/authorize"
local timeout_ms = 500
local wait_ms = 0 -- the longest wait of the policy's limits: 5000 with wait: 5s
local tries = 4 -- made by the client of HAProxy 2.6, each with its own timeout; the number is built in

-- All lines of a header. HAProxy counts them from 0.
local function lines(headers, name)
	local all, found = headers[name] or {}, {}
	for i = 0, #all do
		found[#found + 1] = all[i]
	end
	return found
end

-- Of what the client sends, only what is named here.
local function told(txn)
	local headers = txn.http:req_get_headers()
	local chain = lines(headers, "x-forwarded-for")
	chain[#chain + 1] = txn.sf:src()
	return {
		["x-forwarded-method"] = { txn.sf:method() },
		["x-forwarded-uri"] = { txn.sf:pathq() },
		["x-forwarded-host"] = lines(headers, "host"),
		["x-forwarded-for"] = chain,
		["x-api-key"] = lines(headers, "x-api-key"),
	}
end

local function pass_on(txn, answer)
	local reply = txn:reply({ status = answer.status, reason = answer.reason, body = answer.body })
	for _, name in ipairs({ "content-type", "retry-after", "ratelimit", "ratelimit-policy" }) do
		for _, line in ipairs(lines(answer.headers, name)) do
			reply:add_header(name, line)
		end
	end
	txn:done(reply)
end

core.register_action("weir", { "http-req" }, function(txn)
	local answer = core.httpclient():get({ url = authorize, headers = told(txn), timeout = wait_ms + timeout_ms // tries })
	local status = answer and answer.status or 0
	if status >= 400 and status < 500 then
		pass_on(txn, answer)
	elseif status >= 200 and status < 300 then
		txn:set_var("txn.weir_answered", true)
		if answer.headers["ratelimit"] then
			txn:set_var("txn.weir_limit", answer.headers["ratelimit"][0])
			txn:set_var("txn.weir_policy", answer.headers["ratelimit-policy"][0])
		end
	end
end)
