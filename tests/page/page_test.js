// page_test.js: the live page, in a real Chromium, with a real server.
//
//     node page_test.js WEIR FOLDER
//
// FOLDER keeps playwright-core for the next run. In every test, the page may send requests only to its server, and the
// console must have no errors.
// Covers: src/server/http/http_page.c
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const zlib = require("node:zlib");
const { launch, fetchPlaywright } = require("./browser.js");
const { Server, until } = require("./server.js");

const [WEIR, FOLDER] = process.argv.slice(2);
const AT_ONCE = 3;

const POLICY = `
limits:
  - {name: everyone, limit: 50000/s}
  - {name: per-client, key: [ip], limit: 5/hour}
  - {name: brief, key: [api_key], limit: 1/3s}
  - {name: per-path, key: [user, path], limit: 100/s}
  - {name: canary, key: [ip], limit: 2/hour sliding_log, mode: shadow}
`;

async function withServer(policy, settings, run) {
	const server = new Server(WEIR, policy, settings);
	try {
		await server.start();
		return await run(server);
	} finally {
		await server.close();
	}
}

let browser;

/** Opens a new tab. `mayFail`: failed requests are part of the test. */
async function withPage(server, options, run) {
	const { mayFail = false, ...settings } = options;
	const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, ...settings });
	const page = await context.newPage(), faults = [], urls = [];
	await context.route(url => url.origin !== server.origin, route => {
		faults.push(`asks ${route.request().url()}`);
		return route.abort();
	});
	page.on("request", request => urls.push(request.url()));
	page.on("pageerror", fault => faults.push(fault.stack));
	page.on("console", message => {
		if (["error", "warning"].includes(message.type()) && !(mayFail && message.text().startsWith("Failed to load resource")))
			faults.push(message.text());
	});
	try {
		await page.goto(server.origin);
		const told = await run(page, urls);
		assert.deepEqual(faults, []);
		return told;
	} finally {
		await context.close();
	}
}

const isLive = page => page.waitForSelector("[data-state=live]");
const row = (page, name) => page.locator("#limits tbody tr", { has: page.getByRole("button", { name, exact: true }) });

// --- by plain HTTP ---------------------------------------------------------------------------------------------------

async function itIsServedWell() {
	await withServer(POLICY, "", async server => {
		const { status, headers, body } = await server.request("/");
		const html = body.toString(), policy = headers["content-security-policy"];
		assert.equal(status, 200);
		assert.equal(headers["content-type"], "text/html; charset=utf-8");
		assert.equal(headers["x-content-type-options"], "nosniff");
		assert.equal(headers["referrer-policy"], "no-referrer");
		assert.equal(headers["cache-control"], "no-cache");
		assert.match(policy, /^default-src 'none';/);
		assert.doesNotMatch(policy, /unsafe|\*|https?:/);
		const scripts = [...html.matchAll(/<(script|style)>([^]*?)<\/\1>/g)];
		assert.equal(scripts.length, 3);
		for (const [, , text] of scripts)
			assert.ok(policy.includes(`'sha256-${crypto.createHash("sha256").update(text).digest("base64")}'`));
		assert.doesNotMatch(html, /\ssrc=|<link rel="stylesheet"|@import/);
		assert.match(html, /The MIT License[^]*Leon Sorokin/);

		const head = await server.request("/", { method: "HEAD" });
		assert.deepEqual([head.status, head.body.length, head.headers["content-length"]], [200, 0, String(body.length)]);
		assert.equal((await server.request("/", { method: "POST" })).status, 405);
	});
}

async function itIsSentOnce() {
	await withServer(POLICY, "", async server => {
		const ask = headers => server.request("/", { headers });
		const plain = await ask({}), small = await ask({ "Accept-Encoding": "br, GZIP;q=0.5" });
		const tags = [plain, small].map(answer => answer.headers.etag);
		assert.equal(small.headers["content-encoding"], "gzip");
		assert.equal(small.headers.vary, "Accept-Encoding");
		assert.deepEqual(zlib.gunzipSync(small.body), plain.body);
		assert.notEqual(tags[0], tags[1]);
		for (const accepted of ["gzip;q=0", "gzip; q=0.000", "gzip;a=b;q=0", "br", "*", "xgzip", "gzipx", ""])
			assert.equal((await ask({ "Accept-Encoding": accepted })).headers["content-encoding"], undefined, accepted);
		for (const accepted of ["gzip", "deflate, gzip", "gzip ; q=1", "gzip;q=0.1"])
			assert.equal((await ask({ "Accept-Encoding": accepted })).headers["content-encoding"], "gzip", accepted);

		for (const known of [tags[0], `W/${tags[0]}`, `"a", ${tags[0]}`, `"a",${tags[0]} , "b"`, "*"]) {
			const { status, headers, body } = await ask({ "If-None-Match": known });
			assert.deepEqual([status, body.length, headers.etag], [304, 0, tags[0]], known);
			assert.equal(headers["content-length"], undefined);
		}
		for (const known of [tags[1], '"a"', tags[0].slice(1, -1), tags[0].slice(0, -1), "W/", ","])
			assert.equal((await ask({ "If-None-Match": known })).status, 200, known);
		assert.equal((await ask({ "If-None-Match": tags[1], "Accept-Encoding": "gzip" })).status, 304);
	});
}

// --- in the browser --------------------------------------------------------------------------------------------------

/** Sends requests until it is stopped, from many clients of which some are denied. */
function load(server) {
	let isOn = true;
	const run = async () => {
		for (let i = 0; isOn; i++)
			await server.check({ ip: `203.0.113.${i % 40}`, user: `user-${i % 7}`, path: "/" });
	};
	const done = run();
	return () => {
		isOn = false;
		return done;
	};
}

