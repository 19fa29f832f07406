// screenshots.js: makes the pictures of the live page in docs/pictures, from a server with the load of a shop.
//
//     node screenshots.js WEIR FOLDER OUT
//
// FOLDER keeps playwright-core for the next run. Takes two minutes, because the charts show that much.
"use strict";

const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { fetchPlaywright, launch } = require("./browser.js");
const { Server, sleep, until } = require("./server.js");

const [WEIR, FOLDER, OUT] = process.argv.slice(2);
const LOAD_S = 118; // before the pictures, which fall in a quiet time
const BEAT_MS = 50;
const BYTES_MOST = 150 * 1024;

const POLICY = `
limits:
  - {name: everyone, limit: 20000/s}
  - {name: per-client, key: [ip], limit: 20/s burst 40}
  - {name: per-api-key, key: [api_key], limit: 100/s burst 300}
  - {name: orders-writes, key: [api_key], match: {method: POST, path: /v1/orders/**}, limit: 20/s leaky queue 60}
  - {name: login, key: [ip], match: {path: /login}, limit: 5/min sliding_log}
  - {name: signup-canary, key: [ip], match: {path: /signup}, limit: 10/min sliding_counter, mode: shadow}
`;

// A fixed seed, so that pictures differ only if the page does.
let state = 10;
const random = () => (state = (state * 48271) % 0x7fffffff) / 0x7fffffff;
const pick = n => Math.floor(n * random() ** 3); // a few are used often

/** The load over time: a wave of 44 s, and a peak every minute. */
const tide = seconds => 1 + 0.35 * Math.sin(seconds / 7) + (seconds % 60 > 38 && seconds % 60 < 52 ? 0.8 : 0);

function requestAt(seconds) {
	const ip = `203.0.113.${pick(250)}`, kind = random();
	if (kind < 0.04)
		return { ip: `198.51.100.${pick(12)}`, path: "/login" };
	if (kind < 0.07)
		return { ip, path: "/signup" };
	if (kind < 0.15)
		return { ip, api_key: `key-${pick(3)}`, method: "POST", path: "/v1/orders/new" };
	if (kind < 0.3 && seconds % 60 > 38 && seconds % 60 < 52)
		return { ip: "192.0.2.77", path: "/v1/search" }; // a client that ignores its limit
	return { ip, api_key: `key-${pick(300)}`, path: "/v1/items" };
}

async function load(server, pictures) {
	for (const begin = Date.now(); !pictures.areTaken; await sleep(BEAT_MS)) {
		const now = (Date.now() - begin) / 1000;
		await Promise.all(Array.from({ length: Math.round(20 * tide(now)) }, () => server.request("/v1/check", {
			method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ attributes: requestAt(now) }) })));
	}
}

async function open(browser, server, options) {
	const page = await (await browser.newContext({ ...options, reducedMotion: "reduce" })).newPage();
	await page.goto(server.origin);
	await page.waitForSelector("[data-state=live]");
	return page;
}

const fileOf = name => path.join(OUT, `page-${name}.png`);

/** Uses a palette, because the page has few colours. */
function makeSmall(name) {
	execFileSync("pngquant", ["--force", "--ext", ".png", "--strip", "--speed", "1", fileOf(name)]);
	const { size } = fs.statSync(fileOf(name));
	if (size > BYTES_MOST)
		throw new Error(`${fileOf(name)} has ${size} bytes; ${BYTES_MOST} is what a page of documentation may load`);
}

/** Shows why a client cannot log in, beside the busiest limit. */
async function arrange(page) {
	await page.getByRole("button", { name: "login", exact: true }).click();
	await page.locator("#denied button").first().click();
	await page.getByText("Denied by login.").waitFor();
	await page.getByRole("button", { name: "per-client", exact: true }).click();
	await until("its keys are shown", async () => await page.locator("#busy").getAttribute("data-limit") === "per-client");
	await page.mouse.move(2, 2);
	await page.evaluate(() => {
		document.activeElement.blur();
		scrollTo(0, 0);
	});
}

async function main() {
	const server = new Server(WEIR, POLICY, "service: shop\n");
	await server.start();
	const browser = await launch(fetchPlaywright(FOLDER));
	const pictures = { areTaken: false };
	const loaded = load(server, pictures);
	const wide = { viewport: { width: 1360, height: 900 } };
	const pages = {
		light: await open(browser, server, { ...wide, colorScheme: "light" }),
		dark: await open(browser, server, { ...wide, colorScheme: "dark" }),
		phone: await open(browser, server, { viewport: { width: 375, height: 812 }, deviceScaleFactor: 1.5, colorScheme: "light" }),
	};
	await sleep(LOAD_S * 1000);
	for (const [name, page] of Object.entries(pages)) {
		await arrange(page);
		await page.screenshot({ path: fileOf(name) });
	}
	pictures.areTaken = true;
	await loaded;
	await browser.close();
	await server.close();
	Object.keys(pages).forEach(makeSmall);
}

main().catch(fault => {
	console.error(fault);
	process.exit(1);
});
