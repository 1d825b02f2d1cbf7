"""A store of many runs, written by the code that writes every store, from events like those of a service.

`python -m bench.large_store PATH` makes one of 100,000 runs and a million events.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from sortie.core import events as ev
from sortie.core.model import Park, ParkKind, Retry, Usage
from sortie.core.policy import Policy, day_of
from sortie.core.schedule import Schedule
from sortie.store.connect import connect_writer, migrate
from sortie.store.tables import apply, write

FULL_RUNS = 100_000
FULL_ISSUES = 1_000
AT_ONCE = 20_000
DAY = 86_400.0
AGENTS = (("claude-code", "claude-sonnet-4-5"), ("claude-code", "claude-opus-4-1"), ("codex", "gpt-5-codex"))
TOOLS = ("tracker_api", "workspace_history", "sortie_status")
RESULTS: tuple[Literal["success", "error"], ...] = ("success", "error")
KINDS: tuple[ParkKind, ...] = ("signal", "error", "budget", "operator")
REASONS = ("ready for review", "wrote the tests, please look", "the interface changed; see the summary", "")
ERRORS = ("the agent ended with exit code 1", "no sign of life for 300 s", "the tests do not pass")


class Large(Struct, frozen=True, kw_only=True):
    """What a store is to have. Of the issues, some run, wait and are parked now; the rest is ready or held."""

    runs: int = FULL_RUNS
    issues: int = FULL_ISSUES
    days: int = 90
    running: int = 10
    waiting: int = 20
    parked: int = 25
    now: float = 1_790_000_000.0
    seed: int = 1


def make_large_store(path: Path, large: Large) -> None:
    """At a path where nothing is yet."""
    with closing(connect_writer(path)) as db:
        migrate(db, path)
        db.execute("PRAGMA synchronous = OFF")
        schedule, told = Schedule(), _events(large)
        while batch := [*islice(told, AT_ONCE)]:
            changes = [apply(schedule, event) for event in batch]
            db.execute("BEGIN")
            write(db, changes)
            db.execute("COMMIT")
        _settle(db)


def _settle(db: sqlite3.Connection) -> None:
    """As after a service that ended: everything is in the one file."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.execute("PRAGMA optimize")


def _events(large: Large) -> Iterator[ev.AnyEvent]:
    chance = random.Random(large.seed)
    first = large.now - large.days * DAY
    yield ev.Opened(at=first, pid=4711, version="1.0", workflow="/srv/project/WORKFLOW.md")
    yield ev.PolicySet(at=first, policy=Policy(active_states=("To Do", "In Progress"), handoff_state="In Review"))
    for number in range(large.issues):
        yield ev.IssueSeen(at=first, issue_id=_id(number), view=_view(number))
    step = large.days * DAY / max(large.runs, 1)
    for number in range(large.runs):
        yield from _run(chance, number, number % large.issues, first + number * step)
    yield from _present(large)


def _id(number: int) -> str:
    return str(10_000 + number)


def _view(number: int) -> ev.View:
    return ev.View(
        id=_id(number),
        identifier=f"BIG-{number + 1}",
        title=f"Part {number + 1} of a large piece of work that has a title of the usual length",
        state="To Do" if number % 3 else "In Progress",
        priority=number % 4 or None,
        created_at="2026-01-05T08:00:00Z",
    )


def _run(chance: random.Random, number: int, issue: int, at: float) -> Iterator[ev.AnyEvent]:
    """About ten events, as a run leaves them."""
    agent, model = AGENTS[issue % len(AGENTS)]
    run: dict[str, Any] = {"issue_id": _id(issue), "run_id": f"20260101T000000-{number:06x}"}
    identifier, day = f"BIG-{issue + 1}", day_of(at)
    seconds = chance.uniform(30, 3_000)
    yield ev.Claimed(at=at, identifier=identifier, attempt=number // 1_000 + 1, agent=agent, day=day, **run)
    path = f"/srv/workspaces/{identifier}"
    yield ev.WorkspaceMade(at=at + 1, identifier=identifier, key=identifier, path=path, inode=issue + 1, **run)
    yield ev.SessionStarted(at=at + 2, session_id=f"session-{number}", **run)
    used = Usage()
    turns = 1 + (number % 3 == 0)
    for turn in range(1, turns + 1):
        begun = at + 3 + (turn - 1) * seconds / turns
        yield ev.TurnStarted(at=begun, turn=turn, day=day, **run)
        result = RESULTS[number % 50 == 0]
        yield ev.ToolCalled(at=begun + 1, tool=TOOLS[number % 3], result=result, ms=12.5, **run)
        if number % 40:  # else an agent that tells nothing of what it used
            turn_used = Usage(chance.randrange(5_000, 90_000), chance.randrange(200, 9_000), 4_000, chance.random())
            used = used.plus(turn_used)
            yield ev.Charged(at=begun + 2, usage=turn_used, day=day, model=model, **run)
        yield ev.TurnEnded(at=begun + seconds / turns - 1, turn=turn, **run)
    failed = number % 7 == 0
    yield ev.RunEnded(
        at=at + 3 + seconds,
        status="failed" if failed else "succeeded",
        turns=turns,
        soft_stop="" if failed else "needs-human-review",
        reason="" if failed else REASONS[number % len(REASONS)],
        error=ERRORS[number % len(ERRORS)] if failed else "",
        session_id=f"session-{number}",
        usage=used,
        model=model,
        **run,
    )
    yield ev.Settled(at=at + 4 + seconds, identifier=identifier, why="handed over", **run)


def _present(large: Large) -> Iterator[ev.AnyEvent]:
    """What goes on now, of the first issues; all others that were not started have a rule that holds them."""
    for number in range(large.issues):
        issue: dict[str, Any] = {"issue_id": _id(number)}
        identifier, at = f"BIG-{number + 1}", large.now - 600 + number / 1_000
        if number < large.running:
            run_id = f"20260102T000000-{number:06x}"
            yield ev.Claimed(at=at, identifier=identifier, attempt=1, agent="codex", run_id=run_id, **issue)
            yield ev.TurnStarted(at=at + 1, turn=1, day=day_of(at), run_id=run_id, **issue)
        elif number < large.running + large.waiting:
            retry = Retry(kind="error", attempt=2, due_at=large.now + 60, error=ERRORS[number % 3])
            yield ev.Requested(at=at, identifier=identifier, retry=retry, **issue)
        elif number < large.running + large.waiting + large.parked:
            park = Park(kind=KINDS[number % 4], reason="Which of the two databases is meant?", fingerprint="")
            yield ev.Parked(at=at, identifier=identifier, park=park, **issue)
        elif number % 2:
            yield ev.Skipped(at=at, identifier=identifier, rule="no-slot", detail="all 10 slots are taken", **issue)


if __name__ == "__main__":
    began = time.monotonic()
    make_large_store(Path(sys.argv[1]), Large())
    print(f"{time.monotonic() - began:.0f} s")
