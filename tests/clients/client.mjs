// Drives the MCP door with the official TypeScript SDK, in a process of its own.
//
// Usage: client.mjs stdio PROGRAM ARGS... | client.mjs http URL TOKEN
// Prints one line per proven sentence and `ok` at the end; anything else is a failure.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const packages = createRequire(path.join(process.env.CLAWPEN_MCP_NODE, "package.json"));
const load = (name) => import(pathToFileURL(packages.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const [mode, ...rest] = process.argv.slice(2);

function holds(sentence, condition, shown) {
  if (!condition) {
    console.error(`does not hold: ${sentence}: ${JSON.stringify(shown)}`);
    process.exit(1);
  }
  console.log(`holds: ${sentence}`);
}

const text = (result) => result.content.filter((block) => block.type === "text").map((block) => block.text).join("");

const client = new Client({ name: "typescript-sdk", version: "1" });
const transport =
  mode === "stdio"
    ? new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(rest[0]), {
        requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } },
      });
await client.connect(transport);
holds("the server says its name", client.getServerVersion().name === "clawpen", client.getServerVersion());

const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);

const names = (await client.listTools()).tools.map((tool) => tool.name);
holds("the tools of the sandbox are offered", ["exec", "process", "read", "write"].every((name) => names.includes(name)), names);

const wrote = await call("write", { file_path: "b.txt", content: "x\n" });
holds("a file is written", !wrote.isError, text(wrote));
holds("and read", text(await call("read", { path: "b.txt" })) === "x\n");

const done = await call("exec", { command: "cat b.txt; exit 4" });
holds("a command runs", done.structuredContent.exitCode === 4, done.structuredContent);

const seen = [];
const slow = await call(
  "exec",
  { command: "for i in 1 2 3 4; do echo step $i; sleep 0.2; done" },
  { onprogress: (progress) => seen.push(progress.progress) },
);
holds("a command that writes reports progress", seen.length >= 2, seen);
holds("and ends with all of it", text(slow).includes("step 4"), text(slow));

const leaving = new AbortController();
setTimeout(() => leaving.abort("enough"), 500);
let left = false;
try {
  await call("exec", { command: "sleep 302" }, { signal: leaving.signal });
} catch {
  left = true;
}
holds("a call can be left", left);
const count =
  "n=0; for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q '^sleep 302' && n=$((n+1)); done; echo $n";
let answer = "";
for (let round = 0; round < 100 && answer !== "0"; round += 1) {
  answer = text(await call("exec", { command: count })).trim();
}
holds("and takes its command with it", answer === "0", answer);

const resources = (await client.listResources()).resources.map((resource) => resource.uri);
holds("files are resources", resources.some((uri) => uri.endsWith("/b.txt")), resources);

await client.close();
console.log("ok");
process.exit(0);
