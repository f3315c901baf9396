"""Drives the MCP door with the official Python SDK, in a process of its own.

Usage: client.py stdio PROGRAM ARGS... | client.py http URL TOKEN
Prints one line per proven sentence and `ok` at the end; anything else is a failure.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import anyio
import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

INFO = types.Implementation(name="python-sdk", version="1")


@asynccontextmanager
async def connected(mode, rest):
    if mode == "stdio":
        parameters = StdioServerParameters(command=rest[0], args=rest[1:], env=dict(__import__("os").environ))
        async with stdio_client(parameters) as (read, write):
            async with ClientSession(read, write, client_info=INFO) as session:
                yield session
    else:
        headers = {"Authorization": f"Bearer {rest[1]}"}
        async with streamablehttp_client(rest[0], headers=headers) as (read, write, _):
            async with ClientSession(read, write, client_info=INFO) as session:
                yield session


def text(result):
    return "".join(block.text for block in result.content if block.type == "text")


def holds(sentence, condition, shown=None):
    if not condition:
        raise SystemExit(f"does not hold: {sentence}: {shown!r}")
    print(f"holds: {sentence}")


async def tools(session):
    listed = {tool.name: tool for tool in (await session.list_tools()).tools}
    wanted = {"exec", "process", "read", "write", "edit", "ls", "grep", "find"}
    holds("the tools of the sandbox are offered", wanted <= set(listed), sorted(listed))
    holds("tools of other places are not", not {"browser", "web_fetch", "cron"} & set(listed), sorted(listed))
    holds("a tool that only reads says so", listed["read"].annotations.readOnlyHint is True)
    holds("a tool that runs things says so", listed["exec"].annotations.destructiveHint is True)
    holds("a schema names its parameters", "command" in listed["exec"].inputSchema["properties"])


async def files(session):
    wrote = await session.call_tool("write", {"path": "a.txt", "content": "one\ntwo\n"})
    holds("a file is written", not wrote.isError, text(wrote))
    read = await session.call_tool("read", {"path": "a.txt"})
    holds("and read", text(read) == "one\ntwo\n", text(read))
    edited = await session.call_tool("edit", {"path": "a.txt", "oldText": "two", "newText": "2"})
    holds("and edited", not edited.isError, text(edited))
    found = await session.call_tool("grep", {"pattern": "^2$"})
    holds("and found", "a.txt" in text(found), text(found))
    listed = await session.list_resources()
    uris = [str(resource.uri) for resource in listed.resources]
    holds("files are resources", any(uri.endswith("/a.txt") for uri in uris), uris)
    contents = await session.read_resource(listed.resources[uris.index(next(u for u in uris if u.endswith("/a.txt")))].uri)
    holds("resources are read", contents.contents[0].text == "one\n2\n", contents)
    for path in ["../../etc/passwd", "/etc/shadow", "a.txt/../../../etc/passwd"]:
        out = await session.call_tool("read", {"path": path})
        holds(f"nothing leads out by {path}", out.isError or "root:" not in text(out), text(out))


async def commands(session):
    done = await session.call_tool("exec", {"command": "echo hi; pwd; exit 3"})
    holds("a command runs", done.structuredContent["exitCode"] == 3, done.structuredContent)
    holds("in the workspace", "/workspace" in text(done), text(done))
    sent = await session.call_tool("exec", {"command": "echo begin; sleep 300", "background": True})
    name = sent.structuredContent["sessionId"]
    polled = await session.call_tool("process", {"action": "poll", "sessionId": name, "timeout": 300})
    holds("a command goes to the background", polled.structuredContent["status"] == "running", text(polled))
    killed = await session.call_tool("process", {"action": "kill", "sessionId": name})
    holds("and is killed", not killed.isError, text(killed))
    removed = await session.call_tool("process", {"action": "remove", "sessionId": name})
    holds("and removed", not removed.isError, text(removed))
    typed = await session.call_tool("exec", {"command": "read x; echo got:$x", "pty": True, "background": True})
    name = typed.structuredContent["sessionId"]
    await session.call_tool("process", {"action": "write", "sessionId": name, "data": "hello"})
    await session.call_tool("process", {"action": "submit", "sessionId": name})
    ended = await session.call_tool("process", {"action": "poll", "sessionId": name, "timeout": 5000})
    holds("a terminal takes input", "got:hello" in ended.structuredContent["aggregated"], text(ended))
    refused = await session.call_tool("exec", {"command": "id", "host": "gateway"})
    holds("a call does not leave the sandbox", refused.isError, text(refused))
    absent = await session.call_tool("browser", {})
    holds("a tool that is not there says so", absent.isError, text(absent))


async def progress(session):
    seen = []

    async def note(amount, total, message):
        seen.append((amount, message))

    done = await session.call_tool(
        "exec", {"command": "for i in 1 2 3 4 5; do echo step $i; sleep 0.2; done"}, progress_callback=note
    )
    holds("a command that writes reports progress", len(seen) >= 2, seen)
    holds("which only grows", [a for a, _ in seen] == sorted(a for a, _ in seen), seen)
    holds("and ends with all of it", "step 5" in text(done), text(done))


async def cancel(session):
    with anyio.move_on_after(0.7) as scope:
        await session.call_tool("exec", {"command": "echo $$ > pid; (sleep 300; touch late) & sleep 301"})
    holds("a call can be left", scope.cancelled_caught)
    request = types.CancelledNotification(
        method="notifications/cancelled",
        params=types.CancelledNotificationParams(requestId=session._request_id - 1, reason="enough"),
    )
    await session.send_notification(types.ClientNotification(request))
    for _ in range(100):
        left = await session.call_tool("exec", {"command": "pgrep -fc 'sleep 30[01]' || true"})
        count = text(left).strip().splitlines()[-1]
        if "not found" in text(left):
            left = await session.call_tool(
                "exec", {"command": "n=0; for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q '^sleep 30[01]' && n=$((n+1)); done; echo $n"}
            )
            count = text(left).strip()
        if count == "0":
            break
        await anyio.sleep(0.05)
    holds("and takes all it started with it", count == "0", text(left))


async def many(session):
    async def one(number):
        done = await session.call_tool("exec", {"command": f"echo n{number}"})
        return text(done).strip()

    answers = await asyncio.gather(*(one(number) for number in range(5)))
    holds("calls at once are all answered", answers == [f"n{number}" for number in range(5)], answers)


async def main():
    async with connected(sys.argv[1], sys.argv[2:]) as session:
        begun = await session.initialize()
        holds("the server says its name", begun.serverInfo.name == "clawpen", begun)
        for part in (tools, files, commands, progress, cancel, many):
            await part(session)
    print("ok")


asyncio.run(main())
