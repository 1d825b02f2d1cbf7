"""The tool server: from start to an answered `tools/list`, alone and twenty at once, beside the official SDK."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from .baseline import bare_python
from .project import Project, resident_mb
from .row import Row

FRAMES = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
]

OFFICIAL = """
import anyio, mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
async def list_tools(ctx, params):
    tool = types.Tool(name="one", description="One.", input_schema={"type": "object"})
    return types.ListToolsResult(tools=[tool])
async def main():
    server = Server("bench", on_list_tools=list_tools)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
anyio.run(main)
"""


class Sidecar:
    """One server process and its first conversation."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdin
        self.process.stdin.write("".join(json.dumps(frame) + "\n" for frame in FRAMES))
        self.process.stdin.flush()

    def answered(self) -> float:
        """Seconds from the start to the list of tools."""
        assert self.process.stdout
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2:
                assert answer["result"]["tools"], answer
                return time.perf_counter() - self.started
        raise RuntimeError("the server ended without an answer")

    def end(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def measure(argv: list[str], env: dict[str, str], times: int) -> tuple[float, float]:
    """Median seconds and megabytes of one server at a time."""
    seconds, memory = [], []
    for _ in range(times + 1):
        sidecar = Sidecar(argv, env)
        seconds.append(sidecar.answered())
        memory.append(resident_mb(sidecar.process.pid))
        sidecar.end()
    return statistics.median(seconds[1:]), statistics.median(memory[1:])


def at_once(argv: list[str], env: dict[str, str], count: int) -> float:
    """Seconds until all of them have answered."""
    before = time.perf_counter()
    sidecars = [Sidecar(argv, env) for _ in range(count)]
    for sidecar in sidecars:
        sidecar.answered()
    elapsed = time.perf_counter() - before
    for sidecar in sidecars:
        sidecar.end()
    return elapsed


def sidecar(root: Path) -> list[Row]:
    python, start = bare_python(), "a bare Python start"
    argv, env = _prepared(root)
    official = [sys.executable, "-c", OFFICIAL]
    rows = []
    for name, command, environ in (("tool server", argv, env), ("official SDK", official, {**os.environ})):
        seconds, memory = measure(command, environ, 9)
        rows.append(
            Row(f"{name}: start to tools/list", seconds * 1e3, "ms", seconds / python, "a bare Python start")
        )
        rows.append(Row(f"{name}: memory", memory, "MB", memory / _python_memory(), "a bare Python"))
        together = at_once(command, environ, 20)
        rows.append(Row(f"{name}: 20 at once", together, "s", together / python, start))
    return rows


def _python_memory() -> float:
    idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        time.sleep(0.2)  # it has nothing to say when it is ready
        return resident_mb(idle.pid)
    finally:
        idle.kill()
        idle.communicate()


def _prepared(root: Path) -> tuple[list[str], dict[str, str]]:
    """What a run gives its sidecar: a real store, a workspace, and the prepared list of tools."""
    agent = "cat >/dev/null; cp .sortie/mcp.json kept.json; mkdir -p .sortie; echo blocked > .sortie/status\n"
    project = Project(root / "sidecar", agent=agent, slots=1)
    project.write_issues(1)
    project.run_until_idle()
    config = json.loads((project.directory / "workspaces/B-1/kept.json").read_text())
    entry = config["mcpServers"]["sortie-tools"]
    return [entry["command"], *entry["args"]], entry["env"]
