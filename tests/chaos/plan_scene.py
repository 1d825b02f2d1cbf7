"""A plan on disk with the diary of its agents, and orchestrators over it that are started, disturbed and killed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from sortie.core import events as ev
from sortie.core.schedule import Schedule
from sortie.plans.load import load_plan
from sortie.plans.standing import standings
from sortie.store import Store
from sortie.store.connect import connect_readonly
from sortie.store.load import load
from sortie.store.queries import events

from .plan_graphs import AGENT_KILLS, Graph
from .plan_orchestrators import Forge, Orchestrator
from .scene import DEADLINE, carries, until

LATEST = 0.35  # seconds after its start at which an orchestrator is killed


class Line(NamedTuple):
    what: str
    task: str
    run_id: str
    pid: int


class PlanScene:
    def __init__(self, base: Path, graph: Graph, forge: Forge) -> None:
        self.base = base
        self.graph = graph
        self.plan = base / "plan.yaml"
        self.root = base / "plan.work"
        self.db_path = self.root / ".sortie.db"
        self.diary = base / "diary"
        self.said = base / "said.log"
        self.kills: list[str] = []
        self.agents_killed = 0
        self._forge = forge
        for name in ("conduct", "locks", "done"):
            (self.diary / name).mkdir(parents=True)
        for task in graph.tasks:
            (self.diary / "conduct" / task.name).write_text(task.conduct)
        self.plan.write_text(json.dumps(graph.document(str(forge.agent))))
        self.said.touch()

    # -- orchestrators ----------------------------------------------------------------------------------------

    @contextmanager
    def orchestrator(self) -> Iterator[Orchestrator]:
        """One orchestrator; what is left of it at the end of the block is killed."""
        process = self._forge.start(self.plan, self.said, self.diary)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE)

    def run_to_the_end(self, deadline: float = DEADLINE) -> None:
        with self.orchestrator() as process:
            code = process.wait(deadline)
            assert code in (0, 3), f"exit code {code}\n{self.what_was_said()}"

    def kill_where(self, point: Callable[[], Any], what: str) -> None:
        """Start an orchestrator and kill it as soon as `point` is true."""
        with self.orchestrator() as process:
            until(lambda: point() or process.has_ended(), what)
            assert not process.has_ended(), f"it ended by itself\n{self.what_was_said()}"
            process.send_signal(signal.SIGKILL)
            assert process.wait(DEADLINE) == -signal.SIGKILL

    def kill_before(self, kind: str) -> None:
        """Kill an orchestrator that has done what leads to an event of this kind, and cannot write it down."""
        if not self.db_path.exists():
            self.root.mkdir(exist_ok=True)
            anyio.run(self._make_store)
        heard = self.said.stat().st_size
        self._execute(
            f"""CREATE TRIGGER chaos BEFORE INSERT ON events WHEN NEW.kind = '{kind}'
                BEGIN SELECT RAISE(ABORT, 'held back'); END"""
        )
        try:
            self.kill_where(lambda: b"held back" in self.said.read_bytes()[heard:], f"a refused {kind} event")
        finally:
            self._execute("DROP TRIGGER chaos")

    async def _make_store(self) -> None:
        async with Store.open(self.db_path, holder={}):
            pass

    def _execute(self, statement: str) -> None:
        with closing(sqlite3.connect(self.db_path, isolation_level=None, timeout=10)) as db:
            db.execute(statement)

    # -- disturbing -------------------------------------------------------------------------------------------

    def disturb(self, chance: random.Random, kills: int) -> None:
        """Kill orchestrators and agents at moments of chance, then let one work to the end."""
        for _ in range(kills):
            with self.orchestrator() as process:
                self._go_on_until(process, chance, self._some_moment(chance))
                process.send_signal(signal.SIGKILL)
                code = process.wait(DEADLINE)
                if code != -signal.SIGKILL:  # it came to its end before the signal did
                    assert code in (0, 3), f"exit code {code}\n{self.what_was_said()}"
                    return
            self.kills.append(self.last_kind())
        with self.orchestrator() as process:
            self._go_on_until(process, chance)
            code = process.wait(DEADLINE)
            assert code in (0, 3), f"exit code {code}\n{self.what_was_said()}"

    def _some_moment(self, chance: random.Random) -> Callable[[], bool]:
        """After some time, some lines of the diary, or some commits to the store."""
        begun, size = time.monotonic(), self._diary_size()
        way = chance.randrange(5)
        if way == 0:
            seconds = chance.uniform(0.0, LATEST)
            return lambda: time.monotonic() - begun >= seconds
        if way in (1, 2):
            length = chance.randint(1, 400)
            return lambda: self._diary_size() >= size + length
        commits, count = {self._last_commit()}, chance.randint(2, 30)

        def has_committed() -> bool:
            commits.add(self._last_commit())
            return len(commits) >= count

        return has_committed

    def _go_on_until(
        self, process: Orchestrator, chance: random.Random, is_time: Callable[[], bool] = lambda: False
    ) -> None:
        give_up = time.monotonic() + DEADLINE
        while not process.has_ended(0.003) and not is_time():
            assert time.monotonic() < give_up, f"it does not end\n{self.what_was_said()}"
            if self.agents_killed < AGENT_KILLS and chance.random() < 0.02:
                self._kill_an_agent(chance)

    def _kill_an_agent(self, chance: random.Random) -> None:
        lines = self.lines()
        ended = {line.pid for line in lines if line.what == "end"}
        living = [line.pid for line in lines if line.what == "start" and line.pid not in ended]
        mark = self._mark()
        living = [pid for pid in living if carries(pid, mark)]
        if living:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(living), signal.SIGKILL)
                self.agents_killed += 1

    # -- looking ----------------------------------------------------------------------------------------------

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of the store; none while there is no store yet."""
        try:
            with closing(sqlite3.connect(f"file:{self.db_path}?mode=ro", uri=True, timeout=10)) as db:
                return db.execute(statement).fetchall()
        except sqlite3.OperationalError:
            return []

    def last_kind(self) -> str:
        rows = self.query("SELECT kind FROM events ORDER BY seq DESC LIMIT 1")
        return str(rows[0][0]) if rows else "nothing yet"

    def what_was_said(self) -> str:
        return self.said.read_text(errors="replace")

    def log(self) -> tuple[list[ev.AnyEvent], Schedule]:
        with closing(connect_readonly(self.db_path)) as db:
            log = [entry.event for entry in events(db, limit=1_000_000)]
            loaded = load(db)
        assert loaded.unreadable == []
        return log, loaded.schedule

    def states(self) -> dict[str, str]:
        """As people are told of them."""
        with closing(connect_readonly(self.db_path)) as db:
            schedule = load(db).schedule
        found = standings(load_plan(self.plan), schedule, time.time(), served=False)
        return {name: "failed" if one.state == "incomplete" else one.state for name, one in found.items()}

    def outbox(self, task: str) -> dict[str, str]:
        """Every file with its hash."""
        top = self.root / task / "outbox"
        return {
            str(path.relative_to(top)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in top.rglob("*")
            if path.is_file()
        }

    def lines(self) -> list[Line]:
        """The diary of the agents, in the order of what happened."""
        try:
            text = (self.diary / "diary").read_text()
        except FileNotFoundError:
            return []
        words = [line.split() for line in text.splitlines()]
        return [Line(what, task, run_id, int(pid)) for what, task, run_id, pid in words]

    def survivors(self) -> list[int]:
        """Living processes of this scene: agents, and whatever these started."""
        mark = self._mark()
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if carries(pid, mark)]

    def _mark(self) -> bytes:
        return f"CHAOS_DIARY={self.diary}".encode()

    def _last_commit(self) -> int:
        try:
            return (self.root / ".sortie.db-wal").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _diary_size(self) -> int:
        try:
            return (self.diary / "diary").stat().st_size
        except FileNotFoundError:
            return 0