async function numbersAreThoseOfTheServer() {
	return withServer(POLICY, "", server => withPage(server, {}, async page => {
		const stop = load(server), limit = async () => (await server.json("/v1/live?limit=per-client")).limits[0];
		try {
			await until("rejections are shown", async () => await row(page, "per-client").locator("td.rejected:not(.nought)").count());
			await until("rejections are many", async () => { // a few would be less than a pixel high
				const { allowed_total, rejected_total } = await limit();
				return rejected_total > allowed_total;
			});
		} finally {
			await stop();
		}
		await row(page, "per-client").getByRole("button").click();
		// After a second without decisions, all decisions have been reported.
		await until("the last second is shown", async () => (await page.locator("#detail-facts dd").first().textContent()) ===
			(await limit()).allowed_total.toLocaleString("en") && await row(page, "per-client").locator("td.rejected.nought").count() > 0);
		const shown = await page.evaluate(() => ({ times: past.times(), series: past.of("per-client") }));
		const live = await server.json("/v1/live?seconds=120&limit=per-client");
		const newest = Math.floor(live.at) - 1;
		let n = 0;
		for (const kind of ["allowed", "rejected", "delayed"])
			shown.times.forEach((second, i) => {
				const told = live.limits[0].series[kind].at(-1 - (newest - second));
				if (shown.series[kind][i] !== null && second > newest - 120)
					assert.equal(shown.series[kind][i], told, `${kind} at ${second}`);
				n += shown.series[kind][i] ?? 0;
			});
		assert.ok(n > 40, n);
		for (const canvas of ["#chart canvas", "#limits .chosen canvas"])
			await until(`rejections are painted in ${canvas}: ${JSON.stringify(shown.series.rejected)}`, async () => await paintedIn(page, canvas, "rejected") > 0);
		const latency = page.locator("#latency tr").nth(1).locator("td").last();
		await until("latencies are shown", async () => Number((await latency.textContent()).replaceAll(",", "")) > 0);
		await until("the busiest keys are shown", async () => await page.locator("#busy li").count() === 10);
		return `${n} decisions`;
	}));
}

/** Counts the pixels of a canvas that have about this colour. Edges are blended, and values rounded. */
function paintedIn(page, selector, colour) {
	return page.evaluate(([selector, colour]) => {
		const canvas = document.querySelector(selector), [r, g, b] = colourOf(colour).match(/\d+/g).map(Number);
		const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d"); // a second read of one canvas warns
		copy.drawImage(canvas, 0, 0);
		const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
		let n = 0;
		for (let i = 0; i < data.length; i += 4)
			n += data[i + 3] > 64 && Math.max(Math.abs(data[i] - r), Math.abs(data[i + 1] - g), Math.abs(data[i + 2] - b)) < 8;
		return n;
	}, [selector, colour]);
}

/** Includes the newest second, and one before a gap. */
async function aSecondIsDrawnWhereverItIs() {
	await withServer(POLICY, "", server => withPage(server, {}, async page => {
		await isLive(page);
		const painted = [];
		for (const tail of [[5, 0, 0], [5, null, 0], [null, 5, null], [null, null, 5]]) {
			await page.evaluate(tail => {
				const place = document.body.appendChild(make("div", { id: "trial" }));
				const times = past.times(), before = new Array(times.length - tail.length).fill(null);
				const nought = [...before, ...tail.map(n => n && 0)];
				place.style.width = "600px";
				new Chart(place, () => {}).draw(times, { allowed: nought, rejected: [...before, ...tail], delayed: nought }, false, "a trial");
			}, tail);
			await until(`${JSON.stringify(tail)} is painted`, async () => await paintedIn(page, "#trial canvas", "rejected") > 0);
			painted.push(await paintedIn(page, "#trial canvas", "rejected"));
			await page.evaluate(() => byId("trial").remove());
		}
		assert.ok(Math.max(...painted) < 1.5 * Math.min(...painted), painted); // rounded to whole pixels
	}));
}

async function aRefusalIsExplained() {
	await withServer(POLICY, "", server => withPage(server, {}, async page => {
		for (let i = 0; i < 8; i++)
			await server.check({ ip: "203.0.113.9" });
		await row(page, "per-client").getByRole("button").click();
		await page.locator("#denied").getByRole("button", { name: "203.0.113.9" }).click();
		const verdict = page.locator(".verdict");
		await verdict.getByText("Denied by per-client.").waitFor();
		assert.deepEqual(await page.locator(".attribute input").evaluateAll(inputs => inputs.map(input => input.value)), ["ip", "203.0.113.9"]);
		assert.match(await verdict.textContent(), /Retry in (11|12) min \d+ s\.$/);
		const findings = await page.locator(".findings li").allTextContents();
		assert.equal(findings.length, 3);
		assert.match(findings[0], /^per-client5\/hour · ip=203\.0\.113\.90 of 5 left\. Denies\. Allows it again in 1[12] min \d+ s, at [\d:]+\.Reset$/);
		assert.match(findings[2], /^canary.*0 of 2 left\. Would deny, but is in shadow\./);
		const before = await verdict.textContent();
		await until("it counts down", async () => await verdict.textContent() !== before);
		const [first, second] = [before, await verdict.textContent()].map(text => text.match(/(\d+) min (\d+) s/)).map(([, minutes, seconds]) => 60 * minutes + +seconds);
		assert.ok(second < first, `${first} ${second}`);
		assert.equal((await server.check({ ip: "203.0.113.9" })).remaining, 0);

		// The page says when to retry without a further click.
		await page.locator(".attribute input").first().fill("api_key");
		await page.locator(".attribute input").last().fill("k");
		await until("it is seen within the time in which it is refused", async () => {
			await server.check({ api_key: "k" });
			await page.keyboard.press("Enter");
			return verdict.getByText("Denied by brief.").waitFor({ timeout: 2500 }).then(() => true, () => false);
		});
		await verdict.getByText("This request would be allowed now.").waitFor();
	}));
}

