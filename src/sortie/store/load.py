"""The scheduling state as the tables have it, read in one snapshot: where the last orchestrator stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ..core import events as ev
from ..core.policy import Spent
from ..core.records import Answer, Claim, ParkedIssue, Pause, Waiting, WorkspaceRecord
from ..core.schedule import Part, Schedule
from .tables import TABLES

Row = dict[str, Any]
S = TypeVar("S", bound=Struct)


class Loaded(Struct, frozen=True):
    """`unreadable` has a sentence for each row that was not understood; it is left out, or what is bad in it."""

    schedule: Schedule
    unreadable: list[str]


def load(db: Connection) -> Loaded:
    """Everything that an orchestrator goes on with."""
    with snapshot(db):
        loaded = look(db)
        schedule = loaded.schedule
        schedule.answers = _read(db, "answers", Answer)
        schedule.effects = _read(db, "effects", ev.EffectPlanned)
        schedule.workspaces = _read(db, "workspaces", WorkspaceRecord)
        schedule.spent = _read(db, "spent", Spent)
        schedule.days = _read(db, "days", Spent)
        return loaded


def look(db: Connection, *, issue_id: str | None = None, day: str = "") -> Loaded:
    """What goes on now, for a person to see, of all issues or of one; what only a service needs is left out."""
    unreadable: list[str] = []
    with snapshot(db):
        shown = _rows(db, "issues", issue_id)
        schedule = Schedule(
            issues=_views(shown, unreadable),
            skips={key: (row["skip_rule"], row["skip_detail"]) for key, row in shown.items() if row["skip_rule"]},
            running=_claims(db, issue_id, unreadable),
            waiting={key: _waiting(row) for key, row in _rows(db, "waiting", issue_id).items()},
            parked={
                key: _struct(ParkedIssue, {**row, "park": _struct(ev.Park, row)})
                for key, row in _rows(db, "parked", issue_id).items()
            },
            pauses=_read(db, "pauses", Pause),
            days=_read(db, "days", Spent, day) if day else {},
        )
    return Loaded(schedule, unreadable)


@contextmanager
def snapshot(db: Connection) -> Iterator[None]:
    """All reads inside see the same moment; the outermost of nested ones decides which."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


def _rows(db: Connection, part: Part, key: str | None = None) -> dict[str, Row]:
    """All rows of a part, or one; each has the names of fields, not of columns."""
    table = TABLES[part]
    columns = ", ".join((table.key, *table.columns.values()))
    only, wanted = ("", ()) if key is None else (f"AND {table.key} = ?", (key,))
    rows = db.execute(
        f"SELECT {columns} FROM {table.name} WHERE {table.where} {only} ORDER BY {table.order}", wanted
    )
    return {found: dict(zip(table.columns, values, strict=True)) for found, *values in rows}


def _read(db: Connection, part: Part, kind: type[S], key: str | None = None) -> dict[str, S]:
    # Not strict: SQLite has numbers for true and false.
    return {found: msgspec.convert(row, kind, strict=False) for found, row in _rows(db, part, key).items()}


def _struct(kind: type[S], row: Row) -> S:
    return kind(**{name: row[name] for name in kind.__struct_fields__})


def _claims(db: Connection, issue_id: str | None, unreadable: list[str]) -> dict[str, Claim]:
    rows = _rows(db, "running", issue_id)
    for row in rows.values():
        what = f"how run {row['run_id']} of {row['identifier']} ended"
        row["ending"] = _decoded(row["ending"], ev.RunEnded, what, unreadable)
        row["turn_done"] = bool(row["turn_done"])
    return {key: Claim(**row) for key, row in rows.items()}


def _waiting(row: Row) -> Waiting:
    # SQLite has numbers for true and false, and whoever is told of it takes no number for one.
    retry = _struct(ev.Retry, {**row, "by_hand": bool(row["by_hand"])})
    return _struct(Waiting, {**row, "retry": retry})


def _views(rows: dict[str, Row], unreadable: list[str]) -> dict[str, ev.View]:
    views = {
        key: _decoded(row["data"], ev.View, f"what the tracker showed of {row['identifier']}", unreadable)
        for key, row in rows.items()
    }
    return {key: view for key, view in views.items() if view}


def _decoded(data: Any, kind: type[S], what: str, unreadable: list[str]) -> S | None:
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        unreadable.append(f"The store cannot tell {what} ({error}).")
        return None
