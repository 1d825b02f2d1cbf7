"""Everything an orchestrator needs to go on where the last one stopped, read in one snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

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
    """`skips` is (rule, detail) by issue id, `spent` is by issue id, `day_spent` is that of the day asked for."""

    claims: list[ClaimRow]
    retries: list[RetryRow]
    parked: list[ParkedRow]
    pauses: list[PauseRow]
    effects: list[EffectRow]
    workspaces: list[WorkspaceRow]
    commands: list[CommandRow]
    issues: dict[str, ev.View]
    skips: dict[str, tuple[str, str]]
    spent: dict[str, Spent]
    day: str
    day_spent: Spent


def load(db: Connection, day: str) -> Loaded:
    with snapshot(db):
        return Loaded(
            claims=[_claim(row) for row in _select(db, ClaimRow, "claims", "claimed_at, run_id")],
            retries=_rows(db, RetryRow, "retries", "due_at, issue_id"),
            parked=_rows(db, ParkedRow, "parked", "since, issue_id"),
            pauses=_rows(db, PauseRow, "pauses", "provider"),
            effects=_rows(db, EffectRow, "effects", "planned_at, rowid"),
            workspaces=_rows(db, WorkspaceRow, "workspaces", "key"),
            commands=pending_commands(db),
            issues=_issues(db),
            skips=_skips(db),
            spent=_spent(db, "scope = 'issue'"),
            day=day,
            day_spent=_spent(db, "scope = 'day' AND key = ?", day).get(day, Spent()),
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


def _select(db: Connection, row: type[Struct], table: str, order: str) -> Iterator[tuple[Any, ...]]:
    columns = ", ".join(row.__struct_fields__)
    yield from db.execute(f"SELECT {columns} FROM {table} ORDER BY {order}")


def _rows(db: Connection, row: type[Row], table: str, order: str) -> list[Row]:
    return [row(*values) for values in _select(db, row, table, order)]


def _claim(values: tuple[Any, ...]) -> ClaimRow:
    fields = dict(zip(ClaimRow.__struct_fields__, values, strict=True))
    fields["turn_done"] = bool(fields["turn_done"])
    if fields["ending"] is not None:
        fields["ending"] = msgspec.json.decode(fields["ending"], type=ev.RunEnded)
    return ClaimRow(**fields)


def _issues(db: Connection) -> dict[str, ev.View]:
    rows = db.execute("SELECT issue_id, data FROM issues ORDER BY rowid")
    return {issue_id: msgspec.json.decode(data, type=ev.View) for issue_id, data in rows}


def _skips(db: Connection) -> dict[str, tuple[str, str]]:
    rows = db.execute("SELECT issue_id, skip_rule, skip_detail FROM issues WHERE skip_rule <> '' ORDER BY rowid")
    return {issue_id: (rule, detail) for issue_id, rule, detail in rows}


def _spent(db: Connection, where: str, *parameters: str) -> dict[str, Spent]:
    rows = db.execute(f"SELECT key, sessions, turns, tokens, usd FROM budget WHERE {where}", parameters)
    return {key: Spent(*amounts) for key, *amounts in rows}
