"""The tables of the scheduling state: how a row of each becomes part of a `Schedule`, and back.

A change is an event with the rows that it touched, as they are after it. The event goes to the log, the rows take
the place of those of the same key; nothing else changes the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from sqlite3 import Connection
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from ..core import events as ev
from ..core.policy import Spent
from ..core.records import Answer, Claim, Pause, WorkspaceRecord
from ..core.schedule import Part, Schedule, Touched
from .counters import Counts, count
from .usage import add_charge, add_run, is_measured


class Change(NamedTuple):
    """An event with its text, and what each row that it touched holds now; None where there is none any more.
    `run` is the one that it is about, as it was before."""

    event: ev.AnyEvent
    text: str
    rows: tuple[tuple[Touched, Any], ...]
    run: Claim | None


def apply(schedule: Schedule, event: ev.AnyEvent) -> Change:
    """Make the event part of the schedule, and tell what is to be written."""
    event, text = ev.encodable(event)
    run = schedule.running.get(event.issue_id)
    rows = tuple((touched, _value(schedule, touched)) for touched in schedule.apply(event))
    return Change(event, text, rows, run if run and run.run_id == event.run_id else None)


def _flat(_: str, value: Struct) -> list[Any]:
    """The fields of a value, and those of a struct in it in its place."""
    fields: list[Any] = []
    for field in astuple(value):
        fields += astuple(field) if isinstance(field, Struct) else (field,)
    return fields


class Table(NamedTuple):
    """How one part of the schedule is kept: which column holds which field, and the row that a value becomes."""

    name: str
    columns: dict[str, str]
    row: Callable[[str, Any], Sequence[Any]] = _flat
    key: str = "issue_id"
    order: str = "rowid"
    where: str = "true"

    @property
    def insert(self) -> str:
        names, marks = ", ".join(self.columns.values()), ", ".join("?" * len(self.columns))
        return f"INTO {self.name} ({names}) VALUES ({marks})"


def _columns(*parts: str | type[Struct], **renamed: str) -> dict[str, str]:
    """Columns that bear the names of the fields, all those of a struct, but for the `renamed` ones."""
    names = [name for part in parts for name in ([part] if isinstance(part, str) else part.__struct_fields__)]
    return {name: renamed.get(name, name) for name in names}


def _issue_row(issue_id: str, value: tuple[ev.View, tuple[str, str]]) -> tuple[Any, ...]:
    view, skip = value
    return (issue_id, view.identifier, msgspec.json.encode(view).decode(), *skip)


def _claim_row(_: str, claim: Claim) -> tuple[Any, ...]:
    *facts, ending = astuple(claim)
    return (*facts, ev.encode(ending).decode() if ending else None)


def _budget(scope: str) -> Table:
    columns = _columns("scope", "key", Spent)
    where = f"scope = '{scope}'"
    return Table("budget", columns, lambda key, spent: (scope, key, *astuple(spent)), "key", where=where)


TABLES: dict[Part, Table] = {
    "issues": Table("issues", _columns("issue_id", "identifier", "data", "skip_rule", "skip_detail"), _issue_row),
    "running": Table("claims", _columns(Claim, stop="stop_cause"), _claim_row, order="claimed_at, run_id"),
    "waiting": Table("retries", _columns("issue_id", "identifier", ev.Retry), order="due_at, issue_id"),
    "parked": Table("parked", _columns("issue_id", "identifier", ev.Park, "since"), order="since, issue_id"),
    "answers": Table(
        "answers",
        _columns(Answer, at="answered_at", run_id="told_in", turn="told_turn"),
        key="answer_id",
        order="number",
    ),
    "pauses": Table(
        "pauses", _columns("provider", Pause), lambda key, pause: (key, *astuple(pause)), "provider", "provider"
    ),
    "effects": Table("effects", _columns(ev.EffectPlanned, at="planned_at"), key="effect_id"),
    "workspaces": Table("workspaces", _columns(WorkspaceRecord), key="key", order="key"),
    "spent": _budget("issue"),
    "days": _budget("day"),
}
_REPLACE = {part: f"INSERT OR REPLACE {table.insert}" for part, table in TABLES.items()}
_DELETE = {
    part: f"DELETE FROM {table.name} WHERE {table.key} = ? AND {table.where}" for part, table in TABLES.items()
}
# A plain insert on purpose: a second run of a claimed issue must fail here, whatever the caller believes.
_NEW_CLAIM = f"INSERT {TABLES['running'].insert}"


def _value(schedule: Schedule, touched: Touched) -> Any:
    value = getattr(schedule, touched.part).get(touched.key)
    if value is not None and touched.part == "issues":
        return value, schedule.skips.get(touched.key, ("", ""))
    return value


def write(db: Connection, changes: Iterable[Change]) -> None:
    """Write the events and bring the tables up to them, inside the caller's transaction."""
    last: dict[Touched, Any] = {}
    counts = Counts()
    for event, text, rows, run in changes:
        db.execute(
            "INSERT INTO events (at, kind, issue_id, run_id, data) VALUES (?, ?, ?, ?, ?)",
            (event.at, ev.kind_of(event), event.issue_id or None, event.run_id or None, text),
        )
        _write_history(db, event, run)
        count(db, counts, event, run)
        for touched, value in rows:
            if isinstance(event, ev.Claimed) and touched.part == "running":
                if touched in last:  # the run before it ended in the same transaction
                    _write_row(db, touched, last.pop(touched))
                db.execute(_NEW_CLAIM, _claim_row(touched.key, value))
            else:
                last[touched] = value
    for touched, value in last.items():
        _write_row(db, touched, value)
    counts.write(db)


