-- weir.lua: calls Weir before HAProxy passes a request on. The client gets Weir's response to a denied request: a 429 with
-- its headers and body.
local authorize = "http://127.0.0.1:8080/v1/authorize"
local timeout_ms = 500
local wait_ms = 0 -- the longest wait of the policy's limits: 5000 for wait: 5s
local tries = 4 -- HAProxy 2.6 always tries four times, each with its own timeout

-- Returns all values of a header as a list. HAProxy numbers them from 0.
local function values(headers, name)
	local from_zero, list = headers[name] or {}, {}
	for i = 0, #from_zero do
		list[#list + 1] = from_zero[i]
	end
	return list
end

-- Weir gets only the headers named here.
local function forwarded(txn)
	local headers = txn.http:req_get_headers()
	local chain = values(headers, "x-forwarded-for")
	chain[#chain + 1] = txn.sf:src()
	return {
		["x-forwarded-method"] = { txn.sf:method() },
		["x-forwarded-uri"] = { txn.sf:pathq() },
		["x-forwarded-host"] = values(headers, "host"),
		["x-forwarded-for"] = chain,
		["x-api-key"] = values(headers, "x-api-key"),
	}
end

local function pass_on(txn, response)
	local reply = txn:reply({ status = response.status, reason = response.reason, body = response.body })
	for _, name in ipairs({ "content-type", "retry-after", "ratelimit", "ratelimit-policy" }) do
		for _, value in ipairs(values(response.headers, name)) do
			reply:add_header(name, value)
		end
	end
	txn:done(reply)
end

core.register_action("weir", { "http-req" }, function(txn)
	local response = core.httpclient():get({ url = authorize, headers = forwarded(txn), timeout = wait_ms + timeout_ms // tries })
	local status = response and response.status or 0
	if status >= 400 and status < 500 then
		pass_on(txn, response)
	elseif status >= 200 and status < 300 then
		txn:set_var("txn.weir_allowed", true)
		if response.headers["ratelimit"] then
			txn:set_var("txn.weir_limit", response.headers["ratelimit"][0])
			txn:set_var("txn.weir_policy", response.headers["ratelimit-policy"][0])
		end
	end
end)
