"""The tables of the scheduling state: how a row of each becomes part of a `Schedule`, and back.

A change is an event with the rows that it touched, as they are after it. The event goes to the log, the rows take
the place of those of the same key; nothing else changes the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sqlite3 import Connection
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ..core import events as ev
from ..core.records import Claim, Effect, Pause, WorkspaceRecord
from ..core.schedule import Schedule, Touched


class Change(NamedTuple):
    """An event with its text, and what each row that it touched holds now; None where there is none any more."""

    event: ev.AnyEvent
    text: str
    rows: tuple[tuple[Touched, Any], ...]


def apply(schedule: Schedule, event: ev.AnyEvent) -> Change:
    """Make the event part of the schedule, and tell what is to be written."""
    event, text = ev.encodable(event)
    return Change(event, text, tuple((touched, _value(schedule, touched)) for touched in schedule.apply(event)))


class _Kind(NamedTuple):
    """How the rows of one table are written: `values` gives the columns of a value, the key first."""

    table: str
    columns: tuple[str, ...]
    values: Callable[[str, Any], tuple[Any, ...]]
    keys: int = 1

    @property
    def insert(self) -> str:
        marks = ", ".join("?" * len(self.columns))
        return f"INTO {self.table} ({', '.join(self.columns)}) VALUES ({marks})"

    @property
    def delete(self) -> str:
        where = " AND ".join(f"{column} = ?" for column in self.columns[: self.keys])
        return f"DELETE FROM {self.table} WHERE {where}"


def _fields(kind: type[Struct], *but: str) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in but)


def _all(value: Struct) -> tuple[Any, ...]:
    return tuple(getattr(value, name) for name in value.__struct_fields__)


CLAIM_COLUMNS = tuple({"stop": "stop_cause"}.get(name, name) for name in _fields(Claim))
RETRY_COLUMNS = ("issue_id", "identifier", *_fields(ev.Retry))
PARKED_COLUMNS = ("issue_id", "identifier", *_fields(ev.Park), "since")
PAUSE_COLUMNS = ("provider", *_fields(Pause))
_BUDGET = ("scope", "key", "sessions", "turns", "tokens", "usd")


def _claim(_: str, claim: Claim) -> tuple[Any, ...]:
    ending = ev.encode(claim.ending).decode() if claim.ending else None
    return tuple(ending if name == "ending" else getattr(claim, name) for name in claim.__struct_fields__)


def _issue(issue_id: str, value: tuple[ev.View, tuple[str, str]]) -> tuple[Any, ...]:
    view, skip = value
    return (issue_id, view.identifier, msgspec.json.encode(view).decode(), *skip)


_KINDS: dict[str, _Kind] = {
    "issues": _Kind("issues", ("issue_id", "identifier", "data", "skip_rule", "skip_detail"), _issue),
    "claims": _Kind("claims", CLAIM_COLUMNS, _claim),
    "retries": _Kind("retries", RETRY_COLUMNS, lambda key, item: (key, item.identifier, *_all(item.retry))),
    "parked": _Kind(
        "parked", PARKED_COLUMNS, lambda key, item: (key, item.identifier, *_all(item.park), item.since)
    ),
    "pauses": _Kind("pauses", PAUSE_COLUMNS, lambda key, pause: (key, *_all(pause))),
    "effects": _Kind("effects", _fields(Effect), lambda _, effect: _all(effect)),
    "workspaces": _Kind("workspaces", _fields(WorkspaceRecord), lambda _, record: _all(record)),
    "spent on issue": _Kind("budget", _BUDGET, lambda key, spent: ("issue", key, *_all(spent)), keys=2),
    "spent on day": _Kind("budget", _BUDGET, lambda key, spent: ("day", key, *_all(spent)), keys=2),
}
_SCOPES = {"spent on issue": ("issue",), "spent on day": ("day",)}
_STATEMENTS = {name: (f"INSERT OR REPLACE {kind.insert}", kind.delete) for name, kind in _KINDS.items()}
# A plain insert on purpose: a second run of a claimed issue must fail here, whatever the caller believes.
_NEW_CLAIM = f"INSERT {_KINDS['claims'].insert}"


def _value(schedule: Schedule, touched: Touched) -> Any:
    key = touched.key
    match touched.table:
        case "issues":
            view = schedule.issues.get(key)
            return (view, schedule.skips.get(key, ("", ""))) if view else None
        case "claims":
            return schedule.running.get(key)
        case "retries":
            return schedule.waiting.get(key)
        case "parked":
            return schedule.parked.get(key)
        case "pauses":
            return schedule.pauses.get(key)
        case "effects":
            return schedule.effects.get(key)
        case "workspaces":
            return schedule.workspaces.get(key)
        case "spent on issue":
            return schedule.spent.get(key)
        case "spent on day":
            return schedule.days.get(key)


def write(db: Connection, changes: Iterable[Change]) -> None:
    """Write the events and bring the tables up to them, inside the caller's transaction."""
    last: dict[Touched, Any] = {}
    for event, text, rows in changes:
        db.execute(
            "INSERT INTO events (at, kind, issue_id, run_id, data) VALUES (?, ?, ?, ?, ?)",
            (event.at, ev.kind_of(event), event.issue_id or None, event.run_id or None, text),
        )
        _write_history(db, event, rows)
        for touched, value in rows:
            if isinstance(event, ev.Claimed) and touched.table == "claims":
                if touched in last:  # the run before it ended in the same transaction
                    _write_row(db, touched, last.pop(touched))
                db.execute(_NEW_CLAIM, _claim(touched.key, value))
            else:
                last[touched] = value
    for touched, value in last.items():
        _write_row(db, touched, value)


