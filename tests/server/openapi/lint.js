// lint.js: lints an OpenAPI description with Redocly's recommended rules, and prints the findings.
//
//     node lint.js MODULES FILE
"use strict";

const path = require("path");
const [modules, file] = process.argv.slice(2);
const { createConfig, lint } = require(path.resolve(modules, "node_modules/@redocly/openapi-core"));

(async () => {
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lint({ ref: file, config });
  for (const problem of problems) {
    console.log(`${problem.severity}: ${problem.ruleId}: ${problem.location[0].pointer}: ${problem.message}`);
  }
  process.exitCode = problems.length > 0 ? 1 : 0;
})();
