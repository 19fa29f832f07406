-- For wrk: sends GET PATH?api_key=user:N with a random N of KEYS, in a pipeline of DEPTH requests.
--     wrk ... -s bench/serve_http.lua URL -- PATH KEYS DEPTH
local head, tail, joint, keys, depth
local numbers = {}
local random, concat = math.random, table.concat

function init(args)
	head = "GET " .. args[1] .. "?api_key=user:"
	tail = " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	joint = tail .. head
	keys, depth = tonumber(args[2]), tonumber(args[3])
	math.randomseed(os.time())
end

function request()
	for i = 1, depth do
		numbers[i] = random(keys)
	end
	return head .. concat(numbers, joint) .. tail
end
