// inspector.js: why a client is refused, and when it may come back. Peeks, so that looking costs the client nothing.
"use strict";

const USUAL_NAMES = ["ip", "api_key", "user", "path", "method", "cost"];
const AGAIN_MS = 2000; // between two looks at what is shown
const KEPT_KEYS = 64; // that a server tells of a limit

/** What is found out about one limit, as a sentence. */
function sentenceOf({ denied, mode, capacity, remaining, retry_after_s, reset_after_s, delay_s, applies }) {
	const left = `${applies ? "" : "For requests that it applies to: "}${formatCount(remaining)} of ${formatCount(capacity)} left`;
	if (denied && retry_after_s === null)
		return `${left}. It never has as much as is asked for: no wait will help.`;
	if (denied)
		return `${left}. ${mode === "shadow" ? "Would refuse, but only watches" : "Refuses"}.`;
	return `${left}.${delay_s > 0 ? ` Lets through after ${formatSpan(delay_s)}.` : ""}` +
		(reset_after_s > 0 ? ` Whole again in ${formatSpan(reset_after_s)}.` : "");
}

/** What has happened to a key of a limit, if it is among those that are rejected most: { limit, count, error, since }, or null. */
async function rejectionsOf(limit, key) {
	const alone = await ask(`v1/live?seconds=1&keys=${KEPT_KEYS}&limit=${encodeURIComponent(limit)}`).catch(() => null);
	const top = alone?.limits[0]?.top, entry = top?.denied.find(entry => entry.raw !== null && entry.key === key);
	return entry ? { limit: alone.limits[0], count: entry.count, error: entry.error, since: top.since } : null;
}

const isPaused = () => byId("pause").ariaPressed === "true";

/** Whether findings stay as they are: nobody sees them, or somebody wants that, or has selected something of them. */
const isLeftAlone = () => document.hidden || isPaused() ||
	!getSelection().isCollapsed && byId("findings").contains(getSelection().anchorNode);

/** A span that runs down to an instant, by the clock of this page. */
class Countdown {
	#end;
	#text;

