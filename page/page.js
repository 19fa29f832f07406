// page.js: connects the parts of the page: requests documents, shows them, and reports failures.
"use strict";

const KEYS = 10; // per list of the selected limit
const NARROW = matchMedia("(max-width: 1239px)");

const past = new Past();
const summary = new Summary();
const inspector = new Inspector(askForToken);
const detail = new Detail(question => inspector.inspect(question));
const table = new LimitTable(choose, filter);
const watch = new Watch(past, { onDocument: show, onRefused: askForToken, onAway: sayAway });

let live = null; // the last document
let chosen = null; // name of a limit
let isPartial = false; // the server has more limits than a document holds

// --- what is shown ---------------------------------------------------------------------------------------------------

/** All inline limits are one row, which is left out if a policy is in force and no request has stated one. */
const isWorthARow = (limit, policy) => policy === null || limit.name !== "(inline)" || limit.allowed_total + limit.rejected_total > 0;

function show(told) {
	if (watch.filter === "")
		isPartial = told.left_out > 0;
	live = { ...told, limits: told.limits.filter(limit => isWorthARow(limit, told.policy)) };
	past.add(live);
	say("live");
	sayTrouble(null);
	document.title = `${plain(live.service)} – Weir`;
	setText(byId("service"), plain(live.service));
	setText(byId("version"), plain(live.version));
	setText(byId("uptime"), `up ${formatAge(live.uptime_s)}`);
	byId("forget-token").hidden = token.get() === null;
	summary.show(live, past);
	table.show(live, past);
	inspector.suggest(live.limits);
	showEmpty();
	if (!live.limits.some(limit => limit.name === chosen))
		table.choose(chosen = table.first());
	showChosen();
}

function showChosen() {
	const limit = live.limits.find(limit => limit.name === chosen);
	if (!limit)
		return;
	detail.show(limit, past);
	showKeys(limit.name);
}

/** Keys are requested separately, for one limit. The keys of all limits would be most of the document. */
async function showKeys(name) {
	const alone = await ask(`v1/live?seconds=1&keys=${KEYS}&limit=${encodeURIComponent(name)}`).catch(() => null);
	if (alone && name === chosen) // the watch reports why the server does not respond
		detail.showKeys(alone.limits[0]);
}

function choose(name) {
	chosen = name;
	table.choose(name);
	showChosen();
	if (NARROW.matches)
		byId("detail").scrollIntoView();
}

/** Limits that were left out are found by the server. */
function filter(text) {
	if (!isPartial || watch.filter === text)
		return;
	watch.filter = text;
	past.forget();
	if (!isPaused())
		watch.start();
}

/** Shows what to do when no requests were counted yet. */
function showEmpty() {
	const isQuiet = watch.filter === "" && live.limits.every(limit => limit.allowed_total + limit.rejected_total === 0);
	const place = byId("limits-empty");
	place.hidden = !isQuiet && live.latency !== null;
	if (place.hidden)
		return;
	const here = new URL("v1", location.href);
	const who = token.get() === null ? "" : " -H \"Authorization: Bearer $TOKEN\"";
	const command = live.policy ? `curl${who} '${here}/check?ip=203.0.113.7'` :
		`curl${who} ${here}/take -H 'Content-Type: application/json' -d '{"limit": "10/min", "key": "me"}'`;
	setChildren(place, live.latency === null ?
		[make("p", {}, "This server does not observe its decisions: start it with "), make("code", {}, "--observe on"), make("p", {}, " for rates, latencies and keys.")] :
		[make("p", {}, "No decisions yet. To see one:"), make("code", {}, command)]);
}

// --- what is said ----------------------------------------------------------------------------------------------------

function say(state, text = state) {
	document.body.dataset.state = state;
	setText(byId("state"), text);
}

/** Shows a problem across the page, with a button that may fix it. null: no problem. */
function sayTrouble(text, button, run) {
	const place = byId("trouble");
	place.hidden = text === null;
	if (text === null)
		return;
	setText(place.querySelector("p"), text);
	setText(place.querySelector("button"), button);
	place.querySelector("button").onclick = run;
}

function sayAway(detail) {
	say("away");
	sayTrouble(detail ? `The server reports an error: ${plain(detail)}` :
		`The server does not respond${live ? `; what is shown is of ${formatTime(live.at)}` : ""}. Retrying.`,
	"Retry now", () => pause(false));
}

function askForToken(refusal) {
	const dialog = byId("token-dialog");
	const isWrong = token.get() !== null;
	say("refused", "no token");
	sayTrouble("Authentication required.", "Give a token", () => askForToken(refusal));
	setText(byId("token-fault"), !isWrong ? "" : refusal.status === 403 ?
		"The user of this token does not have the role read." : "The server does not know this token.");
	watch.stop();
	if (!dialog.open)
		dialog.showModal();
	byId("token").select();
}

byId("token-dialog").querySelector("form").addEventListener("submit", event => {
	event.preventDefault();
	token.set(byId("token").value.trim());
	byId("token").value = "";
	byId("token-dialog").close();
	say("connecting");
	pause(false);
});
byId("token-cancel").addEventListener("click", () => byId("token-dialog").close());
byId("forget-token").addEventListener("click", () => {
	token.forget();
	location.reload();
});

// --- what can be set -------------------------------------------------------------------------------------------------

function pause(isPaused) {
	byId("pause").ariaPressed = String(isPaused);
	setText(byId("pause"), isPaused ? "Resume" : "Pause");
	if (isPaused) {
		watch.stop();
		say("paused", live ? `paused at ${formatTime(live.at)}` : "paused");
	} else {
		watch.start();
	}
}

byId("pause").addEventListener("click", () => pause(byId("pause").ariaPressed !== "true"));

function restyle() {
	table.restyle();
	detail.restyle();
}

/** Stored for the next visit, if the browser stores anything. */
const theme = {
	name: "weir-theme",
	get() {
		try {
			return localStorage.getItem(this.name) ?? "";
		} catch {
			return "";
		}
	},
	set(value) {
		document.documentElement.dataset.theme = value;
		try {
			localStorage.setItem(this.name, value);
		} catch {
			// it lasts as long as the page
		}
		restyle();
	},
};

byId("theme").value = theme.get();
theme.set(theme.get());
byId("theme").addEventListener("change", () => theme.set(byId("theme").value));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);

watch.start();
