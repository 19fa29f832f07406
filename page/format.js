// format.js: numbers for people. The page shows them in digits of equal width, so that columns do not move.
"use strict";

const wholes = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const shorts = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const calendar = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** 12,345 in full. From a million on, 1.23M. */
const formatCount = n => n < 1e6 ? wholes.format(n) : shorts.format(n);

/** part/whole as a percentage, or a dash if whole is 0. A part above 0 is never shown as 0 %. */
function formatShare(part, whole) {
	if (!whole)
		return "–";
	const percent = 100 * part / whole;
	if (percent > 0 && percent < 0.1)
		return "<0.1 %";
	return `${percent < 10 && percent > 0 ? percent.toFixed(1) : percent.toFixed(0)} %`;
}

/** Three digits and a unit, from nanoseconds to seconds: 340 ns, 12.3 µs, 4.56 ms. */
function formatLatency(seconds) {
	if (seconds === null || seconds === undefined)
		return "–";
	for (const [unit, size] of [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3]])
		if (seconds < 999.5 * size)
			return `${Number((seconds / size).toPrecision(3))} ${unit}`;
	return `${Number(seconds.toPrecision(3))} s`;
}

/** A duration: 0.4 s, 12.0 s, 3 min 20 s, 5 h 2 min, 3 d 4 h. Rounded up, so that a client that waits this long is not
 * early. */
function formatSpan(seconds) {
	if (seconds < 60)
		return `${(Math.ceil(seconds * 10) / 10).toFixed(1)} s`;
	const whole = Math.ceil(seconds);
	if (whole < 3600)
		return `${Math.floor(whole / 60)} min ${whole % 60} s`;
	if (whole < 86400)
		return `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
	return `${Math.floor(whole / 86400)} d ${Math.floor(whole % 86400 / 3600)} h`;
}

/** How long a server has been up. */
const formatAge = seconds => seconds < 60 ? `${Math.floor(seconds)} s` : formatSpan(seconds);

/** The local time of day of a Unix time. */
const formatTime = unix => clock.format(unix * 1000);

/** The same with its date: 31 Jan 2026, 10:00:00. */
const formatInstant = unix => calendar.format(unix * 1000);