	constructor(seconds) {
		this.#end = performance.now() + seconds * 1000;
		this.#text = document.createTextNode("");
		this.element = make("span", { role: "timer", "aria-live": "off", className: "countdown" }, this.#text);
		this.tick();
	}

	/** False: it is over. */
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
	#asked = null; // the question whose findings are shown
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

	/** Fills in the form, and looks at { attributes, limit, key, raw }: a key of a limit that was shown, and what is known of its requests. */
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

	/** Those that have a name. */
	#attributes() {
		return [...this.#rows.children].map(row => [...row.querySelectorAll("input")].map(input => input.value.trim()))
			.filter(([name]) => name !== "");
	}

	/** What is shown stays until something else is; what comes of itself is not read out. */
	async #look(question, isAgain = false) {
		this.#stop();
		this.#asked = question;
		byId("findings").ariaLive = isAgain ? "off" : "polite";
		let isRefused = false;
		try {
			const elements = await (question.limit === INLINE ? this.#inline(question) : this.#found(question));
			if (this.#asked !== question) // something else was asked meanwhile
				return;
			this.#stop();
			this.#say(...elements());
		} catch (fault) {
			if (this.#asked !== question)
				return;
			if (fault instanceof Refusal && fault.status === 401)
				this.#onRefused(fault);
			if (!isAgain || fault instanceof Refusal) // while the server is away, what was found stays
				this.#say(...this.#fault(fault));
			isRefused = fault instanceof Refusal;
		}
		if (!isRefused) { // else it would be refused again
			this.#timer = setInterval(() => this.#tick(question), 100);
			this.#again = setInterval(() => isLeftAlone() || this.#look(question, true), AGAIN_MS);
		}
		if (!isAgain && NARROW.matches)
			byId("findings").firstElementChild.scrollIntoView({ block: "center" });
	}

	async #found({ attributes, limit, raw }) {
		const pointed = raw === undefined ? [] : [["limit", limit], ["raw", raw]];
		const found = await ask(`v1/live/key?${new URLSearchParams([...attributes, ...pointed])}`);
		const past = await Promise.all(found.limits.filter(({ key }) => key !== "").map(({ name, key }) => rejectionsOf(name, key)));
		const isRefusing = limit => limit.denied && limit.mode === "enforce";
		const refusing = found.limits.filter(isRefusing), others = found.limits.filter(limit => !isRefusing(limit));
		return () => [...this.#past(past), this.#verdict(found, refusing),
			make("ul", { className: "findings" }, ...[...refusing, ...others].map(limit => this.#finding(limit))),
			make("p", { className: "note" }, `As of ${formatTime(Date.now() / 1000)}.`)];
	}

	/** Which limits such a key has is known to those who ask alone. */
	async #inline({ key }) {
		const past = await rejectionsOf(INLINE, key);
		return () => [...this.#past([past]), ...this.#howToLook("The limit of this key comes with each request.", key)];
	}

	#howToLook(why, key) {
		return [make("p", { className: "verdict" }, `${why} To look at it, say the limit, too:`),
			make("p", {}, make("code", {}, "WEIR.INSPECT ", make("bdi", {}, quoted(key)), " '10/min'"))];
	}

	/** What happened, above what would happen now. */
	#past(rejections) {
		return rejections.filter(Boolean).map(({ limit, count, error, since }) => make("p", { className: "past" },
			limit.mode === "enforce" ? "Rejected " : "Would have been rejected ",
			make("b", {}, `${error > 0 ? "at most " : ""}${formatCount(count)} ${count === 1 ? "time" : "times"}`),
			` since ${formatTime(since)} by `, make("bdi", {}, plain(limit.name)), limit.mode === "enforce" ? "." : ", which only watches."));
	}

	#fault(fault) {
		if (fault instanceof Refusal && fault.status === 409) // there is no policy
			return this.#howToLook("There is no policy: the limit of a key comes with each request.", "KEY");
		return [make("p", { className: "verdict fault" }, fault instanceof Refusal ? plain(fault.message) : "The server does not answer.")];
	}

	#verdict(found, refusing) {
		if (found.limits.length === 0)
			return make("p", { className: "verdict" }, "No limit applies to such a request: it is let through.");
		if (refusing.length === 0)
			return make("p", { className: "verdict good" }, "Such a request would be let through now.");
		const names = refusing.flatMap((limit, i) => [i === 0 ? "" : ", ", make("bdi", {}, plain(limit.name))]);
		const verdict = make("p", { className: "verdict bad" }, "Refused by ", ...names, ". ");
		if (refusing.some(limit => limit.retry_after_s === null))
			verdict.append("No wait will help: it asks for more than there ever is.");
		else
			verdict.append("It may come back in ", this.#countDown(Math.max(...refusing.map(limit => limit.retry_after_s))), ".");
		return verdict;
	}

	#finding(limit) {
		const finding = make("li", { className: limit.denied ? limit.mode === "enforce" ? "bad" : "watched" : "good" },
			make("b", {}, make("bdi", {}, plain(limit.name))),
			make("span", { className: "text" }, make("bdi", {}, [limit.limit, limit.key].filter(Boolean).map(plain).join(" · "))),
			make("span", { className: "says" }, sentenceOf(limit)));
		if (limit.denied && limit.retry_after_s !== null)
			finding.lastChild.append(" Lets it in again in ", this.#countDown(limit.retry_after_s), `, at ${formatTime(Date.now() / 1000 + limit.retry_after_s)}.`);
		return finding;
	}

	#countDown(seconds) {
		const countdown = new Countdown(seconds);
		this.#countdowns.push(countdown);
		return countdown.element;
	}

	/** When one is over, things are no longer as they are shown. */
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

/** A key as a word of redis-cli, which reads what is between double quotes as C does. */
const quoted = key => /^[\w:.@/-]+$/.test(key) ? key : `"${key.replaceAll("\"", "\\\"")}"`;
