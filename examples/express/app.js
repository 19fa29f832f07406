// An Express service that asks Weir about each request, over persistent connections: fetch reuses those whose answers
// were read.
//
//     weir serve --config examples/proxies/weir.yaml
//     cd examples/express && npm ci && node app.js
//
// Behind a proxy, app.set("trust proxy", ...) says whose X-Forwarded-For Express believes.
const express = require("express");

const weir = process.env.WEIR || "http://127.0.0.1:8080";
const headers = ["ratelimit", "ratelimit-policy", "retry-after"];

async function limit(request, response, next) {
	const attributes = { ip: request.ip, method: request.method, path: request.path };
	const key = request.get("x-api-key");
	if (key !== undefined) attributes.api_key = key;
	let answer, body;
	try {
		answer = await fetch(`${weir}/v1/check`, {
			method: "POST",
			headers: { "content-type": "application/json" },
			body: JSON.stringify({ attributes }),
			signal: AbortSignal.timeout(500),
		});
		body = await answer.text();
	} catch {
		return next(); // if Weir is down, all requests get in
	}
	for (const name of headers) if (answer.headers.has(name)) response.set(name, answer.headers.get(name));
	// Denied, or cannot be decided: malformed requests get no further.
	if (answer.status < 400 || answer.status >= 500) return next();
	response.status(answer.status).type("application/problem+json").send(body);
}

const app = express();
app.use(limit);
app.all("*", (request, response) => response.json({ hello: "world" }));
const server = app.listen(Number(process.env.PORT || 3000), "127.0.0.1", () => {
	console.log(`listening at 127.0.0.1:${server.address().port}`);
});
