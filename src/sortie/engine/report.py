"""What is going on, at one moment, in the words people use: for the live view, and the summary at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from heapq import nsmallest
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ..core.events import View
from ..core.model import Usage
from ..core.observe import LONGEST_URL, short_title
from ..core.policy import Spent
from ..core.records import ParkedIssue, Waiting
from ..core.schedule import Schedule
from ..protocol.foreign_text import shortened
from .active_run import ActiveRun
from .context import Context

MOST_LISTED = 5
# Of what agents and trackers say of a failure.
LONGEST_WORDS = 2_000


class RunReport(Struct, frozen=True, kw_only=True):
    issue_id: str
    identifier: str
    title: str
    run_id: str
    attempt: int
    turn: int
    max_turns: int
    seconds: float
    quiet_seconds: float
    usage: Usage
    last_line: str
    ending: bool
    agent: str = ""
    model: str = ""
    workspace: str = ""
    url: str = ""


class LiveReport(Struct, frozen=True, kw_only=True):
    """`last_look_at` is the end of the last look at the source, by the calendar; 0 before the first one.
    `looks_failing_for` is for how many seconds they have failed, limits of the tracker aside; `look_needs_person`
    says that waiting mends nothing. `store_trouble` is why the store cannot be written, and since when, by the
    calendar. `loop_lag` is how late the event loop was at the worst in the last seconds. Of what waits and is
    parked only the first are there, and how many there are, and long texts are cut: it is made, and sent to the
    dashboard, every second."""

    now: float
    running: tuple[RunReport, ...]
    waiting: tuple[Waiting, ...]
    parked: tuple[ParkedIssue, ...]
    ready: int
    slots: int
    today: Spent
    waiting_count: int = 0
    parked_count: int = 0
    draining: bool = False
    loop_lag: float = 0.0
    last_look_at: float = 0.0
    last_look_error: str = ""
    looks_failing_for: float = 0.0
    look_needs_person: bool = False
    look_seconds: float = 0.0
    store_trouble: str = ""
    store_troubled_since: float = 0.0
    pid: int = 0


class Summary(Struct, frozen=True, kw_only=True):
    """How things stand when the service ends. `clean` is False where a person has something to look at.

    `drained` says that it ended because it was asked to, not because there was nothing left to do.
    """

    drained: bool
    parked: tuple[ParkedIssue, ...]
    waiting: tuple[Waiting, ...]
    out_of_budget: tuple[View, ...]
    held: tuple[View, ...]
    blocked: tuple[View, ...] = ()

    @property
    def clean(self) -> bool:
        return not (self.parked or self.waiting or self.out_of_budget or self.held or self.blocked)


def live_report(context: Context, runs: Sequence[ActiveRun]) -> LiveReport:
    schedule, now, metrics = context.schedule, context.clock.now(), context.metrics
    return LiveReport(
        now=now,
        running=tuple(_run(schedule, run, now) for run in runs if run.claim.issue_id in schedule.running),
        waiting=tuple(
            _briefly_waiting(item)
            for item in nsmallest(MOST_LISTED, schedule.waiting.values(), key=lambda item: item.retry.due_at)
        ),
        parked=tuple(map(_briefly_parked, islice(schedule.parked.values(), MOST_LISTED))),
        waiting_count=len(schedule.waiting),
        parked_count=len(schedule.parked),
        ready=sum(map(len, context.ledger.queue.groups.values())),
        slots=schedule.policy.max_concurrent,
        today=schedule.spent_today(context.clock.day(now)),
        draining=context.leaving.is_set(),
        loop_lag=metrics.loop_lag,
        last_look_at=context.clock.on_calendar(metrics.looked_at) if metrics.looked_at else 0.0,
        last_look_error=shortened(metrics.look_error, LONGEST_WORDS),
        looks_failing_for=now - metrics.failing_since if metrics.failing_since else 0.0,
        look_needs_person=metrics.needs_person,
        look_seconds=metrics.look_seconds,
        store_trouble=shortened(context.ledger.trouble, LONGEST_WORDS),
        store_troubled_since=context.ledger.troubled_since,
        pid=os.getpid(),
    )


def _run(schedule: Schedule, run: ActiveRun, now: float) -> RunReport:
    claim = schedule.running[run.claim.issue_id]
    return RunReport(
        issue_id=claim.issue_id,
        identifier=claim.identifier,
        title=short_title(run.issue.title),
        run_id=claim.run_id,
        attempt=claim.attempt,
        turn=claim.turn,
        max_turns=schedule.policy.max_turns,
        seconds=now - run.since,
        quiet_seconds=now - run.liveness.last_heard,
        usage=run.usage,
        last_line=run.last_line,
        ending=bool(claim.stop) or claim.ended,
        agent=claim.agent,
        model=run.model,
        workspace=claim.workspace,
        url=run.issue.url if len(run.issue.url) <= LONGEST_URL else "",
    )


def _briefly_waiting(item: Waiting) -> Waiting:
    return replace(item, retry=replace(item.retry, error=shortened(item.retry.error, LONGEST_WORDS)))


def _briefly_parked(item: ParkedIssue) -> ParkedIssue:
    return replace(item, park=replace(item.park, reason=shortened(item.park.reason, LONGEST_WORDS)))


def summarise(schedule: Schedule, *, drained: bool) -> Summary:
    def skipped(rule: str) -> tuple[View, ...]:
        return tuple(view for view in schedule.issues.values() if schedule.skips.get(view.id, ("", ""))[0] == rule)

    return Summary(
        drained=drained,
        parked=tuple(schedule.parked.values()),
        waiting=tuple(schedule.waiting.values()),
        out_of_budget=(*skipped("day-budget"), *skipped("whole-budget")),
        held=skipped("agent-held"),
        blocked=skipped("blocked-by"),
    )
