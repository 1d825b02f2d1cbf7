"""The health of the service: polls, rate limit, store, disks, pending work, recent problems, and the settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Protocol

from msgspec import Struct

from ..core import events as ev
from ..core.narrate import narrate
from ..core.redact import Hide
from ..store.call_use import CallFigures, call_figures
from ..store.load import snapshot
from ..store.notifications import UNSENT
from ..store.queries import events, last_opened, last_seq, last_view
from ..workflow.config import Config
from .settings_shown import Setting, settings_of
from .words import stamp

# Of the end of the log, so much is looked through for what went wrong lately.
TROUBLE_READ = 2_000
MOST_TROUBLE = 20


class LiveHealth(Protocol):
    """What a service tells of itself: `engine.report.LiveReport`."""

    @property
    def now(self) -> float: ...
    @property
    def draining(self) -> bool: ...
    @property
    def loop_lag(self) -> float: ...
    @property
    def last_look_at(self) -> float: ...
    @property
    def last_look_error(self) -> str: ...
    @property
    def look_seconds(self) -> float: ...


class Looking(Struct, frozen=True, kw_only=True):
    """`at` is None where it has not looked yet."""

    at: float | None
    error: str
    seconds: float
    loop_lag: float
    draining: bool


class Trouble(Struct, frozen=True, kw_only=True):
    """`issue_id` and `identifier` are empty where it is about no single issue."""

    seq: int
    time: str
    level: ev.Level
    issue_id: str
    identifier: str
    text: str


class StoreHealth(Struct, frozen=True, kw_only=True):
    """Sizes are bytes. `events` is the number of the last one: none is ever deleted."""

    path: str
    size: int
    wal_size: int
    free_pages_size: int
    events: int
    runs: int
    oldest_event_at: str


class Disk(Struct, frozen=True, kw_only=True):
    """`problem` is why nothing is known of it, empty otherwise."""

    name: str
    path: str
    free: int
    total: int
    problem: str = ""


class Oldest(Struct, frozen=True, kw_only=True):
    """What has been waiting or running longest, of each kind."""

    what: str
    identifier: str
    since: float


class Pending(Struct, frozen=True, kw_only=True):
    """What was asked for and is not done yet; `notifications` are those that were not sent."""

    commands: int
    effects: int
    answers: int
    notifications: int
    failed_notifications: int


class PauseOf(Struct, frozen=True, kw_only=True):
    agent: str
    kind: str
    until: str
    tries: int
    detail: str


class Health(Struct, frozen=True, kw_only=True):
    """`workflow` is empty where the store belongs to none; `workflow_broken` is said of a plan too."""

    now: float
    service: Mapping[str, Any] | None
    version: str
    looking: Looking | None
    tracker: CallFigures | None
    store: StoreHealth
    disks: list[Disk]
    hosts: dict[str, int]
    pauses: list[PauseOf]
    pending: Pending
    oldest: list[Oldest]
    trouble: list[Trouble]
    workflow: str
    workflow_broken: bool
    settings: list[Setting]


def health_report(
    db: Connection,
    *,
    database: Path,
    config: Config | None,
    broken: bool,
    service: Mapping[str, Any] | None,
    now: float,
    hide: Hide,
    live: LiveHealth | None = None,
) -> Health:
    """`config` is None where the store belongs to no workflow. `hosts` counts the runs that go on by their host;
    `version` is that of the program that last opened the store."""
    with snapshot(db):
        opened = last_opened(db)
        return Health(
            now=now,
            service=service,
            version=opened.version if opened else "",
            looking=_looking(live, hide),
            tracker=call_figures(db),
            store=_store(db, database),
            disks=[
                _disk("store", database.parent),
                *([_disk("workspaces", config.workspace.root)] if config else ()),
            ],
            hosts=dict(db.execute("SELECT host, count(*) FROM claims GROUP BY host ORDER BY host")),
            pauses=_pauses(db, hide),
            pending=_pending(db),
            oldest=list(_oldest(db)),
            trouble=_trouble(db, hide),
            workflow=str(config.path) if config else "",
            workflow_broken=broken,
            settings=settings_of(config, hide) if config else [],
        )


def _looking(live: LiveHealth | None, hide: Hide) -> Looking | None:
    if live is None:
        return None
    return Looking(
        at=live.last_look_at or None,
        error=hide(live.last_look_error),
        seconds=live.look_seconds,
        loop_lag=live.loop_lag,
        draining=live.draining,
    )


def _store(db: Connection, database: Path) -> StoreHealth:
    (page_size,) = db.execute("PRAGMA page_size").fetchone()
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    (runs,) = db.execute("SELECT coalesce(sum(runs), 0) FROM run_totals").fetchone()
    first = db.execute("SELECT at FROM events ORDER BY seq LIMIT 1").fetchone()
    return StoreHealth(
        path=str(database),
        size=_size(database),
        wal_size=_size(database.with_name(database.name + "-wal")),
        free_pages_size=page_size * free,
        events=last_seq(db),
        runs=runs,
        oldest_event_at=stamp(first[0]) if first else "",
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _disk(name: str, path: Path) -> Disk:
    """Of the nearest directory that exists: what is not made yet will be there."""
    place = path
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        found = os.statvfs(place)
    except OSError as error:
        return Disk(name=name, path=str(path), free=0, total=0, problem=(error.strerror or str(error)).lower())
    return Disk(
        name=name, path=str(path), free=found.f_bavail * found.f_frsize, total=found.f_blocks * found.f_frsize
    )


def _pauses(db: Connection, hide: Hide) -> list[PauseOf]:
    rows = db.execute("SELECT provider, error_kind, until, tries, detail FROM pauses ORDER BY provider")
    return [
        PauseOf(agent=agent, kind=kind, until=stamp(until), tries=tries, detail=hide(detail))
        for agent, kind, until, tries, detail in rows
    ]


def _pending(db: Connection) -> Pending:
    def count(query: str) -> int:
        return int(db.execute(query).fetchone()[0])

    return Pending(
        commands=count("SELECT count(*) FROM commands WHERE done_at IS NULL"),
        effects=count("SELECT count(*) FROM effects"),
        answers=count("SELECT count(*) FROM answers"),
        notifications=count(f"SELECT count(*) FROM notifications WHERE {UNSENT}"),
        failed_notifications=count(f"SELECT count(*) FROM notifications WHERE {UNSENT} AND tries > 0"),
    )


def _oldest(db: Connection) -> Iterator[Oldest]:
    queries = {
        "running": "SELECT identifier, claimed_at FROM claims ORDER BY claimed_at LIMIT 1",
        "parked": "SELECT identifier, since FROM parked ORDER BY since LIMIT 1",
        "command": "SELECT verb || ' ' || issue, at FROM commands WHERE done_at IS NULL ORDER BY id LIMIT 1",
        "write": "SELECT verb || ' of ' || issue_id, planned_at FROM effects ORDER BY planned_at LIMIT 1",
    }
    for what, query in queries.items():
        if row := db.execute(query).fetchone():
            yield Oldest(what=what, identifier=row[0], since=row[1])


def _trouble(db: Connection, hide: Hide) -> list[Trouble]:
    """Warnings and errors of late, the newest first."""
    found = []
    for logged in reversed(events(db, limit=TROUBLE_READ, last=True)):
        sentence = narrate(logged.event)
        if sentence.level in ("warning", "error") and isinstance(logged.event, ev.Noted | ev.ProviderPaused):
            found.append(
                Trouble(
                    seq=logged.seq,
                    time=stamp(logged.event.at),
                    level=sentence.level,
                    issue_id=logged.event.issue_id,
                    identifier=_name_of(db, logged.event.issue_id),
                    text=hide(sentence.text),
                )
            )
            if len(found) == MOST_TROUBLE:
                break
    return found


def _name_of(db: Connection, issue_id: str) -> str:
    view = last_view(db, issue_id) if issue_id else None
    return view.identifier if view else issue_id