/** What a limit has left if the known attributes of a key do not match it, and the key's history. */
async function aKeyIsExplainedWithoutItsRequests() {
	const policy = "limits:\n  - {name: everyone, limit: 50000/s}\n  - {name: logins, key: [user, net], match: {method: POST, path: /login}, limit: 2/hour}\n" +
		"  - {name: per-user, key: [user], match: {method: POST}, limit: 3/hour}\n";
	const asked = { user: "ann", net: "home", method: "POST", path: "/login" };
	await withServer(policy, "", server => withPage(server, { viewport: { width: 390, height: 844 } }, async page => {
		for (let i = 0; i < 6; i++)
			await server.check(asked);
		await row(page, "logins").getByRole("button").click();
		await page.locator("#denied").getByRole("button", { name: "user=ann net=home" }).click();
		const verdict = page.locator(".verdict"), past = page.locator(".past");
		await verdict.getByText("Denied by logins.").waitFor();
		assert.match(await past.textContent(), /^Denied 4 times since [\d:]+ by logins\.$/);
		assert.match(await page.locator(".findings li").first().textContent(), /For requests that it applies to: 0 of 2 left\. Denies\./);
		await until("the verdict is on the screen", () => verdict.evaluate(element => {
			const { top, bottom } = element.getBoundingClientRect();
			return top >= 0 && bottom <= innerHeight;
		}));
		await server.check(asked);
		await past.getByText("5 times").waitFor(); // of the key itself
		await row(page, "per-user").getByRole("button").click();
		await page.locator("#busy").getByRole("button", { name: "user=ann" }).click();
		await page.locator(".findings li", { hasText: "per-user" }).getByText("1 of 3 left").waitFor();
	}));
}

async function aLimitSaysHowServersAgreeOnIt() {
	const policy = "limits:\n  - {name: leased, key: [user], limit: 100/s burst 1000, consistency: lease}\n" +
		"  - {name: few, key: [user], limit: 5/min, consistency: lease}\n  - {name: usual, key: [user], limit: 100/s}\n" +
		"  - {name: later, key: [user], limit: 100/s, consistency: eventual}\n";
	// Redis is not reachable, which changes nothing about how limits are leased.
	await withServer(policy, "store: redis://127.0.0.1:1\n", server => withPage(server, {}, async page => {
		for (const [name, words] of [["leased", "leased, servers hold at most 50 units of a key"], ["few", "exact"], ["usual", "exact"],
			["later", "eventual, servers exceed it by at most 0 units of a key"]]) {
			await row(page, name).getByRole("button").click();
			await page.locator("#detail-text").getByText(new RegExp(`· key: user · ${words}$`)).waitFor();
		}
	}));
}

async function aChangedLimitSaysWhoChangedIt() {
	await withServer(POLICY, "", server => withPage(server, {}, async page => {
		await row(page, "per-client").getByRole("button").click();
		await page.locator("#detail-text").getByText("key: ip").waitFor();
		assert.doesNotMatch(await page.locator("#detail-text").textContent(), /changed/);
		await server.json("/v1/limits/per-client", { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ limit: "7/hour" }) });
		await page.locator("#detail-text").getByText(/^7\/hour · .* · changed by 127\.0\.0\.1 at \d+ \w+ 20\d\d, \d\d:\d\d:\d\d$/).waitFor();
	}));
}

async function keysOfRequestsLimitsAreExplained() {
	await withServer(null, "", server => withPage(server, { mayFail: true }, async page => {
		const long = "k".repeat(70);
		for (const key of ["me too", "me too", `${long}a`, `${long}b`])
			await server.take("1/hour", key);
		await row(page, "(inline)").getByRole("button").click();
		await page.locator("#detail-text").getByText("keys of inline limits").waitFor();
		await page.locator("#denied").getByRole("button", { name: "me too" }).click();
		await page.locator("#findings").getByText("WEIR.INSPECT \"me too\" '10/min'").waitFor();
		assert.match(await page.locator(".past").textContent(), /^Denied 1 time since [\d:]+ by \(inline\)\.$/);
		await until("long keys are told apart", async () => new Set(await page.locator("#busy .hash").allTextContents()).size === 2);
		await page.getByRole("button", { name: "Look", exact: true }).click();
		await page.locator("#findings").getByText("This server has no policy").waitFor();
		await page.locator("#findings").getByText("WEIR.INSPECT KEY").waitFor();
	}));
}

const tile = (page, name) => page.locator("#summary > div", { has: page.locator("dt", { hasText: name }) });

/** Of each client one of four requests is allowed, however many limits apply. */
async function requestsAreToldAsWholes() {
	const policy = "limits:\n  - {name: everyone, limit: 50000/s}\n  - {name: per-client, key: [ip], limit: 1/hour}\n  - {name: dark, key: [ip], limit: 1/day, mode: shadow}\n";
	for (const settings of ["", "observe: off\n"])
		await withServer(policy, settings, server => withPage(server, {}, async page => {
			let isOn = true;
			const run = async () => {
				for (let i = 0; isOn; i++)
					await server.check({ ip: `10.${i >> 18}.${i >> 10 & 255}.${i >> 2 & 255}` });
			};
			const done = run();
			try {
				// With observe off the page only knows totals by limit: two limits allow what is
				// allowed, 2 of 5.
				await tile(page, "Denied/s").getByText(settings ? /^60 % by limits$/ : /^75 %$/).waitFor({ timeout: 30_000 });
				await until("so much is allowed", async () => Number((await tile(page, "Allowed/s").locator("b").textContent()).replaceAll(",", "")) > 0);
				await row(page, "per-client").locator("td.rejected:not(.nought)").waitFor();
			} finally {
				isOn = false;
				await done;
			}
		}));
}