def _write_row(db: Connection, touched: Touched, value: Any) -> None:
    part, key = touched
    if value is not None:
        db.execute(_REPLACE[part], TABLES[part].row(key, value))
    else:
        db.execute(_DELETE[part], (key,))


# -- what is only read by people --------------------------------------------------------------------------------


_AMOUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "total_tokens", "cost_usd")
_ADDED_UP = ", ".join(f"{name} = {name} + excluded.{name}" for name in ("runs", "turns", "seconds", *_AMOUNTS))
_ADD_TO_TOTALS = f"""INSERT INTO run_totals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                     ON CONFLICT (status) DO UPDATE SET {_ADDED_UP}"""


def _write_history(db: Connection, event: ev.AnyEvent, run: Claim | None) -> None:
    match event:
        case ev.RunEnded() if run and not run.ended:
            _run_ended(db, event, run)
            add_run(db, event, run)
        case ev.Charged():
            add_charge(db, event, run)
        case ev.ToolCalled():
            db.execute(
                """INSERT INTO tool_calls (tool, result, calls) VALUES (?, ?, 1)
                   ON CONFLICT (tool, result) DO UPDATE SET calls = calls + 1""",
                (event.tool, event.result),
            )
        case ev.Commanded():
            # What was said with it is in an event of its own, without secrets.
            db.execute(
                "UPDATE commands SET done_at = ?, outcome = ?, ok = ?, text = '' WHERE id = ?",
                (event.at, event.outcome, event.ok, event.command_id),
            )
        case _:
            pass


def _run_ended(db: Connection, event: ev.RunEnded, claim: Claim) -> None:
    usage, tokens = event.usage, event.usage.total
    amounts = (usage.input, usage.output, usage.cache_read, tokens, usage.cost_usd)
    seconds = max(int(event.at) - int(claim.claimed_at), 0)
    db.execute(
        """INSERT INTO run_history (
               run_id, issue_id, identifier, attempt, agent_adapter, workspace, started_at, completed_at,
               status, error, turns, soft_stop, reason, session_id,
               input_tokens, output_tokens, cache_read_tokens, total_tokens, cost_usd, model, measured)
           VALUES (?, ?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', ?, 'unixepoch'),
               strftime('%Y-%m-%dT%H:%M:%SZ', ?, 'unixepoch'), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (run_id) DO NOTHING""",
        (
            *(claim.run_id, claim.issue_id, claim.identifier, claim.attempt, claim.agent, claim.workspace),
            *(claim.claimed_at, event.at, event.status, event.error or None, event.turns, event.soft_stop),
            *(event.reason, event.session_id or claim.session_id, *amounts, event.model),
            is_measured(event, claim),
        ),
    )
    db.execute(_ADD_TO_TOTALS, (event.status, 1, event.turns, seconds, *amounts))
