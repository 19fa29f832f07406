// limits.js: a row for each limit, sorted and filtered. Rows outside the screen are not drawn, since there may be
// hundreds.
"use strict";

const SHARE_SECONDS = 60; // over which the share of denials is computed

/** The numbers of a row, computed once per document. */
function numbersOf(limit, series) {
	const allowed = sumOf(series.allowed, SHARE_SECONDS), rejected = sumOf(series.rejected, SHARE_SECONDS);
	return {
		allowed: series.allowed.at(-1) ?? 0,
		rejected: series.rejected.at(-1) ?? 0,
		delayed: series.delayed.at(-1) ?? 0,
		came: allowed + rejected,
		share: allowed + rejected > 0 ? rejected / (allowed + rejected) : null,
		fill: limit.fill,
	};
}

// The columns, and which of them sort rows: largest first, except names and fills, which sort smallest first.
const COLUMNS = [
	{ id: "name", name: "Limit", sort: (a, b) => a.limit.name.localeCompare(b.limit.name) },
	{ id: "spark", name: "Last 2 min", choice: "Busiest", sort: (a, b) => b.numbers.came - a.numbers.came },
	{ id: "allowed", name: "Allowed/s", sort: (a, b) => b.numbers.allowed - a.numbers.allowed },
	{ id: "rejected", name: "Denied/s", sort: (a, b) => b.numbers.rejected - a.numbers.rejected },
	{ id: "delayed", name: "Delayed/s", sort: (a, b) => b.numbers.delayed - a.numbers.delayed },
	{ id: "share", name: "Denied", title: "Of the last minute", choice: "Share denied", sort: (a, b) => (b.numbers.share ?? -1) - (a.numbers.share ?? -1) },
	{ id: "fill", name: "Left", title: "Share of the capacity: the mean over decisions of the last 10 s",
		sort: (a, b) => (a.numbers.fill ?? 2) - (b.numbers.fill ?? 2) },
];

class LimitRow {
	limit;
	numbers;
	isSeen = false;
	#series;
	#times;
	#spark = null;
	#text = make("span", { className: "text" });
	#mode = make("span", { className: "mode" });
	#place = make("div", { className: "spark" });
	#isShadow = false;
	#would = make("small", {}, "would deny");
	#rejected = make("span");
	#bar = make("i");
	#fill = make("span");
	#cells = {};

