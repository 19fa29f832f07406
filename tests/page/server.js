// server.js: a weir serve for tests of the page, which can be restarted on the same port, and requests to it.
"use strict";

const { spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const http = require("node:http");
const os = require("node:os");
const path = require("node:path");
const readline = require("node:readline");

const TIMEOUT_MS = 30_000;

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

/** Waits until `holds` returns something true, and returns that. */
async function until(what, holds) {
	for (const end = Date.now() + TIMEOUT_MS; Date.now() < end; await sleep(20)) {
		const found = await holds();
		if (found)
			return found;
	}
	throw new Error(`this did not come to be in ${TIMEOUT_MS / 1000} s: ${what}`);
}

const running = new Set(); // killed when this program ends

process.once("exit", () => running.forEach(one => one.kill()));

class Server {
	#program;
	#folder = fs.mkdtempSync(path.join(os.tmpdir(), "weir-page-"));
	#policy;
	#process = null;
	#said = "";
	#agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
	address = "127.0.0.1:0";

	/** `settings` are lines of YAML. `policy` is its text; null: no policy. */
	constructor(program, policy, settings = "") {
		this.#program = program;
		this.#policy = policy === null ? [] : ["--policy", path.join(this.#folder, "policy.yaml")];
		if (policy !== null)
			this.write(policy);
		fs.writeFileSync(path.join(this.#folder, "weir.yaml"), settings, { mode: 0o600 });
	}

	/** Replaces the policy file, which the server reads soon. */
	write(policy) {
		const file = path.join(this.#folder, "policy.yaml");
		fs.writeFileSync(`${file}.new`, policy);
		fs.renameSync(`${file}.new`, file);
	}

	get origin() {
		return `http://${this.address}`;
	}

	/** Retries, because another program may use the port while this server is down. */
	async start() {
		await until("weir serve starts", () => this.#try());
	}

	async #try() {
		this.#process = spawn(this.#program, ["serve", "--config", path.join(this.#folder, "weir.yaml"), ...this.#policy, "--listen", path.join(this.#folder, "socket"), "--http", this.address, "--workers", "1",
			"--keys", "100000"], { stdio: ["ignore", "pipe", "pipe"] });
		running.add(this.#process);
		this.#process.stderr.on("data", data => this.#said += data);
		for await (const line of readline.createInterface({ input: this.#process.stdout })) {
			const found = /^weir serve: HTTP at (\S+)$/.exec(line);
			if (found) {
				this.address = found[1];
				this.#process.stdout.resume();
				return true;
			}
		}
		await sleep(200);
		return false;
	}

	/** Stops the server, which must exit with 0. */
	async end() {
		const ended = once(this.#process, "exit");
		this.#process.kill("SIGTERM");
		const [code] = await ended;
		running.delete(this.#process);
		this.#process = null;
		if (code !== 0)
			throw new Error(`weir serve has ended with ${code}: ${this.#said}`);
	}

	async close() {
		this.#agent.destroy();
		if (this.#process)
			await this.end();
		fs.rmSync(this.#folder, { recursive: true });
	}

	/** { status, headers, body } */
	request(target, { method = "GET", headers = {}, body } = {}) {
		return new Promise((resolve, reject) => {
			const request = http.request(this.origin + target, { method, headers, agent: this.#agent, timeout: TIMEOUT_MS }, answer => {
				const pieces = [];
				answer.on("data", piece => pieces.push(piece));
				answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(pieces) }));
				answer.on("error", reject);
			});
			request.on("error", reject);
			request.end(body);
		});
	}

	async json(target, options) {
		return JSON.parse((await this.request(target, options)).body);
	}

	/** A decision by an inline limit. */
	take(limit, key) {
		return this.json("/v1/take", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ limit, key }) });
	}

	/** A decision by the policy. */
	check(attributes) {
		return this.json(`/v1/check?${new URLSearchParams(attributes)}`);
	}
}

module.exports = { Server, TIMEOUT_MS, sleep, until };
