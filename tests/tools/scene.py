"""A project on disk, a sidecar process on it, and a client that can send anything."""

from __future__ import annotations

import json
import os
import queue
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sortie
from sortie.store.schema import MIGRATIONS

HERE = Path(__file__).parent
# The tools of the tests, and the code under test, whatever else is installed.
MODULES = os.pathsep.join((str(HERE), str(Path(sortie.__file__).parents[1])))
DEADLINE = 30.0

WORKFLOW = """\
---
tracker:
  kind: file
  project: PROJ
  active_states: [To Do, In Progress]
  terminal_states: [Done]
file:
  path: issues.json
agent:
  kind: mock
---
Work on {{ issue.title }}.
"""

FULL_ISSUE: dict[str, Any] = {
    "id": "abc123",
    "identifier": "PROJ-42",
    "title": "Add retry logic to webhook handler",
    "description": "The webhook handler currently fails silently...",
    "state": "In Progress",
    "priority": 2,
    "labels": ["backend", "reliability"],
    "assignee": "alice",
    "issue_type": "Bug",
    "url": "https://mytracker.example.com/browse/PROJ-42",
    "branch_name": "PROJ-42-retry-logic",
    "parent": {"id": "parent-1", "identifier": "PROJ-40"},
    "comments": [{"id": "c1", "author": "bob", "body": "Confirmed in prod.", "created_at": "2026-03-25T10:00:00Z"}],
    "blocked_by": [],
    "created_at": "2026-03-20T09:00:00Z",
    "updated_at": "2026-03-25T14:30:00Z",
}
BARE_ISSUE = {"id": "def456", "identifier": "PROJ-43", "title": "Fix flaky test", "state": "To Do"}
DONE_ISSUE = {"id": "old", "identifier": "PROJ-1", "title": "Long ago", "state": "Done"}
FOREIGN_ISSUE = {"id": "other", "identifier": "OTHER-1", "title": "Not ours", "state": "To Do"}

STATE = {
    "turn_number": 3,
    "max_turns": 20,
    "attempt": None,
    "started_at": "2026-03-30T14:20:00Z",
    "input_tokens": 45000,
    "output_tokens": 12000,
    "total_tokens": 57000,
    "cache_read_tokens": 8000,
}

RUNS = [
    (1, "claude-code", "2026-03-30T13:00:00Z", "2026-03-30T13:45:30Z", "succeeded", None),
    (
        2,
        "claude-code",
        "2026-03-30T14:20:00Z",
        "2026-03-30T14:35:12Z",
        "failed",
        "agent turn error: turn timeout exceeded",
    ),
]


class Project:
    """Everything a session has: workflow, issues, workspace with a state file, store with a history."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workflow = root / "WORKFLOW.md"
        self.issues = root / "issues.json"
        self.workspace = root / "workspace"
        self.state = self.workspace / ".sortie" / "state.json"
        self.database = root / "sortie.db"
        self.log = root / "tools.log"
        self.workflow.write_text(WORKFLOW)
        self.issues.write_text(json.dumps([FULL_ISSUE, BARE_ISSUE, DONE_ISSUE, FOREIGN_ISSUE]))
        self.state.parent.mkdir(parents=True)
        self.state.write_text(json.dumps(STATE))
        make_database(self.database, {"abc123": RUNS})

    def environment(self, **changes: str | None) -> dict[str, str]:
        """What the worker gives the sidecar; None leaves a variable out."""
        variables: dict[str, str | None] = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": MODULES,
            "SORTIE_ISSUE_ID": "abc123",
            "SORTIE_ISSUE_IDENTIFIER": "PROJ-42",
            "SORTIE_WORKSPACE": str(self.workspace),
            "SORTIE_DB_PATH": str(self.database),
            "SORTIE_ATTEMPT": "2",
            "SORTIE_RUN_ID": "run-1",
            "SORTIE_TOOLS": "tracker_api,sortie_status,workspace_history",
            "SORTIE_TOOL_LOG": str(self.log),
            **changes,
        }
        return {name: value for name, value in variables.items() if value is not None}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "sortie", "mcp-server", "--workflow", str(self.workflow)]

    def start(self, **changes: str | None) -> Sidecar:
        return Sidecar(self.command(), self.environment(**changes))

    def counted(self) -> list[tuple[str, str]]:
        """Tool and result of each call in the log of calls."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(entry["tool"], entry["result"]) for entry in map(json.loads, lines)]


def make_database(path: Path, runs: dict[str, list[tuple[Any, ...]]]) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    connection.executescript(MIGRATIONS[0])
    number = 0
    for issue_id, rows in runs.items():
        for row in rows:
            number += 1
            connection.execute(
                "INSERT INTO run_history VALUES"
                " (NULL, ?, ?, 'PROJ-42', ?, ?, '/w', ?, ?, ?, ?, 1, '', '', '', 0, 0, 0, 0, 0.0)",
                (f"r{number}", issue_id, *row),
            )
    connection.commit()
    connection.close()


class Sidecar:
    """A raw client: frames go out as they are given, each line that comes back is kept."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors: list[bytes] = []
        self._number = 0
        self._readers = [threading.Thread(target=self._read_answers), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Sidecar:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.finish()

    @property
    def errors(self) -> str:
        return b"".join(self._errors).decode()

    def send(self, frame: Any) -> None:
        self.send_bytes((frame if isinstance(frame, str) else json.dumps(frame)).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self) -> Any:
        line = self._lines.get(timeout=DEADLINE)
        assert line is not None, f"the sidecar ended: {self.errors}"
        return json.loads(line)

    def ask(self, method: str, params: Any = None) -> Any:
        """Send a request and wait for its answer, which must be the next thing to come."""
        self._number += 1
        frame = {"jsonrpc": "2.0", "id": self._number, "method": method}
        self.send(frame if params is None else {**frame, "params": params})
        answer = self.receive()
        assert answer["id"] == self._number, answer
        return answer

    def initialize(self, version: str = "2025-11-25") -> Any:
        client = {"name": "raw", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        answer = self.ask("initialize", params)["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def call(self, tool: str, arguments: Any = None) -> Any:
        """The JSON in the text of a tool's answer."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments or {}})
        return json.loads(answer["result"]["content"][0]["text"])

    def names(self) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list")["result"]["tools"]]

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def finish(self) -> tuple[int, list[Any]]:
        """Close the input and wait for the end: the exit code and the answers not read so far."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        code = self.process.wait(DEADLINE)
        for reader in self._readers:
            reader.join(DEADLINE)
        left = []
        while not self._lines.empty():
            if (line := self._lines.get()) is not None:
                left.append(json.loads(line))
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code, left

    def _read_answers(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)


def wait_until(condition: Callable[[], object]) -> None:
    """For what happens in other processes, which cannot tell us."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def modern(params: dict[str, Any] | None = None, version: Any = "2026-07-28") -> dict[str, Any]:
    """Parameters in the envelope of the newer generation."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    }
    return {**(params or {}), "_meta": meta}