async function requestsThatMatchNoLimitAreShown() {
	await withServer("limits:\n  - {name: per-user, key: [user], limit: 5/s}\n", "", server => withPage(server, {}, async page => {
		await tile(page, "Policy").getByText("unchanged").waitFor();
		await server.check({ usr: "ann" });
		await tile(page, "Policy").locator(".wrong", { hasText: /^1 request matched no limit$/ }).waitFor();
		await server.check({ usr: "ann" });
		await tile(page, "Policy").locator(".wrong", { hasText: /^2 requests matched no limit$/ }).waitFor();
	}));
}

async function whatIsNoLongerWrongIsNotRed() {
	await withServer(POLICY, "", server => withPage(server, {}, async page => {
		await tile(page, "Policy").getByText("unchanged").waitFor();
		server.write(`${POLICY}  - {name: canary, limit: 1/s}\n`);
		await tile(page, "Policy").locator(".wrong", { hasText: "the latest has errors" }).waitFor();
		server.write(`${POLICY}  - {name: another, limit: 1/s}\n`);
		await tile(page, "Policy").getByText("changed 1 time").waitFor();
		assert.equal(await page.locator("#summary .wrong").count(), 0);

		// Evicted keys are shown for a while. The test feeds the page documents as a server would send them.
		await page.getByRole("button", { name: "Pause" }).click();
		const told = (seconds, evicted_total) => page.evaluate(([seconds, evicted_total]) =>
			summary.show({ ...live, at: live.at + seconds, table: { ...live.table, evicted_total } }, past), [seconds, evicted_total]);
		await told(1, 7);
		await told(2, 12);
		assert.equal(await tile(page, "Keys").locator(".wrong").textContent(), "12 evicted just now");
		await told(60, 12);
		assert.equal(await tile(page, "Keys").locator(".wrong").count(), 1);
		await told(200, 12);
		assert.equal(await tile(page, "Keys").locator(".wrong").count(), 0);
		await page.evaluate(() => summary.show({ ...live, at: live.at + 201, table: { ...live.table, evicted_total: 12, folded_total: 3 } }, past));
		assert.equal(await tile(page, "Keys").locator(".wrong").textContent(), "3 folded just now: the arena is full");
	}));
}

async function limitsThatAreLeftOutAreFound() {
	const policy = "limits:\n" + Array.from({ length: 300 }, (_, i) => `  - {name: limit-${i}, key: [user], match: {path: /${i}}, limit: ${i + 1}/hour}\n`).join("");
	await withServer(policy, "", server => withPage(server, {}, async page => {
		const names = () => page.locator("#limits tbody button").allTextContents();
		await page.locator("#left-out").getByText(/more limits/).waitFor();
		await page.getByRole("button", { name: "Pause" }).click();
		await page.getByRole("searchbox").fill("limit-29");
		await page.getByRole("searchbox").fill("limit-299");
		await page.getByText(/No match among these limits.* more limits are not shown/).waitFor();
		await page.getByRole("button", { name: "Resume" }).click();
		await until("it is found", async () => (await names()).join() === "limit-299");
		await page.getByRole("searchbox").fill("");
		await until("all are back", async () => (await names()).length > 190);
	}));
}

async function aTokenIsAskedFor() {
	const settings = "users:\n  ann: {role: admin, token: the-token-of-ann-0123456789}\n  bob: {role: decide, token: the-token-of-bob-0123456789}\n";
	await withServer(POLICY, settings, server => withPage(server, { mayFail: true }, async (page, urls) => {
		const give = async token => {
			await page.getByLabel("Token", { exact: true }).fill(token);
			await page.getByRole("button", { name: "Use it" }).click();
		};
		await page.getByRole("dialog").waitFor();
		assert.equal(await page.locator("#token-fault").textContent(), "");
		await give("a-wrong-token");
		await page.getByText("The server does not know this token.").waitFor();
		await give("the-token-of-bob-0123456789");
		await page.getByText("The user of this token does not have the role read.").waitFor();
		await page.keyboard.press("Escape");
		await page.getByRole("button", { name: "Give a token" }).click();
		await give("the-token-of-ann-0123456789");
		await isLive(page);
		await page.locator("#limits-empty code", { hasText: "curl -H \"Authorization: Bearer $TOKEN\" 'http" }).waitFor();
		await page.locator("#trouble").waitFor({ state: "hidden" });
		await page.locator(".attribute input").first().fill("cost");
		await page.locator(".attribute input").last().fill("much");
		await page.getByRole("button", { name: "Look" }).click();
		await page.locator(".verdict.fault", { hasText: "cost" }).waitFor(); // the server's message
		await page.reload();
		await isLive(page); // the token is kept for this tab
		assert.ok(urls.every(url => !url.includes("token-of")));
		assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 1); // the theme only
		await page.getByRole("button", { name: "Forget token" }).click();
		await page.getByRole("dialog").waitFor();
	}));
}

