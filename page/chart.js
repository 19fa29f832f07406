// chart.js: stacked charts of allowed, delayed and denied requests, one step per second. The height is the number of
// all requests.
"use strict";

// A page that was built without uPlot shows numbers only.
const HAS_CHARTS = typeof uPlot !== "undefined";

// From back to front. Each layer is drawn from the bottom and leaves the top of the layer behind it visible. Delayed
// requests are also allowed requests.
const LAYERS = [
	{ kind: "rejected", height: (allowed, rejected) => allowed + rejected },
	{ kind: "delayed", height: allowed => allowed },
	{ kind: "allowed", height: (allowed, _, delayed) => allowed - delayed },
];

/** A colour of page.css in the current theme, in the form that a canvas takes. */
function colourOf(name) {
	const probe = make("span", { hidden: true });
	probe.style.color = `var(--${name})`;
	document.body.append(probe);
	const colour = getComputedStyle(probe).color;
	probe.remove();
	return colour;
}

function layered(times, series) {
	const heights = LAYERS.map(({ height }) => times.map((_, i) => series.allowed[i] === null ? null :
		height(series.allowed[i], series.rejected[i], series.delayed[i])));
	return [times, ...heights];
}

/** Draws each second at its full width, including the newest second and seconds beside a gap. uPlot's own stepped paths
 * end where the last second begins. */
function steps(chart, index, from, to) {
	const [times] = chart.data, heights = chart.data[index], fill = new Path2D();
	const x = time => Math.round(chart.valToPos(time, "x", true)), y = height => chart.valToPos(height, "y", true);
	for (let i = from; i <= to; i++)
		if (heights[i] !== null)
			fill.rect(x(times[i]), y(heights[i]), x(times[i] + 1) - x(times[i]), y(0) - y(heights[i]));
	return { fill };
}

/** Stripes in the colour of shadow, so that requests which a limit in shadow would have denied look different even
 * without colours. */
function stripes(context) {
	const size = Math.round(6 * devicePixelRatio), tile = new OffscreenCanvas(size, size), ink = tile.getContext("2d");
	ink.strokeStyle = colourOf("shadow");
	ink.lineWidth = size / 3;
	for (const from of [-size, 0, size]) { // across the corners, so that tiles join
		ink.moveTo(from - 1, size + 1);
		ink.lineTo(from + size + 1, -1);
	}
	ink.stroke();
	return context.createPattern(tile, "repeat");
}

function layerOptions(isShadow) {
	let pattern = null; // made once per chart, when it has a canvas
	const fillOf = kind => isShadow && kind === "rejected" ? chart => pattern ??= stripes(chart.ctx) : colourOf(kind);
	return LAYERS.map(({ kind }) => ({ fill: fillOf(kind), width: 0, points: { show: false }, paths: steps }));
}

/** Describes the chart for screen readers. */
function nameCanvas(chart, text) {
	const canvas = chart.ctx.canvas;
	if (canvas.ariaLabel !== text) {
		canvas.setAttribute("role", "img");
		canvas.ariaLabel = text;
	}
}

const scales = {
	x: { time: true, range: (_, min, max) => [min, max + 1] },
	y: { range: (_, min, max) => [0, Math.max(max ?? 0, 1) * 1.05] },
};

/** A chart of a row's size, without axes. */
class Spark {
	#chart = null;

	constructor(place, isShadow) {
		const { clientWidth: width, clientHeight: height } = place;
		if (HAS_CHARTS)
			this.#chart = new uPlot({ width, height, scales, pxAlign: false, padding: [1, 0, 1, 0], legend: { show: false },
			cursor: { show: false }, axes: [{ show: false }, { show: false }], series: [{}, ...layerOptions(isShadow)] }, null, place);
	}

	draw(times, series, text) {
		if (!this.#chart)
			return;
		this.#chart.setData(layered(times, series));
		nameCanvas(this.#chart, text);
	}

	end() {
		this.#chart?.destroy();
	}
}

/** A chart with axes, as wide as its place. Calls `onCursor(index or null)` with the second under the pointer. */
class Chart {
	#chart = null;
	#place;
	#onCursor;
	#data = null;
	#isShadow = false;
	#text = "";
	#height = 180;

	constructor(place, onCursor) {
		this.#place = place;
		this.#onCursor = onCursor;
		if (HAS_CHARTS)
			new ResizeObserver(() => this.#resize()).observe(place);
		else
			place.textContent = "This server was built without uPlot: there are no charts.";
	}

	draw(times, series, isShadow, text) {
		const isOther = isShadow !== this.#isShadow;
		this.#data = layered(times, series);
		this.#isShadow = isShadow;
		this.#text = text;
		if (this.#chart && !isOther) {
			this.#chart.setData(this.#data);
			nameCanvas(this.#chart, text);
		} else {
			this.restyle();
		}
	}

	/** Draws again in the colours of the current theme. */
	restyle() {
		this.#chart?.destroy();
		this.#chart = null;
		if (HAS_CHARTS && this.#data && this.#place.clientWidth > 0)
			nameCanvas(this.#chart = new uPlot(this.#options(), this.#data, this.#place), this.#text);
	}

	#resize() {
		if (this.#chart === null)
			this.restyle();
		else if (this.#place.clientWidth > 0)
			this.#chart.setSize({ width: this.#place.clientWidth, height: this.#height });
	}

	#options() {
		const axis = { stroke: colourOf("muted"), font: "11px system-ui, sans-serif", grid: { stroke: colourOf("line"), width: 1 },
			ticks: { show: false } };
		return {
			width: this.#place.clientWidth, height: this.#height, scales, padding: [8, 24, 0, 0], legend: { show: false },
			cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
			axes: [
				{ ...axis, size: 26, space: 76, values: (_, splits) => splits.map(formatTime) },
				{ ...axis, size: 48, space: 32, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5,
					1e6, 2e6, 5e6, 1e7, 1e8, 1e9], values: (_, splits) => splits.map(value => shorts.format(value)) },
			],
			series: [{}, ...layerOptions(this.#isShadow)],
			hooks: { setCursor: [chart => this.#onCursor(chart.cursor.idx ?? null)] },
		};
	}
}
