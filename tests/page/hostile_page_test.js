// hostile_page_test.js: other websites, in a real Chromium, cannot use a server without users.
//
//     node hostile_page_test.js WEIR FOLDER
//
// FOLDER keeps playwright-core for the next run. Each attack uses what a web page can do. Then the test checks on the
// server that nothing was charged, given back, changed or read.
// Covers: src/server/http/http_origin.c
"use strict";

const assert = require("node:assert/strict");
const http = require("node:http");
const { launch, fetchPlaywright } = require("./browser.js");
const { Server } = require("./server.js");

const [WEIR, FOLDER] = process.argv.slice(2);
const POLICY = "limits:\n  - {name: per-user, key: [user], limit: 100/4000day}\n";
const PATHS = ["/v1/check?user=victim", "/v1/limits", "/v1/live", "/v1/policy", "/v1/explain?user=victim", "/v1/keys/@per-user/victim", "/metrics", "/openapi.json"];
const TAKE = JSON.stringify({ limit: "@per-user", key: "victim", cost: 1 });
const JSON_TYPE = { "Content-Type": "application/json" };

/** Another website, with an empty page. */
async function otherSite() {
	const site = http.createServer((request, answer) => answer.setHeader("Content-Type", "text/html").end("<!doctype html><body></body>"));
	await new Promise(resolve => site.listen(0, "127.0.0.1", resolve));
	return site;
}

async function remaining(server) {
	return (await server.json("/v1/keys/@per-user/victim")).remaining;
}

/** Sends all requests that a page can send with fetch. Returns the statuses, null where the page may not read one. */
function fetchAll(page, base, mode) {
	return page.evaluate(async ({ base, mode, paths, take, type }) => {
		const requests = paths.map(path => [path, {}]);
		for (const [path, body] of [["/v1/take", take], ["/v1/check", '{"attributes": {"user": "victim"}}'], ["/json", "{}"], ["/v1/release", '{"id": "x"}']])
			for (const headers of mode === "same-origin" ? [type] : [{ "Content-Type": "text/plain" }, type])
				requests.push([path, { method: "POST", body, headers }]);
		for (const method of mode === "no-cors" ? [] : ["PUT", "DELETE"])
			requests.push([method === "PUT" ? "/v1/limits/per-user" : "/v1/keys/@per-user/victim", { method, body: method === "PUT" ? '{"limit": "1/s"}' : undefined, headers: type }]);
		return Promise.all(requests.map(([path, options]) => fetch(base + path, { ...options, mode, credentials: "include" }).then(answer => answer.status || null, () => null)));
	}, { base, mode, paths: PATHS, take: TAKE, type: JSON_TYPE });
}

/** Loads by elements, submits forms and opens links. */
function embedAll(page, base) {
	return page.evaluate(async ({ base, take }) => {
		const target = `${base}/v1/check?user=victim`;
		const loaded = ["img", "script", "iframe", "link"].map(kind => new Promise(resolve => {
			const element = document.createElement(kind);
			element.onload = element.onerror = resolve;
			if (kind === "link")
				element.rel = "stylesheet";
			element[kind === "link" ? "href" : "src"] = target;
			document.body.append(element);
		}));
		await Promise.all(loaded);
		navigator.sendBeacon(`${base}/v1/take`, take);
		for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
			const frame = document.createElement("iframe"), form = document.createElement("form"), field = document.createElement("input");
			frame.name = `frame-${type}`;
			Object.assign(form, { method: "post", enctype: type, action: `${base}/json`, target: frame.name });
			Object.assign(field, { name: '{"domain": "a", "x', value: '": 1}' });
			form.append(field);
			const answered = new Promise(resolve => frame.onload = resolve);
			document.body.append(frame, form);
			form.submit();
			await answered;
		}
	}, { base, take: TAKE });
}

async function main() {
	const server = new Server(WEIR, POLICY), site = await otherSite();
	let browser;
	try {
		await server.start();
		const { port } = new URL(server.origin), sitePort = site.address().port;
		browser = await launch(fetchPlaywright(FOLDER), ["--host-resolver-rules=MAP evil.example 127.0.0.1"]);
		await server.json("/v1/take", { method: "POST", headers: JSON_TYPE, body: TAKE });
		assert.equal(await remaining(server), 99);

		// another origin: another site, and another port of the same one
		for (const origin of [`http://evil.example:${sitePort}`, `http://localhost:${sitePort}`])
			for (const base of [`http://127.0.0.1:${port}`, `http://localhost:${port}`]) {
				const page = await browser.newPage();
				await page.goto(origin);
				assert.deepEqual(new Set(await fetchAll(page, base, "cors")), new Set([null]));
				assert.deepEqual(new Set(await fetchAll(page, base, "no-cors")), new Set([null]));
				await embedAll(page, base);
				await page.goto(`${base}/v1/check?user=victim`).catch(() => null); // typed: not an attack, and charged
				await page.close();
			}
		const typed = 4;
		assert.equal(await remaining(server), 99 - typed);
		console.log("ok    pages of other origins charge and read nothing");

		// the same origin, by a name that leads here (DNS rebinding)
		const page = await browser.newPage();
		await page.goto(`http://evil.example:${port}/`);
		assert.deepEqual(new Set(await fetchAll(page, "", "same-origin")), new Set([403]));
		await page.close();
		assert.equal(await remaining(server), 99 - typed);
		console.log("ok    a page whose name leads here charges and reads nothing");

		// a link to the live page
		const linked = await browser.newPage();
		await linked.goto(`http://localhost:${sitePort}`);
		await Promise.all([linked.waitForURL(`${server.origin}/`), linked.evaluate(url => location.assign(url), `${server.origin}/`)]);
		await linked.waitForSelector("[data-state=live]");
		console.log("ok    a link to the live page works");
	} finally {
		await browser?.close();
		site.close();
		await server.close();
	}
}

main().catch(fault => {
	process.exitCode = 1;
	console.log(`FAIL  ${fault.stack}`);
});