	constructor(name, onChoose) {
		this.button = make("button", { type: "button", className: "name", title: plain(name) }, make("bdi", {}, plain(name)));
		this.button.addEventListener("click", () => onChoose(name));
		const cell = id => this.#cells[id] = make("td", { className: id, "data-label": COLUMNS.find(column => column.id === id).name });
		this.element = make("tr", {},
			make("th", { scope: "row" }, this.button, this.#mode, this.#text),
			make("td", { className: "spark-cell" }, this.#place),
			cell("allowed"), cell("rejected"), cell("delayed"), cell("share"), cell("fill"));
		this.#cells.rejected.append(this.#rejected, this.#would);
		this.#cells.fill.append(make("span", { className: "meter", "aria-hidden": "true" }, this.#bar), this.#fill);
	}

	update(limit, series, times) {
		this.limit = limit;
		this.numbers = numbersOf(limit, series);
		this.#series = series;
		this.#times = times;
		if (this.isSeen)
			this.draw();
	}

	see(isSeen) {
		this.isSeen = isSeen;
		if (isSeen)
			this.draw();
		else
			this.clear();
	}

	/** Removes the chart. The next one is drawn with the colours and width of that time. */
	clear() {
		this.#spark?.end();
		this.#spark = null;
	}

	draw() {
		const { numbers, limit } = this;
		if (this.#isShadow !== isInShadow(limit))
			this.clear();
		this.#isShadow = isInShadow(limit);
		this.element.classList.toggle("shadow", this.#isShadow);
		this.#would.hidden = !this.#isShadow || numbers.rejected === 0;
		setText(this.#text, plain(limit.limit));
		setText(this.#mode, limit.mode === "enforce" ? "" : limit.mode);
		for (const kind of KINDS) {
			setText(kind === "rejected" ? this.#rejected : this.#cells[kind], formatCount(numbers[kind]));
			this.#cells[kind].classList.toggle("nought", numbers[kind] === 0);
		}
		setText(this.#cells.share, numbers.share === null ? "–" : formatShare(numbers.share, 1));
		setText(this.#fill, numbers.fill === null ? "–" : formatShare(numbers.fill, 1));
		this.#bar.style.width = `${100 * (numbers.fill ?? 0)}%`;
		if (this.#place.clientWidth > 0) {
			this.#spark ??= new Spark(this.#place, this.#isShadow);
			this.#spark.draw(this.#times, this.#series, describe(limit, this.#series, this.#times));
		}
	}
}

class LimitTable {
	#rows = new Map();
	#body = byId("limits").tBodies[0];
	#column = COLUMNS[1];
	#filter = "";
	#heads = new Map();
	#onChoose;
	#chosen = null;
	#leftOut = 0;
	#seen = new IntersectionObserver(entries => this.#see(entries), { root: byId("limits").parentElement, rootMargin: "100px" });
	#rowOf = new WeakMap();

	/** Calls `onChoose(name)` and `onFilter(text)` when the reader chooses a limit or types a filter. */
	constructor(onChoose, onFilter) {
		this.#onChoose = onChoose;
		for (const column of COLUMNS) {
			const button = make("button", { type: "button", title: column.title ?? "" }, column.name);
			const head = make("th", { scope: "col", className: column.id }, button);
			button.addEventListener("click", () => this.#sortBy(column));
			byId("limits").tHead.rows[0].append(head);
			byId("sort").append(make("option", { value: column.id }, column.choice ?? column.name));
			this.#heads.set(column, head);
		}
		byId("sort").addEventListener("change", () => this.#sortBy(COLUMNS.find(column => column.id === byId("sort").value)));
		byId("filter").addEventListener("input", () => {
			this.#filter = byId("filter").value.trim().toLowerCase();
			this.arrange();
			onFilter(this.#filter);
		});
		this.#sortBy(this.#column);
		new ResizeObserver(() => this.restyle()).observe(this.#body); // charts fill the available width
	}

	show(live, past) {
		const times = past.times(), names = new Set(live.limits.map(limit => limit.name));
		const hasNew = live.limits.some(limit => !this.#rows.has(limit.name));
		for (const [name, row] of this.#rows)
			if (!names.has(name))
				this.#remove(name, row);
		for (const limit of live.limits)
			(this.#rows.get(limit.name) ?? this.#add(limit.name)).update(limit, past.of(limit.name), times);
		this.#leftOut = live.left_out;
		setText(byId("left-out"), live.left_out > 0 ? `${formatCount(live.left_out)} more limits, less busy than these, are not shown.` : "");
		byId("left-out").hidden = !(live.left_out > 0);
		if (hasNew || !this.#isInUse())
			this.arrange();
	}

	choose(name) {
		this.#chosen = name;
		for (const [of, row] of this.#rows) {
			row.element.classList.toggle("chosen", of === name);
			row.button.setAttribute("aria-pressed", String(of === name));
		}
	}

	/** The name of the first row. */
	first() {
		return this.#sorted()[0]?.limit.name ?? null;
	}

	restyle() {
		for (const row of this.#rows.values()) {
			row.clear();
			if (row.isSeen)
				row.draw();
		}
	}

	/** Puts rows in order, and hides rows that the filter leaves out. */
	arrange() {
		setChildren(this.#body, this.#sorted().filter(row => this.#matches(row.limit)).map(row => row.element));
		if (this.#filter && this.#body.childElementCount === 0)
			this.#body.append(make("tr", {}, make("td", { colSpan: COLUMNS.length, className: "none" }, this.#leftOut > 0 ?
				`No match among these limits. ${formatCount(this.#leftOut)} more limits are not shown; the server is queried for them by name.` :
				"No limit matches.")));
	}

	/** Whether the pointer or the keyboard focus is on a row. Rows must not move away under it. */
	#isInUse() {
		return this.#body.matches(":hover, :has(:focus-visible)");
	}

	#sorted() {
		return [...this.#rows.values()].sort((a, b) => this.#column.sort(a, b) || a.limit.name.localeCompare(b.limit.name));
	}

	#matches({ name, key, limit }) {
		return [name, key, limit].some(text => String(text ?? "").toLowerCase().includes(this.#filter));
	}

	#sortBy(column) {
		this.#column = column;
		byId("sort").value = column.id;
		for (const [of, head] of this.#heads)
			head.ariaSort = of !== column ? "none" : column.id === "name" || column.id === "fill" ? "ascending" : "descending";
		this.arrange();
	}

	#add(name) {
		const row = new LimitRow(name, this.#onChoose);
		this.#rows.set(name, row);
		this.#rowOf.set(row.element, row);
		this.#seen.observe(row.element);
		row.element.classList.toggle("chosen", name === this.#chosen);
		row.button.setAttribute("aria-pressed", String(name === this.#chosen));
		return row;
	}

	#remove(name, row) {
		this.#seen.unobserve(row.element);
		row.clear();
		row.element.remove();
		this.#rows.delete(name);
	}

	#see(entries) {
		for (const entry of entries)
			this.#rowOf.get(entry.target).see(entry.isIntersecting);
	}
}
