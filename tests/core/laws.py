"""What must hold whatever happens: each law stated without the code that is to keep it."""

from __future__ import annotations

import random
from collections import Counter
from copy import copy
from dataclasses import fields

from sortie.core import actions as act
from sortie.core import events as ev
from sortie.core.budget import day_of, session_refused
from sortie.core.decide import Tick, decide
from sortie.core.fingerprint import fingerprint
from sortie.core.model import Issue
from sortie.core.policy import Limits
from sortie.core.world import World

from .people import People


def check_event(world: World, event: ev.AnyEvent, tracker: dict[str, Issue], now: float) -> None:
    """The laws that a single event must keep; `world` is the one before it."""
    match event:
        case ev.Claimed():
            _check_claim(world, event, tracker, now)
        case ev.TurnStarted():
            spent, today = world.spent_on(event.issue_id), world.spent_today(event.day)
            for limits, turns in ((world.policy.per_issue, spent.turns), (world.policy.per_day, today.turns)):
                assert limits.turns is None or turns + 1 <= limits.turns, "a turn beyond the budget"
        case ev.Settled():
            _check_settled(world, event)
        case _:
            pass


def _check_claim(world: World, claim: ev.Claimed, tracker: dict[str, Issue], now: float) -> None:
    issue_id, policy = claim.issue_id, world.policy
    state = world.issues[issue_id].state.lower()
    assert issue_id not in world.running, "an issue with two runs"
    assert len(world.running) + 1 <= policy.max_concurrent, "more runs than slots"
    cap = policy.max_concurrent_by_state.get(state)
    assert cap is None or _running_by_state(world)[state] + 1 <= cap, "more runs in one state than its cap"
    _check_sessions(policy.per_issue, world.spent_on(issue_id).sessions + 1)
    _check_sessions(policy.per_day, world.spent_today(claim.day).sessions + 1)
    assert policy.is_active(tracker[issue_id].state), "the run of an issue that is not active"
    if waiting := world.waiting.get(issue_id):
        assert waiting.retry.due_at <= now, "a retry before its time"
        assert claim.attempt == waiting.retry.attempt
    if aside := world.parked.get(issue_id):
        assert aside.park.kind != "operator", "stopped by hand, started without one"
        changed = fingerprint(tracker[issue_id]) != aside.park.fingerprint
        assert aside.park.kind == "budget" or changed, "parked, unchanged, and started"


def _check_sessions(limits: Limits, sessions: int) -> None:
    assert limits.sessions is None or sessions <= limits.sessions, "a session beyond the budget"


def _check_settled(world: World, event: ev.Settled) -> None:
    assert not (event.retry and event.park)
    run = world.running[event.issue_id]
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


def check_decision(world: World, tick: Tick) -> list[act.Action]:
    """Decide, and look at the decision from all sides."""
    before = clone(world)
    actions = decide(world, tick)
    assert world == before, "a decision changed the world"
    assert decide(world, tick) == actions
    assert decide(shuffled(world), tick) == actions, "the order of the tables shows"
    _check_order(world, actions)
    touched = Counter((type(action), action.issue_id) for action in actions)
    assert max(touched.values(), default=1) == 1, "the same said twice of one issue"
    if not tick.candidates_known:
        assert all(isinstance(action, act.Stop) for action in actions)
    return actions


def _check_order(world: World, actions: list[act.Action]) -> None:
    """Nobody starts before somebody who is ahead of him and lacks nothing but a place."""
    started = [_place(world, action.issue_id) for action in actions if isinstance(action, act.Start)]
    assert started == sorted(started)
    for action in actions:
        if isinstance(action, act.Skip) and action.rule in ("no-slot", "day-budget", "provider-paused"):
            assert not started or started[-1] < _place(world, action.issue_id), "overtaken"


def _place(world: World, issue_id: str) -> tuple[object, ...]:
    view = world.issues[issue_id]
    priority = 1_000_000 if view.priority is None else view.priority
    begun = issue_id in world.waiting
    return (priority, not begun, view.created_at == "", view.created_at, view.identifier, issue_id)


def check_nothing_lost(world: World, people: People, now: float, touched: list[str]) -> None:
    """Every active issue is running, put aside, or kept from running by a rule that is true now."""
    for issue_id, issue in people.candidates(world.policy).items():
        if issue_id in world.running or issue_id in touched:
            continue
        rule = world.skips.get(issue_id, ("", ""))[0]
        just_parked = issue_id in world.parked and world.parked[issue_id].since == now
        assert just_parked or _is_true(rule, world, issue, now), f"{issue_id} is held by nothing ({rule!r})"


def _is_true(rule: str, world: World, issue: Issue, now: float) -> bool:
    policy, state = world.policy, issue.state.lower()
    match rule:
        case "incomplete":
            return not issue.title
        case "parked":
            return issue.id in world.parked
        case "waiting":
            return world.waiting[issue.id].retry.due_at > now
        case "blocked-by":
            return any(not policy.is_terminal(blocker.state) for blocker in issue.blocked_by)
        case "provider-paused":
            return world.pauses[policy.provider].until > now
        case "agent-held":
            fault = world.fault_of(policy.provider)
            return fault is not None and (fault.until > now or _is_tried(world))
        case "day-budget":
            return bool(session_refused(world.spent_today(day_of(now)), policy.per_day))
        case "no-slot":
            return len(world.running) >= policy.max_concurrent
        case "no-state-slot":
            return _running_by_state(world)[state] >= policy.max_concurrent_by_state[state]
    return False


def check_same(folded: World, remembered: World, day: str) -> None:
    """The tables remember what the fold over the log says."""
    for name in ("issues", "skips", "running", "waiting", "parked", "pauses", "spent"):
        assert getattr(folded, name) == getattr(remembered, name), name
    assert folded.spent_today(day) == remembered.spent_today(day)


def _is_tried(world: World) -> bool:
    return any(run.run_id in world.trials and not run.ended for run in world.running.values())


def _running_by_state(world: World) -> Counter[str]:
    return Counter(world.issues[key].state.lower() for key in world.running if key in world.issues)


def clone(world: World) -> World:
    return World(**{field.name: copy(getattr(world, field.name)) for field in fields(world)})


def shuffled(world: World) -> World:
    other = clone(world)
    for name in ("issues", "skips", "running", "waiting", "parked", "spent"):
        items = list(getattr(other, name).items())
        random.Random(len(items)).shuffle(items)
        setattr(other, name, dict(items))
    return other
