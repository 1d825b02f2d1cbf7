"""Everything an orchestrator needs to go on where the last one stopped, read in one snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core import events as ev
from ..core.budget import Spent
from .commands import CommandRow, pending_commands

Row = TypeVar("Row", bound=Struct)


class ClaimRow(Struct, frozen=True):
    """A run that was not settled. `turn_done` says whether turn number `turn` completed."""

    issue_id: str
    run_id: str
    identifier: str
    attempt: int
    failures: int
    cause: str
    agent: str
    session_id: str
    workspace: str
    claimed_at: float
    pid: int | None
    start_ticks: int | None
    boot_id: str | None
    turn: int
    turn_done: bool
    stop_cause: str
    stop_detail: str
    ending: ev.RunEnded | None


class RetryRow(Struct, frozen=True):
    issue_id: str
    identifier: str
    kind: ev.RetryKind
    attempt: int
    failures: int
    due_at: float
    error: str
    session_id: str


class ParkedRow(Struct, frozen=True):
    issue_id: str
    identifier: str
    kind: ev.ParkKind
    reason: str
    fingerprint: str
    attempt: int
    session_id: str
    since: float


class PauseRow(Struct, frozen=True):
    provider: str
    until: float
    detail: str
    error_kind: str
    tries: int
    issue_id: str


class EffectRow(Struct, frozen=True):
    """A tracker write that was planned and is not known to have happened."""

    effect_id: str
    issue_id: str
    run_id: str
    verb: ev.EffectVerb
    argument: str
    planned_at: float


class WorkspaceRow(Struct, frozen=True):
    key: str
    issue_id: str
    identifier: str
    path: str
    created_at: float


class Loaded(Struct, frozen=True, kw_only=True):
    """`skips` is (rule, detail) by issue id, `spent` is by issue id, `days` by day; `day_spent` is that of one day.

    `unreadable` has a sentence for each row that could not be understood; it is left out, or what is bad in it.
    """

    claims: list[ClaimRow]
    retries: list[RetryRow]
    parked: list[ParkedRow]
    pauses: list[PauseRow]
    effects: list[EffectRow] = []
    workspaces: list[WorkspaceRow] = []
    commands: list[CommandRow] = []
    issues: dict[str, ev.View]
    skips: dict[str, tuple[str, str]]
    spent: dict[str, Spent] = {}
    days: dict[str, Spent] = {}
    day: str
    day_spent: Spent
    unreadable: list[str]


def load(db: Connection, day: str) -> Loaded:
    with snapshot(db):
        now = look(db, day)
        return replace(
            now,
            effects=_rows(db, EffectRow, "effects", "planned_at, rowid"),
            workspaces=_rows(db, WorkspaceRow, "workspaces", "key"),
            commands=pending_commands(db),
            spent=_spent(db, "scope = 'issue'"),
            days=_spent(db, "scope = 'day'"),
        )


def look(db: Connection, day: str, issue_id: str | None = None) -> Loaded:
    """What goes on now, for a person to see, of all issues or of one; what only a service needs is left out."""
    unreadable: list[str] = []
    with snapshot(db):
        return Loaded(
            claims=_claims(db, issue_id, unreadable),
            retries=_rows(db, RetryRow, "retries", "due_at, issue_id", issue_id),
            parked=_rows(db, ParkedRow, "parked", "since, issue_id", issue_id),
            pauses=_rows(db, PauseRow, "pauses", "provider"),
            issues=_issues(db, issue_id, unreadable),
            skips=_skips(db, issue_id),
            day=day,
            day_spent=_spent(db, "scope = 'day' AND key = ?", day).get(day, Spent()),
            unreadable=unreadable,
        )


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


def _select(db: Connection, columns: str, table: str, order: str, issue_id: str | None) -> list[tuple[Any, ...]]:
    where, wanted = ("", ()) if issue_id is None else ("WHERE issue_id = ?", (issue_id,))
    return db.execute(f"SELECT {columns} FROM {table} {where} ORDER BY {order}", wanted).fetchall()


def _rows(db: Connection, row: type[Row], table: str, order: str, issue_id: str | None = None) -> list[Row]:
    columns = ", ".join(row.__struct_fields__)
    return [row(*values) for values in _select(db, columns, table, order, issue_id)]


def _claims(db: Connection, issue_id: str | None, unreadable: list[str]) -> list[ClaimRow]:
    rows = _rows(db, ClaimRow, "claims", "claimed_at, run_id", issue_id)
    return [
        replace(
            row,
            turn_done=bool(row.turn_done),
            ending=_decoded(row.ending, ev.RunEnded, f"how run {row.run_id} of {row.identifier} ended", unreadable),
        )
        for row in rows
    ]


def _issues(db: Connection, issue_id: str | None, unreadable: list[str]) -> dict[str, ev.View]:
    rows = _select(db, "issue_id, identifier, data", "issues", "rowid", issue_id)
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
    rows = _select(db, "issue_id, skip_rule, skip_detail", "issues", "rowid", issue_id)
    return {found: (rule, detail) for found, rule, detail in rows if rule}


def _spent(db: Connection, where: str, *parameters: str) -> dict[str, Spent]:
    rows = db.execute(f"SELECT key, sessions, turns, tokens, usd FROM budget WHERE {where}", parameters)
    return {key: Spent(*amounts) for key, *amounts in rows}
