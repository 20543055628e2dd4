"""Official MCP clients against `rappel mcp`. See `suites/server/mcp-clients`."""

import argparse
import asyncio
import json
import os
import pathlib
import subprocess

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

TOOLS = {"at", "diff", "export", "find", "list", "recall", "record", "report", "restore", "save", "show", "undo"}
BEFORE = "fn main() {}\n"
AFTER = "fn main() { broken }\n"


class World:
    """A project with a home of its own."""

    def __init__(self, scratch, name, rappel):
        self.rappel = rappel
        self.project = scratch / name
        self.home = scratch / f"{name}.home"
        (self.project / "src").mkdir(parents=True)
        self.file = self.project / "src" / "main.rs"
        self.file.write_text(BEFORE)
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=self.project, check=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**kept, "RAPPEL_HOME": str(self.home), "HOME": str(scratch)}


def check(name, holds, seen=None):
    if not holds:
        raise SystemExit(f"FAILED: {name}: {seen}")
    print(f"ok: {name}")


async def with_library(world, started_in):
    """Saves, breaks a file, plans, confirms, and takes it back, with the Python library."""

    async def roots(_context):
        return types.ListRootsResult(roots=[types.Root(uri=world.project.as_uri())])

    server = StdioServerParameters(
        command=world.rappel, args=["mcp"], env=world.environment, cwd=started_in
    )
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write, list_roots_callback=roots) as session:
            hello = await session.initialize()
            check("library: handshake", hello.server_info.name == "rappel", hello)
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            check("library: tools", set(tools) >= TOOLS, sorted(tools))
            check("library: restore is destructive", tools["restore"].annotations.destructive_hint)
            check("library: list is read-only", tools["list"].annotations.read_only_hint)
            prompts = [prompt.name for prompt in (await session.list_prompts()).prompts]
            check("library: prompt", "recover" in prompts, prompts)

            async def call(tool, **arguments):
                # The library holds the answer against the tool's own schema.
                answer = await session.call_tool(tool, arguments)
                check(f"library: {tool}", not answer.is_error, answer)
                check(f"library: {tool} is short", len(answer.content[0].text) <= 8_000)
                return answer.structured_content

            saved = await call("save", message="before the refactoring")
            world.file.write_text(AFTER)
            listed = await call("list")
            check("library: listed", listed["checkpoints"][0]["id"] == saved["id"], listed)
            await call("diff")
            plan = await call("restore", checkpoint=saved["id"])
            check("library: a plan changes nothing", world.file.read_text() == AFTER)
            await call("restore", checkpoint=saved["id"], plan=plan["plan"])
            check("library: restored", world.file.read_text() == BEFORE)
            wrong = await session.call_tool("restore", {"checkpoint": saved["id"], "plan": "0" * 64})
            check("library: a wrong plan is refused", wrong.is_error, wrong)
            step = await call("undo")
            if step.get("dry_run"):
                await call("undo", plan=step["plan"])
            check("library: undone", world.file.read_text() == AFTER)
            await call("record", kind="note", text="the cache is stale")
            await call("recall")
            prompt = await session.get_prompt("recover")
            check("library: recover says what was noted", "cache" in prompt.messages[0].content.text)


def with_inspector(world, inspector):
    """The same, each call by a new server, with the inspector's command line."""

    def ask(*arguments):
        settings = [part for pair in world.environment.items() for part in ("-e", "=".join(pair))]
        line = [inspector, "--cli", *settings, world.rappel, "mcp", *arguments]
        done = subprocess.run(
            line, cwd=world.project, capture_output=True, text=True, timeout=120, check=False
        )
        check(f"inspector: {' '.join(arguments[:4])}", done.returncode == 0, done)
        return json.loads(done.stdout)

    def call(tool, **arguments):
        given = [part for pair in arguments.items() for part in ("--tool-arg", "=".join(pair))]
        answer = ask("--method", "tools/call", "--tool-name", tool, *given)
        check(f"inspector: {tool} succeeds", not answer.get("isError"), answer)
        return answer["structuredContent"]

    names = {tool["name"] for tool in ask("--method", "tools/list")["tools"]}
    check("inspector: tools", names >= TOOLS, sorted(names))
    saved = call("save", message="before")
    world.file.write_text(AFTER)
    listed = call("list")
    check("inspector: listed", listed["checkpoints"][0]["id"] == saved["id"], listed)
    plan = call("restore", checkpoint=saved["id"])
    check("inspector: a plan changes nothing", world.file.read_text() == AFTER)
    call("restore", checkpoint=saved["id"], plan=plan["plan"])
    check("inspector: restored", world.file.read_text() == BEFORE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rappel", required=True)
    parser.add_argument("--inspector", required=True)
    parser.add_argument("--scratch", required=True, type=pathlib.Path)
    options = parser.parse_args()
    world = World(options.scratch, "library", options.rappel)
    elsewhere = options.scratch / "elsewhere"
    elsewhere.mkdir()
    # The client's root counts, not the folder that the server was started in.
    asyncio.run(with_library(world, elsewhere))
    with_inspector(World(options.scratch, "inspector", options.rappel), options.inspector)


main()
