"""What happens to a simulated service, as data: a list of steps that Hypothesis draws, and shrinks on failure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from sortie.core.conclude import Outcome
from sortie.core.model import Usage
from sortie.core.policy import Limits, Policy

from .people import ACTIVE, STATES, TERMINAL
from .simulation import START, Simulation

T = TypeVar("T")

LIMITS = st.sampled_from(
    [
        Limits(),
        Limits(),
        Limits(sessions=1),
        Limits(sessions=3, turns=4),
        Limits(turns=2),
        Limits(tokens=3000),
        Limits(usd=2.0),
    ]
)
POLICIES = st.builds(
    Policy,
    active_states=st.just(ACTIVE),
    terminal_states=st.just(TERMINAL),
    handoff_state=st.sampled_from(["", "Review"]),
    max_concurrent=st.integers(1, 4),
    max_concurrent_by_state=st.sampled_from([{}, {}, {"todo": 1}, {"todo": 2, "in progress": 1}, {"todo": 0}]),
    turn_timeout=st.just(120.0),
    stall_timeout=st.sampled_from([0.0, 40.0]),
    backoff_cap=st.sampled_from([5.0, 60.0, 300.0]),
    per_issue=LIMITS,
    per_day=LIMITS,
)
AMPLE = Policy(active_states=ACTIVE, terminal_states=TERMINAL, handoff_state="Review", max_concurrent=3)

SUCCESS = Outcome(status="succeeded", turns=0)
FAILURE = Outcome(status="failed", turns=0, error="exit 1")
LIMITED = replace(FAILURE, error_kind="rate_limited")
OUTCOMES = (
    SUCCESS,
    SUCCESS,
    replace(SUCCESS, soft_stop="blocked", reason="a key is missing"),
    replace(SUCCESS, soft_stop="needs-human-review"),
    FAILURE,
    FAILURE,
    replace(FAILURE, retryable=False),
    replace(FAILURE, retryable=False, error_kind="agent_auth"),
    replace(FAILURE, retryable=False, error_kind="agent_not_found"),
    replace(LIMITED, limited_until=0.0),
    replace(LIMITED, limited_until=START + 4000),
)
PRIORITIES = (None, 1, 1, 2)
DATES = ("", "2026-01-01", "2026-01-02")
SECONDS = (0.0, 0.5, 1.0, 1.0, 5.0, 9.0, 9.0, 15.0, 40.0, 130.0, 400.0, 3600.0, 86400.0)
EDITS = ("comment", "describe", "move", "move", "move", "move", "block", "remove", "bring back")
MOVES = (*ACTIVE, *ACTIVE, *STATES)
VERBS = ("stop", "unpark", "retry", "start")

# How often each thing happens beside the others.
WEIGHTS = {
    "open": 4,
    "edit": 10,
    "tick": 8,
    "fail to read": 1,
    "end while reading": 6,
    "work": 10,
    "use": 2,
    "end": 5,
    "command": 3,
    "answer": 3,
    "policy": 1,
    "drain": 1,
    "crash": 1,
    "crash after a verdict": 1,
}


class Step(Struct, frozen=True):
    """`which` picks the issue, `how` the manner; both wrap around, so every number means something."""

    what: str
    which: int
    how: int


def _story(seed: int, length: int) -> list[Step]:
    chance = random.Random(seed)
    whats = chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=length)
    return [Step(what, chance.randrange(12), chance.randrange(720)) for what in whats]


# Drawn by seed: evenly spread steps reach far more than those that Hypothesis prefers. It shrinks the length.
STORIES = st.builds(_story, st.integers(0, 2**32), st.sampled_from(range(5, 125, 5)))


def pick(things: Sequence[T], number: int) -> T:
    return things[number % len(things)]


def happen(sim: Simulation, steps: Iterable[Step], policies: Sequence[Policy]) -> None:
    """Play the story; `policies` are those that the operator changes between."""
    for step in steps:
        _happen(sim, step, policies)


def _happen(sim: Simulation, step: Step, policies: Sequence[Policy]) -> None:
    live = sorted(sim.live)
    match step.what:
        case "open":
            title = "" if step.which == 0 else "Mend it"
            sim.people.open(pick(PRIORITIES, step.how), pick(DATES, step.which), "Todo", title)
        case "edit":
            _edit(sim, step)
            if step.which % 2:
                sim.tick()
        case "tick":
            sim.now += pick(SECONDS, step.how)
            sim.tick()
        case "fail to read":
            sim.tick(answers=False)
        case "command":
            sim.command(pick(VERBS, step.how), pick(("1", "D-2", "D-3", "D-4"), step.which))
            sim.tick()
        case "answer":
            sim.answer(pick(("1", "D-2", "D-3", "D-4"), step.which))
            if step.how % 2:
                sim.tick()
        case "policy":
            sim.set_policy(pick(policies, step.how))
            sim.tick()
        case "drain":
            sim.drain()
        case "crash":
            sim.restart(dict.fromkeys(live, pick(OUTCOMES, step.how).soft_stop))
        case _ if live:
            _to_a_run(sim, step, pick(live, step.which))


def _edit(sim: Simulation, step: Step) -> None:
    what, issues, vanished = pick(EDITS, step.how), sorted(sim.people.issues), sorted(sim.people.vanished)
    if what == "bring back":
        for issue_id in vanished:
            sim.people.bring_back(issue_id)
    elif issues:
        busy = [issue_id for issue_id in issues if issue_id in sim.live or issue_id in sim.schedule.parked]
        issue_id = pick(busy or issues, step.which) if step.which % 3 else pick(issues, step.which)
        match what:
            case "move":
                sim.people.move(issue_id, pick(MOVES, step.how // len(EDITS)))
            case "block":
                sim.people.block(issue_id, (pick(issues, step.how // len(EDITS)),))
            case _:
                getattr(sim.people, what)(issue_id)


def _to_a_run(sim: Simulation, step: Step, issue_id: str) -> None:
    outcome = pick(OUTCOMES, step.how)
    match step.what:
        case "work":
            sim.turn(issue_id)
        case "use":
            sim.use(issue_id, Usage(step.how * 20, step.how * 20, cost_usd=step.how / 50))
        case "end":
            sim.end(issue_id, outcome, hands_over=step.which % 3 > 0)
            while step.which % 2 and sim.decide():
                pass  # before the next look
        case "end while reading":
            sim.tick(ending={issue_id: outcome})
        case "crash after a verdict":
            sim.end(issue_id, outcome, crash=True)
            sim.restart()


def settle_everything(sim: Simulation) -> None:
    """Ample slots and budget, no blockers, agents that succeed: only what needs a person may be left."""
    sim.set_policy(AMPLE)
    for issue_id in list(sim.people.issues):
        sim.people.block(issue_id, ())
    for _ in range(len(sim.people.issues) + 3):
        sim.tick()
        for issue_id in list(sim.live):
            sim.live[issue_id].policy = AMPLE
            sim.end(issue_id, SUCCESS)
        sim.now += 9 * 86400.0
    sim.tick()
