"""What people and tools ask the store: history, events, totals, which issue is meant. Never changes anything.

Every function takes a connection from `connect_readonly` or the one `Store.read` hands over.
"""

from __future__ import annotations

from datetime import datetime
from sqlite3 import Connection
from typing import Any

import msgspec
from msgspec import Struct

from ..core import events as ev
from ..core.policy import Policy

_UNKNOWN_TIME = "1970-01-01T00:00:00Z"
_LIVE_FIRST = ("issues", "claims", "retries", "parked", "run_history")


class Tokens(Struct, frozen=True):
    input: int
    output: int
    cache_read: int
    total: int


class HistoryRow(Struct, frozen=True, kw_only=True):
    """One finished run, in the form `sortie history --json` prints it. `measured` is False where it told nothing of
    what it used."""

    run_id: str
    issue_id: str
    identifier: str
    attempt: int
    agent: str
    workspace: str
    started_at: str
    completed_at: str
    status: ev.RunStatus
    error: str | None
    turns: int
    soft_stop: str
    reason: str
    session_id: str
    tokens: Tokens
    cost_usd: float
    model: str = ""
    measured: bool = True


# Which column holds which field.
HISTORY_COLUMNS = {name: name for name in HistoryRow.__struct_fields__ if name != "tokens"}
HISTORY_COLUMNS |= {"agent": "agent_adapter", **{name: f"{name}_tokens" for name in Tokens.__struct_fields__}}


class LoggedEvent(Struct, frozen=True):
    """Where an entry cannot be understood, `event` is a note that says so."""

    seq: int
    event: ev.AnyEvent


class LastSession(Struct, frozen=True):
    """`agent` is the kind that led it; `session_id` is empty where it had no name."""

    agent: str
    session_id: str
    cost_usd: float


class Totals(Struct, frozen=True, kw_only=True):
    """All finished runs together; `runs` counts them by status."""

    runs: dict[str, int]
    turns: int
    seconds: float
    tokens: Tokens
    cost_usd: float


def history(db: Connection, issue_id: str | None = None, limit: int = 100) -> list[HistoryRow]:
    """The last finished runs, newest first, of one issue or of all."""
    where, parameters = ("WHERE issue_id = ?", (issue_id,)) if issue_id is not None else ("", ())
    rows = db.execute(
        f"SELECT {', '.join(HISTORY_COLUMNS.values())} FROM run_history {where} ORDER BY id DESC LIMIT ?",
        (*parameters, limit),
    )
    return [history_row(dict(zip(HISTORY_COLUMNS, row, strict=True))) for row in rows]


def history_of_run(db: Connection, run_id: str) -> HistoryRow | None:
    """None while it goes on, and where there was no such run."""
    columns = ", ".join(HISTORY_COLUMNS.values())
    row = db.execute(f"SELECT {columns} FROM run_history WHERE run_id = ?", (run_id,)).fetchone()
    return history_row(dict(zip(HISTORY_COLUMNS, row, strict=True))) if row else None


def is_run(db: Connection, run_id: str) -> bool:
    """Whether there is such a run, or was."""
    known = "SELECT 1 FROM claims WHERE run_id = ? UNION ALL SELECT 1 FROM run_history WHERE run_id = ?"
    return db.execute(known, (run_id, run_id)).fetchone() is not None


def store_id(db: Connection) -> str:
    """What tells this store from all others, its copies among them."""
    (found,) = db.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()
    return str(found)


def last_seq(db: Connection) -> int:
    """The number of the newest event; 0 where there is none."""
    (seq,) = db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    return int(seq)


def last_opened(db: Connection) -> ev.Opened | None:
    """By whom, and for what, this store was last worked with; None where it was not, or that cannot be read."""
    opened = "SELECT data FROM events INDEXED BY events_opened WHERE kind = 'opened' ORDER BY seq DESC LIMIT 1"
    event = _decoded(db.execute(opened).fetchone())
    return event if isinstance(event, ev.Opened) else None


