// server.js: the server that has sent this page, which is the only one that is ever asked.
"use strict";

const ANSWER_MS = 10_000; // that an answer may take
const AWAY_MOST_S = 15; // between two tries while the server does not answer

/** The server has answered, and not with what was asked for. */
class Refusal extends Error {
	constructor(status, detail) {
		super(detail);
		this.status = status;
	}
}

/** The token of who looks, which lasts as long as this tab. It is sent in a header alone: addresses are logged and kept. */
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

/** What the server answers, as JSON. Paths begin where the page is, which may be behind a proxy. Throws a Refusal, or another
 * error if the server does not answer. */
async function ask(path) {
	const headers = { Accept: "application/json" };
	if (token.get() !== null)
		headers.Authorization = `Bearer ${token.get()}`;
	const answer = await fetch(path, { headers, cache: "no-store", credentials: "omit", redirect: "error",
		signal: AbortSignal.timeout(ANSWER_MS) });
	if (answer.ok)
		return answer.json();
	const problem = await answer.json().catch(() => ({}));
	throw new Refusal(answer.status, problem.detail ?? `the server has answered ${answer.status}`);
}

/** Asks for the live document once a second, while somebody looks and it is not paused. When the server does not answer,
 * less and less often. `onDocument(document)`, `onRefused(refusal)` and `onAway(what the server says instead, or null)` tell. */
class Watch {
	#past;
	#tell;
	#timer = 0;
	#isAsking = false;
	#failures = 0;
	filter = ""; // of names of limits, by the server
	#isStopped = false; // by the reader: paused; or by a refusal, until the token is another one

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

	/** Returns for how long to wait. */
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

/** A second is told once it is whole: so the next one is asked for shortly after its end. */
function untilNextSecond(at) {
	const rest = 1.05 - at % 1;
	return rest < 0.5 ? rest + 1 : rest;
}
