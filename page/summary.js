// summary.js: the server as a whole, in a row of numbers, and how long it takes.
"use strict";

const LATENCIES = [
	["decision", "a decision", "How long the table takes, of one call in 16"],
	["answer", "an answer", "From when a request arrived until its answer was written, if it was neither denied nor delayed"],
	["throttled", "a throttled answer", "The same of requests that were denied, delayed or held back"],
	["wait", "a wait", "How long a take that waits at the server was held back"],
];

/** Rates of two counters between two documents; null if there is nothing to compare with. */
function requestRates(live, before) {
	const span = before ? live.at - before.at : 0;
	const isSame = span > 0 && live.uptime_s >= before.uptime_s;
	return Object.fromEntries(Object.keys(live.requests_total).map(wire => [wire,
		isSame ? Math.max(0, (live.requests_total[wire] - before.requests_total[wire]) / span) : null]));
}

/** Requests of the last second as wholes, { allowed, rejected, delayed, isRough }: of a server that does not look at them what
 * limits have decided that are enforced, of which a request may meet several. */
function requestsOf(live, past) {
	if (live.all)
		return { ...Object.fromEntries(KINDS.map(kind => [kind, live.all[kind].at(-1)])), isRough: false };
	const enforced = live.limits.filter(({ mode }) => mode === "enforce").map(({ name }) => past.of(name));
	const sum = kind => enforced.reduce((sum, series) => sum + (series[kind].at(-1) ?? 0), 0);
	return { allowed: sum("allowed"), rejected: sum("rejected"), delayed: null, isRough: true };
}

const GAVE_WAY_S = 120; // for which it is told that keys gave way

// Each: its name, and what it tells as [number, the rest in small, whether something is wrong].
const TILES = [
	["Requests/s", ({ rates }) => {
		const wires = Object.entries(rates);
		const isKnown = wires.every(([, rate]) => rate !== null);
		return [isKnown ? formatCount(wires.reduce((sum, [, rate]) => sum + rate, 0)) : "–",
			isKnown ? wires.map(([wire, rate]) => `${wire.toUpperCase()} ${formatCount(rate)}`).join(", ") : ""];
	}],
	["Allowed/s", ({ requests: { allowed, rejected, isRough } }) => [formatCount(allowed),
		isRough ? "by limits: observe is off" : `of ${formatCount(allowed + rejected)} decided`]],
	["Rejected/s", ({ requests: { allowed, rejected, isRough } }) => [formatCount(rejected),
		`${formatShare(rejected, rejected + allowed)}${isRough ? " by limits" : ""}`]],
	["Delayed/s", ({ requests }) => requests.delayed === null ? ["–", "observe is off"] : [formatCount(requests.delayed), "of what was allowed"]],
	["Connections", ({ live: { connections } }) => [
		formatCount(Object.values(connections).reduce((sum, n) => sum + n, 0)),
		Object.entries(connections).map(([wire, n]) => `${wire.toUpperCase()} ${formatCount(n)}`).join(", ")]],
	["Keys", ({ live: { table }, gaveWay }) => [formatCount(table.live_keys),
		gaveWay > 0 ? `${formatCount(gaveWay)} gave way just now` :
			`${formatShare(table.live_keys, table.capacity_keys)} of ${shorts.format(table.capacity_keys)}`, gaveWay > 0]],
	["Store", ({ live: { store } }) => store === null ? ["memory", "of this server"] :
		[store.state, `${store.nodes} ${store.nodes === 1 ? "server" : "servers"}` +
			(store.owed_keys > 0 ? `, ${formatCount(store.owed_keys)} keys owe` : ""), store.state !== "up"]],
	["Policy", ({ live: { policy } }) => policy === null ? ["none", "limits come with requests"] :
		[`${formatCount(policy.limits)} ${policy.limits === 1 ? "limit" : "limits"}`,
			policy.refused ? "the latest is refused" :
				policy.changes > 0 ? `changed ${formatCount(policy.changes)} ${policy.changes === 1 ? "time" : "times"}` : "unchanged", policy.refused]],
];

class Summary {
	#before = null;
	#gaveWay = []; // [at, total], the oldest first
	#tiles = TILES.map(([name, tell]) => ({ tell, value: make("b"), rest: make("small"), name }));
	#rows = new Map();

	constructor() {
		byId("summary").append(...this.#tiles.map(({ name, value, rest }) =>
			make("div", {}, make("dt", {}, name), make("dd", {}, value, rest))));
		for (const [kind, name, title] of LATENCIES) {
			const cells = Array.from({ length: 4 }, () => make("td", {}, "–"));
			byId("latency").append(make("tr", {}, make("th", { scope: "row", title }, name), ...cells));
			this.#rows.set(kind, cells);
		}
	}

	/** How many keys gave way while this page looked, if that is not long ago. */
	#gaveWayLately({ at, uptime_s, table: { gave_way_total } }) {
		if (this.#before && uptime_s < this.#before.uptime_s)
			this.#gaveWay = []; // the server was started anew
		this.#gaveWay = [...this.#gaveWay.filter(([then]) => then > at - GAVE_WAY_S), [at, gave_way_total]];
		return gave_way_total - this.#gaveWay[0][1];
	}

	show(live, past) {
		const rates = requestRates(live, this.#before), requests = requestsOf(live, past), gaveWay = this.#gaveWayLately(live);
		for (const { tell, value, rest } of this.#tiles) {
			const [number, more, isWrong = false] = tell({ live, rates, requests, gaveWay });
			setText(value, number);
			setText(rest, more);
			rest.classList.toggle("wrong", isWrong);
		}
		for (const [kind, cells] of this.#rows) {
			const { n, p50, p99, p999 } = live.latency?.[kind] ?? { n: 0 };
			[...[p50, p99, p999].map(seconds => n > 0 ? formatLatency(seconds) : "–"), formatCount(n)]
				.forEach((text, i) => setText(cells[i], text));
		}
		this.#before = live;
	}
}
