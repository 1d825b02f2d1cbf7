"""Events with everything filled in, for tests that care about one field, and child processes that run Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Connection
from typing import IO, Any

from sortie.core import events as ev
from sortie.core.model import Usage
from sortie.core.schedule import Schedule
from sortie.store.load import load
from sortie.store.queries import LoggedEvent
from sortie.store.tables import Change, apply, write

DAY = "2026-03-30"
START = 1774880400.25  # 2026-03-30T14:20:00Z


def claimed(issue: str = "1", run: str = "r1", **more: Any) -> ev.Claimed:
    fields: dict[str, Any] = {
        "at": START,
        "identifier": f"DEMO-{issue}",
        "attempt": 1,
        "agent": "command",
        "day": DAY,
        **more,
    }
    return ev.Claimed(issue_id=issue, run_id=run, **fields)


def turn(number: int, issue: str = "1", run: str = "r1", day: str = DAY) -> ev.TurnStarted:
    return ev.TurnStarted(at=START + number, issue_id=issue, run_id=run, turn=number, day=day)


def charged(issue: str = "1", run: str = "r1", day: str = DAY, usage: Usage | None = None) -> ev.Charged:
    usage = usage or Usage(input=100, output=20, cache_read=7, cost_usd=0.25)
    return ev.Charged(at=START + 5, issue_id=issue, run_id=run, usage=usage, day=day)


def ended(issue: str = "1", run: str = "r1", status: ev.RunStatus = "succeeded", **more: Any) -> ev.RunEnded:
    fields: dict[str, Any] = {"at": START + 912, "turns": 1, **more}
    return ev.RunEnded(issue_id=issue, run_id=run, status=status, **fields)


def settled(issue: str = "1", run: str = "r1", **more: Any) -> ev.Settled:
    return ev.Settled(at=START + 913, issue_id=issue, run_id=run, identifier=f"DEMO-{issue}", why="done", **more)


def seen(issue: str = "1", **more: Any) -> ev.IssueSeen:
    fields: dict[str, Any] = {"title": "Mend it", "state": "todo", **more}
    return ev.IssueSeen(at=START, issue_id=issue, view=ev.View(id=issue, identifier=f"DEMO-{issue}", **fields))


def noted(message: str, issue: str = "", run: str = "") -> ev.Noted:
    return ev.Noted(at=START, issue_id=issue, run_id=run, level="info", message=message)


RETRY = ev.Retry(kind="error", attempt=2, due_at=START + 20, failures=1, error="exit 1", session_id="s1")
PARK = ev.Park(kind="signal", reason="needs a key", fingerprint="f00d", attempt=2, session_id="s3")


def record(database: Connection, event: ev.AnyEvent) -> None:
    """Write one event on top of whatever the tables hold."""
    write(database, [apply(load(database).schedule, event)])


def unseen(*events: ev.AnyEvent) -> tuple[Change, ...]:
    """The changes of somebody who knows nothing of what the store holds."""
    schedule = Schedule()
    return tuple(apply(schedule, event) for event in events)


def messages(rows: Iterable[LoggedEvent]) -> list[str]:
    """What the notes among these events say."""
    return [row.event.message for row in rows if isinstance(row.event, ev.Noted)]


def start_python(script: str, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def output_of(child: subprocess.Popen[str]) -> IO[str]:
    assert child.stdout is not None
    return child.stdout
