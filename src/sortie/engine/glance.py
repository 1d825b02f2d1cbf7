"""What is going on, at one moment, in the words people use: for the live view, and the summary at the end."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..core.budget import Spent
from ..core.events import View
from ..core.model import Usage
from ..core.world import Aside, Waiting, World
from .run import ActiveRun
from .services import Services


class RunGlance(Struct, frozen=True, kw_only=True):
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


class Glance(Struct, frozen=True, kw_only=True):
    now: float
    running: tuple[RunGlance, ...]
    waiting: tuple[Waiting, ...]
    parked: tuple[Aside, ...]
    ready: int
    slots: int
    today: Spent


class Summary(Struct, frozen=True, kw_only=True):
    """How things stand when the service ends. `clean` is False where a person has something to look at.

    `drained` says that it ended because it was asked to, not because there was nothing left to do.
    """

    drained: bool
    parked: tuple[Aside, ...]
    waiting: tuple[Waiting, ...]
    out_of_budget: tuple[View, ...]
    held: tuple[View, ...]
    blocked: tuple[View, ...] = ()

    @property
    def clean(self) -> bool:
        return not (self.parked or self.waiting or self.out_of_budget or self.held or self.blocked)


def glance(services: Services, runs: Sequence[ActiveRun]) -> Glance:
    world, now = services.ledger.world, services.clock.now()
    held = {*world.running, *world.waiting, *world.parked}
    return Glance(
        now=now,
        running=tuple(_run(world, run, now) for run in runs if run.claim.issue_id in world.running),
        waiting=tuple(sorted(world.waiting.values(), key=lambda item: item.retry.due_at)),
        parked=tuple(world.parked.values()),
        ready=sum(1 for issue_id in world.issues if issue_id not in held),
        slots=world.policy.max_concurrent,
        today=world.spent_today(services.clock.day(now)),
    )


def _run(world: World, run: ActiveRun, now: float) -> RunGlance:
    claim = world.running[run.claim.issue_id]
    return RunGlance(
        issue_id=claim.issue_id,
        identifier=claim.identifier,
        title=run.issue.title,
        run_id=claim.run_id,
        attempt=claim.attempt,
        turn=claim.turn,
        max_turns=world.policy.max_turns,
        seconds=now - run.since,
        quiet_seconds=now - run.pulse.last_sign,
        usage=run.usage_so_far,
        last_line=run.last_line,
        ending=bool(claim.stop) or claim.ended,
    )


def summarise(world: World, *, drained: bool) -> Summary:
    def skipped(rule: str) -> tuple[View, ...]:
        return tuple(view for view in world.issues.values() if world.skips.get(view.id, ("", ""))[0] == rule)

    return Summary(
        drained=drained,
        parked=tuple(world.parked.values()),
        waiting=tuple(world.waiting.values()),
        out_of_budget=skipped("day-budget"),
        held=skipped("agent-held"),
        blocked=skipped("blocked-by"),
    )
