"""A throw-away project with the file tracker and a shell agent, and the service run on it as a real process."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

DEADLINE = 300.0


class Project:
    def __init__(
        self, directory: Path, *, agent: str, slots: int, kind: str = "command", **agent_keys: int
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        extra = "".join(f"  {key}: {value}\n" for key, value in agent_keys.items())
        (directory / "agent.sh").write_text(agent)
        (directory / "WORKFLOW.md").write_text(
            "---\n"
            "tracker: {kind: file, active_states: [todo], terminal_states: [done], handoff_state: review}\n"
            "polling: {interval_ms: 60000}\n"
            f"agent:\n  kind: {kind}\n  command: sh {directory}/agent.sh\n"
            f"  max_concurrent_agents: {slots}\n  stall_timeout_ms: 0\n{extra}"
            "budget: {per_issue: {sessions: 0, turns: 0}, per_day: {sessions: 0, turns: 0}}\n"
            "---\nWork on {{ issue.identifier }}.\n"
        )

    def write_issues(self, count: int, *, first: int = 1) -> None:
        issues: list[dict[str, Any]] = [
            {"id": str(n), "identifier": f"B-{n}", "title": f"Issue {n}", "state": "todo"}
            for n in range(first, first + count)
        ]
        fresh = self.directory / "issues.json.new"
        fresh.write_text(json.dumps(issues, indent=1))
        fresh.rename(self.directory / "issues.json")

    def start(self, *flags: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "sortie", "run", "WORKFLOW.md", "--log-level", "error", *flags]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(argv, cwd=self.directory, stdout=quiet, stderr=quiet, start_new_session=True)

    def run_until_idle(self) -> float:
        """Seconds from start to exit."""
        before = time.perf_counter()
        service = self.start("--until-idle")
        if service.wait(DEADLINE) not in (0, 3):
            raise RuntimeError(f"the service failed with exit code {service.returncode}")
        return time.perf_counter() - before

    def query(self, sql: str) -> list[Any]:
        database = self.directory / ".sortie.db"
        if not database.exists():
            return []
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
            try:
                return db.execute(sql).fetchall()
            except sqlite3.OperationalError:
                return []  # the tables are being made

    def count(self, what: str) -> int:
        rows = self.query(f"SELECT count(*) FROM {what}")
        return int(rows[0][0]) if rows else 0

    def wait_for_runs(self, count: int, where: str = "true") -> float:
        """Seconds until that many runs have ended."""
        return wait_for(lambda: self.count(f"run_history WHERE {where}") >= count, f"{count} runs")

    def wait_for_sessions(self, count: int) -> float:
        """Seconds until that many agents are at work."""
        return wait_for(lambda: self.count("claims WHERE pid IS NOT NULL") >= count, f"{count} sessions")

    def wait_for_events(self, kind: str, count: int = 1) -> float:
        return wait_for(lambda: self.count(f"events WHERE kind = '{kind}'") >= count, f"{count} {kind} events")


def wait_for(condition: Callable[[], object], what: str) -> float:
    """Seconds until it holds."""
    before = time.perf_counter()
    while not condition():
        if time.perf_counter() - before > DEADLINE:
            raise TimeoutError(what)
        time.sleep(0.005)
    return time.perf_counter() - before


def end(service: subprocess.Popen[bytes]) -> None:
    service.send_signal(signal.SIGTERM)
    service.wait(DEADLINE)


def resident_mb(pid: int) -> float:
    """The memory a process keeps for itself: its proportional share of what it maps."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    pss = next(line for line in rollup if line.startswith("Pss:"))
    return int(pss.split()[1]) / 1024


def cpu_seconds(pid: int) -> float:
    raw = Path(f"/proc/{pid}/stat").read_text()
    fields = raw[raw.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
