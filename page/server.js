// server.js: requests to the server that sent this page. The page calls no other server.
"use strict";

const RESPONSE_MS = 10_000; // that a response may take
const AWAY_MOST_S = 15; // between two tries while the server does not respond

/** An error response of the server. */
class Refusal extends Error {
	constructor(status, detail) {
		super(detail);
		this.status = status;
	}
}

/** The reader's token, which lasts as long as this tab. It is sent only in a header, because URLs are logged and
 * stored. */
const token = {
	name: "weir-token",
	get() {
		return sessionStorage.getItem(this.name);
	},
	set(value) {
		sessionStorage.setItem(this.name, value);
	},
	forget() {
		sessionStorage.removeItem(this.name);
	},
};

/** Returns the server's response, as JSON. Paths are relative to the page, which may be behind a proxy. Throws a
 * Refusal, or another error if the server does not respond. */
async function ask(path, method = "GET") {
	const headers = { Accept: "application/json" };
	if (token.get() !== null)
		headers.Authorization = `Bearer ${token.get()}`;
	const response = await fetch(path, { method, headers, cache: "no-store", credentials: "omit", redirect: "error",
		signal: AbortSignal.timeout(RESPONSE_MS) });
	if (response.ok)
		return response.json();
	const problem = await response.json().catch(() => ({}));
	throw new Refusal(response.status, problem.detail ?? `the server responded with ${response.status}`);
}

/** Requests the live document once a second, while the page is visible and not paused. When the server does not
 * respond, it requests less and less often. It calls `onDocument(document)`, `onRefused(refusal)` and `onAway(what the
 * server says instead, or null)`. */
class Watch {
	#past;
	#tell;
	#timer = 0;
	#isAsking = false;
	#failures = 0;
	filter = ""; // by names of limits, applied by the server
	#isStopped = false; // paused by the reader, or by a Refusal until the token changes

	constructor(past, tell) {
		this.#past = past;
		this.#tell = tell;
		document.addEventListener("visibilitychange", () => document.hidden ? clearTimeout(this.#timer) : this.#ask());
	}

	start() {
		this.#isStopped = false;
		this.#ask();
	}

	stop() {
		this.#isStopped = true;
		clearTimeout(this.#timer);
	}

	async #ask() {
		clearTimeout(this.#timer);
		if (this.#isAsking || this.#isStopped || document.hidden)
			return;
		this.#isAsking = true;
		let wait_s;
		try {
			const { filter } = this;
			const live = await ask(`v1/live?keys=0&seconds=${this.#past.missing()}&filter=${encodeURIComponent(filter)}`);
			this.#failures = 0;
			wait_s = filter === this.filter ? untilNextSecond(live.at) : 0;
			if (!this.#isStopped && filter === this.filter)
				this.#tell.onDocument(live);
		} catch (fault) {
			wait_s = this.#fail(fault);
		}
		this.#isAsking = false;
		if (!this.#isStopped)
			this.#timer = setTimeout(() => this.#ask(), wait_s * 1000);
	}

	/** Returns how long to wait. */
	#fail(fault) {
		if (fault instanceof Refusal && (fault.status === 401 || fault.status === 403)) {
			this.stop();
			this.#tell.onRefused(fault);
			return 0;
		}
		this.#tell.onAway(fault instanceof Refusal ? fault.message : null);
		return Math.min(2 ** this.#failures++, AWAY_MOST_S);
	}
}

/** The server reports a second once it is complete, so the next one is requested shortly after its end. */
function untilNextSecond(at) {
	const rest = 1.05 - at % 1;
	return rest < 0.5 ? rest + 1 : rest;
}
