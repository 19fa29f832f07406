// summary.js: the server in a row of numbers, and its latencies.
"use strict";

const LATENCIES = [
	["decision", "a decision", "Duration of a decision by the table; one call in 16 is timed"],
	["request", "a request", "From when a request arrived until its response was written, if it was neither denied nor delayed"],
	["throttled", "a throttled request", "The same for requests that were denied, delayed or held back"],
	["wait", "a wait", "How long a take that waits at the server was held back"],
];

/** Rates of two counters between two documents. null: no earlier document to compare with. */
function requestRates(live, before) {
	const seconds = before ? live.at - before.at : 0;
	const isSame = seconds > 0 && live.uptime_s >= before.uptime_s;
	return Object.fromEntries(Object.keys(live.requests_total).map(protocol => [protocol,
		isSame ? Math.max(0, (live.requests_total[protocol] - before.requests_total[protocol]) / seconds) : null]));
}

/** Requests of the last second, each counted once: { allowed, rejected, delayed, isRough }. If observe is off, it
 * counts decisions of enforced limits instead, of which a request may have several. */
function requestsOf(live, past) {
	if (live.all)
		return { ...Object.fromEntries(KINDS.map(kind => [kind, live.all[kind].at(-1)])), isRough: false };
	const enforced = live.limits.filter(({ mode }) => mode === "enforce").map(({ name }) => past.of(name));
	const sum = kind => enforced.reduce((sum, series) => sum + (series[kind].at(-1) ?? 0), 0);
	return { allowed: sum("allowed"), rejected: sum("rejected"), delayed: null, isRough: true };
}

const EVICTED_S = 120; // how long the page shows evicted and folded keys

// For each tile, its name and its content as [number, small text, whether something is wrong].
const TILES = [
	["Requests/s", ({ rates }) => {
		const protocols = Object.entries(rates);
		const isKnown = protocols.every(([, rate]) => rate !== null);
		return [isKnown ? formatCount(protocols.reduce((sum, [, rate]) => sum + rate, 0)) : "–",
			isKnown ? protocols.map(([protocol, rate]) => `${protocol.toUpperCase()} ${formatCount(rate)}`).join(", ") : ""];
	}],
	["Allowed/s", ({ requests: { allowed, rejected, isRough } }) => [formatCount(allowed),
		isRough ? "by limits: observe is off" : `of ${formatCount(allowed + rejected)} decided`]],
	["Denied/s", ({ requests: { allowed, rejected, isRough } }) => [formatCount(rejected),
		`${formatShare(rejected, rejected + allowed)}${isRough ? " by limits" : ""}`]],
	["Delayed/s", ({ requests }) => requests.delayed === null ? ["–", "observe is off"] : [formatCount(requests.delayed), "of what was allowed"]],
	["Connections", ({ live: { connections } }) => [
		formatCount(Object.values(connections).reduce((sum, n) => sum + n, 0)),
		Object.entries(connections).map(([protocol, n]) => `${protocol.toUpperCase()} ${formatCount(n)}`).join(", ")]],
	["Keys", ({ live: { table }, evicted, folded }) => [formatCount(table.live_keys),
		evicted > 0 ? `${formatCount(evicted)} evicted just now` :
			folded > 0 ? `${formatCount(folded)} folded just now: the arena is full` :
				`${formatShare(table.live_keys, table.capacity_keys)} of ${shorts.format(table.capacity_keys)}`, evicted > 0 || folded > 0]],
	["Store", ({ live: { store } }) => store === null ? ["memory", "of this server"] :
		[store.state, `${store.nodes} ${store.nodes === 1 ? "server" : "servers"}` +
			(store.deferred_keys > 0 ? `, ${formatCount(store.deferred_keys)} keys with deferred charges` : "") +
			(store.lease_held > 0 ? `, ${formatCount(store.lease_held)} units held` : "") +
			(store.eventual_waiting > 0 ? `, ${formatCount(store.eventual_waiting)} units waiting` : "") + `, ${formatCount(store.calls_per_1000)} calls per 1,000 decisions`, store.state !== "up"]],
	["Policy", ({ live: { policy, unmatched } }) => policy === null ? ["none", "inline limits"] :
		[`${formatCount(policy.limits)} ${policy.limits === 1 ? "limit" : "limits"}`,
			policy.refused ? "the latest has errors" :
				unmatched?.total > 0 ? `${formatCount(unmatched.total)} ${unmatched.total === 1 ? "request" : "requests"} matched no limit` :
				policy.changes > 0 ? `changed ${formatCount(policy.changes)} ${policy.changes === 1 ? "time" : "times"}` : "unchanged", policy.refused || unmatched?.total > 0]],
];

class Summary {
	#before = null;
	#lost = []; // [at, keys evicted, keys folded], the oldest first
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

	/** The numbers of keys that were recently evicted and folded while this page was open. */
	#lostLately({ at, uptime_s, table: { evicted_total, folded_total } }) {
		if (this.#before && uptime_s < this.#before.uptime_s)
			this.#lost = []; // the server was restarted
		this.#lost = [...this.#lost.filter(([then]) => then > at - EVICTED_S), [at, evicted_total, folded_total]];
		const [, evicted, folded] = this.#lost[0];
		return { evicted: evicted_total - evicted, folded: folded_total - folded };
	}

	show(live, past) {
		const rates = requestRates(live, this.#before), requests = requestsOf(live, past), lost = this.#lostLately(live);
		for (const { tell, value, rest } of this.#tiles) {
			const [number, more, isWrong = false] = tell({ live, rates, requests, ...lost });
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