def last_opened_for(db: Connection) -> str:
    """The name of the source that an orchestrator last worked for with this store; empty where none did."""
    opened = last_opened(db)
    return opened.workflow if opened else ""


class Used(Struct, frozen=True):
    """What all finished runs of an issue took."""

    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0


def used_by_issue(db: Connection) -> dict[str, Used]:
    """Reads every finished run: for stores of one plan."""
    rows = db.execute(
        """SELECT issue_id, total((SELECT ended.at - claim.at FROM events AS claim, events AS ended
                                             WHERE claim.run_id = one.run_id AND claim.kind = 'claim'
                                               AND ended.run_id = one.run_id AND ended.kind = 'end')),
                  sum(total_tokens), total(cost_usd) FROM run_history AS one GROUP BY issue_id"""
    )
    return {issue_id: Used(*taken) for issue_id, *taken in rows}


def last_session(db: Connection, issue_id: str) -> LastSession | None:
    """The conversation of an issue's last run, with what it has cost over all its runs."""
    row = db.execute(
        """SELECT agent_adapter, session_id,
                  (SELECT sum(cost_usd) FROM run_history AS one
                   WHERE one.issue_id = last.issue_id AND one.session_id = last.session_id)
           FROM run_history AS last WHERE issue_id = ? ORDER BY id DESC LIMIT 1""",
        (issue_id,),
    ).fetchone()
    return LastSession(*row) if row else None


def runs_of(db: Connection, issue_id: str) -> dict[str, float]:
    """When each run of an issue began, the oldest first."""
    begun = "SELECT run_id, at FROM events WHERE issue_id = ? AND kind = 'claim' ORDER BY seq"
    return dict(db.execute(begun, (issue_id,)))


def last_run_of(db: Connection, issue_id: str) -> str | None:
    """The run of an issue that goes on, or else the one that ended last."""
    (found,) = db.execute(
        """SELECT coalesce((SELECT run_id FROM claims WHERE issue_id = :issue),
                           (SELECT run_id FROM run_history WHERE issue_id = :issue ORDER BY id DESC LIMIT 1))""",
        {"issue": issue_id},
    ).fetchone()
    return None if found is None else str(found)


def skipped_at(db: Connection, issue_id: str) -> float | None:
    """Since when the rule that holds it back does so; None where none ever did."""
    last = "SELECT at FROM events WHERE issue_id = ? AND kind = 'skip' ORDER BY seq DESC LIMIT 1"
    row = db.execute(last, (issue_id,)).fetchone()
    return float(row[0]) if row else None


def has_ended(db: Connection, run_id: str) -> bool:
    """Whether the run has a verdict, or is not known at all."""
    return not db.execute("SELECT 1 FROM claims WHERE run_id = ? AND ending IS NULL", (run_id,)).fetchone()


def events(
    db: Connection,
    *,
    issue_id: str | None = None,
    run_id: str | None = None,
    kind: str | None = None,
    after_seq: int = 0,
    before_seq: int | None = None,
    limit: int = 1000,
    last: bool = False,
) -> list[LoggedEvent]:
    """The next events after `after_seq`, or the `last` ones, before `before_seq` where that is given; always the
    oldest first. A negative limit is none.

    For more, ask again from the last one's number.
    """
    wanted: dict[str, str | int] = {"seq > ?": after_seq}
    given = (("issue_id =", issue_id), ("run_id =", run_id), ("kind =", kind), ("seq <", before_seq))
    for condition, value in given:
        if value is not None:
            wanted[f"{condition} ?"] = value
    rows = db.execute(
        f"""SELECT seq, data, at, kind, coalesce(issue_id, ''), coalesce(run_id, '')
            FROM events WHERE {" AND ".join(wanted)} ORDER BY seq {"DESC" if last else "ASC"} LIMIT ?""",
        (*wanted.values(), limit),
    )
    found = [LoggedEvent(seq, _event(seq, *columns)) for seq, *columns in rows]
    return found[::-1] if last else found


