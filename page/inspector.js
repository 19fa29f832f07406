// inspector.js: shows why a client is denied, and when it may retry. It peeks, so that looking costs the client
// nothing.
"use strict";

const USUAL_NAMES = ["ip", "api_key", "user", "path", "method", "cost"];
const AGAIN_MS = 2000; // between two refreshes of what is shown
const KEPT_KEYS = 64; // that a server tells of a limit

/** The result for one limit, as a sentence. */
function sentenceOf({ denied, mode, capacity, remaining, retry_after_s, reset_after_s, delay_s, applies }) {
	const left = `${applies ? "" : "For requests that it applies to: "}${formatCount(remaining)} of ${formatCount(capacity)} left`;
	if (denied && retry_after_s === null)
		return `${left}. The cost exceeds the limit's capacity: no wait will help.`;
	if (denied)
		return `${left}. ${mode === "shadow" ? "Would deny, but is in shadow" : "Denies"}.`;
	return `${left}.${delay_s > 0 ? ` Allows it with a delay of ${formatSpan(delay_s)}.` : ""}` +
		(reset_after_s > 0 ? ` Full again in ${formatSpan(reset_after_s)}.` : "");
}

/** The denials of a key, if it is among the keys that the limit denied most: { limit, count, error, since }, or
 * null. */
async function denialsOf(limit, key) {
	const alone = await ask(`v1/live?seconds=1&keys=${KEPT_KEYS}&limit=${encodeURIComponent(limit)}`).catch(() => null);
	const top = alone?.limits[0]?.top, entry = top?.denied.find(entry => entry.raw !== null && entry.key === key);
	return entry ? { limit: alone.limits[0], count: entry.count, error: entry.error, since: top.since } : null;
}

const isPaused = () => byId("pause").ariaPressed === "true";

/** Whether to leave the findings unchanged: the page is hidden or paused, or the reader has selected text in them or
 * has focused a button. */
const isLeftAlone = () => document.hidden || isPaused() || byId("findings").matches(":has(:focus-visible)") ||
	!getSelection().isCollapsed && byId("findings").contains(getSelection().anchorNode);

/** Confirms with the reader, then resets a key. The server decides who may. */
class Reset {
	#dialog = byId("reset-dialog");
	#wanted = null; // the limit, as it was found
	#refused = undefined; // the token of a user who may not
	#onDone;

	/** Calls `onDone(what was done, in words)`. */
	constructor(onDone) {
		this.#onDone = onDone;
		byId("reset-cancel").addEventListener("click", () => this.#dialog.close());
		this.#dialog.querySelector("form").addEventListener("submit", event => {
			event.preventDefault();
			this.#run();
		});
	}

	/** A button to reset the key under a limit. Null if the key has used nothing, or the token's user may not reset
	 * it. */
	button(limit) {
		if (limit.algorithm === null || limit.remaining === limit.capacity || token.get() === this.#refused)
			return null;
		const button = make("button", { type: "button", className: "reset" }, "Reset");
		button.ariaLabel = `Reset ${plain(limit.key) || "all requests"} of ${plain(limit.name)}`;
		button.addEventListener("click", () => this.#confirm(limit));
		return button;
	}

	#confirm(limit) {
		this.#wanted = limit;
		setText(byId("reset-limit"), plain(limit.name));
		setText(byId("reset-key"), plain(limit.key) || "all requests together");
		setText(byId("reset-fault"), "");
		byId("reset-confirm").disabled = false;
		this.#dialog.showModal();
		byId("reset-cancel").focus(); // so that Enter alone resets nothing
	}

	async #run() {
		const { name, key } = this.#wanted;
		byId("reset-confirm").disabled = true;
		try {
			const { reset } = await ask(`v1/keys/${encodeURIComponent(`@${name}`)}/${encodeURIComponent(key)}`, "DELETE");
			this.#dialog.close();
			this.#onDone(`${plain(key) || "All requests together"} of ${plain(name)}: ` +
				(reset ? `reset at ${formatTime(Date.now() / 1000)}.` : "nothing was used, so there was nothing to reset."));
		} catch (fault) {
			if (fault instanceof Refusal && fault.status === 403)
				this.#refused = token.get();
			else
				byId("reset-confirm").disabled = false;
			setText(byId("reset-fault"), fault instanceof Refusal ? plain(fault.message) : "The server does not respond.");
		}
	}
}

/** A countdown to an instant, by the browser's clock. */
class Countdown {
	#end;
	#text;

