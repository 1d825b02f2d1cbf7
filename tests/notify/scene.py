"""A store on disk that a test writes events to, and the real process that sends what these have for people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from sortie.core import events as ev
from sortie.store.connect import connect_writer, migrate
from sortie.store.load import load
from sortie.store.tables import apply, write
from sortie.workflow.channels import ChannelConfig, NotifierOrders

from ..e2e.processes import DEADLINE, wait_for
from ..servers.scripted import Asked, ScriptedServer

OF_ALL_TIMES = 1.0


class Scene:
    """The store, as the service would fill it."""

    def __init__(self, root: Path) -> None:
        self.path = root / ".sortie.db"
        self.db = connect_writer(self.path)
        migrate(self.db, self.path)
        self._started: list[Notifier] = []

    def close(self) -> None:
        for notifier in self._started:
            notifier.kill()
        self.db.close()

    # -- what happens ---------------------------------------------------------------------------------------------

    def happens(self, *events: ev.AnyEvent) -> None:
        schedule = load(self.db).schedule
        self.db.execute("BEGIN IMMEDIATE")
        write(self.db, [apply(schedule, event) for event in events])
        self.db.execute("COMMIT")

    def parks(self, *numbers: int, reason: str = "Which colour?", kind: Any = "signal", **of: str) -> None:
        """Issues that were seen are parked without a run."""
        events: list[ev.AnyEvent] = []
        for number in numbers:
            events += [seen(number, **of), parked(number, reason, kind)]
        self.happens(*events)

    def frees(self, number: int) -> None:
        self.happens(ev.Unparked(at=time.time(), issue_id=str(number), identifier=f"T-{number}", why="by hand"))

    def runs(self, number: int, *, soft_stop: str = "", reason: str = "", **settled: Any) -> None:
        """One run from its claim to what follows it."""
        now, ends = time.time(), {"why": "done", **settled}
        of: dict[str, Any] = {"issue_id": str(number), "run_id": f"run-{number}"}
        self.happens(
            seen(number),
            ev.Claimed(at=now, identifier=f"T-{number}", attempt=1, agent="command", day="2026-01-01", **of),
            ev.RunEnded(at=now, status="succeeded", turns=1, soft_stop=soft_stop, reason=reason, **of),
            ev.Settled(at=now, identifier=f"T-{number}", **ends, **of),
        )

    # -- what is remembered of it ---------------------------------------------------------------------------------

    def rows(self, *columns: str, where: str = "1") -> list[Any]:
        found = self.db.execute(f"SELECT {', '.join(columns)} FROM notifications WHERE {where} ORDER BY id")
        return [row[0] if len(columns) == 1 else row for row in found.fetchall()]

    def execute(self, statement: str, *values: object) -> None:
        self.db.execute(statement, values)

    # -- the process that sends -----------------------------------------------------------------------------------

    def start(self, channels: dict[str, ChannelConfig], **orders: Any) -> Notifier:
        """As the service does; of all that ever happened, unless `since` says otherwise."""
        notifier = Notifier(self.path)
        self._started.append(notifier)
        notifier.told(channels, **orders)
        return notifier


class Notifier:
    def __init__(self, store: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sortie.notify", str(store), str(os.getpid())],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def told(self, channels: dict[str, ChannelConfig], **orders: Any) -> None:
        since = orders.pop("since", OF_ALL_TIMES)
        line = msgspec.json.encode(
            NotifierOrders(channels=channels, since=dict.fromkeys(channels, since), **orders)
        )
        assert self.process.stdin
        self.process.stdin.write(line.decode() + "\n")
        self.process.stdin.flush()

    def ends(self) -> str:
        """The service ends; the answer is what the process said."""
        _, said = self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0, said
        return said

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stderr):
            assert pipe
            pipe.close()


def seen(number: int, *, title: str = "", identifier: str = "") -> ev.IssueSeen:
    view = ev.View(
        id=str(number), identifier=identifier or f"T-{number}", title=title or f"Task {number}", state="To Do"
    )
    return ev.IssueSeen(at=time.time(), issue_id=str(number), view=view)


def parked(number: int, reason: str, kind: Any = "signal", at: float | None = None) -> ev.Parked:
    park = ev.Park(kind=kind, reason=reason, fingerprint="f")
    return ev.Parked(at=at or time.time(), issue_id=str(number), identifier=f"T-{number}", park=park)


def hook(server: ScriptedServer, **more: Any) -> ChannelConfig:
    return ChannelConfig(webhook=f"{server.url}/hook", **{"digest_seconds": 0, **more})


def told_of(server: ScriptedServer) -> list[str]:
    """The issues that were told, in the order in which they came."""
    return [item["issue"] for asked in list(server.asked) for item in items_in(asked)]


def items_in(asked: Asked) -> list[dict[str, Any]]:
    body = json.loads(asked.body)
    return list(body.get("items", [body]))


def until_told(server: ScriptedServer, *issues: str) -> None:
    wait_for(lambda: sorted(told_of(server)) == sorted(issues), explain=lambda: str(told_of(server)))


@contextmanager
def scene_in(root: Path) -> Iterator[Scene]:
    with closing(Scene(root)) as scene:
        yield scene