def find_issue(db: Connection, text: str) -> str | None:
    """The issue a person means by an id or an identifier: ids win, then what is alive, then the newest.
    `#42` is 42, and `proj-7` PROJ-7, where nothing else is called so."""
    for column in ("issue_id", "identifier"):
        for table in _LIVE_FIRST:
            row = db.execute(
                f"SELECT issue_id FROM {table} WHERE {column} = ? ORDER BY rowid DESC LIMIT 1", (text,)
            ).fetchone()
            if row:
                return str(row[0])
    row = db.execute(
        """SELECT issue_id FROM events WHERE issue_id = ? AND kind = 'acted'
           UNION ALL SELECT issue_id FROM events WHERE kind = 'acted' AND json_extract(data, '$.identifier') = ?
           LIMIT 1""",
        (text, text),
    ).fetchone()
    if row:
        return str(row[0])
    alias = text.lstrip("#") if text[:1] == "#" else text.upper()
    return find_issue(db, alias) if alias != text else None


def totals(db: Connection) -> Totals:
    rows = db.execute(
        """SELECT status, runs, turns, seconds, cost_usd,
                  input_tokens, output_tokens, cache_read_tokens, total_tokens
           FROM run_totals ORDER BY status"""
    ).fetchall()
    return Totals(
        runs={row[0]: row[1] for row in rows},
        turns=sum(row[2] for row in rows),
        seconds=round(sum(row[3] for row in rows), 3),
        tokens=Tokens(*(sum(row[column] for row in rows) for column in range(5, 9))),
        cost_usd=sum(row[4] for row in rows),
    )


def tool_calls(db: Connection) -> dict[str, dict[str, int]]:
    """How often each tool was called, by result: `sortie_tool_calls_total`."""
    counted: dict[str, dict[str, int]] = {}
    for tool, result, calls in db.execute("SELECT tool, result, calls FROM tool_calls ORDER BY tool, result"):
        counted.setdefault(tool, {})[result] = calls
    return counted


def history_row(fields: dict[str, Any]) -> HistoryRow:
    try:
        datetime.fromisoformat(fields["started_at"]), datetime.fromisoformat(fields["completed_at"])
    except ValueError:
        fields["started_at"] = fields["completed_at"] = _UNKNOWN_TIME
        fields["error"] = f"{fields['error'] or ''} (the times of this run cannot be read)".strip()
    tokens = Tokens(*(fields.pop(name) for name in Tokens.__struct_fields__))
    return HistoryRow(**fields | {"tokens": tokens, "measured": bool(fields["measured"])})


def _event(seq: int, data: str, at: float, kind: str, issue_id: str, run_id: str) -> ev.AnyEvent:
    """One bad entry, or one of a later version, must not hide all others."""
    try:
        return ev.decode(data)
    except msgspec.MsgspecError as error:
        message = f"an entry of the log cannot be read: number {seq}, of kind {kind}"
        return ev.Noted(
            at=at, issue_id=issue_id, run_id=run_id, level="warning", message=message, detail=str(error)
        )


def last_policy(db: Connection) -> Policy | None:
    """The rules that the last service worked by; None where none has, or they cannot be read."""
    row = db.execute(
        "SELECT data FROM events INDEXED BY events_policies WHERE kind = 'policy' ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    event = _decoded(row)
    return event.policy if isinstance(event, ev.PolicySet) else None


def last_view(db: Connection, issue_id: str) -> ev.View | None:
    """As the source showed it last; it may show it no more."""
    latest = """SELECT data FROM events INDEXED BY events_seen
                WHERE issue_id = ? AND kind = 'seen' ORDER BY seq DESC LIMIT 1"""
    event = _decoded(db.execute(latest, (issue_id,)).fetchone())
    return event.view if isinstance(event, ev.IssueSeen) else None


def _decoded(row: tuple[str] | None) -> ev.AnyEvent | None:
    try:
        return ev.decode(row[0]) if row else None
    except msgspec.MsgspecError:
        return None
