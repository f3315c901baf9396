// Commands that a person must agree to, driven with the official TypeScript SDK.
//
// Usage: elicit.mjs stdio PROGRAM ARGS... | elicit.mjs http URL TOKEN
// The name of the file that a command touches says what the person does. `by-person` is answered by somebody else at
// another door; `restarted` loses its door while it waits. Prints one line per proven sentence and `ok` at the end.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const packages = createRequire(path.join(process.env.CLAWPEN_MCP_NODE, "package.json"));
const load = (name) => import(pathToFileURL(packages.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { ElicitRequestSchema } = await load("types.js");

const [mode, ...rest] = process.argv.slice(2);

function holds(sentence, condition, shown) {
  if (!condition) {
    console.error(`does not hold: ${sentence}: ${JSON.stringify(shown)}`);
    process.exit(1);
  }
  console.log(`holds: ${sentence}`);
}

const text = (result) => result.content.filter((block) => block.type === "text").map((block) => block.text).join("");

function person({ params: { message } }) {
  if (message.includes("accepted")) return { action: "accept", content: { decision: "allow-once" } };
  if (message.includes("refused")) return { action: "accept", content: { decision: "deny" } };
  if (message.includes("declined")) return { action: "decline" };
  return { action: "cancel" };
}

async function connected() {
  const client = new Client({ name: "typescript-sdk", version: "1" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async (request) => person(request));
  const transport =
    mode === "stdio"
      ? new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env, stderr: "inherit" })
      : new StreamableHTTPClientTransport(new URL(rest[0]), {
          requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } },
        });
  await client.connect(transport);
  return client;
}

const touch = (client, name) => client.callTool({ name: "exec", arguments: { command: `touch ${name}` } });

const client = await connected();
let done = await touch(client, "accepted");
holds("what the person accepts runs", done.structuredContent.exitCode === 0, done);
for (const name of ["declined", "refused"]) {
  done = await touch(client, name);
  holds(`what is ${name} does not`, done.structuredContent.code === "user-denied", done);
}
done = await touch(client, "closed");
holds("a dialogue that was closed is no answer", done.structuredContent.code === "approval-timeout", done);
holds("and the error says what to do next", text(done).includes("clawpen approvals watch"), text(done));
done = await touch(client, "by-person");
holds("somebody at another door can answer", done.structuredContent.exitCode === 0, done);
await client.close();

if (mode === "stdio") {
  const losing = await connected();
  let lost = false;
  try {
    await touch(losing, "restarted");
  } catch {
    lost = true;
  }
  holds("a door that dies while it waits is an error", lost);
  const next = await connected();
  done = await touch(next, "restarted");
  holds("the same call goes on at the next door", done.structuredContent.exitCode === 0, done);
  await next.close();
}
console.log("ok");
process.exit(0);
