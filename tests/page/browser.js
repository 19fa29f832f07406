// browser.js: Debian's Chromium, driven by playwright-core from npm.
"use strict";

const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");

/** Fetches what package-lock.json pins into FOLDER, unless it is there. */
function fetchPlaywright(folder) {
	const lock = fs.readFileSync(path.join(__dirname, "package-lock.json"));
	const fetched = path.join(folder, "fetched");
	if (!fs.existsSync(fetched) || !fs.readFileSync(fetched).equals(lock)) {
		fs.mkdirSync(folder, { recursive: true });
		for (const name of ["package.json", "package-lock.json"])
			fs.copyFileSync(path.join(__dirname, name), path.join(folder, name));
		execFileSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", "--cache", path.join(folder, "npm-cache")],
			{ cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
		fs.writeFileSync(fetched, lock);
	}
	return createRequire(path.join(path.resolve(folder), "package.json"))("playwright-core");
}

/** Chromium needs --no-sandbox for root. The options keep it from making requests of its own. */
function launch(playwright, more = []) {
	return playwright.chromium.launch({ executablePath: "/usr/bin/chromium",
		args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-gpu", ...more] });
}

module.exports = { fetchPlaywright, launch };
