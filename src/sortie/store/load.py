"""The scheduling state as the tables have it, read in one snapshot: where the last orchestrator stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ..core import events as ev
from ..core.budget import Spent
from ..core.records import Claim, Effect, ParkedIssue, Pause, Waiting, WorkspaceRecord
from ..core.schedule import Schedule
from .tables import CLAIM_COLUMNS, PARKED_COLUMNS, PAUSE_COLUMNS, RETRY_COLUMNS

Row = TypeVar("Row", bound=Struct)


class Loaded(Struct, frozen=True):
    """`unreadable` has a sentence for each row that was not understood; it is left out, or what is bad in it."""

    schedule: Schedule
    unreadable: list[str]


def load(db: Connection) -> Loaded:
    """Everything that an orchestrator goes on with."""
    with snapshot(db):
        loaded = look(db)
        schedule = loaded.schedule
        schedule.effects = {row.effect_id: row for row in _structs(db, Effect, "effects", "rowid")}
        schedule.workspaces = {row.key: row for row in _structs(db, WorkspaceRecord, "workspaces", "key")}
        schedule.spent = _spent(db, "scope = 'issue'")
        schedule.days = _spent(db, "scope = 'day'")
        return loaded


def look(db: Connection, *, issue_id: str | None = None, day: str = "") -> Loaded:
    """What goes on now, for a person to see, of all issues or of one; what only a service needs is left out."""
    unreadable: list[str] = []
    with snapshot(db):
        schedule = Schedule(
            issues=_issues(db, issue_id, unreadable),
            skips=_skips(db, issue_id),
            running={row.issue_id: row for row in _claims(db, issue_id, unreadable)},
            waiting={row.issue_id: row for row in _waiting(db, issue_id)},
            parked={row.issue_id: row for row in _parked(db, issue_id)},
            pauses=_pauses(db),
            days=_spent(db, "scope = 'day' AND key = ?", day) if day else {},
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


def _select(
    db: Connection, columns: tuple[str, ...], table: str, order: str, issue_id: str | None = None
) -> list[tuple[Any, ...]]:
    where, wanted = ("", ()) if issue_id is None else ("WHERE issue_id = ?", (issue_id,))
    return db.execute(f"SELECT {', '.join(columns)} FROM {table} {where} ORDER BY {order}", wanted).fetchall()


def _structs(db: Connection, kind: type[Row], table: str, order: str) -> list[Row]:
    names = kind.__struct_fields__
    return [_struct(kind, names, values) for values in _select(db, names, table, order)]


def _struct(kind: type[Row], names: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return msgspec.convert(dict(zip(names, values, strict=True)), kind, strict=False)


def _claims(db: Connection, issue_id: str | None, unreadable: list[str]) -> list[Claim]:
    names, found = Claim.__struct_fields__, []
    for values in _select(db, CLAIM_COLUMNS, "claims", "claimed_at, run_id", issue_id):
        row = dict(zip(names, values, strict=True))
        what = f"how run {row['run_id']} of {row['identifier']} ended"
        row["ending"] = _decoded(row["ending"], ev.RunEnded, what, unreadable)
        row["turn_done"] = bool(row["turn_done"])
        found.append(Claim(**row))
    return found


def _waiting(db: Connection, issue_id: str | None) -> list[Waiting]:
    names = ev.Retry.__struct_fields__
    return [
        Waiting(issue_id=found, identifier=identifier, retry=ev.Retry(**dict(zip(names, retry, strict=True))))
        for found, identifier, *retry in _select(db, RETRY_COLUMNS, "retries", "due_at, issue_id", issue_id)
    ]


def _parked(db: Connection, issue_id: str | None) -> list[ParkedIssue]:
    names = ev.Park.__struct_fields__
    return [
        ParkedIssue(
            issue_id=found, identifier=identifier, park=ev.Park(**dict(zip(names, park, strict=True))), since=since
        )
        for found, identifier, *park, since in _select(db, PARKED_COLUMNS, "parked", "since, issue_id", issue_id)
    ]


def _issues(db: Connection, issue_id: str | None, unreadable: list[str]) -> dict[str, ev.View]:
    rows = _select(db, ("issue_id", "identifier", "data"), "issues", "rowid", issue_id)
    views = {
        found: _decoded(data, ev.View, f"what the tracker showed of {identifier}", unreadable)
        for found, identifier, data in rows
    }
    return {found: view for found, view in views.items() if view}


def _decoded(data: Any, kind: type[Row], what: str, unreadable: list[str]) -> Row | None:
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        unreadable.append(f"The store cannot tell {what} ({error}).")
        return None


def _skips(db: Connection, issue_id: str | None) -> dict[str, tuple[str, str]]:
    rows = _select(db, ("issue_id", "skip_rule", "skip_detail"), "issues", "rowid", issue_id)
    return {found: (rule, detail) for found, rule, detail in rows if rule}


def _pauses(db: Connection) -> dict[str, Pause]:
    names = PAUSE_COLUMNS[1:]
    rows = _select(db, PAUSE_COLUMNS, "pauses", "provider")
    return {provider: Pause(**dict(zip(names, values, strict=True))) for provider, *values in rows}


def _spent(db: Connection, where: str, *parameters: str) -> dict[str, Spent]:
    rows = db.execute(f"SELECT key, sessions, turns, tokens, usd FROM budget WHERE {where}", parameters)
    return {key: Spent(*amounts) for key, *amounts in rows}