async function aRestartIsSurvived() {
	await withServer(POLICY, "", server => withPage(server, { mayFail: true }, async page => {
		await server.check({ ip: "203.0.113.9" });
		await isLive(page);
		await page.evaluate(() => window.isSamePage = true);
		await server.end();
		await page.getByText("The server does not respond").waitFor();
		await page.getByRole("button", { name: "Retry now" }).click();
		await page.waitForSelector("[data-state=away]");
		await server.start();
		await isLive(page);
		await server.check({ ip: "203.0.113.10" });
		await row(page, "per-client").getByRole("button").click();
		await page.locator("#busy").getByText("203.0.113.10").waitFor();
		assert.equal(await page.locator("#trouble").isVisible(), false);
		assert.ok(await page.evaluate(() => window.isSamePage));
	}));
}

async function namesAreText() {
	const hostile = '<img src=x onerror="window.isHacked = true">';
	const policy = `domain: shop\ndescriptors:\n  - key: user\n    value: ${JSON.stringify(hostile)}\n    rate_limit: {unit: hour, requests_per_unit: 1}\n` +
		"  - key: client\n    rate_limit: {unit: hour, requests_per_unit: 1}\n";
	await withServer(policy, "service: \"<b>a</b> \\u202edneired\"\n", server => withPage(server, {}, async page => {
		const values = [hostile, "line\nline", "\u202egnp.exe", "</script><script>window.isHacked = true</script>", "é ש"];
		const entries = [{ key: "user", value: hostile }, ...values.flatMap(value => [1, 2].map(() => ({ key: "client", value })))];
		for (const entry of entries)
			await server.request("/json", { method: "POST", body: JSON.stringify({ domain: "shop", descriptors: [{ entries: [entry] }] }) });
		await page.locator("#limits tbody tr", { hasText: "<img src=x" }).waitFor();
		await page.locator("#limits tbody tr", { hasText: "client" }).getByRole("button").click();
		await page.locator("#denied li", { hasText: "<img\\x20src=x" }).waitFor(); // a space that could end a value is escaped
		await page.locator("#denied li", { hasText: "</script>" }).waitFor();
		const text = await page.evaluate(() => document.body.innerText);
		assert.ok(text.includes("é ש"), text);
		assert.doesNotMatch(text, /[\u202a-\u202e]/);
		assert.match(await page.locator("#service").textContent(), /^<b>a<\/b> \\u202edneired$/);
		assert.equal(await page.locator("img, b > b, #service b").count(), 0);
		assert.equal(await page.evaluate(() => window.isHacked), undefined);
	}));
}

async function limitsAreFoundAndSorted() {
	const policy = "limits:\n" + Array.from({ length: 150 }, (_, i) => `  - {name: limit-${i}, key: [user], match: {path: /${i}}, limit: ${i + 1}/hour}\n`).join("");
	await withServer(policy, "", server => withPage(server, {}, async page => {
		const names = () => page.locator("#limits tbody button").allTextContents();
		await page.getByText("No decisions yet.").waitFor();
		assert.match(await page.locator("#limits-empty code").textContent(), /^curl 'http:\/\/127\.0\.0\.1:\d+\/v1\/check\?ip=/);
		for (let i = 0; i < 20; i++)
			await server.check({ user: "ann", path: i < 15 ? "/3" : "/140" });
		await until("the busiest are first", async () => (await names()).slice(0, 2).join() === "limit-3,limit-140");
		assert.equal((await names()).length, 150);
		assert.ok(await page.locator("#limits canvas").count() < 60); // what is seen
		assert.equal(await page.locator("#limits-empty").isVisible(), false);
		await row(page, "limit-3").locator("td.share").getByText("73 %", { exact: true }).waitFor();

		await page.getByRole("columnheader", { name: "Limit" }).getByRole("button").click();
		assert.equal((await names())[1], "limit-1");
		assert.equal(await page.locator("th[aria-sort=ascending]").textContent(), "Limit");
		await page.getByRole("searchbox").fill("LIMIT-14");
		assert.deepEqual(await names(), ["limit-14", ...Array.from({ length: 10 }, (_, i) => `limit-14${i}`)]);
		await page.getByRole("searchbox").fill("nothing");
		await page.getByText("No limit matches").waitFor();
		await page.getByRole("searchbox").fill("limit-140");

		// By the keyboard.
		await page.getByRole("button", { name: "limit-140" }).focus();
		await page.keyboard.press("Enter");
		assert.equal(await page.locator("#detail-title").textContent(), "limit-140");
		assert.equal(await page.locator("[aria-pressed=true].name").textContent(), "limit-140");

		await page.getByRole("button", { name: "Pause" }).click();
		const before = await page.evaluate(() => past.times().at(-1));
		assert.match(await page.locator("#state").textContent(), /^paused at [\d:]+$/);
		await server.check({ user: "ann", path: "/140" });
		await until("two seconds have passed", async () => (await server.json("/v1/live")).at > before + 3);
		assert.equal(await page.evaluate(() => past.times().at(-1)), before);
		await page.getByRole("button", { name: "Resume" }).click();
		await page.locator("#detail-facts dd").first().getByText("6", { exact: true }).waitFor();
	}));
}

/** Text whose contrast with what is behind it is less than 4.5, as [text, ratio]. */
function faintTexts(page) {
	return page.evaluate(() => {
		const numbers = colour => colour.match(/[\d.]+/g).map(Number);
		const luminance = colour => numbers(colour).slice(0, 3).map(part => part / 255)
			.map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
			.reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
		const groundOf = element => {
			const colour = getComputedStyle(element).backgroundColor;
			return numbers(colour)[3] === 0 ? groundOf(element.parentElement) : colour;
		};
		const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (walker.nextNode()) {
			const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
			if (!text || !element.checkVisibility() || element.closest("script, option"))
				continue;
			const [light, dark] = [getComputedStyle(element).color, groundOf(element)].map(luminance).sort((a, b) => b - a);
			const ratio = (light + 0.05) / (dark + 0.05);
			if (ratio < 4.5)
				found.push([text, ratio]);
		}
		return found;
	});
}

async function itFitsAPhoneByDayAndNight() {
	await withServer(POLICY, "", async server => {
		const user = "a-user-with-a-name-that-is-longer-than-a-phone-is-wide".repeat(2);
		const grounds = [];
		for (const [colorScheme, width] of [["light", 320], ["dark", 800], ["light", 1240]])
			await withPage(server, { colorScheme, viewport: { width, height: 640 }, reducedMotion: "reduce" }, async page => {
				for (let i = 0; i < 8; i++)
					await Promise.all([server.check({ ip: "203.0.113.9" }), server.check({ user, path: "/" })]);
				await isLive(page);
				await row(page, "per-path").getByRole("button").click();
				await page.locator("#busy li", { hasText: "a-user" }).waitFor();
				await row(page, "per-client").getByRole("button").click();
				await page.locator("#denied").getByRole("button", { name: "203.0.113.9" }).click();
				await page.getByText("Denied by per-client.").waitFor();
				for (const selector of ["html", ".scroll"])
					assert.ok(await page.locator(selector).evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth), `${selector} at ${width}`);
				assert.deepEqual(await faintTexts(page), [], colorScheme);
				const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
				grounds.push(await ground());
				await page.getByLabel("Theme").selectOption(colorScheme === "light" ? "dark" : "light");
				assert.notEqual(await ground(), grounds.at(-1));
				assert.deepEqual(await faintTexts(page), [], `the other than ${colorScheme}`);
			});
		assert.equal(new Set(grounds).size, 2);
	});
}

