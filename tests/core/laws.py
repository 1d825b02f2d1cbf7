"""What must hold whatever happens: each law stated without the code that is to keep it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from copy import copy
from dataclasses import fields

from msgspec.structs import replace

from sortie.core import events as ev
from sortie.core.decide import Tick, decide
from sortie.core.model import Issue
from sortie.core.observe import Look, fingerprint, observe
from sortie.core.policy import Limits, day_of, session_refused
from sortie.core.ready_queue import ReadyQueue
from sortie.core.schedule import Schedule

from .people import People


def check_event(schedule: Schedule, event: ev.AnyEvent, tracker: dict[str, Issue], now: float) -> None:
    """The laws that a single event must keep; `schedule` is the one before it."""
    match event:
        case ev.Claimed():
            _check_claim(schedule, event, tracker, now)
        case ev.TurnStarted():
            spent, today = schedule.spent_on(event.issue_id), schedule.spent_today(event.day)
            for limits, turns in ((schedule.policy.per_issue, spent.turns), (schedule.policy.per_day, today.turns)):
                assert limits.turns is None or turns + 1 <= limits.turns, "a turn beyond the budget"
        case ev.Settled():
            _check_settled(schedule, event)
        case _:
            pass


def _check_claim(schedule: Schedule, claim: ev.Claimed, tracker: dict[str, Issue], now: float) -> None:
    issue_id, policy = claim.issue_id, schedule.policy
    state = schedule.issues[issue_id].state.lower()
    assert issue_id not in schedule.running, "an issue with two runs"
    assert len(schedule.running) + 1 <= policy.max_concurrent, "more runs than slots"
    cap = policy.max_concurrent_by_state.get(state)
    assert cap is None or _running_by_state(schedule)[state] + 1 <= cap, "more runs in one state than its cap"
    _check_sessions(policy.per_issue, schedule.spent_on(issue_id).sessions + 1)
    _check_sessions(policy.per_day, schedule.spent_today(claim.day).sessions + 1)
    if waiting := schedule.waiting.get(issue_id):
        assert waiting.retry.due_at <= now, "a retry before its time"
        assert claim.attempt == waiting.retry.attempt
    if parked := schedule.parked.get(issue_id):
        assert parked.park.kind != "operator", "stopped by hand, started without one"
        changed = issue_id not in tracker or fingerprint(tracker[issue_id]) != parked.park.fingerprint
        unheard = parked.park.kind == "signal" and claim.cause == "answered"
        assert parked.park.kind == "budget" or changed or unheard, "parked, unchanged, and started"
        assert not unheard or schedule.answers_for(issue_id), "started for an answer that nobody gave"


def check_begin(schedule: Schedule, issue: Issue) -> None:
    """No agent starts for an issue that is not active, or gone: the run looks first."""
    assert schedule.policy.is_active(issue.state), "the agent of an issue that is not active"


def _check_sessions(limits: Limits, sessions: int) -> None:
    assert limits.sessions is None or sessions <= limits.sessions, "a session beyond the budget"


def _check_settled(schedule: Schedule, event: ev.Settled) -> None:
    assert not (event.retry and event.park)
    run = schedule.running[event.issue_id]
    assert run.ended, "settled without a verdict"
    if event.retry is None:
        return
    assert event.retry.attempt == run.attempt + (event.retry.kind != "held")
    if event.retry.kind == "error":
        assert event.retry.failures in (1, run.failures + 1)
        wait = event.retry.due_at - event.at
        assert 0 < wait <= nominal(event.retry.failures, cap=300.0) + 1e-6


def nominal(failures: int, cap: float) -> float:
    return min(10.0 * 2.0 ** (failures - 1), cap)


def check_observed(schedule: Schedule, look: Look, now: float, touched: Collection[str]) -> list[ev.AnyEvent]:
    """Look, and see that a source which tells what changed shows the same as one of which all is compared."""
    events = observe(schedule, look, now, touched)
    everything = observe(schedule, replace(look, changed=None), now, touched)
    assert len(events) == len({event.issue_id for event in events}), "two events of one issue"
    assert {event.issue_id: event for event in events} == {event.issue_id: event for event in everything}
    return events


def check_decision(schedule: Schedule, tick: Tick, queue: ReadyQueue | None = None) -> list[ev.AnyEvent]:
    """Decide, and look at the decision from all sides. `queue` is the one that was kept over all events."""
    before = clone(schedule)
    events = decide(schedule, tick)
    assert schedule == before, "a decision changed the schedule"
    assert decide(schedule, tick) == events
    assert decide(shuffled(schedule), tick) == events, "the order of the tables shows"
    if queue is not None:
        assert decide(schedule, tick, queue) == events, "what was kept differs from what is there"
    _check_order(schedule, events)
    touched = Counter((type(event), event.issue_id) for event in events)
    assert max(touched.values(), default=1) == 1, "the same said twice of one issue"
    if not tick.candidates_known:
        assert all(isinstance(event, ev.Stopping) for event in events)
    return events


def _check_order(schedule: Schedule, events: list[ev.AnyEvent]) -> None:
    """Nobody starts before somebody who is ahead of him and lacks nothing but a place."""
    started = [_place(schedule, event.issue_id) for event in events if isinstance(event, ev.Claimed)]
    assert started == sorted(started)
    for event in events:
        if isinstance(event, ev.Skipped) and event.rule in ("no-slot", "day-budget"):
            assert not started or started[-1] < _place(schedule, event.issue_id), "overtaken"
        if isinstance(event, ev.Skipped) and event.rule == "provider-paused":
            paid_by = {event.provider or event.agent for event in events if isinstance(event, ev.Claimed)}
            assert event.detail not in paid_by, "started in spite of a limit"


def _place(schedule: Schedule, issue_id: str) -> tuple[object, ...]:
    view = schedule.issues[issue_id]
    priority = 1_000_000 if view.priority is None else view.priority
    begun = issue_id in schedule.waiting
    return (priority, not begun, view.created_at == "", view.created_at, view.identifier, issue_id)


def check_nothing_lost(schedule: Schedule, people: People, now: float, touched: list[str]) -> None:
    """Every active issue is running, parked, or kept from running by a rule that is true now."""
    for issue_id, issue in people.candidates(schedule.policy).items():
        if issue_id in schedule.running or issue_id in touched:
            continue
        rule = schedule.skips.get(issue_id, ("", ""))[0]
        just_parked = issue_id in schedule.parked and schedule.parked[issue_id].since == now
        assert just_parked or _is_true(rule, schedule, issue, now), f"{issue_id} is held by nothing ({rule!r})"


def _is_true(rule: str, schedule: Schedule, issue: Issue, now: float) -> bool:
    policy, state = schedule.policy, issue.state.lower()
    match rule:
        case "incomplete":
            return not issue.title
        case "parked":
            return issue.id in schedule.parked
        case "waiting":
            return schedule.waiting[issue.id].retry.due_at > now
        case "blocked-by":
            return any(not policy.is_terminal(blocker.state) for blocker in issue.blocked_by)
        case "provider-paused":
            return schedule.pauses[policy.provider].until > now
        case "agent-held":
            fault = schedule.fault_of(policy.provider)
            return fault is not None and (fault.until > now or _is_tried(schedule))
        case "day-budget":
            return bool(session_refused(schedule.spent_today(day_of(now)), policy.per_day))
        case "no-slot":
            return len(schedule.running) >= policy.max_concurrent
        case "no-state-slot":
            return _running_by_state(schedule)[state] >= policy.max_concurrent_by_state[state]
    return False


def check_same(folded: Schedule, remembered: Schedule) -> None:
    """The tables remember what the fold over the log says."""
    for field in fields(folded):
        if field.compare:
            assert getattr(folded, field.name) == getattr(remembered, field.name), field.name


def _is_tried(schedule: Schedule) -> bool:
    return any(run.run_id in schedule.trials and not run.ended for run in schedule.running.values())


def _running_by_state(schedule: Schedule) -> Counter[str]:
    return Counter(schedule.issues[key].state.lower() for key in schedule.running if key in schedule.issues)


def clone(schedule: Schedule) -> Schedule:
    return Schedule(**{field.name: copy(getattr(schedule, field.name)) for field in fields(schedule)})


def shuffled(schedule: Schedule) -> Schedule:
    other = clone(schedule)
    for name in ("issues", "skips", "running", "waiting", "parked", "answers", "spent"):
        items = list(getattr(other, name).items())
        random.Random(len(items)).shuffle(items)
        setattr(other, name, dict(items))
    return other
