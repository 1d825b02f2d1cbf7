"""Everything recorded about a single run: turns, tool calls, usage, and writes to the tracker."""

from __future__ import annotations

from itertools import chain
from sqlite3 import Connection
from typing import Literal

from msgspec import Struct

from ..core import events as ev
from ..core.model import Usage
from ..core.redact import Hide
from ..store.load import look, snapshot
from ..store.queries import HistoryRow, LoggedEvent, events, history_of_run, last_run_of, last_view
from .runs import RunRow, run_row
from .usage import charged_to
from .words import seconds_of

MOST_EVENTS = 5_000
# Of a run with more events, those of these kinds are read from its beginning on.
_WHOLE = ("claim", "turn", "turn_end")


class TurnRow(Struct, frozen=True, kw_only=True):
    """`ended_at` is None while it goes on, and where it never completed."""

    turn: int
    started_at: float
    ended_at: float | None = None
    tool_calls: int = 0


class ToolCallRow(Struct, frozen=True, kw_only=True):
    at: float
    tool: str
    result: str
    ms: float
    operation: str
    target: str
    state: str
    error: str
    witnessed: bool


class EffectRow(Struct, frozen=True, kw_only=True):
    """A change to the tracker: `planned`, `done` or `failed`."""

    effect_id: str
    verb: str
    argument: str
    state: Literal["planned", "done", "failed"]
    planned_at: float
    done_at: float | None
    detail: str


class NoteRow(Struct, frozen=True, kw_only=True):
    at: float
    level: ev.Level
    text: str


class RunDetail(Struct, frozen=True, kw_only=True):
    """`row` is None while the run goes on. `is_cut` says that the run has more events than were read: then tool
    calls, effects and notes are the last ones."""

    run_id: str
    issue_id: str
    identifier: str
    title: str
    attempt: int
    cause: str
    agent: str
    model: str
    workspace: str
    host: str
    session_id: str
    started_at: float
    ended_at: float | None
    row: RunRow | None
    turns: list[TurnRow]
    tool_calls: list[ToolCallRow]
    effects: list[EffectRow]
    notes: list[NoteRow]
    usage: Usage
    is_cut: bool


def run_detail(db: Connection, run_id: str, *, hide: Hide) -> RunDetail | None:
    """None where nothing is known of such a run."""
    with snapshot(db):
        log, is_cut = _log(db, run_id)
        row = history_of_run(db, run_id)
        used = charged_to(db, run_id) if row is None else _used(row)
        claimed = next((one.event for one in log if isinstance(one.event, ev.Claimed)), None)
        if claimed is None and row is None:
            return None
        finished = run_row(row, hide) if row else None
        issue_id = claimed.issue_id if claimed else finished.issue_id if finished else ""
        now = look(db, issue_id=issue_id).schedule
        claim, view = now.running.get(issue_id), now.issues.get(issue_id)
        shown = view or last_view(db, issue_id)
    open_claim = claim if claim and claim.run_id == run_id else None
    gathered = _Gathered(log, hide)
    return RunDetail(
        run_id=run_id,
        issue_id=issue_id,
        identifier=claimed.identifier if claimed else finished.identifier if finished else issue_id,
        title=hide(shown.title) if shown else "",
        attempt=claimed.attempt if claimed else finished.attempt if finished else 0,
        cause=claimed.cause if claimed else "",
        agent=claimed.agent if claimed else finished.agent if finished else "",
        model=finished.model if finished else gathered.model,
        workspace=finished.workspace if finished else open_claim.workspace if open_claim else gathered.workspace,
        host=claimed.host if claimed else "",
        session_id=finished.session_id if finished else open_claim.session_id if open_claim else "",
        started_at=claimed.at if claimed else seconds_of(finished.started_at) if finished else 0.0,
        ended_at=gathered.ended_at or (seconds_of(finished.completed_at) if finished else None),
        row=finished,
        turns=[*gathered.turns.values()],
        tool_calls=gathered.tool_calls,
        effects=[*gathered.effects.values()],
        notes=gathered.notes,
        usage=used or Usage(),
        is_cut=is_cut,
    )


def latest_run(db: Connection, issue_id: str, *, hide: Hide) -> RunDetail | None:
    """The run of an issue that goes on, or else the one that ended last."""
    run_id = last_run_of(db, issue_id)
    return run_detail(db, run_id, hide=hide) if run_id else None


def _log(db: Connection, run_id: str) -> tuple[list[LoggedEvent], bool]:
    """The last events of a run, and whether there are more; of those before them, what only a few are."""
    last = events(db, run_id=run_id, limit=MOST_EVENTS + 1, last=True)
    if len(last) <= MOST_EVENTS:
        return last, False
    before = last[1].seq
    found = [events(db, run_id=run_id, kind=kind, before_seq=before, limit=MOST_EVENTS) for kind in _WHOLE]
    return [*sorted(chain(*found), key=lambda one: one.seq), *last[1:]], True


def _used(row: HistoryRow) -> Usage:
    return Usage(row.tokens.input, row.tokens.output, row.tokens.cache_read, row.cost_usd)


class _Gathered:
    """What the events of a run tell, each kind by itself."""

    def __init__(self, log: list[LoggedEvent], hide: Hide) -> None:
        self._hide = hide
        self.turns: dict[int, TurnRow] = {}
        self.tool_calls: list[ToolCallRow] = []
        self.effects: dict[str, EffectRow] = {}
        self.notes: list[NoteRow] = []
        self.workspace = ""
        self.model = ""
        self.ended_at: float | None = None
        for one in log:
            self._take(one.event)

    def _take(self, event: ev.AnyEvent) -> None:
        hide = self._hide
        match event:
            case ev.WorkspaceMade():
                self.workspace = event.path
            case ev.TurnStarted():
                self.turns[event.turn] = TurnRow(turn=event.turn, started_at=event.at)
            case ev.TurnEnded() if turn := self.turns.get(event.turn):
                self.turns[event.turn] = TurnRow(
                    turn=turn.turn, started_at=turn.started_at, ended_at=event.at, tool_calls=turn.tool_calls
                )
            case ev.Charged():
                self.model = event.model or self.model
            case ev.ToolCalled():
                self.tool_calls.append(
                    ToolCallRow(
                        at=event.at,
                        tool=event.tool,
                        result=event.result,
                        ms=event.ms,
                        operation=hide(event.operation),
                        target=hide(event.target),
                        state=event.state,
                        error=hide(event.error),
                        witnessed=event.witnessed,
                    )
                )
            case ev.EffectPlanned():
                self.effects[event.effect_id] = EffectRow(
                    effect_id=event.effect_id,
                    verb=event.verb,
                    argument=hide(event.argument),
                    state="planned",
                    planned_at=event.at,
                    done_at=None,
                    detail="",
                )
            case ev.EffectDone():
                planned = self.effects.get(event.effect_id)
                self.effects[event.effect_id] = EffectRow(
                    effect_id=event.effect_id,
                    verb=event.verb,
                    argument=planned.argument if planned else "",
                    state="done" if event.ok else "failed",
                    planned_at=planned.planned_at if planned else event.at,
                    done_at=event.at,
                    detail=hide(event.detail),
                )
            case ev.RunEnded():
                self.ended_at = event.at
            case ev.Noted():
                detail = f": {event.detail}" if event.detail else ""
                self.notes.append(NoteRow(at=event.at, level=event.level, text=hide(event.message + detail)))
            case _:
                pass