const WIDTHS = [320, 390, 768, 1000, 1280, 1920];

/** Nothing is wider than its place, once charts have the size of theirs. */
function fits(page, width) {
	return until(`all is as wide as its place at ${width}`, () => page.evaluate(() =>
		[...document.querySelectorAll("html, .scroll, .tiles > div, .tiles b, .panel, .head, .bar, #limits tbody tr, #limits td")]
			.every(element => !element.checkVisibility() || element.scrollWidth <= element.clientWidth + 1)));
}

/** Rows of tiles have as many each, from the narrowest phone to the widest screen. */
async function noTileIsAlone() {
	await withServer(POLICY, "", server => withPage(server, { viewport: { width: 320, height: 844 } }, async page => {
		await isLive(page);
		const seen = new Set();
		for (const width of [...WIDTHS, ...Array.from({ length: 85 }, (_, i) => 320 + 20 * i), 599, 600, 1099, 1100]) {
			await page.setViewportSize({ width, height: 844 });
			const rows = await page.evaluate(() => [...document.querySelectorAll(".tiles > div")].map(tile => Math.round(tile.getBoundingClientRect().top))
				.reduce((rows, top) => rows.set(top, (rows.get(top) ?? 0) + 1), new Map()).values().toArray());
			assert.equal(new Set(rows).size, 1, `${rows} at ${width}`);
			assert.ok(rows[0] > 1, `${rows} at ${width}`);
			seen.add(rows[0]);
			if (WIDTHS.includes(width))
				await fits(page, width);
		}
		assert.deepEqual([...seen].sort(), [2, 4, 8]);
	}));
}

/** The longest name that a policy may have, and a longer one, as another server might send it. */
async function longNamesFit() {
	const forty = "a-limit-whose-name-is-forty-letters-long", long = "a-name-without-end-".repeat(11).slice(0, 200);
	assert.equal(forty.length, 40);
	await withServer(`limits:\n  - {name: ${forty}, key: [ip], limit: 5/hour, mode: shadow}\n  - {name: brief, limit: 7/hour}\n`, "", server => withPage(server, { mayFail: true }, async page => {
		await row(page, forty).waitFor();
		await page.getByRole("button", { name: "Pause" }).click();
		for (const name of [forty, long]) {
			await page.evaluate(([forty, name]) => show({ ...live, limits: live.limits.map(limit => limit.name === forty ? { ...limit, name } : limit) }), [forty, name]);
			const button = row(page, name).getByRole("button");
			assert.equal(await button.getAttribute("title"), name);
			for (const width of WIDTHS) {
				await page.setViewportSize({ width, height: 844 });
				await fits(page, width);
				const [whole, text, spark] = await Promise.all([row(page, name), button, row(page, name).locator(".spark")].map(place => place.boundingBox()));
				assert.ok(text.x + text.width <= spark.x, `the name and the chart meet at ${width}`);
				assert.ok(text.height < 50 && whole.height < 140, `${text.height} of ${whole.height} at ${width}`);
				assert.ok(spark.width >= 80 && spark.width < whole.width * 0.45, `the chart is ${spark.width} of ${whole.width} wide at ${width}`);
			}
		}
	}));
}

async function aPhoneShowsTheChartAtOnce() {
	await withServer(POLICY, "", server => withPage(server, { viewport: { width: 390, height: 844 } }, async page => {
		await server.check({ ip: "203.0.113.9", user: "ann", path: "/", api_key: "k" });
		await page.locator("#chart canvas").waitFor();
		await until("all limits have rows", async () => await page.locator("#limits tbody tr").count() === 5);
		const [tiles, chart] = await Promise.all([page.locator(".tiles"), page.locator("#chart")].map(place => place.boundingBox()));
		assert.ok(tiles.y + tiles.height < 240, `tiles end at ${tiles.y + tiles.height}`);
		assert.ok(chart.y < 844 - 90, `the chart begins at ${chart.y}`);
	}));
}

