// An Express service that calls Weir for each request. fetch keeps the connections and reuses them.
//
//     weir serve --config examples/proxies/weir.yaml
//     cd examples/express && npm ci && node app.js
//
// Behind a proxy, call app.set("trust proxy", ...) with the address of the proxy whose X-Forwarded-For Express shall trust.
const express = require("express");

const weir = process.env.WEIR || "http://127.0.0.1:8080";
const waitMs = Number(process.env.WEIR_WAIT_MS || 0); // how long Weir may hold a response back for a limit that delays; 0: not at all
const failsOpen = process.env.WEIR_FAIL !== "closed"; // what to do if Weir is down
const headers = ["ratelimit", "ratelimit-policy", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

// Returns the response, its body and the decision in it; null if Weir is down. The decision is null if Weir returns an error.
async function check(attributes) {
	try {
		const checked = await fetch(`${weir}/v1/check`, {
			method: "POST",
			headers: { "content-type": "application/json" },
			body: JSON.stringify(waitMs > 0 ? { attributes, wait: `${waitMs}ms` } : { attributes }),
			signal: AbortSignal.timeout(500 + waitMs),
		});
		const body = await checked.json();
		const decision = typeof body?.allowed === "boolean" ? body : null;
		// If a limit fails closed, the response is a 503 with "allowed": false: a decision, not an outage.
		return decision === null && checked.status >= 500 ? null : { checked, body, decision };
	} catch {
		return null;
	}
}

async function limit(request, response, next) {
	const attributes = { ip: request.ip, method: request.method, path: request.path };
	const key = request.get("x-api-key");
	if (key !== undefined) attributes.api_key = key;
	const result = await check(attributes);
	if (result === null) return failsOpen ? next() : response.set("retry-after", "1").sendStatus(503);
	const { checked, body, decision } = result;
	for (const name of headers) if (checked.headers.has(name)) response.set(name, checked.headers.get(name));
	if (!decision?.allowed) {
		// A request that Weir cannot decide is denied, too. limits and shadow_denied are not for clients: they tell how many other
		// limits there are.
		const { limits, shadow_denied, ...problem } = body;
		return response.status(checked.status).type("application/problem+json").send(JSON.stringify(problem));
	}
	// The delay of limits with a queue; 0 if Weir has waited already.
	if (decision.delay_ns > 0) await new Promise((resolve) => setTimeout(resolve, decision.delay_ns / 1e6));
	next();
}

const app = express();
app.use(limit);
app.all("*", (request, response) => response.json({ hello: "world" }));
const server = app.listen(Number(process.env.PORT || 3000), "127.0.0.1", () => {
	console.log(`listening at 127.0.0.1:${server.address().port}`);
});
