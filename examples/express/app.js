// An Express service that asks Weir about each request, over persistent connections: fetch reuses those whose answers
// were read.
//
//     weir serve --config examples/proxies/weir.yaml
//     cd examples/express && npm ci && node app.js
//
// Behind a proxy, app.set("trust proxy", ...) says whose X-Forwarded-For Express believes.
const express = require("express");

const weir = process.env.WEIR || "http://127.0.0.1:8080";
const waitMs = Number(process.env.WEIR_WAIT_MS || 0); // how long Weir may hold back a request that a limit delays; 0: it does not
const failsOpen = process.env.WEIR_FAIL !== "closed"; // what to do without an answer of Weir
const headers = ["ratelimit", "ratelimit-policy", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

// The answer, its body as JSON and the decision in it; null in an outage. A request that cannot be decided has no decision.
async function ask(attributes) {
	try {
		const answer = await fetch(`${weir}/v1/check`, {
			method: "POST",
			headers: { "content-type": "application/json" },
			body: JSON.stringify(waitMs > 0 ? { attributes, wait: `${waitMs}ms` } : { attributes }),
			signal: AbortSignal.timeout(500 + waitMs),
		});
		const parsed = await answer.json();
		const decision = typeof parsed?.allowed === "boolean" ? parsed : null;
		// A limit that fails closed answers 503 with "allowed": false, which is a decision and not an outage.
		return decision === null && answer.status >= 500 ? null : { answer, parsed, decision };
	} catch {
		return null;
	}
}

async function limit(request, response, next) {
	const attributes = { ip: request.ip, method: request.method, path: request.path };
	const key = request.get("x-api-key");
	if (key !== undefined) attributes.api_key = key;
	const asked = await ask(attributes);
	if (asked === null) return failsOpen ? next() : response.set("retry-after", "1").sendStatus(503);
	const { answer, parsed, decision } = asked;
	for (const name of headers) if (answer.headers.has(name)) response.set(name, answer.headers.get(name));
	if (!decision?.allowed) {
		// Malformed requests get no further. How many other limits there are does not concern visitors.
		const { limits, shadow_denied, ...problem } = parsed;
		return response.status(answer.status).type("application/problem+json").send(JSON.stringify(problem));
	}
	// Limits that shape say how long to wait; 0 if Weir has held it back.
	if (decision.delay_ns > 0) await new Promise((resolve) => setTimeout(resolve, decision.delay_ns / 1e6));
	next();
}

const app = express();
app.use(limit);
app.all("*", (request, response) => response.json({ hello: "world" }));
const server = app.listen(Number(process.env.PORT || 3000), "127.0.0.1", () => {
	console.log(`listening at 127.0.0.1:${server.address().port}`);
});
