"""What runs, waits, is parked and is ready, what was spent, and first of all what needs a person.

Only tables of the present state are read, and from the event log the names of a few issues: the time does not
depend on the length of the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from sqlite3 import Connection
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from ..core.model import Usage
from ..core.policy import Limits, Policy, Spent, day_of
from ..core.ready_queue import dispatch_order
from ..core.records import Claim, Waiting
from ..core.redact import Hide
from ..core.schedule import Schedule
from ..plans.plan import Plan
from ..store.call_use import CallFigures, call_figures
from ..store.load import look, snapshot
from ..store.queries import Totals, last_policy, tool_calls, totals
from ..workflow.config import Config
from .needs import (
    LiveTrouble,
    Need,
    failed_tasks,
    most_pressing_first,
    parked_needs,
    reviews,
    service_needs,
    standstills,
)
from .rules import rules_in_force
from .usage import charged_to
from .words import stamp

# The tracker's rate limit is shown only if it is not older than this, in seconds.
FIGURES_KEPT = 86400.0
# With these rules an issue starts as soon as it is its turn; every other one needs something to happen first.
ONLY_ITS_TURN = ("", "no-slot", "no-state-slot")


class LiveRun(Protocol):
    """What a service tells of a run that goes on, beyond what the store has."""

    @property
    def run_id(self) -> str: ...
    @property
    def turn(self) -> int: ...
    @property
    def max_turns(self) -> int: ...
    @property
    def quiet_seconds(self) -> float: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def last_line(self) -> str: ...
    @property
    def model(self) -> str: ...


class LiveRuns(LiveTrouble, Protocol):
    """The report of a service: `engine.report.LiveReport`."""

    @property
    def running(self) -> Sequence[LiveRun]: ...


class Running(Struct, frozen=True, kw_only=True):
    """`heard` says that the service told of it just now; else `last_line` and what follows are not known, but for
    what the run was charged so far: `tokens` and `cost_usd` are None where even that is not known."""

    issue_id: str
    identifier: str
    title: str
    run_id: str
    attempt: int
    turn: int
    agent: str
    session_id: str
    workspace: str
    pid: int | None
    started_at: str
    stopping: str
    age: float = 0.0
    max_turns: int = 0
    heard: bool = False
    last_line: str = ""
    quiet_seconds: float = 0.0
    tokens: int | None = None
    cost_usd: float | None = None
    model: str = ""


class Retrying(Struct, frozen=True, kw_only=True):
    """`rule` is what holds it back though it is due, empty where nothing does, or only its time."""

    issue_id: str
    identifier: str
    title: str
    kind: str
    attempt: int
    due_at: str
    error: str
    rule: str = ""
    detail: str = ""


class ParkedItem(Struct, frozen=True, kw_only=True):
    issue_id: str
    identifier: str
    title: str
    kind: str
    attempt: int
    since: str
    reason: str


class PausedAgent(Struct, frozen=True, kw_only=True):
    agent: str
    kind: str
    until: str
    reason: str


class Idle(Struct, frozen=True, kw_only=True):
    """Active, and neither running, waiting nor parked; `rule` is what holds it back, empty where nothing does."""

    issue_id: str
    identifier: str
    title: str
    rule: str
    detail: str


class DayBudget(Struct, frozen=True, kw_only=True):
    """The limits are None where nobody knows them, because the workflow is broken and no service goes on with the
    last good one."""

    day: str
    today: Spent
    per_day: Limits | None
    per_issue: Limits | None


class TrackerUse(Struct, frozen=True, kw_only=True):
    """Call figures in the form of `sortie status --json`."""

    calls_last_minute: int
    calls_per_minute: int
    limit: int | None
    remaining: int | None
    resets_at: str | None
    held_until: str | None
    as_of: str


class Status(Struct, frozen=True, kw_only=True):
    """`plain` is what programs get by `sortie status --json`. `tracker` is what its server allowed when the service
    last wrote it down, None where that is long ago. `unreadable` has a sentence for each bad row; `slots` is None
    where nobody knows the rules."""

    now: float
    service: Mapping[str, Any] | None
    needs_person: list[Need]
    running: list[Running]
    retrying: list[Retrying]
    parked: list[ParkedItem]
    paused: list[PausedAgent]
    totals: Totals
    workflow_broken: bool
    ready: list[Idle]
    held_back: list[Idle]
    budget: DayBudget
    tool_calls: dict[str, dict[str, int]]
    tracker: CallFigures | None
    slots: int | None
    unreadable: list[str]

    def plain(self) -> dict[str, Any]:
        people = ("now", "needs_person", "slots", "unreadable")
        told = {name: value for name, value in asdict(self).items() if name not in people}
        told["running"] = [
            {name: value for name, value in asdict(one).items() if name in _RUNNING} for one in self.running
        ]
        told["tracker"] = _use(self.tracker) if self.tracker else None
        return told


# What the store knows of a run; the rest is for people, and only while a service tells it.
_RUNNING = Running.__struct_fields__[: Running.__struct_fields__.index("age")]


def status_report(
    db: Connection,
    *,
    config: Config | None,
    broken: bool,
    service: Mapping[str, Any] | None,
    now: float,
    hide: Hide,
    live: LiveRuns | None = None,
    plan: Plan | None = None,
) -> Status:
    """`config` is None where the store belongs to no workflow, `plan` where to no plan. `broken`: what it belongs
    to cannot be used as it is. `service` is what the holder of the store said of itself."""
    day = day_of(now)
    with snapshot(db):
        loaded = look(db, day=day)
        figures, all_runs, calls = call_figures(db), totals(db), tool_calls(db)
        schedule = loaded.schedule
        rules = rules_in_force(db, config, broken=broken, served=service is not None)
        # Where issues were handed over to, the last good workflow said, whether a service goes on with it or not.
        handed_over = reviews(db, schedule, rules or last_policy(db) or Policy(), hide)
        failed = list(failed_tasks(db, schedule, plan, hide)) if plan else []
        standing_still = list(standstills(db, schedule, rules, now, hide))
        heard = {run.run_id: run for run in live.running} if live else {}
        charged = {run_id: charged_to(db, run_id) for run_id in _run_ids(schedule) if run_id not in heard}
    titles = _titles(schedule, hide)
    # Nothing can be derived from unknown rules: using the defaults would be a guess.
    idle = list(_idle(rules, schedule, titles, hide)) if rules else []
    busy = {*schedule.running, *schedule.waiting, *schedule.parked, *(item.issue_id for item in idle)}
    needs = [
        *service_needs(live, now, hide),
        *most_pressing_first([*parked_needs(schedule, titles, hide), *failed]),
        *standing_still,
        *(review for review in handed_over if review.issue_id not in busy),
    ]
    return Status(
        now=now,
        service=service,
        needs_person=needs,
        running=[
            _running(
                claim,
                titles,
                live=heard.get(claim.run_id),
                charged=charged.get(claim.run_id),
                now=now,
                max_turns=rules.max_turns if rules else 0,
                hide=hide,
            )
            for claim in schedule.running.values()
        ],
        retrying=[
            _retrying(waiting, titles, schedule.skips.get(waiting.issue_id), now=now, hide=hide)
            for waiting in schedule.waiting.values()
        ],
        parked=[
            ParkedItem(
                issue_id=parked.issue_id,
                identifier=parked.identifier,
                title=titles.get(parked.issue_id, ""),
                kind=parked.park.kind,
                attempt=parked.park.attempt,
                since=stamp(parked.since),
                reason=hide(parked.park.reason),
            )
            for parked in schedule.parked.values()
        ],
        paused=[
            PausedAgent(agent=name, kind=pause.error_kind, until=stamp(pause.until), reason=hide(pause.detail))
            for name, pause in schedule.pauses.items()
            if pause.is_fault or pause.until > now
        ],
        totals=all_runs,
        workflow_broken=broken,
        ready=[item for item in idle if item.rule in ONLY_ITS_TURN],
        held_back=[item for item in idle if item.rule not in ONLY_ITS_TURN],
        budget=DayBudget(
            day=day,
            today=schedule.spent_today(day),
            per_day=rules.per_day if rules else None,
            per_issue=rules.per_issue if rules else None,
        ),
        tool_calls=calls,
        tracker=figures if figures and now - figures.as_of <= FIGURES_KEPT else None,
        slots=rules.max_concurrent if rules else None,
        unreadable=loaded.unreadable,
    )


def _titles(schedule: Schedule, hide: Hide) -> dict[str, str]:
    return {issue_id: hide(view.title) for issue_id, view in schedule.issues.items()}


def _running(
    claim: Claim,
    titles: Mapping[str, str],
    *,
    live: LiveRun | None,
    charged: Usage | None,
    now: float,
    max_turns: int,
    hide: Hide,
) -> Running:
    used = live.usage if live else charged
    return Running(
        issue_id=claim.issue_id,
        identifier=claim.identifier,
        title=titles.get(claim.issue_id, ""),
        run_id=claim.run_id,
        attempt=claim.attempt,
        turn=claim.turn,
        agent=claim.agent,
        session_id=claim.session_id,
        workspace=claim.workspace,
        pid=claim.pid,
        started_at=stamp(claim.claimed_at),
        stopping=claim.stop,
        age=max(now - claim.claimed_at, 0.0),
        max_turns=live.max_turns if live else max_turns,
        heard=live is not None,
        last_line=hide(live.last_line) if live else "",
        quiet_seconds=live.quiet_seconds if live else 0.0,
        tokens=used.total if used else None,
        cost_usd=used.cost_usd if used else None,
        model=live.model if live else "",
    )


def _retrying(
    waiting: Waiting, titles: Mapping[str, str], skipped: tuple[str, str] | None, *, now: float, hide: Hide
) -> Retrying:
    rule, detail = skipped if skipped and waiting.retry.due_at <= now else ("", "")
    return Retrying(
        issue_id=waiting.issue_id,
        identifier=waiting.identifier,
        title=titles.get(waiting.issue_id, ""),
        kind=waiting.retry.kind,
        attempt=waiting.retry.attempt,
        due_at=stamp(waiting.retry.due_at),
        error=hide(waiting.retry.error),
        rule="" if rule == "waiting" else rule,
        detail=hide(detail) if rule != "waiting" else "",
    )


def _run_ids(schedule: Schedule) -> list[str]:
    return [claim.run_id for claim in schedule.running.values()]


def _idle(policy: Policy, schedule: Schedule, titles: Mapping[str, str], hide: Hide) -> Iterator[Idle]:
    """The next one first; with the rule that applies."""
    held = {*schedule.running, *schedule.waiting, *schedule.parked}
    for view in sorted(schedule.issues.values(), key=lambda view: dispatch_order(view, None)):
        if view.id not in held and policy.is_active(view.state):
            rule, detail = schedule.skips.get(view.id, ("", ""))
            yield Idle(
                issue_id=view.id,
                identifier=view.identifier,
                title=titles[view.id],
                rule=rule,
                detail=hide(detail),
            )


def _use(figures: CallFigures) -> TrackerUse:
    def time_of(moment: float | None) -> str | None:
        return None if moment is None else stamp(moment)

    return TrackerUse(
        calls_last_minute=figures.made,
        calls_per_minute=figures.per_minute,
        limit=figures.limit,
        remaining=figures.remaining,
        resets_at=time_of(figures.resets_at),
        held_until=time_of(figures.held_until),
        as_of=stamp(figures.as_of),
    )
