"""An orchestrator in a process of its own with two hosts, one of which outlives it; agents that wait for the test.

Each agent holds a lock of its item for as long as it or anything it started lives, and keeps a diary: `start` and
`end`, or `twice` where somebody else holds the lock. Between the two it waits for the gate of its item to open.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import anyio

from sortie.core import events as ev
from sortie.core.schedule import Schedule
from sortie.errors import StoreError
from sortie.store.connect import connect_readonly
from sortie.store.load import load
from sortie.store.queries import events
from sortie.testing.remote_host import launch

# What the orchestrators of one scene have in common is their arguments: the directory, and the code of the source.
ORCHESTRATOR = """\
import sys
from pathlib import Path
import anyio
from msgspec.structs import replace
import sortie
from sortie.core.model import Blocker, Issue
from sortie.hosts.local_host import LocalHost
from sortie.runs.spec import HooksSpec
from sortie.testing.list_source import ListSource, TaskFolderSource
from sortie.testing.remote_host import RemoteHost

home, agent = Path(sys.argv[1]), f"sh {sys.argv[1]}/agent.sh {sys.argv[1]}"


def item(name, *after):
    blockers = tuple(Blocker(one, one) for one in after)
    return Issue(id=name, identifier=name, title=f"Task {name}", state="todo", blocked_by=blockers)


class Mute(RemoteHost):
    # Answers so many questions, and no more.

    answers = int(sys.argv[5])

    async def answer(self, run_id, number, answer):
        self.answers -= 1
        if self.answers < 0:
            await anyio.sleep_forever()
        await super().answer(run_id, number, answer)


source = eval(sys.argv[2])
here, there = map(int, sys.argv[3:5])
hosts = [LocalHost(home / "store.db", capacity=here), Mute(home / "machine", capacity=there)]
summary = sortie.serve(sortie.Orchestrator(source, hosts, home / "store.db"), until_idle=True)
print(*(view.id for view in summary.blocked), sep="\\n")
"""

AGENT = """\
exec 9>> "$1/locks/$SORTIE_ISSUE_ID"
flock -n 9 || { echo "twice $SORTIE_ISSUE_ID" >> "$1/diary"; exit 9; }
echo "start $SORTIE_ISSUE_ID" >> "$1/diary"
flock -s "$1/gates/$SORTIE_ISSUE_ID" true
"""
END = 'echo "end $SORTIE_ISSUE_ID" >> "$1/diary"\n'


class TwoHosts:
    def __init__(
        self, home: Path, source: str, *names: str, then: str = "", capacities: tuple[int, int] = (3, 3)
    ) -> None:
        """`then` is what an agent does before its end, once its gate is open."""
        self.home = home
        self.store = home / "store.db"
        self._arguments = [str(home), source, *map(str, capacities)]
        (home / "agent.sh").write_text(AGENT + then + END)
        for name in ("locks", "gates"):
            (home / name).mkdir()
        self._gates = {name: os.open(home / "gates" / name, os.O_RDWR | os.O_CREAT) for name in names}
        for gate in self._gates.values():
            fcntl.flock(gate, fcntl.LOCK_EX)
        self.worker = launch(home / "machine")

    def start(self, answers: int = 1000) -> subprocess.Popen[str]:
        """`answers` is how many questions of runs far away it answers."""
        argv = [sys.executable, "-c", ORCHESTRATOR, *self._arguments, str(answers)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def open(self, *names: str) -> None:
        for name in names or list(self._gates):
            os.close(self._gates.pop(name))

    def close(self) -> None:
        self.open()
        self.worker.kill()
        self.worker.wait()

    async def diary(self, word: str, number: int) -> None:
        """Wait until so many agents have written this word."""
        with anyio.fail_after(30):
            while sum(self.told(word).values()) < number:
                await anyio.sleep(0.02)

    def told(self, word: str) -> Counter[str]:
        path = self.home / "diary"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(line.split()[1] for line in lines if line.split()[0] == word)

    def log(self) -> list[ev.AnyEvent]:
        with closing(connect_readonly(self.store)) as db:
            return [entry.event for entry in events(db, limit=100_000)]

    async def logged(self, kind: type[ev.AnyEvent]) -> None:
        """Wait until the store has such an event."""
        with anyio.fail_after(30):
            while True:
                with suppress(StoreError):  # it is being made
                    if any(isinstance(event, kind) for event in self.log()):
                        return
                await anyio.sleep(0.02)

    def claims(self) -> dict[str, list[str]]:
        """The host of each run of each item."""
        found: dict[str, list[str]] = {}
        for event in self.log():
            if isinstance(event, ev.Claimed):
                found.setdefault(event.issue_id, []).append(event.host)
        return found

    def schedule(self) -> Schedule:
        with closing(connect_readonly(self.store)) as db:
            return load(db).schedule


async def end_of(orchestrator: subprocess.Popen[str]) -> str:
    """What it printed, once it has ended well."""
    out, err = await anyio.to_thread.run_sync(lambda: orchestrator.communicate(timeout=50))
    assert orchestrator.returncode == 0, err
    return out.strip()
