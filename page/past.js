// past.js: the last two minutes of each limit, second by second. The page requests only the seconds that are missing
// here. An unknown second is null, which charts show as a gap.
"use strict";

const SECONDS = 120;
const KINDS = ["allowed", "rejected", "delayed"];
const OVERLAP = 3; // seconds that are requested again, since responses take time

class Past {
	#newest = null; // second of Unix time that is the last of each series
	#asked = 0; // when, in ms of this page
	#limits = new Map();
	#before = null; // the last document, for totals

	/** Forgets everything, because the next document has other limits, and all seconds must be requested. */
	forget() {
		this.#newest = null;
		this.#limits = new Map();
	}

	/** The number of seconds to request. */
	missing() {
		if (this.#newest === null)
			return SECONDS;
		return Math.min(SECONDS, Math.ceil((performance.now() - this.#asked) / 1000) + OVERLAP);
	}

	/** Adds the series of a live document. */
	add(live) {
		const newest = Math.floor(live.at) - 1;
		const isSetBack = this.#newest !== null && newest < this.#newest; // the server's clock
		const before = isSetBack ? new Map() : this.#limits;
		const turned = isSetBack ? 0 : Math.min(SECONDS, newest - (this.#newest ?? newest));
		this.#newest = newest;
		this.#asked = performance.now();
		this.#limits = new Map();
		for (const limit of live.limits) {
			const series = before.get(limit.name) ?? emptySeries();
			turn(series, turned);
			if (live.all === null)
				fillInRates(series, ratesOf(limit, this.#before, live), turned);
			else
				fillIn(series, limit.series, Math.min(live.seconds, Math.ceil(live.uptime_s)));
			this.#limits.set(limit.name, series);
		}
		this.#before = live;
	}

	/** The seconds of the series, oldest first. */
	times() {
		return Array.from({ length: SECONDS }, (_, i) => this.#newest - SECONDS + 1 + i);
	}

	/** { allowed, rejected, delayed } of a limit, SECONDS numbers each. */
	of(name) {
		return this.#limits.get(name) ?? emptySeries();
	}
}

const emptySeries = () => Object.fromEntries(KINDS.map(kind => [kind, new Array(SECONDS).fill(null)]));

function turn(series, n) {
	for (const kind of KINDS)
		series[kind].copyWithin(0, n).fill(null, SECONDS - n);
}

/** Copies the last `seconds` of each series. A limit without series had no requests in that time. */
function fillIn(series, told, seconds) {
	for (const kind of KINDS)
		for (let back = 1; back <= seconds; back++)
			series[kind][SECONDS - back] = told ? told[kind].at(-back) ?? null : 0;
}

/** The growth of a limit's totals in a second, if observe is off. null: no earlier document to compare with. */
function ratesOf(limit, before, live) {
	const then = before?.limits.find(({ name }) => name === limit.name), seconds = before ? live.at - before.at : 0;
	if (!then || seconds <= 0 || live.uptime_s < before.uptime_s)
		return null;
	const rate = total => Math.max(0, (limit[total] - then[total]) / seconds);
	return { allowed: rate("allowed_total"), rejected: rate("rejected_total"), delayed: null };
}

function fillInRates(series, rates, seconds) {
	for (const kind of KINDS)
		series[kind].fill(rates?.[kind] ?? null, SECONDS - Math.max(1, seconds));
}

/** The sum of the last seconds of a series. */
const sumOf = (values, seconds) => values.slice(-seconds).reduce((sum, value) => sum + (value ?? 0), 0);