def _write_row(db: Connection, touched: Touched, value: Any) -> None:
    replace, delete = _STATEMENTS[touched.table]
    if value is not None:
        db.execute(replace, _KINDS[touched.table].values(touched.key, value))
    else:
        db.execute(delete, (*_SCOPES.get(touched.table, ()), touched.key))


# -- what is only read by people --------------------------------------------------------------------------------


def _write_history(db: Connection, event: ev.AnyEvent, rows: tuple[tuple[Touched, Any], ...]) -> None:
    match event:
        case ev.RunEnded():
            for _, claim in rows:
                _run_ended(db, event, claim)
        case ev.ToolCalled():
            db.execute(
                """INSERT INTO tool_calls (tool, result, calls) VALUES (?, ?, 1)
                   ON CONFLICT (tool, result) DO UPDATE SET calls = calls + 1""",
                (event.tool, event.result),
            )
        case ev.Commanded():
            db.execute(
                "UPDATE commands SET done_at = ?, outcome = ?, ok = ? WHERE id = ?",
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
               input_tokens, output_tokens, cache_read_tokens, total_tokens, cost_usd)
           VALUES (?, ?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', ?, 'unixepoch'),
               strftime('%Y-%m-%dT%H:%M:%SZ', ?, 'unixepoch'), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (run_id) DO NOTHING""",
        (
            *(claim.run_id, claim.issue_id, claim.identifier, claim.attempt, claim.agent, claim.workspace),
            *(claim.claimed_at, event.at, event.status, event.error or None, event.turns, event.soft_stop),
            *(event.reason, event.session_id or claim.session_id, *amounts),
        ),
    )
    db.execute(
        """INSERT INTO run_totals VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (status) DO UPDATE SET
               runs = runs + 1, turns = turns + excluded.turns, seconds = seconds + excluded.seconds,
               input_tokens = input_tokens + excluded.input_tokens,
               output_tokens = output_tokens + excluded.output_tokens,
               cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
               total_tokens = total_tokens + excluded.total_tokens, cost_usd = cost_usd + excluded.cost_usd""",
        (event.status, event.turns, seconds, *amounts),
    )
