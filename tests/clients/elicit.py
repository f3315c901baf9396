"""Commands that a person must agree to, driven with the official Python SDK.

Usage: elicit.py stdio PROGRAM ARGS... | elicit.py http URL TOKEN
The name of the file that a command touches says what the person does. `by-person` is answered by somebody else at another
door; `restarted` loses its door while it waits. Prints one line per proven sentence and `ok` at the end.
"""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

INFO = types.Implementation(name="python-sdk", version="1")


async def person(context, params):
    if "accepted" in params.message:
        return types.ElicitResult(action="accept", content={"decision": "allow-once"})
    if "refused" in params.message:
        return types.ElicitResult(action="accept", content={"decision": "deny"})
    if "declined" in params.message:
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="cancel")


@asynccontextmanager
async def connected(mode, rest):
    if mode == "stdio":
        parameters = StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ))
        async with stdio_client(parameters) as (read, write):
            async with ClientSession(read, write, client_info=INFO, elicitation_callback=person) as session:
                await session.initialize()
                yield session
    else:
        headers = {"Authorization": f"Bearer {rest[1]}"}
        async with streamablehttp_client(rest[0], headers=headers) as (read, write, _):
            async with ClientSession(read, write, client_info=INFO, elicitation_callback=person) as session:
                await session.initialize()
                yield session


def text(result):
    return "".join(block.text for block in result.content if block.type == "text")


def holds(sentence, condition, shown=None):
    if not condition:
        raise SystemExit(f"does not hold: {sentence}: {shown!r}")
    print(f"holds: {sentence}", flush=True)


async def touch(session, name):
    return await session.call_tool("exec", {"command": f"touch {name}"})


async def answers(session):
    done = await touch(session, "accepted")
    holds("what the person accepts runs", done.structuredContent["exitCode"] == 0, text(done))
    for name in ("declined", "refused"):
        done = await touch(session, name)
        holds(f"what is {name} does not", done.structuredContent["code"] == "user-denied", text(done))
    done = await touch(session, "closed")
    holds("a dialogue that was closed is no answer", done.structuredContent["code"] == "approval-timeout", text(done))
    holds("and the error says what to do next", "clawpen approvals watch" in text(done), text(done))
    done = await touch(session, "by-person")
    holds("somebody at another door can answer", done.structuredContent["exitCode"] == 0, text(done))


async def main():
    mode, rest = sys.argv[1], sys.argv[2:]
    async with connected(mode, rest) as session:
        await answers(session)
    if mode == "stdio":
        lost = False
        try:
            async with connected(mode, rest) as session:
                await touch(session, "restarted")
        except BaseException:
            lost = True
        holds("a door that dies while it waits is an error", lost)
        async with connected(mode, rest) as session:
            done = await touch(session, "restarted")
            holds("the same call goes on at the next door", done.structuredContent["exitCode"] == 0, text(done))
    print("ok")


asyncio.run(main())