/** Pixels of a canvas: those of a colour, and those between them in the same column that show what is behind. */
function stripesIn(page, selector, colour) {
	return page.evaluate(([selector, colour]) => {
		const canvas = document.querySelector(selector), [r, g, b] = colourOf(colour).match(/\d+/g).map(Number);
		const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
		copy.drawImage(canvas, 0, 0);
		const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
		const isInked = i => data[i + 3] > 128 && Math.max(Math.abs(data[i] - r), Math.abs(data[i + 1] - g), Math.abs(data[i + 2] - b)) < 24;
		let inked = 0, clear = 0;
		for (let x = 0; x < canvas.width; x++) {
			const column = Array.from({ length: canvas.height }, (_, y) => 4 * (y * canvas.width + x));
			const first = column.findIndex(isInked), last = column.findLastIndex(isInked);
			if (first >= 0)
				for (const i of column.slice(first, last + 1)) {
					inked += isInked(i);
					clear += data[i + 3] < 64;
				}
		}
		return { inked, clear };
	}, [selector, colour]);
}

/** What a limit in shadow would deny has another colour, stripes, and words of its own. */
async function shadowsLookDifferent() {
	await withServer("limits:\n  - {name: real, key: [ip], limit: 1/hour}\n  - {name: canary, key: [user], limit: 1/hour, mode: shadow}\n", "", server => withPage(server, {}, async page => {
		let isOn = true;
		const done = (async () => {
			while (isOn)
				await Promise.all([server.check({ ip: "203.0.113.9" }), server.check({ user: "ann" })]);
		})();
		try {
			const cell = name => row(page, name).locator("td.rejected:not(.nought)");
			const colour = place => place.evaluate(element => getComputedStyle(element).color);
			await cell("canary").waitFor();
			await cell("real").waitFor();
			assert.notEqual(await colour(cell("canary")), await colour(cell("real")));
			assert.match(await cell("canary").innerText(), /would deny/);
			assert.doesNotMatch(await cell("real").innerText(), /would/);
			await row(page, "canary").getByRole("button").click();
			await page.locator("#legend").getByText("would be denied").waitFor();
			await page.locator("#detail-facts").getByText("would be denied in total").waitFor();
			await page.getByText("Top keys by denials in shadow").waitFor();
			const swatch = () => page.locator("#legend .rejected i").evaluate(element => getComputedStyle(element).backgroundImage);
			assert.match(await swatch(), /gradient/);
			for (const canvas of ["#chart canvas", "#limits .chosen canvas"])
				await until(`${canvas} is striped`, async () => {
					const { inked, clear } = await stripesIn(page, canvas, "shadow");
					return inked > 30 && clear > inked / 4 && await paintedIn(page, canvas, "rejected") === 0;
				});
			await row(page, "real").getByRole("button").click();
			await page.locator("#legend").getByText("denied", { exact: true }).waitFor();
			assert.equal(await swatch(), "none");
			await until("what is denied is solid", async () => {
				const { inked, clear } = await stripesIn(page, "#chart canvas", "rejected");
				return inked > 30 && clear < inked / 20;
			});
		} finally {
			isOn = false;
			await done;
		}
	}));
}

async function chartsAreToldInWords() {
	await withServer(POLICY, "", server => withPage(server, {}, async page => {
		for (let i = 0; i < 8; i++)
			await server.check({ ip: "203.0.113.9" });
		await row(page, "canary").getByRole("button").click();
		await until("its sums are told", async () => (await page.locator("#chart canvas").getAttribute("aria-label") ?? "").includes("2 allowed, 3 would be denied, 0 delayed."));
		await until("each row has its chart", async () => await page.locator("#limits canvas").count() === 5);
		const told = await page.locator("canvas").evaluateAll(canvases => canvases.map(canvas => [canvas.getAttribute("role"), canvas.ariaLabel, canvas.closest("[aria-hidden=true]") === null]));
		assert.equal(told.length, 6);
		for (const [role, label, isTold] of told) {
			assert.ok(role === "img" && isTold, `${role} ${label}`);
			assert.match(label, /^[\w-]+, second by second\. At [\d:]+: \d+ allowed, \d+ (would be )?denied, \d+ delayed\. In the last two minutes: \d+ allowed, \d+ (would be )?denied, \d+ delayed\.$/);
		}
		assert.equal(new Set(told.map(([, label]) => label.split(",")[0])).size, 5);
		assert.ok(await page.getByRole("img", { name: /^per-client, .* 5 allowed, 3 denied/ }).count() > 0); // as a screen reader finds it
	}));
}

