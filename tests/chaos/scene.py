"""A tracker full of issues, and orchestrators over it that are started, stopped at a chosen point, and killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from sortie.store import Store

HERE = Path(__file__).parent
AGENT = HERE / "agent.py"
DEADLINE = 40.0

WORKFLOW = """\
---
tracker:
  kind: gated
  active_states: [To Do, In Progress]
  terminal_states: [Done]
  in_progress_state: In Progress
{handoff}
  comments: {{on_dispatch: true, on_completion: true, on_failure: true}}
polling: {{interval_ms: 1000}}
agent:
  kind: command
  command: {python} -I -S {agent}
  max_concurrent_agents: {slots}
  max_turns: 4
  max_retry_backoff_ms: 50
  env: [CHAOS_DIARY]
budget:
  per_issue: {{sessions: 3}}
  per_day: {{sessions: unlimited, turns: unlimited}}
{more}
---
Work on {{{{ issue.identifier }}}}.
"""


def until(condition: Callable[[], Any], what: str, deadline: float = DEADLINE) -> Any:
    """Wait for something that another process does; its answer, as soon as it is true."""
    give_up = time.monotonic() + deadline
    while not (answer := condition()):
        assert time.monotonic() < give_up, f"waited {deadline:g} s in vain: {what}"
        time.sleep(0.002)
    return answer


class Scene:
    """`names` are the issues; what stands before `_` in a name is the conduct of its agent."""

    def __init__(
        self, base: Path, names: Sequence[str], *, handoff: bool = True, slots: int = 8, more: str = ""
    ) -> None:
        self.base = base
        self.db_path = base / ".sortie.db"
        self.gates = base / "gates"
        self.diary = base / "diary"
        self.said = base / "said.log"
        for directory in (self.gates, self.diary / "locks", self.diary / "done"):
            directory.mkdir(parents=True)
        text = WORKFLOW.format(
            handoff="  handoff_state: Review" if handoff else "",
            python=sys.executable,
            agent=AGENT,
            slots=slots,
            more=more,
        )
        (base / "WORKFLOW.md").write_text(text)
        issues = [_issue(name, place) for place, name in enumerate(names)]
        (base / "issues.json").write_text(json.dumps(issues))
        self._offer_the_tracker()

    def _offer_the_tracker(self) -> None:
        package = self.base / "plugins" / "gated-1.0.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: gated\nVersion: 1.0\n")
        (package / "entry_points.txt").write_text(
            "[sortie.trackers]\ngated = tests.chaos.gated_tracker:GatedTracker\n"
        )

    def make_store(self) -> None:
        """An empty store, for those who want to meddle with it before the first orchestrator comes."""

        async def open_and_close() -> None:
            async with Store.open(self.db_path, holder={}):
                pass

        anyio.run(open_and_close)

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.base / "plugins"), str(HERE.parent.parent)])
        return {**os.environ, "PYTHONPATH": path, "CHAOS_DIARY": str(self.diary)}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "sortie", "run", str(self.base / "WORKFLOW.md"), "--until-idle"]

    @contextmanager
    def orchestrator(self, prefix: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
        """One orchestrator; what is left of it at the end of the block is killed."""
        with self.said.open("ab") as said:
            process = subprocess.Popen(
                [*prefix, *self.command()],
                env=self.environment,
                cwd=self.base,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def run_to_the_end(self, deadline: float = DEADLINE) -> None:
        """An orchestrator that nobody disturbs works until it is idle."""
        with self.orchestrator() as process:
            code = process.wait(deadline)
        assert code in (0, 3), f"exit code {code}\n{self.what_was_said()}"

    def kill_where(self, point: Callable[[], Any], what: str) -> None:
        """Start an orchestrator and kill it as soon as `point` is true."""
        with self.orchestrator() as process:
            until(lambda: point() or process.poll() is not None, what)
            assert process.poll() is None, f"it ended by itself\n{self.what_was_said()}"
            process.send_signal(signal.SIGKILL)
            assert process.wait(DEADLINE) == -signal.SIGKILL

    def what_was_said(self) -> str:
        return self.said.read_text(errors="replace") if self.said.exists() else ""

    def set_state(self, name: str, state: str) -> None:
        """What a person does in the tracker."""
        issues = self.issues()
        issues[name]["state"] = state
        (self.base / "issues.json").write_text(json.dumps(list(issues.values())))

    # -- stopping at a chosen point ---------------------------------------------------------------------------

    def kill_at_gate(self, name: str, and_when: Callable[[], Any] = lambda: True) -> None:
        """Kill an orchestrator inside a tracker call, once `and_when` is true too, and open the gate again."""
        gate, reached = self.gates / name, self.gates / f"{name}.reached"
        gate.touch()
        self.kill_where(lambda: reached.exists() and and_when(), f"the tracker call at {name}")
        gate.unlink()
        reached.unlink()

    def kill_before(self, kind: str) -> None:
        """Kill an orchestrator that has done what leads to an event of this kind, and cannot write it down."""
        if not self.db_path.exists():
            self.make_store()
        heard = self.said.stat().st_size if self.said.exists() else 0
        with self.refusing(kind):
            self.kill_where(lambda: b"held back" in self.said.read_bytes()[heard:], f"a refused {kind} event")

    @contextmanager
    def refusing(self, kind: str) -> Iterator[None]:
        """The store refuses events of this kind, as a broken disk would, so that the orchestrator waits there."""
        trigger = f"""CREATE TRIGGER chaos BEFORE INSERT ON events WHEN NEW.kind = '{kind}'
                      BEGIN SELECT RAISE(ABORT, 'held back'); END"""
        self._execute(trigger)
        try:
            yield
        finally:
            self._execute("DROP TRIGGER chaos")

    def _execute(self, statement: str) -> None:
        with closing(sqlite3.connect(self.db_path, isolation_level=None, timeout=10)) as db:
            db.execute(statement)

    # -- looking ----------------------------------------------------------------------------------------------

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of the store; none while there is no store yet."""
        try:
            with closing(sqlite3.connect(f"file:{self.db_path}?mode=ro", uri=True, timeout=10)) as db:
                return db.execute(statement).fetchall()
        except sqlite3.OperationalError:
            return []

    def last_seq(self) -> int:
        rows = self.query("SELECT max(seq) FROM events")
        return rows[0][0] or 0 if rows else 0

    def kinds(self) -> list[str]:
        return [kind for (kind,) in self.query("SELECT kind FROM events ORDER BY seq")]

    def issues(self) -> dict[str, dict[str, Any]]:
        return {issue["identifier"]: issue for issue in json.loads((self.base / "issues.json").read_text())}

    def diary_lines(self, what: str) -> list[list[str]]:
        """Lines of the agents' diary: time, what, issue, run, turn, pid."""
        if not (self.diary / "diary").exists():
            return []
        lines = [line.split() for line in (self.diary / "diary").read_text().splitlines()]
        return [line for line in lines if line[1] == what]

    def starts(self) -> int:
        """How many agent processes there were."""
        return len(self.diary_lines("start"))

    def verdicts(self) -> list[tuple[str, str]]:
        """Status and signal of each finished run, the first one first."""
        return [(row[0], row[1]) for row in self.query("SELECT status, soft_stop FROM run_history ORDER BY id")]

    def journal(self, verb: str) -> list[list[str]]:
        """What the tracker was told: issue id and, for transitions, the state, for comments, the mark."""
        path = self.gates / "journal"
        lines = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
        return [line[1:] for line in lines if line[0] == verb]

    def survivors(self) -> list[int]:
        """Living processes of this scene: agents, hooks, and whatever these started."""
        wanted = f"CHAOS_DIARY={self.diary}".encode()
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if carries(pid, wanted)]


def _issue(name: str, place: int) -> dict[str, Any]:
    """Issues are worked on in the order of their places."""
    created = datetime.fromtimestamp(1_700_000_000 + place, UTC).isoformat()
    return {"id": f"id-{name}", "identifier": name, "title": name, "state": "To Do", "created_at": created}


def carries(pid: int, variable: bytes) -> bool:
    """Whether it was started with this variable. A process that has ended has no environment any more."""
    try:
        return variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
