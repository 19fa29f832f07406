// ioredis.js: runs the requests of clients_test.py through ioredis, line by line.
"use strict";

const readline = require("readline");
const { createRequire } = require("module");

const [folder, version, where, name, password] = process.argv.slice(2);
const Redis = createRequire(folder + "/")(version);
const { ReplyError } = Redis;

function show(value) {
	if (value instanceof ReplyError)
		return "-" + Buffer.from(value.message).toString("hex");
	if (value instanceof Error)
		return "!" + value.name + ": " + value.message;
	if (typeof value === "number")
		return ":" + value;
	if (value === null)
		return "_";
	if (Array.isArray(value))
		return ["*" + value.length, ...value.map(show)].join(" ");
	return "$" + Buffer.from(value).toString("hex");
}

function open() {
	const options = { connectionName: name };

	if (password)
		[options.username, options.password] = password.split(":");
	if (where.includes("/"))
		return new Redis(where, options);
	const [host, port] = where.split(":");
	return new Redis(Number(port), host, options);
}

function words(line) {
	return line.split(" ").slice(1).map((word) => Buffer.from(word, "hex"));
}

async function call(client, line) {
	const [command, ...others] = words(line);

	try {
		return [show(await client.callBuffer(command.toString("latin1"), ...others))];
	} catch (error) {
		return [show(error)];
	}
}

// As a transaction by multi(), or as a pipeline.
async function callTogether(client, lines, isTransaction) {
	const pipeline = isTransaction ? client.multi() : client.pipeline();

	for (const line of lines) {
		const [command, ...others] = words(line);

		pipeline.callBuffer(command.toString("latin1"), ...others);
	}
	return (await pipeline.exec()).map(([error, value]) => show(error || value));
}

async function main() {
	const client = open();
	const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

	client.on("error", () => {}); // it reconnects by itself; commands report their errors
	for (let line = await lines.next(); !line.done; line = await lines.next()) {
		const [verb, count] = line.value.split(" ");
		let answers;

		if (verb === "call") {
			answers = await call(client, line.value);
		} else {
			const together = [];

			for (let i = 0; i < Number(count); i++)
				together.push((await lines.next()).value);
			answers = await callTogether(client, together, verb === "transaction");
		}
		process.stdout.write(answers.join("\n") + "\n");
	}
	client.disconnect();
}

main();