	constructor(seconds) {
		this.#end = performance.now() + seconds * 1000;
		this.#text = document.createTextNode("");
		this.element = make("span", { role: "timer", "aria-live": "off", className: "countdown" }, this.#text);
		this.tick();
	}

	/** Returns false when the countdown is over. */
	tick() {
		const rest = (this.#end - performance.now()) / 1000;
		this.#text.data = formatSpan(Math.max(0, rest));
		return rest > 0;
	}
}

class Inspector {
	#form = byId("inspector");
	#rows = byId("attributes");
	#countdowns = [];
	#timer = 0;
	#again = 0;
	#asked = null; // the question whose result is shown
	#done = null; // the question whose key was reset, and the result
	#reset = new Reset(text => {
		this.#done = { question: this.#asked, text };
		this.#form.querySelector("[type=submit]").focus({ preventScroll: true });
		this.#look(this.#asked);
	});
	#onRefused;

	constructor(onRefused) {
		this.#onRefused = onRefused;
		byId("add-attribute").addEventListener("click", () => this.#addRow("", "").querySelector("input").focus());
		this.#form.addEventListener("submit", event => {
			event.preventDefault();
			this.#look({ attributes: this.#attributes() });
		});
		this.#addRow("ip", "");
		this.suggest([]);
	}

	/** Names that limits have in their keys. */
	suggest(limits) {
		const names = new Set([...limits.flatMap(limit => namesOf(limit.key)), ...USUAL_NAMES]);
		const list = byId("attribute-names");
		if ([...list.options].map(option => option.value).join() !== [...names].join())
			setChildren(list, [...names].map(value => make("option", { value })));
	}

	/** Fills in the form and looks at { attributes, limit, key, raw }: a displayed key of a limit, and the known
	 * attributes of its requests. */
	inspect(question) {
		this.#rows.replaceChildren();
		for (const [name, value] of question.attributes.length > 0 ? question.attributes : [["", ""]])
			this.#addRow(name, value);
		this.#form.scrollIntoView({ block: "nearest" });
		this.#form.querySelector("[type=submit]").focus({ preventScroll: true });
		this.#look(question);
	}

	#addRow(name, value) {
		const row = make("div", { className: "attribute" },
			make("input", { value: name, placeholder: "attribute", "aria-label": "Attribute", spellcheck: false, autocapitalize: "off" }),
			make("span", { "aria-hidden": "true" }, "="),
			make("input", { value, placeholder: "value", "aria-label": "Value", spellcheck: false, autocapitalize: "off" }),
			make("button", { type: "button", "aria-label": "Leave this attribute out" }, "×"));
		row.firstChild.setAttribute("list", "attribute-names");
		row.lastChild.addEventListener("click", () => {
			row.remove();
			if (this.#rows.childElementCount === 0)
				this.#addRow("", "");
			this.#rows.querySelector("input").focus();
		});
		this.#rows.append(row);
		return row;
	}

	/** The attributes of the form that have a name. */
	#attributes() {
		return [...this.#rows.children].map(row => [...row.querySelectorAll("input")].map(input => input.value.trim()))
			.filter(([name]) => name !== "");
	}

	/** The old result stays until the new one is there. Screen readers do not announce automatic refreshes. */
	async #look(question, isAgain = false) {
		this.#stop();
		this.#asked = question;
		byId("findings").ariaLive = isAgain ? "off" : "polite";
		let isRefused = false;
		try {
			const elements = await (question.limit === INLINE ? this.#inline(question) : this.#found(question));
			if (this.#asked !== question) // the reader asked another question meanwhile
				return;
			this.#stop();
			this.#say(...elements());
		} catch (fault) {
			if (this.#asked !== question)
				return;
			if (fault instanceof Refusal && fault.status === 401)
				this.#onRefused(fault);
			if (!isAgain || fault instanceof Refusal) // while the server does not respond, the last result stays
				this.#say(...this.#fault(fault));
			isRefused = fault instanceof Refusal;
		}
		if (!isRefused) { // else it would fail again
			this.#timer = setInterval(() => this.#tick(question), 100);
			this.#again = setInterval(() => isLeftAlone() || this.#look(question, true), AGAIN_MS);
		}
		if (!isAgain && NARROW.matches)
			byId("findings").firstElementChild.scrollIntoView({ block: "center" });
	}

	async #found(question) {
		const { attributes, limit, raw } = question;
		const pointed = raw === undefined ? [] : [["limit", limit], ["raw", raw]];
		const found = await ask(`v1/live/key?${new URLSearchParams([...attributes, ...pointed])}`);
		const past = await Promise.all(found.limits.filter(({ key }) => key !== "").map(({ name, key }) => denialsOf(name, key)));
		const isDenying = limit => limit.denied && limit.mode === "enforce";
		const denying = found.limits.filter(isDenying), others = found.limits.filter(limit => !isDenying(limit));
		const done = this.#done?.question === question ? [make("p", { className: "done" }, this.#done.text)] : [];
		return () => [...done, ...this.#past(past), this.#verdict(found, denying),
			make("ul", { className: "findings" }, ...[...denying, ...others].map(limit => this.#finding(limit))),
			make("p", { className: "note" }, `As of ${formatTime(Date.now() / 1000)}.`)];
	}

	/** Only the client that sends the requests knows which inline limits a key has. */
	async #inline({ key }) {
		const past = await denialsOf(INLINE, key);
		return () => [...this.#past([past]), ...this.#howToLook("The limit of this key is inline: each request states it.", key)];
	}

	#howToLook(why, key) {
		return [make("p", { className: "verdict" }, `${why} To look at it, say the limit, too:`),
			make("p", {}, make("code", {}, "WEIR.INSPECT ", make("bdi", {}, quoted(key)), " '10/min'"))];
	}

	/** Shows past denials, above the current result. */
	#past(denials) {
		return denials.filter(Boolean).map(({ limit, count, error, since }) => make("p", { className: "past" },
			limit.mode === "enforce" ? "Denied " : "Would have been denied ",
			make("b", {}, `${error > 0 ? "at most " : ""}${formatCount(count)} ${count === 1 ? "time" : "times"}`),
			` since ${formatTime(since)} by `, make("bdi", {}, plain(limit.name)), limit.mode === "enforce" ? "." : ", which is in shadow."));
	}

	#fault(fault) {
		if (fault instanceof Refusal && fault.status === 409) // without a policy
			return this.#howToLook("This server has no policy: each request states its limit inline.", "KEY");
		return [make("p", { className: "verdict fault" }, fault instanceof Refusal ? plain(fault.message) : "The server does not respond.")];
	}

	#verdict(found, denying) {
		if (found.limits.length === 0)
			return make("p", { className: "verdict" }, "No limit applies to this request: it is allowed.");
		if (denying.length === 0)
			return make("p", { className: "verdict good" }, "This request would be allowed now.");
		const names = denying.flatMap((limit, i) => [i === 0 ? "" : ", ", make("bdi", {}, plain(limit.name))]);
		const verdict = make("p", { className: "verdict bad" }, "Denied by ", ...names, ". ");
		if (denying.some(limit => limit.retry_after_s === null))
			verdict.append("No wait will help: the cost exceeds the limit's capacity.");
		else
			verdict.append("Retry in ", this.#countDown(Math.max(...denying.map(limit => limit.retry_after_s))), ".");
		return verdict;
	}

	#finding(limit) {
		const finding = make("li", { className: limit.denied ? limit.mode === "enforce" ? "bad" : "watched" : "good" },
			make("b", {}, make("bdi", {}, plain(limit.name))),
			make("span", { className: "text" }, make("bdi", {}, [limit.limit, limit.key].filter(Boolean).map(plain).join(" · "))),
			make("span", { className: "says" }, sentenceOf(limit)));
		if (limit.denied && limit.retry_after_s !== null)
			finding.lastChild.append(" Allows it again in ", this.#countDown(limit.retry_after_s), `, at ${formatTime(Date.now() / 1000 + limit.retry_after_s)}.`);
		finding.append(...[this.#reset.button(limit)].filter(Boolean));
		return finding;
	}

	#countDown(seconds) {
		const countdown = new Countdown(seconds);
		this.#countdowns.push(countdown);
		return countdown.element;
	}

	/** When a countdown ends, the result is out of date. */
	#tick(question) {
		if (!this.#countdowns.map(countdown => countdown.tick()).every(Boolean))
			this.#look(question, true);
	}

	#say(...elements) {
		byId("findings").replaceChildren(...elements);
	}

	#stop() {
		clearInterval(this.#timer);
		clearInterval(this.#again);
		this.#countdowns = [];
	}
}

/** A key as a word of redis-cli, which reads text in double quotes as C does. */
const quoted = key => /^[\w:.@/-]+$/.test(key) ? key : `"${key.replaceAll("\"", "\\\"")}"`;
