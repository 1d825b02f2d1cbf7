"""The tool server: from start to an answered `tools/list`, alone and twenty at once, and a call when it is warm."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
from functools import partial
from typing import Any

from .bench import Bench
from .floor import bare_python, side_by_side
from .project import Project, memory_mb
from .table import Row

Entry = tuple[list[str], dict[str, str]]

AT_ONCE = 20
FRAMES: list[dict[str, Any]] = [
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


class Sidecar:
    """One server process and its first conversation."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.send(*FRAMES)

    def send(self, *frames: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write("".join(json.dumps(frame) + "\n" for frame in frames))
        self.process.stdin.flush()

    def answer(self, number: int) -> Any:
        """The result that bears this number; the server says whatever else it likes before."""
        assert self.process.stdout
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == number:
                return answer["result"]
        raise RuntimeError("the server ended without an answer")

    def end(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def tool_server(bench: Bench) -> list[Row]:
    """From its start to the list of tools, alone and twenty at once; then a call of the tracker when it is warm."""
    entry = _entry_of_a_run(bench)
    servers: list[Sidecar] = []
    memory: list[float] = []

    def listed(count: int) -> None:
        servers.extend(Sidecar(*entry) for _ in range(count))
        assert all(server.answer(2)["tools"] for server in servers)

    def ended() -> None:
        memory.append(memory_mb(servers[0].process.pid, "Rss"))
        while servers:
            servers.pop().end()

    rows = []
    for what, count in (("start to tools/list", 1), (f"{AT_ONCE} at once", AT_ONCE)):
        times = 2 * bench.rounds + 3
        ours, floor = side_by_side(partial(listed, count), partial(bare_python, count), times, ended)
        rows.append(Row(f"tool server: {what}", ours * 1e3, "ms", floor * 1e3, "`python -c pass`"))
    return [*rows, Row("tool server: memory (RSS)", statistics.median(memory), "MB"), _tracker_api(entry)]


def _tracker_api(entry: Entry) -> Row:
    """The second call and those after it; the first loads the tracker."""
    server = Sidecar(*entry)
    params = {"name": "tracker_api", "arguments": {"operation": "fetch_issue", "issue_id": "1"}}
    frame = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}
    numbers = itertools.count(3)

    def call() -> None:
        number = next(numbers)
        server.send({**frame, "id": number})
        assert '"success":true' in server.answer(number)["content"][0]["text"].replace(" ", "")

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        ours, floor = side_by_side(call, partial(_echoed, cat, json.dumps(frame).encode() + b"\n"), 30)
        cat.communicate()
    server.end()
    return Row("tracker_api call after the first", ours * 1e3, "ms", floor * 1e3, "a line through `cat`")


def _echoed(cat: subprocess.Popen[bytes], line: bytes) -> None:
    assert cat.stdin and cat.stdout
    cat.stdin.write(line)
    cat.stdin.flush()
    cat.stdout.readline()


def _entry_of_a_run(bench: Bench) -> Entry:
    """What a run gives its agent: how to start the server of a real store and workspace."""
    folder = bench.root / "tool-server"
    project = Project(folder, command="cp .sortie/mcp.json kept.json; echo blocked > .sortie/status", slots=1)
    project.write_issues(1)
    project.run_until_idle()
    config = json.loads((folder / "workspaces/B-1/kept.json").read_text())
    entry = config["mcpServers"]["sortie-tools"]
    return [entry["command"], *entry["args"]], entry["env"]
