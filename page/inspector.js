// inspector.js: why a client is refused, and when it may come back. Peeks, so that looking costs the client nothing.
"use strict";

const USUAL_NAMES = ["ip", "api_key", "user", "path", "method", "cost"];

/** What is found out about one limit, as a sentence. */
function sentenceOf({ denied, mode, capacity, remaining, retry_after_s, reset_after_s, delay_s }) {
	const left = `${formatCount(remaining)} of ${formatCount(capacity)} left`;
	if (denied && retry_after_s === null)
		return `${left}. It never has as much as is asked for: no wait will help.`;
	if (denied)
		return `${left}. ${mode === "shadow" ? "Would refuse, but only watches" : "Refuses"}.`;
	return `${left}.${delay_s > 0 ? ` Lets through after ${formatSpan(delay_s)}.` : ""}` +
		(reset_after_s > 0 ? ` Whole again in ${formatSpan(reset_after_s)}.` : "");
}

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
	#asked = null; // attributes of the findings that are shown
	#onRefused;

	constructor(onRefused) {
		this.#onRefused = onRefused;
		byId("add-attribute").addEventListener("click", () => this.#addRow("", "").querySelector("input").focus());
		this.#form.addEventListener("submit", event => {
			event.preventDefault();
			this.#look(this.#attributes());
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

	/** Fills in the form, and looks. */
	inspect(attributes) {
		this.#rows.replaceChildren();
		for (const [name, value] of attributes)
			this.#addRow(name, value);
		this.#form.scrollIntoView({ block: "nearest" });
		this.#form.querySelector("[type=submit]").focus({ preventScroll: true });
		this.#look(attributes);
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

	async #look(attributes) {
		this.#stop();
		this.#asked = attributes;
		try {
			const found = await ask(`v1/live/key?${new URLSearchParams(attributes)}`);
			if (this.#asked === attributes) // and nothing else was asked meanwhile
				this.#show(found, attributes);
		} catch (fault) {
			if (this.#asked !== attributes)
				return;
			if (fault instanceof Refusal && fault.status === 401)
				this.#onRefused(fault);
			this.#say(make("p", { className: "verdict fault" }, fault instanceof Refusal ? plain(fault.message) : "The server does not answer."));
		}
	}

	#show(found, attributes) {
		const isRefusing = limit => limit.denied && limit.mode === "enforce";
		const refusing = found.limits.filter(isRefusing), others = found.limits.filter(limit => !isRefusing(limit));
		this.#say(this.#verdict(found, refusing),
			make("ul", { className: "findings" }, ...[...refusing, ...others].map(limit => this.#finding(limit))),
			make("p", { className: "note" }, `As of ${formatTime(Date.now() / 1000)}.`));
		if (this.#countdowns.length > 0)
			this.#timer = setInterval(() => this.#tick(attributes), 100);
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
	#tick(attributes) {
		if (!this.#countdowns.map(countdown => countdown.tick()).every(Boolean))
			this.#look(attributes);
	}

	#say(...elements) {
		byId("findings").replaceChildren(...elements);
	}

	#stop() {
		clearInterval(this.#timer);
		this.#countdowns = [];
	}
}
