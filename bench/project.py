"""A throw-away project with the file tracker, and the service run on it as a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from .stamps import Stamps

DEADLINE = 300.0


class Project:
    """`command` is what the agent is started with; every setting that is not named here has its default."""

    def __init__(
        self, directory: Path, *, command: str | Path, slots: int, kind: str = "command", **agent_keys: int
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.stamps = Stamps(directory)
        extra = "".join(f"  {key}: {value}\n" for key, value in agent_keys.items())
        (directory / "WORKFLOW.md").write_text(
            "---\n"
            "tracker: {kind: file, active_states: [todo], terminal_states: [done], handoff_state: review}\n"
            f"agent:\n  kind: {kind}\n  command: {command}\n  max_concurrent_agents: {slots}\n{extra}"
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

    def states(self) -> list[str]:
        return [issue["state"] for issue in json.loads((self.directory / "issues.json").read_text())]

    def start(self, *flags: str, python: tuple[str, ...] = ()) -> Service:
        return Service(self.directory, self.stamps, ("run", "WORKFLOW.md", *flags), python)

    def run_until_idle(self) -> None:
        self.start("--until-idle").wait()


class Service:
    """A `sortie` that runs for a while, such as `sortie run` in a project, from its start to its end."""

    started_here: ClassVar[list[Service]] = []

    def __init__(
        self, directory: Path, stamps: Stamps, words: tuple[str, ...], python: tuple[str, ...] = ()
    ) -> None:
        argv = [sys.executable, *python, "-m", "sortie", *words, "--log-level", "error"]
        self._stamps = stamps
        self._complaints = directory / "stderr"
        with self._complaints.open("wb") as complaints:
            self.started = time.monotonic()
            self.process = subprocess.Popen(
                argv, cwd=directory, stdout=subprocess.DEVNULL, stderr=complaints, start_new_session=True
            )
        self.pid = self.process.pid
        self.started_here.append(self)

    def until_stamped(self, count: int, limit: float = DEADLINE) -> bool:
        """Wait until the agents have made so many stamps; whether they did within the limit."""
        return self.until(lambda: self._stamps.count() >= count, limit)

    def until(self, holds: Callable[[], object], limit: float = DEADLINE) -> bool:
        give_up = time.monotonic() + limit
        while not holds():
            if self.process.poll() is not None and not holds():
                raise RuntimeError(f"the service ended early, with {self.process.returncode}: {self._said()}")
            if time.monotonic() > give_up:
                return False
            time.sleep(0.005)
        return True

    def cpu(self) -> float:
        """Seconds of CPU that it has used itself, without its children; also after its end, until `wait`."""
        raw = Path(f"/proc/{self.pid}/stat").read_text()
        fields = raw[raw.rindex(")") + 2 :].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cpu_at_end(self) -> float:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        return self.cpu()

    def wait(self) -> None:
        if self.process.wait(DEADLINE) not in (0, 3):
            raise RuntimeError(f"the service failed with {self.process.returncode}: {self._said()}")

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE)

    @classmethod
    def end_all(cls) -> None:
        """Nothing of a measurement that failed or was interrupted stays behind."""
        for service in cls.started_here:
            if service.process.poll() is None:
                service.end()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _said(self) -> str:
        return self._complaints.read_text(errors="replace")[-2000:]


def memory_mb(pid: int, what: str = "Pss") -> float:
    """The memory of a process: `Pss` is its proportional share of what it maps, `Rss` all of that."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    line = next(line for line in rollup if line.startswith(f"{what}:"))
    return int(line.split()[1]) / 1024
