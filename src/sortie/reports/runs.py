"""Finished runs, filtered and sorted, page by page."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Literal, get_args

from msgspec import Struct

from ..core import events as ev
from ..core.redact import Hide
from ..store.load import snapshot
from ..store.queries import HISTORY_COLUMNS, HistoryRow, history_row
from .words import seconds_of

Sort = Literal["ended", "cost", "tokens", "turns", "seconds"]

SORTS: tuple[Sort, ...] = get_args(Sort)
LARGEST_PAGE = 500
# So many of the newest runs are sorted and searched for a text, and so far pages go: more would take ever longer.
FURTHEST = 100_000
SECONDS = "unixepoch(completed_at) - unixepoch(started_at)"
_TEXT = "(identifier || char(10) || reason || char(10) || coalesce(error, ''))"
_COLUMNS = ", ".join(HISTORY_COLUMNS.values())
NEWEST = f"id > (SELECT max(id) FROM run_history) - {FURTHEST}"
_ORDER = {"ended": "id", "cost": "cost_usd", "tokens": "total_tokens", "turns": "turns", "seconds": SECONDS}


class RunRow(Struct, frozen=True, kw_only=True):
    """One finished run. `measured` is False where it told nothing of what it used."""

    run_id: str
    issue_id: str
    identifier: str
    attempt: int
    agent: str
    model: str
    workspace: str
    started_at: str
    completed_at: str
    seconds: float
    status: ev.RunStatus
    error: str
    turns: int
    soft_stop: str
    reason: str
    session_id: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    total_tokens: int
    cost_usd: float
    measured: bool


class RunsPage(Struct, frozen=True, kw_only=True):
    """`total` is how many there are; None where a text was looked for and nobody counted. `is_cut`: there are more
    than pages reach to, and this is the last one, or behind it. `newest_only`: there are older ones, which were not
    looked at."""

    rows: list[RunRow]
    page: int
    size: int
    total: int | None
    has_more: bool
    is_cut: bool
    newest_only: bool


def runs_page(
    db: Connection,
    *,
    hide: Hide,
    issue: str | None = None,
    status: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    text: str | None = None,
    sort: Sort = "ended",
    descending: bool = True,
    page: int = 1,
    size: int = 50,
) -> RunsPage:
    """`issue` is an id; `text` is looked for in identifiers, reasons and errors. Pages count from 1."""
    size, page = min(max(size, 1), LARGEST_PAGE), max(page, 1)
    chosen = Choice(
        issue=issue, status=status, agent=agent, model=model, text=text, sort=sort, descending=descending
    )
    last = FURTHEST // size
    with snapshot(db):
        rows = chosen_runs(db, chosen, limit=size + 1, offset=(min(page, last + 1) - 1) * size)
        total = None if text else chosen.count(db)
        newest_only = chosen.is_bounded and _are_very_many(db)
    shown = rows[:size] if page <= last else []
    is_more = len(rows) > len(shown)
    return RunsPage(
        rows=[run_row(row, hide) for row in shown],
        page=page,
        size=size,
        total=total,
        has_more=is_more and page < last,
        is_cut=is_more and page >= last,
        newest_only=newest_only,
    )


class Choice(Struct, frozen=True, kw_only=True):
    """Which runs, and in which order. What is empty chooses nothing."""

    issue: str | None = None
    status: str | None = None
    agent: str | None = None
    model: str | None = None
    text: str | None = None
    sort: Sort = "ended"
    descending: bool = True

    @property
    def where(self) -> tuple[str, list[str]]:
        wanted = {
            "issue_id = ?": self.issue,
            "status = ?": self.status,
            "agent_adapter = ?": self.agent,
            "model = ?": self.model,
            f"{_TEXT} LIKE ? ESCAPE '\\'": like(self.text) if self.text else None,
        }
        given = {condition: value for condition, value in wanted.items() if value}
        conditions = [*given, NEWEST] if self.is_bounded else [*given]
        return f"WHERE {' AND '.join(conditions)}" if conditions else "", [*given.values()]

    @property
    def is_bounded(self) -> bool:
        """Neither texts nor amounts have an index: of very many runs, the newest are looked through."""
        return bool(self.text or self.sort != "ended") and not self.issue

    @property
    def order(self) -> str:
        direction = "DESC" if self.descending else "ASC"
        return f"{_ORDER[self.sort]} {direction}, id {direction}" if self.sort != "ended" else f"id {direction}"

    def count(self, db: Connection) -> int:
        where, values = self.where
        (total,) = db.execute(f"SELECT count(*) FROM run_history {where}", values).fetchone()
        return int(total)


def _are_very_many(db: Connection) -> bool:
    first, last = (f"(SELECT {end}(id) FROM run_history)" for end in ("min", "max"))
    (found,) = db.execute(f"SELECT {first} <= {last} - {FURTHEST}").fetchone()
    return bool(found)


def chosen_runs(db: Connection, chosen: Choice, *, limit: int, offset: int = 0) -> list[HistoryRow]:
    where, values = chosen.where
    part = f"run_history {where} ORDER BY {chosen.order} LIMIT ? OFFSET ?"
    if chosen.sort != "ended":
        # The numbers of the rows are sorted by themselves, which is much less to carry about than the rows.
        part = f"run_history WHERE id IN (SELECT id FROM {part}) ORDER BY {chosen.order}"
    rows = db.execute(f"SELECT {_COLUMNS} FROM {part}", (*values, limit, offset))
    return [history_row(dict(zip(HISTORY_COLUMNS, row, strict=True))) for row in rows]


def like(text: str) -> str:
    """The pattern of what has this text in it."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def run_row(row: HistoryRow, hide: Hide) -> RunRow:
    tokens = row.tokens
    return RunRow(
        run_id=row.run_id,
        issue_id=row.issue_id,
        identifier=row.identifier,
        attempt=row.attempt,
        agent=row.agent,
        model=row.model,
        workspace=row.workspace,
        started_at=row.started_at,
        completed_at=row.completed_at,
        seconds=seconds_of(row.completed_at) - seconds_of(row.started_at),
        status=row.status,
        error=hide(row.error or ""),
        turns=row.turns,
        soft_stop=row.soft_stop,
        reason=hide(row.reason),
        session_id=row.session_id,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        total_tokens=tokens.total,
        cost_usd=row.cost_usd,
        measured=row.measured,
    )


def runs_of_issue(db: Connection, issue_id: str, *, hide: Hide, limit: int = 50) -> list[RunRow]:
    """The last finished ones, the newest first."""
    return [run_row(row, hide) for row in chosen_runs(db, Choice(issue=issue_id), limit=limit)]
