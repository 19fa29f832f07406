// grpc.js: @grpc/grpc-js as a client of gRPC. Messages are bytes in hexadecimal; tests/server/grpc_test.py knows their meaning.
//
//     node grpc.js ADDRESS METHOD MESSAGE [COUNT [PAUSE_MS [OPTIONS]]]
//
// Sends COUNT calls at once, or with pauses, and prints a line for each: the message, or the status and its words. OPTIONS are
// those of a channel, in JSON.
"use strict";

const path = require("path");
const grpc = require(require.resolve("@grpc/grpc-js", { paths: [process.env.WEIR_MODULES || path.join(__dirname, "node_modules")] }));

const [address, method, message, count = "1", pause = "0", options = "{}"] = process.argv.slice(2);
const client = new grpc.Client(address, grpc.credentials.createInsecure(), JSON.parse(options));
const asIs = (bytes) => bytes;
let left = Number(count);

const call = () => {
	const deadline = Date.now() + 60000;
	client.makeUnaryRequest(method, asIs, asIs, Buffer.from(message, "hex"), new grpc.Metadata(), { deadline }, (error, response) => {
		console.log(error ? `${error.code} ${error.details}` : response.toString("hex"));
		if (--left === 0)
			client.close();
	});
};

for (let i = 0; i < Number(count); i++)
	Number(pause) ? setTimeout(call, i * Number(pause)) : call();
