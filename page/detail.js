// detail.js: the selected limit: its chart, its description and its top keys.
"use strict";

const INLINE = "(inline)"; // all inline limits, together

// Labels for people: what JSON calls rejected is labelled denied. A limit in shadow denies nothing.
const LABELS = { allowed: "allowed", rejected: "denied", delayed: "delayed" };
const SHADOW_LABELS = { ...LABELS, rejected: "would be denied" };

const isInShadow = ({ mode }) => mode === "shadow";
const labelsOf = limit => isInShadow(limit) ? SHADOW_LABELS : LABELS;

/** The last second of a limit and its sums, in words, for screen readers. */
function describe(limit, series, times) {
	const labels = labelsOf(limit), words = of => KINDS.map(kind => `${formatCount(of(series[kind]))} ${labels[kind]}`).join(", ");
	return `${plain(limit.name)}, second by second. At ${formatTime(times.at(-1))}: ${words(values => values.at(-1) ?? 0)}. ` +
		`In the last two minutes: ${words(values => sumOf(values, SECONDS))}.`;
}

const LEGEND = [["allowed", ""], ["delayed", "Part of the allowed requests"], ["rejected", ""]];

class Detail {
	#chart = new Chart(byId("chart"), at => this.#point(at));
	#values = {};
	#names = {};
	#when = make("span", { className: "when" });
	#series = null;
	#times = null;
	#pointed = null; // a second of the chart
	#onKey;

	/** Calls `onKey(question)` when the reader chooses a key. The inspector can look at the question. */
	constructor(onKey) {
		this.#onKey = onKey;
		byId("legend").append(...LEGEND.map(([kind, title]) => {
			this.#values[kind] = make("b");
			this.#names[kind] = make("span");
			return make("li", { className: kind, title }, make("i", { "aria-hidden": "true" }), this.#names[kind], " ", this.#values[kind]);
		}), make("li", {}, this.#when));
	}

	show(limit, past) {
		this.#series = past.of(limit.name);
		this.#times = past.times();
		setText(byId("detail-title"), plain(limit.name));
		byId("detail-mode").hidden = limit.mode === "enforce";
		byId("detail-mode").classList.toggle("shadow", isInShadow(limit));
		setText(byId("detail-mode"), limit.mode);
		setText(byId("detail-text"), [plain(limit.limit), limit.algorithm.replaceAll("_", " "),
			limit.name === INLINE ? "keys of inline limits" :
				limit.key ? `key: ${plain(limit.key)}` : "one for all requests", consistencyOf(limit), ...changeOf(limit)].join(" · "));
		this.#chart.draw(this.#times, this.#series, isInShadow(limit), describe(limit, this.#series, this.#times));
		byId("legend").classList.toggle("shadow", isInShadow(limit));
		for (const kind of KINDS)
			setText(this.#names[kind], labelsOf(limit)[kind]);
		setText(byId("denied-title"), isInShadow(limit) ? "Top keys by denials in shadow" : "Top keys by denials");
		this.#legend();
		this.#facts(limit);
	}

	restyle() {
		this.#chart.restyle();
	}

	#point(at) {
		this.#pointed = at;
		if (this.#series)
			this.#legend();
	}

	/** The second under the pointer, or the last one. */
	#legend() {
		const at = this.#pointed ?? SECONDS - 1;
		for (const kind of KINDS) {
			const value = this.#series[kind][at];
			setText(this.#values[kind], value === null ? "–" : formatCount(value));
		}
		setText(this.#when, `at ${formatTime(this.#times[at])}`);
	}

	#facts(limit) {
		const labels = labelsOf(limit), rows = KINDS.map(kind => [labels[kind], limit[`${kind}_total`]]);
		setChildren(byId("detail-facts"), rows.map(([name, n]) =>
			make("div", {}, make("dt", {}, `${name} in total`), make("dd", {}, formatCount(n)))));
	}

	/** Shows the keys of a limit, from a document about this limit alone. */
	showKeys(limit) {
		const top = limit.top;
		for (const [id, entries] of [["busy", top?.busy ?? []], ["denied", top?.denied ?? []]]) {
			if (byId(id).matches(":hover, :has(:focus-visible)") && byId(id).dataset.limit === limit.name)
				continue; // a key must not move away under the pointer
			byId(id).dataset.limit = limit.name;
			setChildren(byId(id), entries.length ? entries.map(entry => this.#key(limit, entry)) : [make("li", { className: "none" }, "none")]);
		}
		setText(byId("top-note"), top ? `Since ${formatTime(top.since)}.` : "");
	}

	/** A key that is longer than the server keeps is cut. Its hash distinguishes it from others, and it cannot be
	 * inspected. */
	#key(limit, entry) {
		const name = make("bdi", {}, plain(entry.key) || "(all requests)");
		const key = entry.raw === null ? make("span", { className: "key" }, name, make("small", { className: "hash", title: "The hash that logs and spans have" }, ` #${entry.hash}`)) :
			make("button", { type: "button", className: "key", title: "Why is it denied?" }, name);
		if (entry.raw !== null)
			key.addEventListener("click", () => this.#onKey({ attributes: attributesOf(limit, entry.key) ?? [], limit: limit.name, key: entry.key, raw: entry.raw }));
		return make("li", {}, key, make("span", { className: "count" },
			entry.error > 0 ? `${formatCount(entry.count - entry.error)}–${formatCount(entry.count)}` : formatCount(entry.count)));
	}
}

/** How servers agree on a limit, and how many units of a key all of them may hold or exceed it by. */
function consistencyOf({ consistency, lease_bound, eventual_bound }) {
	if (consistency === "eventual")
		return `eventual, servers exceed it by at most ${formatCount(eventual_bound)} units of a key`;
	return consistency === "lease" ? `leased, servers hold at most ${formatCount(lease_bound)} units of a key` : consistency;
}

/** Where a limit was changed since the policy was loaded, by whom and when. */
function changeOf({ changed }) {
	if (!changed)
		return [];
	return [["changed", changed.servers === "all" ? "on all servers" : "", changed.by && `by ${plain(changed.by)}`,
		changed.at && `at ${formatInstant(changed.at)}`].filter(Boolean).join(" ")];
}

/** The attributes of requests with this key, if the key has one attribute. Otherwise null: the text does not show where
 * one value ends. */
function attributesOf(limit, key) {
	const names = namesOf(limit.key);
	if (names.length !== 1 || key.includes("\\x"))
		return null;
	const value = key.startsWith(`${names[0]}=`) ? key.slice(names[0].length + 1) : key;
	return [[names[0], names[0] === "ip" ? value.replace(/\/\d+$/, "") : value]];
}

/** The names of attributes in the key of a limit. */
const namesOf = key => String(key ?? "").split(/[\s,]+/).map(part => part.replace(/\/.*$/, "")).filter(part => /^[\w.-]+$/.test(part));