async function aKeyIsReset() {
	const settings = "users:\n  ann: {role: admin, token: the-token-of-ann-0123456789}\n  bob: {role: decide, token: the-token-of-bob-0123456789}\n";
	const as = name => ({ headers: { Authorization: `Bearer the-token-of-${name}-0123456789` } });
	const policy = "limits:\n  - {name: everyone, limit: 100/hour}\n  - {name: logins, key: [user, net], limit: 2/hour}\n";
	const asked = new URLSearchParams({ user: "ann <b>", net: "home" });
	await withServer(policy, settings, server => withPage(server, { mayFail: true }, async page => {
		const left = async () => (await server.json(`/v1/live/key?${asked}`, as("ann"))).limits.map(({ name, remaining }) => `${name} ${remaining}`).sort().join();
		const dialog = page.getByRole("dialog", { name: "Reset this key?" }), finding = name => page.locator(".findings li", { hasText: name });
		for (let i = 0; i < 4; i++)
			await server.json(`/v1/check?${asked}`, as("ann"));
		await page.getByLabel("Token", { exact: true }).fill("the-token-of-ann-0123456789");
		await page.getByRole("button", { name: "Use it" }).click();
		await row(page, "logins").getByRole("button").click();
		await page.locator("#denied").getByRole("button", { name: "ann" }).click();
		await page.getByText("Denied by logins.").waitFor();
		assert.equal(await left(), "everyone 98,logins 0");

		// Not by chance: by Enter, by Escape, or by Cancel.
		await finding("logins").getByRole("button", { name: "Reset" }).click();
		await dialog.getByText("The limit logins is reset for user=ann").waitFor();
		await page.keyboard.press("Enter");
		await dialog.waitFor({ state: "hidden" });
		await finding("logins").getByRole("button", { name: "Reset" }).click();
		await page.keyboard.press("Escape");
		await dialog.waitFor({ state: "hidden" });
		assert.equal(await left(), "everyone 98,logins 0");

		await finding("logins").getByRole("button", { name: "Reset" }).click();
		await dialog.getByRole("button", { name: "Reset" }).click();
		await page.locator(".done", { hasText: /^user=ann.* net=home of logins: reset at [\d:]+\.$/ }).waitFor();
		await page.getByText("This request would be allowed now.").waitFor();
		assert.equal(await left(), "everyone 98,logins 2");
		assert.equal(await finding("logins").getByRole("button", { name: "Reset" }).count(), 0); // nothing of it is used
		await finding("everyone").getByRole("button", { name: "Reset all requests of everyone" }).click();
		await dialog.getByRole("button", { name: "Reset" }).click();
		await page.locator(".done", { hasText: /^All requests together of everyone: reset at/ }).waitFor();
		assert.equal(await left(), "everyone 100,logins 2");

		// The server says who may. The page shows what it says, and offers it no more.
		await server.json(`/v1/check?${asked}`, as("ann"));
		await page.locator("#denied").getByRole("button", { name: "ann" }).click();
		await finding("logins").getByText("1 of 2 left").waitFor();
		await page.getByRole("button", { name: "Pause" }).click();
		await page.evaluate(() => token.set("the-token-of-bob-0123456789"));
		const { detail } = await server.json("/v1/keys/@logins/user=x%20net=y", { method: "DELETE", ...as("bob") });
		await finding("logins").getByRole("button", { name: "Reset" }).click();
		await dialog.getByRole("button", { name: "Reset" }).click();
		await dialog.getByText(detail, { exact: true }).waitFor();
		assert.ok(await dialog.getByRole("button", { name: "Reset" }).isDisabled());
		await dialog.getByRole("button", { name: "Cancel" }).click();
		assert.equal(await left(), "everyone 99,logins 1");
	}));
}

async function whatIsNotKnownIsSaid() {
	await withServer(POLICY, "observe: off\n", server => withPage(server, {}, async page => {
		await server.check({ ip: "203.0.113.9" });
		await page.getByText("This server does not observe its decisions").waitFor();
		await row(page, "per-client").getByRole("button").click();
		await page.locator("#detail-facts dd").first().getByText("1", { exact: true }).waitFor(); // totals are counted all the same
		assert.deepEqual(await page.locator("#latency td").allTextContents(), Array(4).fill(["–", "–", "–", "0"]).flat());
	}));
}

const TESTS = [
	["it is served well", itIsServedWell],
	["it is sent once, and small", itIsSentOnce],
	["numbers are those of the server", numbersAreThoseOfTheServer],
	["a second is drawn wherever it is", aSecondIsDrawnWhereverItIs],
	["a refusal is explained, and counts down", aRefusalIsExplained],
	["a key is explained without its requests", aKeyIsExplainedWithoutItsRequests],
	["a limit says how servers agree on it", aLimitSaysHowServersAgreeOnIt],
	["a changed limit says who changed it", aChangedLimitSaysWhoChangedIt],
	["keys of inline limits are explained", keysOfRequestsLimitsAreExplained],
	["requests are told as wholes", requestsAreToldAsWholes],
	["requests that match no limit are shown", requestsThatMatchNoLimitAreShown],
	["what was mended is not red", whatIsNoLongerWrongIsNotRed],
	["limits that are left out are found", limitsThatAreLeftOutAreFound],
	["a token is asked for", aTokenIsAskedFor],
	["a restart is survived", aRestartIsSurvived],
	["names are text", namesAreText],
	["limits are found and sorted", limitsAreFoundAndSorted],
	["what is not known is said", whatIsNotKnownIsSaid],
	["it fits a phone, by day and night", itFitsAPhoneByDayAndNight],
	["no tile is alone", noTileIsAlone],
	["long names fit", longNamesFit],
	["a phone shows the chart at once", aPhoneShowsTheChartAtOnce],
	["shadows look different", shadowsLookDifferent],
	["charts are told in words", chartsAreToldInWords],
	["a key is reset", aKeyIsReset],
];

async function runOne([name, test]) {
	try {
		const told = await test();
		console.log(`ok    ${name}${told ? `: ${told}` : ""}`);
	} catch (fault) {
		process.exitCode = 1;
		console.log(`FAIL  ${name}: ${fault.stack}`);
	}
}

/** Some at a time, each with a server and a tab of its own: most of the time seconds are waited for. */
async function main() {
	const waiting = [...TESTS];
	const runAll = async () => {
		while (waiting.length > 0)
			await runOne(waiting.shift());
	};
	browser = await launch(fetchPlaywright(FOLDER));
	await Promise.all(Array.from({ length: AT_ONCE }, runAll));
	await browser.close();
}

main();
